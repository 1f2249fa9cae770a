//! A decision in the making: what the rules want, and what becomes of it when they want too much.
//!
//! D7 and D9 live here: an address has as many reasons as there are, and one place.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;
use ovn::MacAddr;
use ovn::sb::PortBinding;
use reconcile::{Class, ObjectId, Outcome, Problem};

use super::networks::Network;
use super::router_ports::malformed;
use super::{Address, Decision, Place, Reason, Silence, exposable};
use crate::bgp::config::{Config, RuleMode};
use crate::bgp::snapshot::Snapshot;
use crate::plane::object;

/// So many rules are worth a word.
const MANY_RULES: usize = 1000;
/// The code of that word.
pub(super) const TOO_MANY: &str = "many-rules";

/// A decision in the making.
pub(super) struct Draft<'s> {
    pub(super) snapshot: &'s Snapshot,
    /// All that is decided besides addresses.
    pub(super) decision: Decision,
    addresses: BTreeMap<IpAddr, Address>,
    outcome: Outcome<()>,
    /// Further places of addresses that have one already.
    disputed: BTreeMap<IpAddr, Vec<Address>>,
}

impl<'s> Draft<'s> {
    pub(super) fn new(snapshot: &'s Snapshot) -> Self {
        Self {
            snapshot,
            decision: Decision::default(),
            addresses: BTreeMap::new(),
            outcome: Outcome::new(()),
            disputed: BTreeMap::new(),
        }
    }

    pub(super) fn report(&mut self, problem: Problem) {
        self.outcome.report(problem);
    }

    /// Exposes an address on a provider network.
    pub(super) fn wire(&mut self, ip: IpAddr, network: &Network, neighbour: Option<MacAddr>, reason: Reason) {
        let place = Place::Wired { bridge: network.bridge.clone(), dev: network.dev.clone() };
        self.add(ip, Address { place, neighbour, reasons: vec![reason] });
    }

    /// Exposes an address within an exposed subnet.
    pub(super) fn cover(&mut self, ip: IpAddr, subnet: IpNet, reason: Reason) {
        self.add(ip, Address { place: Place::Subnet(subnet), neighbour: None, reasons: vec![reason] });
    }

    /// Has the kernel answer for an address.
    pub(super) fn proxy(&mut self, ip: Ipv6Addr, network: &Network) {
        self.decision.proxies.insert((network.dev.clone(), ip));
    }

    fn add(&mut self, ip: IpAddr, new: Address) {
        if !exposable(ip) {
            return;
        }
        let Some(known) = self.addresses.get_mut(&ip) else {
            self.addresses.insert(ip, new);
            return;
        };
        match (&known.place, &new.place) {
            (here, there) if here == there => merge(known, new),
            // A way of its own serves the subnet's members as well.
            (Place::Wired { .. }, Place::Subnet(_)) => {
                merge(known, Address { place: known.place.clone(), ..new })
            }
            (Place::Subnet(_), Place::Wired { .. }) => {
                let mut wired = new;
                std::mem::swap(known, &mut wired);
                known.reasons.append(&mut wired.reasons);
            }
            _ => {
                let others = self.disputed.entry(ip).or_default();
                match others.iter_mut().find(|other| other.place == new.place) {
                    Some(other) => merge(other, new),
                    None => others.push(new),
                }
            }
        }
    }

    /// Reports a port whose addresses cannot all be read; what was exposed because of it stays.
    pub(super) fn read(&mut self, port: &PortBinding) {
        if let Some(what) = malformed(port) {
            self.unreadable(port, "bad-addresses", what);
        }
    }

    /// Reports a row that does not say what it should; what was exposed because of it stays.
    pub(super) fn unreadable(&mut self, port: &PortBinding, code: &'static str, what: String) {
        let object = ObjectId::new("port", port.logical_port.clone());
        self.report(Problem::error(object, Class::Refused, code, what));
        self.carry(|reason| reason.row().name == port.logical_port);
    }

    /// Keeps the networks that were there, as far as their bridges are.
    pub(super) fn carry_networks(&mut self) {
        for (dev, network) in &self.snapshot.before.networks {
            if self.decision.bridges.contains_key(&network.bridge) {
                self.decision.networks.entry(dev.clone()).or_insert_with(|| network.clone());
            }
        }
    }

    /// Keeps everything that was exposed.
    pub(super) fn carry_all(&mut self) {
        self.carry(|_| true);
        let before = &self.snapshot.before;
        for (net, subnet) in &before.subnets {
            if self.decision.networks.contains_key(&subnet.dev) {
                self.decision.subnets.entry(*net).or_insert_with(|| subnet.clone());
            }
        }
        for (name, port) in &before.router_ports {
            self.decision.router_ports.entry(name.clone()).or_insert_with(|| port.clone());
        }
        self.decision.has_gateway |= before.has_gateway;
        self.decision.tenant_switches.extend(before.tenant_switches.iter().copied());
        let proxies = before.proxies.iter().filter(|(dev, _)| self.decision.networks.contains_key(dev));
        let proxies: Vec<_> = proxies.cloned().collect();
        self.decision.proxies.extend(proxies);
    }

    /// Keeps addresses that were exposed for a reason, as far as there is still what carries them.
    fn carry(&mut self, reason: impl Fn(&Reason) -> bool) {
        for (ip, address) in &self.snapshot.before.addresses {
            let carried = match &address.place {
                Place::Wired { dev, .. } => self.decision.networks.contains_key(dev),
                // A subnet that goes takes its addresses with it, when all is decided.
                Place::Subnet(_) => true,
            };
            if carried && !self.addresses.contains_key(ip) && address.reasons.iter().any(&reason) {
                self.addresses.insert(*ip, address.clone());
            }
        }
    }

    /// Settles disputes (D9), and takes back what lost its ground.
    pub(super) fn finish(mut self, silence: Option<Silence>) -> Outcome<Decision> {
        for (ip, mut others) in std::mem::take(&mut self.disputed) {
            let Some(first) = self.addresses.remove(&ip) else { continue };
            others.insert(0, first);
            // Older is what is there; else the bridge that was mapped first.
            let before = self.snapshot.before.addresses.get(&ip).map(|address| &address.place);
            let rank = |address: &Address| match &address.place {
                Place::Wired { bridge, dev } => {
                    (self.decision.bridges.get(bridge).map_or(usize::MAX, |bridge| bridge.index), dev.clone())
                }
                Place::Subnet(_) => (usize::MAX, Default::default()),
            };
            let kept =
                others.iter().position(|address| Some(&address.place) == before).unwrap_or_else(|| {
                    let ranked = others.iter().enumerate().min_by_key(|(_, address)| rank(address));
                    ranked.map_or(0, |(at, _)| at)
                });
            let kept = others.swap_remove(kept);
            let problem = dispute(ip, &kept, &others);
            self.report(problem);
            self.addresses.insert(ip, kept);
        }
        let subnets = &self.decision.subnets;
        self.addresses.retain(|_, address| match &address.place {
            Place::Wired { .. } => true,
            Place::Subnet(net) => subnets.contains_key(net),
        });
        for address in self.addresses.values_mut() {
            address.reasons.sort();
            address.reasons.dedup();
        }
        let wired = self.addresses.values().filter(|address| address.is_wired()).count();
        let many = many_rules(&self.snapshot.config, wired + self.decision.subnets.len());
        many.into_iter().for_each(|problem| self.report(problem));
        self.decision.addresses = self.addresses.into_iter().collect();
        self.decision.silence = silence;
        self.outcome.map(|()| self.decision)
    }
}

/// A word about too many rules: the kernel looks through them one by one, for every packet.
pub(super) fn many_rules(config: &Config, rules: usize) -> Option<Problem> {
    if config.rule_mode != RuleMode::PerIp || rules <= MANY_RULES {
        return None;
    }
    let what =
        format!("there are {rules} rules, which every forwarded packet passes; set rule_mode = aggregate");
    Some(Problem::warning(ObjectId::new("setting", "rule_mode"), Class::Refused, TOO_MANY, what))
}

fn merge(known: &mut Address, new: Address) {
    known.neighbour = known.neighbour.or(new.neighbour);
    known.reasons.extend(new.reasons);
}

fn dispute(ip: IpAddr, kept: &Address, others: &[Address]) -> Problem {
    let place = |address: &Address| {
        let rows: Vec<&str> = address.reasons.iter().map(|reason| reason.row().name.as_str()).collect();
        match &address.place {
            Place::Wired { dev, .. } => format!("{dev} by {}", rows.join(", ")),
            Place::Subnet(net) => format!("{net} by {}", rows.join(", ")),
        }
    };
    let others: Vec<String> = others.iter().map(place).collect();
    let what = format!(
        "it is wanted on {} and on {}; it is exposed on the former only. Give one of them another address",
        place(kept),
        others.join(" and on ")
    );
    Problem::error(object::address(ip), Class::Refused, "address-conflict", what)
}
