//! Whether bgpd has in the VRF's table the prefixes that the kernel has in the VRF.
//!
//! bgpd learns of them from zebra, and asks zebra for them once, when it hears of the VRF. After zebra was restarted alone bgpd goes
//! on with what it knew: it hears of no address that comes, and of none that goes. Renaming the VRF or a device in it can have the
//! same effect. The configuration looks right all the while. So the two are compared at each look, and where a difference lasts,
//! `redistribute` is entered anew; if that does not help, the announcing device is made anew where bgpd has nothing of it; and then the
//! VRF's whole instance is entered anew.
//!
//! Entering it anew withdraws every address of the node until zebra has told bgpd of them again, which takes milliseconds where
//! bgpd is connected to zebra, and for ever where it is not. So nothing is entered before zebra says that bgpd is its client.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use ipnet::IpNet;
use serde::Deserialize;

use super::adrift::TOLD;
use super::config::{Node, instance};
use super::state::{FAMILIES, Redistribute};
use crate::kernel::observed::{Kind, is_host, protocol};
use crate::kernel::{self, Dev, Family};

/// Delay between two attempts.
const ATTEMPT: Duration = Duration::from_secs(3);
/// The weight of a route that bgpd originates itself.
const OWN_WEIGHT: u64 = 32768;

/// Prefixes that bgpd and the kernel disagree about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Difference {
    /// The kernel has them, bgpd does not: nobody hears of them.
    pub missing: BTreeSet<IpNet>,
    /// bgpd announces them, and the kernel has them no more.
    pub stale: BTreeSet<IpNet>,
}

impl Difference {
    fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.stale.is_empty()
    }

    fn retain(&mut self, fits: impl Fn(&IpNet) -> bool) {
        self.missing.retain(&fits);
        self.stale.retain(&fits);
    }
}

/// A difference that has lasted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Behind {
    /// The prefixes.
    pub difference: Difference,
    /// The action that is due now.
    pub cure: Option<Cure>,
}

/// The action that makes bgpd ask zebra again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cure {
    /// The `redistribute` lines are entered anew.
    Redistribute,
    /// The announcing device is made anew, where bgpd has none of its addresses: zebra itself has lost track of it.
    Device,
    /// The VRF's instance is entered anew.
    Instance,
}

/// The prefixes in the answer to `show bgp vrf VRF ipv4 unicast json`, and whether bgpd itself redistributes each. Nothing where the
/// answer is no table: bgpd does not know the VRF, or speaks another language.
pub fn table(json: &str) -> Option<BTreeMap<IpNet, bool>> {
    #[derive(Deserialize)]
    struct Table {
        routes: BTreeMap<String, Vec<Path>>,
    }
    #[derive(Deserialize)]
    struct Path {
        #[serde(default)]
        weight: u64,
        #[serde(default)]
        origin: String,
    }
    let table: Table = serde_json::from_str(json).ok()?;
    // An operator's `network` lines have the same weight and another origin.
    let redistributed = |path: &Path| path.weight == OWN_WEIGHT && path.origin == "incomplete";
    let routes = table.routes.into_iter();
    let routes = routes.filter_map(|(net, paths)| Some((net.parse().ok()?, paths.iter().any(redistributed))));
    Some(routes.collect())
}

/// Compares what bgpd has of a VRF with what the kernel has. A line of the operator's (`redistribute connected route-map X`) may
/// leave addresses out on purpose, so there nothing is missing.
pub fn compare(
    vrf: &Dev,
    running: &[Node],
    tables: &[Option<BTreeMap<IpNet, bool>>; 2],
    kernel: &kernel::Observed,
) -> Difference {
    let mut difference = Difference::default();
    let Some(Kind::Vrf(number)) = kernel.links.get(vrf).map(|link| &link.kind) else { return difference };
    let Some((_, stanza)) = instance(running, Some(vrf)) else { return difference };
    let within =
        |dev: &Dev| kernel.links.get(dev).is_some_and(|link| link.up && link.master.as_ref() == Some(vrf));
    let connected: BTreeSet<IpNet> =
        kernel.addresses.iter().filter(|a| within(&a.dev)).map(|a| a.net.trunc()).collect();
    let routed: BTreeSet<IpNet> = kernel.routes_in(*number).map(|route| route.dst).collect();
    let by_hand = kernel.routes_in(*number).filter(|route| {
        route.protocol == protocol::BOOT && route.hop.as_ref().is_some_and(|hop| within(&hop.dev))
    });
    let by_hand: BTreeSet<IpNet> = by_hand.map(|route| route.dst).collect();
    for ((family, name), table) in Family::BOTH.into_iter().zip(FAMILIES).zip(tables) {
        let (Some(table), Some(node)) = (table, stanza.child(name)) else { continue };
        let plain = |source: Redistribute| node.child(&format!("redistribute {}", source.as_str())).is_some();
        let absent = |net: &&IpNet| Family::of(**net) == family && !table.contains_key(*net);
        if plain(Redistribute::Connected) {
            let hosts = connected.iter().filter(|net| is_host(**net) && !is_link_local(**net));
            difference.missing.extend(hosts.filter(absent));
        }
        if plain(Redistribute::Kernel) {
            difference.missing.extend(by_hand.iter().filter(absent));
        }
        let stale = table.iter().filter(|(_, redistributed)| **redistributed).map(|(net, _)| net);
        difference.stale.extend(stale.filter(|net| !connected.contains(*net) && !routed.contains(*net)));
    }
    difference
}

/// zebra tells nobody of such addresses.
fn is_link_local(net: IpNet) -> bool {
    matches!(net, IpNet::V6(net) if net.addr().is_unicast_link_local())
}

/// The differences from look to look.
#[derive(Debug, Default)]
pub struct Differences {
    since: BTreeMap<IpNet, Instant>,
    /// The time of the next attempt, and the number of attempts so far.
    due: Option<Instant>,
    attempts: u32,
}

impl Differences {
    /// Takes in what a look has found, and tells what of it has lasted. `curable` says whether bgpd is connected to zebra.
    pub fn look(&mut self, now: Instant, mut found: Difference, curable: bool) -> Option<Behind> {
        let all: BTreeSet<IpNet> = found.missing.union(&found.stale).copied().collect();
        self.since.retain(|net, _| all.contains(net));
        for net in all {
            self.since.entry(net).or_insert(now);
        }
        found.retain(|net| self.since.get(net).is_some_and(|since| *since + TOLD <= now));
        if found.is_empty() {
            if self.since.is_empty() {
                (self.due, self.attempts) = (None, 0);
            }
            return None;
        }
        let due = curable && self.due.is_none_or(|due| due <= now);
        let cure = due.then(|| {
            self.attempts = self.attempts.saturating_add(1);
            // Attempts that do not help become rare, as each of them costs all addresses a moment.
            self.due = Some(now + ATTEMPT * 2u32.saturating_pow(self.attempts.saturating_sub(2).min(6)));
            match self.attempts {
                1 => Cure::Redistribute,
                2 => Cure::Device,
                _ => Cure::Instance,
            }
        });
        Some(Behind { difference: found, cure })
    }

    /// The time of the next observation, if there is a difference: when it has lasted, or when the next attempt is due.
    pub fn next(&self, now: Instant) -> Option<Duration> {
        let young = self.since.values().map(|since| *since + TOLD).filter(|at| *at > now).min();
        let next = match (young, self.since.is_empty()) {
            (_, true) => None,
            (Some(young), _) => Some(young),
            (None, _) => Some(self.due.filter(|due| *due > now).unwrap_or(now + TOLD)),
        };
        next.map(|at| at.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests;
