//! D9: of two that cannot be had together the older is kept, and the conflict reported. One kernel tells packets apart by where
//! they go to: an address has one place, and nothing of another bridge is within a subnet.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use reconcile::{Class, Problem};

use super::draft::Draft;
use super::{Address, Place, Reason};
use crate::ProblemCode;
use crate::kernel::Dev;
use crate::part::object;

/// Whether two prefixes have addresses in common.
pub(super) fn overlap(one: &IpNet, other: &IpNet) -> bool {
    one.contains(other) || other.contains(one)
}

/// A word about an address that several ports have: their network delivers to one of them, whichever that is.
pub(super) fn shared(ip: IpAddr, reasons: &[Reason]) -> Option<Problem> {
    let of_port =
        |reason: &&Reason| matches!(reason, Reason::ProviderPort { .. } | Reason::TenantPort { .. });
    let mut ports: Vec<&str> =
        reasons.iter().filter(of_port).map(|reason| reason.row().name.as_str()).collect();
    ports.sort_unstable();
    ports.dedup();
    if ports.len() < 2 {
        return None;
    }
    let what = format!(
        "the ports {} have it, and only one of them gets its packets; give the others another address",
        ports.join(" and ")
    );
    Some(Problem::warning(object::address(ip), Class::Refused, ProblemCode::DuplicateAddress, what))
}

impl Draft<'_> {
    /// Settles all conflicts.
    pub(super) fn settle(&mut self) {
        let mut refused = self.settle_subnets();
        refused.extend(self.settle_places());
        self.drop_subnets_behind(&refused);
    }

    /// Addresses within the subnet of another bridge: rules lead to either table, in the order in which they were made.
    fn settle_subnets(&mut self) -> Vec<(IpAddr, Place)> {
        let mut refused = Vec::new();
        if self.decision.bridges.len() < 2 || self.decision.subnets.is_empty() {
            return refused;
        }
        let mut within: BTreeMap<IpNet, Vec<(IpAddr, Address)>> = BTreeMap::new();
        let disputed =
            self.disputed.iter().flat_map(|(ip, all)| all.iter().map(move |address| (ip, address)));
        for (ip, address) in self.addresses.iter().chain(disputed) {
            let Place::Wired { bridge, .. } = &address.place else { continue };
            if let Some((net, subnet)) = self.decision.subnet_of(*ip)
                && subnet.bridge != *bridge
            {
                within.entry(net).or_default().push((*ip, address.clone()));
            }
        }
        for (net, addresses) in within {
            let Some(subnet) = self.decision.subnets.get(&net).cloned() else { continue };
            let before = self.snapshot.before.subnets.get(&net);
            let is_there =
                before.is_some_and(|old| old.port.name == subnet.port.name && old.bridge == subnet.bridge);
            let older = |(ip, address): &(IpAddr, Address)| match (self.is_at(*ip, &address.place), is_there)
            {
                (true, false) => true,
                (false, true) => false,
                _ => self.rank(&address.place) < self.rank(&Place::Subnet(net)),
            };
            if let Some((ip, address)) = addresses.iter().find(|address| older(address)) {
                let what = format!(
                    "router port {} has it on {}, and {ip} of it is wanted on {}; only the latter is exposed. Give them different \
                     prefixes, or opt one out with meridian:advertise=false",
                    subnet.port,
                    subnet.bridge,
                    shown(address)
                );
                self.decision.subnets.remove(&net);
                self.report(Problem::error(
                    object::subnet(net),
                    Class::Refused,
                    ProblemCode::OverlappingSubnet,
                    what,
                ));
                continue;
            }
            for (ip, address) in addresses {
                let what = format!(
                    "it is wanted on {}, and is in the subnet {net} of router port {} on {}; only the latter is exposed. Give it \
                     another address",
                    shown(&address),
                    subnet.port,
                    subnet.bridge
                );
                self.report(Problem::error(
                    object::address(ip),
                    Class::Refused,
                    ProblemCode::AddressConflict,
                    what,
                ));
                self.refuse(ip, &address.place);
                refused.push((ip, address.place));
            }
        }
        refused
    }

    /// Addresses that are wanted in several places.
    fn settle_places(&mut self) -> Vec<(IpAddr, Place)> {
        let mut refused = Vec::new();
        for (ip, mut others) in std::mem::take(&mut self.disputed) {
            let Some(first) = self.addresses.remove(&ip) else { continue };
            others.insert(0, first);
            // Older is what is there; else the bridge that was mapped first.
            let there = others.iter().position(|address| self.is_at(ip, &address.place));
            let ranked = others.iter().enumerate().min_by_key(|(_, address)| self.rank(&address.place));
            let kept = others.swap_remove(there.or(ranked.map(|(at, _)| at)).unwrap_or(0));
            self.report(dispute(ip, &kept, &others));
            refused.extend(others.into_iter().map(|address| (ip, address.place)));
            self.addresses.insert(ip, kept);
        }
        refused
    }

    /// Subnets whose router lost its address on the provider network, and with it the way there.
    fn drop_subnets_behind(&mut self, refused: &[(IpAddr, Place)]) {
        let behind = |via: IpAddr, bridge: &Dev, dev: &Dev| {
            let place = Place::Wired { bridge: bridge.clone(), dev: dev.clone() };
            refused.iter().any(|(ip, lost)| *ip == via && *lost == place)
        };
        let subnets = self.decision.subnets.iter();
        let lost = subnets.filter(|(_, subnet)| behind(subnet.via, &subnet.bridge, &subnet.dev));
        let lost: Vec<(IpNet, IpAddr)> = lost.map(|(net, subnet)| (*net, subnet.via)).collect();
        for (net, via) in lost {
            self.decision.subnets.remove(&net);
            let what = format!(
                "its router's address {via} is not exposed, so nothing leads there; see address/{via}"
            );
            self.report(Problem::error(object::subnet(net), Class::Refused, ProblemCode::NoNextHop, what));
        }
    }

    /// Takes back one of the places of an address.
    fn refuse(&mut self, ip: IpAddr, place: &Place) {
        let mut others = self.disputed.remove(&ip).unwrap_or_default();
        others.retain(|address| address.place != *place);
        if self.addresses.get(&ip).is_some_and(|address| address.place == *place) {
            self.addresses.remove(&ip);
            if !others.is_empty() {
                self.addresses.insert(ip, others.remove(0));
            }
        }
        if !others.is_empty() {
            self.disputed.insert(ip, others);
        }
    }

    /// Whether an address was in a place before.
    fn is_at(&self, ip: IpAddr, place: &Place) -> bool {
        self.snapshot.before.addresses.get(&ip).is_some_and(|address| address.place == *place)
    }

    /// Of places that are equally old, the one on the bridge that was mapped first; of those, the one with a way of its own.
    fn rank(&self, place: &Place) -> (usize, bool, Dev) {
        let (bridge, covered, dev) = match place {
            Place::Wired { bridge, dev } => (Some(bridge), false, dev.clone()),
            Place::Subnet(net) => {
                (self.decision.subnets.get(net).map(|subnet| &subnet.bridge), true, Dev::default())
            }
        };
        let index = bridge.and_then(|bridge| self.decision.bridges.get(bridge));
        (index.map_or(usize::MAX, |bridge| bridge.index), covered, dev)
    }
}

/// A place, and who wants an address there.
fn shown(address: &Address) -> String {
    let rows: Vec<&str> = address.reasons.iter().map(|reason| reason.row().name.as_str()).collect();
    match &address.place {
        Place::Wired { dev, .. } => format!("{dev} by {}", rows.join(", ")),
        Place::Subnet(net) => format!("{net} by {}", rows.join(", ")),
    }
}

fn dispute(ip: IpAddr, kept: &Address, others: &[Address]) -> Problem {
    let others: Vec<String> = others.iter().map(shown).collect();
    let what = format!(
        "it is wanted on {} and on {}; it is exposed on the former only. Give one of them another address",
        shown(kept),
        others.join(" and on ")
    );
    Problem::error(object::address(ip), Class::Refused, ProblemCode::AddressConflict, what)
}
