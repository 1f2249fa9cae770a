//! The tables of bridges: `rt_tables`, and which number a bridge has or gets.
//!
//! A line `201 br-ex` reserves a number for a bridge, for ever: it stays when the bridge is no longer mapped. The file's own
//! format and place are iproute2's; reading and writing it is done elsewhere.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};

use super::observed::{Observed, protocol};
use super::own::{Own, is_plain};
use super::state::{Desired, Dev, Family};

/// Numbers with a meaning of their own: unspec, default, main, local.
pub const RESERVED: [u32; 4] = [0, 253, 254, 255];

/// The names in `rt_tables`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RtTables {
    lines: Vec<(u32, Dev)>,
}

impl RtTables {
    /// Reads the file's text. Lines that are not `number name` are comments or other tools' and mean nothing here.
    pub fn parse(text: &str) -> Self {
        let line = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            // Like iproute2 and ovn-bgp-agent: a line begins with the number.
            let number = words.next().filter(|_| line.starts_with(|c: char| c.is_ascii_digit()))?;
            let number = match number.strip_prefix("0x") {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            Some((number, Dev::new(words.next()?)))
        };
        RtTables { lines: text.lines().filter_map(line).collect() }
    }

    /// Adds a name.
    pub fn insert(&mut self, number: u32, name: Dev) {
        self.lines.push((number, name));
    }

    /// The number of a name: the first line counts.
    pub fn number(&self, name: &str) -> Option<u32> {
        self.lines.iter().find(|(_, n)| n == name).map(|(number, _)| *number)
    }

    /// Every line.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Dev)> {
        self.lines.iter().map(|(number, name)| (*number, name))
    }
}

/// The routing tables and their owners.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tables {
    /// The numbers of the provider bridges.
    pub current: BTreeMap<Dev, u32>,
    /// Lines that are still to be written to `rt_tables`.
    pub unnamed: BTreeMap<Dev, u32>,
    /// Tables of bridges that are no longer provider bridges.
    pub former: BTreeMap<u32, Dev>,
    /// Bridges without a table, and why.
    pub refused: BTreeMap<Dev, String>,
}

impl Tables {
    /// Finds the table of every bridge, and a free number for those that have none.
    pub fn resolve(want: &Desired, have: &Observed) -> Self {
        let mut out = Tables::default();
        let mut taken: BTreeSet<u32> = BTreeSet::new();
        let mut without = Vec::new();
        for bridge in want.bridges() {
            match have.names.number(bridge) {
                None => without.push(bridge),
                Some(n) if RESERVED.contains(&n) || n == want.own.vrf_table => {
                    let why =
                        format!("rt_tables gives it table {n}, which has another use; remove that line");
                    out.refused.insert(bridge.clone(), why);
                }
                Some(n) if !taken.insert(n) => {
                    let why =
                        format!("rt_tables gives it table {n}, which another bridge has; correct the line");
                    out.refused.insert(bridge.clone(), why);
                }
                Some(n) => drop(out.current.insert(bridge.clone(), n)),
            }
        }
        if !without.is_empty() {
            let mut used = have.used_tables();
            used.extend(RESERVED);
            used.insert(want.own.vrf_table);
            let named: BTreeSet<u32> = have.names.iter().map(|(n, _)| n).collect();
            for bridge in without {
                // The file may have been lost (a container's) while the kernel kept the table.
                let kept = used
                    .iter()
                    .copied()
                    .find(|n| !named.contains(n) && !taken.contains(n) && looks_like(have, *n, bridge));
                let free = || {
                    let all = (201..=252).chain((1..=200).rev());
                    all.into_iter().find(|n| !named.contains(n) && !used.contains(n) && !taken.contains(n))
                };
                match kept.or_else(free) {
                    Some(n) => {
                        taken.insert(n);
                        out.current.insert(bridge.clone(), n);
                        out.unnamed.insert(bridge.clone(), n);
                    }
                    None => {
                        let why = "no routing table from 1 to 252 is free; remove lines from rt_tables";
                        out.refused.insert(bridge.clone(), why.into());
                    }
                }
            }
        }
        out.former.extend(renumbered(want, have, &out.current));
        for (n, name) in have.names.iter() {
            let ours = !RESERVED.contains(&n) && n != want.own.vrf_table && !taken.contains(&n);
            if ours && !out.current.contains_key(name) && was_a_bridge(&want.own, have, n, name) {
                out.former.insert(n, name.clone());
            }
        }
        out
    }
}

/// Tables that bridges had before `rt_tables` gave them another number. They have no name any more, so they are known by what is in
/// them, and by rules of ours that lead there: an operator's table may have a default route through a bridge as well.
fn renumbered(want: &Desired, have: &Observed, current: &BTreeMap<Dev, u32>) -> BTreeMap<u32, Dev> {
    let named: BTreeSet<u32> = have.names.iter().map(|(n, _)| n).collect();
    let led_to = have.rules.iter().filter(|rule| rule.priority == want.own.priority && rule.select.is_some());
    let mut out = BTreeMap::new();
    for table in led_to.map(|rule| rule.table).collect::<BTreeSet<_>>() {
        let other = !RESERVED.contains(&table) && table != want.own.vrf_table && !named.contains(&table);
        let free = other && !current.values().any(|n| *n == table);
        let bridge = current.keys().find(|bridge| free && looks_like(have, table, bridge));
        out.extend(bridge.map(|bridge| (table, bridge.clone())));
    }
    out
}

/// Whether a table has the base of a bridge's: a default route through it, and no route through anything else.
fn looks_like(have: &Observed, table: u32, bridge: &Dev) -> bool {
    let mut base = false;
    // An operator's static or blackhole routes make it no less the bridge's.
    for route in have.routes_in(table).filter(|route| route.protocol == protocol::BOOT && route.hop.is_some())
    {
        if !is_plain(route, bridge) {
            return false;
        }
        let hop = route.hop.as_ref();
        base |= route.dst == Family::of(route.dst).default_net()
            && hop.is_some_and(|hop| hop.via.is_none() && hop.dev == *bridge);
    }
    base
}

/// Whether a named table was a provider bridge's: it still looks like one, or its routes went with the device and only our
/// rules are left.
fn was_a_bridge(own: &Own, have: &Observed, table: u32, name: &Dev) -> bool {
    let orphan = || {
        have.routes_in(table).next().is_none()
            && !have.links.contains_key(name)
            && have.rules.iter().any(|r| r.table == table && r.priority == own.priority && r.select.is_some())
    };
    looks_like(have, table, name) || orphan()
}

/// The number of letters of a bridge's name in a VLAN device's name: the kernel accepts 15 in all.
pub const BRIDGE_LETTERS: usize = 10;

/// The name of the device of a VLAN on a bridge.
pub fn vlan_device(bridge: &str, tag: u16) -> Dev {
    let head: String = bridge.chars().take(BRIDGE_LETTERS).collect();
    smol_str::format_smolstr!("{head}.{tag}")
}

/// Whether a device has the name of some VLAN on a bridge.
pub fn is_vlan_name(bridge: &str, dev: &str) -> bool {
    dev.rsplit_once('.')
        .and_then(|(_, tag)| tag.parse().ok())
        .is_some_and(|tag| vlan_device(bridge, tag) == dev)
}

#[cfg(test)]
mod tests;
