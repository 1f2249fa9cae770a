//! The default routes of the main table: of all that others route there, only where everything else goes matters to us.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::{Effect, Memory, attribute, attributes, family, ip, word};

/// The number of the main table.
const MAIN: u8 = 254;

impl Memory {
    /// Takes in a default route of the main table, of which only the next hops matter.
    pub(super) fn default_route(&mut self, body: &[u8], new: bool, replaces: bool) -> Option<Effect> {
        let [family_number, 0, _, _, MAIN, by, _, _, _, _, _, _, rest @ ..] = body else { return None };
        let family = family((*family_number).into())?;
        let (mut metric, mut hops) = (0, BTreeSet::new());
        for (kind, value) in attributes(rest) {
            match kind {
                attribute::ROUTE_METRIC => metric = word(value)?,
                attribute::ROUTE_MULTIPATH => hops.extend(multipath(value)),
                kind => hops.extend(next_hop(kind, value)),
            }
        }
        let key = (family, metric, *by);
        let before = self.seen.defaults.get(&key).cloned().unwrap_or_default();
        let now: BTreeSet<IpAddr> = match (new, replaces) {
            (true, true) => hops,
            (true, false) => before.union(&hops).copied().collect(),
            (false, _) => before.difference(&hops).copied().collect(),
        };
        if now == before {
            return Some(Effect::None);
        }
        let defaults = &mut self.seen().defaults;
        let _ = if now.is_empty() { defaults.remove(&key) } else { defaults.insert(key, now) };
        Some(Effect::Changed)
    }
}

/// The next hops of a route that has several.
fn multipath(mut bytes: &[u8]) -> BTreeSet<IpAddr> {
    const HEAD: usize = 8;
    let mut hops = BTreeSet::new();
    while let Some(length) = bytes.first_chunk::<2>().map(|length| usize::from(u16::from_ne_bytes(*length))) {
        let Some(hop) = bytes.get(HEAD..length) else { break };
        hops.extend(attributes(hop).filter_map(|(kind, value)| next_hop(kind, value)));
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    hops
}

/// The next hop in an attribute of a route; of one with a family of its own that follows the family.
fn next_hop(kind: u16, value: &[u8]) -> Option<IpAddr> {
    match kind {
        attribute::ROUTE_GATEWAY => ip(value),
        attribute::ROUTE_VIA => ip(value.get(2..)?),
        _ => None,
    }
}
