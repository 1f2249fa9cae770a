//! A decision in the making: what the rules want, and what becomes of it when they want too much.
//!
//! D7 lives here: an address has as many reasons as there are, and one place. Which one of several, `conflicts.rs` says.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;
use ovn::MacAddr;
use ovn::sb::PortBinding;
use ovn::text::Text;
use ovn::text::neutron::key;
use ovsdb::Str;
use reconcile::{Class, ObjectId, Outcome, Problem};

use super::conflicts::{self, overlap};
use super::inherited::Doubts;
use super::malformed::{malformed, malformed_cidrs};
use super::networks::Network;
use super::{Address, Decision, NamedRow, Place, Reason, Silence, is_of_its_link};
use crate::ProblemCode;
use crate::bgp::config::{Config, RuleMode};
use crate::bgp::snapshot::Snapshot;
use crate::kernel::Dev;
use crate::part::object;
use crate::plane::reserved::Reserve;

/// The number of rules from which on the agent reports `many-rules`.
const MANY_RULES: usize = 1000;

/// A decision in the making.
pub(super) struct Draft<'s> {
    pub(super) snapshot: &'s Snapshot,
    /// All that is decided besides addresses.
    pub(super) decision: Decision,
    pub(super) addresses: BTreeMap<IpAddr, Address>,
    outcome: Outcome<()>,
    pub(super) doubts: Doubts,
    /// Further places of addresses that have one already.
    pub(super) disputed: BTreeMap<IpAddr, Vec<Address>>,
}

impl<'s> Draft<'s> {
    pub(super) fn new(snapshot: &'s Snapshot) -> Self {
        Self {
            snapshot,
            decision: Decision::default(),
            addresses: BTreeMap::new(),
            outcome: Outcome::new(()),
            doubts: Doubts::default(),
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
        if let Some((_, Reserve::Own(_) | Reserve::Martian(_))) = self.snapshot.reserved.has(ip.into()) {
            return;
        }
        self.decision.proxies.insert((network.dev.clone(), ip));
    }

    fn add(&mut self, ip: IpAddr, new: Address) {
        if is_of_its_link(ip) {
            return;
        }
        if let Some(problem) = new.reasons.first().and_then(|reason| self.refusal(ip, reason)) {
            self.report(problem);
            return;
        }
        let Some(known) = self.addresses.get_mut(&ip) else {
            self.addresses.insert(ip, new);
            return;
        };
        let subnets = &self.decision.subnets;
        let elsewhere =
            |net: &IpNet, bridge: &Dev| subnets.get(net).is_some_and(|subnet| subnet.bridge != *bridge);
        match (&known.place, &new.place) {
            (here, there) if here == there => merge(known, new),
            // A way of its own serves the subnet's members as well, if they are met on the same bridge.
            (Place::Wired { bridge, .. }, Place::Subnet(net)) if !elsewhere(net, bridge) => {
                merge(known, Address { place: known.place.clone(), ..new })
            }
            (Place::Subnet(net), Place::Wired { bridge, .. }) if !elsewhere(net, bridge) => {
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

    /// The problem of an address that this node's own network uses.
    pub(super) fn refusal(&self, ip: IpAddr, reason: &Reason) -> Option<Problem> {
        let (net, why) = self.snapshot.reserved.has(ip)?;
        let what = format!(
            "{} has it, and {net} is {why}, so it is neither wired nor announced; give it another address",
            reason.row()
        );
        Some(Problem::error(object::address(ip), Class::Refused, ProblemCode::ReservedPrefix, what))
    }

    /// The problem of a subnet that overlaps this node's own network.
    pub(super) fn subnet_refusal(&self, net: IpNet, port: &NamedRow) -> Option<Problem> {
        let (other, why) = self.snapshot.reserved.overlap(net)?;
        let what = format!(
            "router port {port} has it, and {other} is {why}, so it is neither wired nor announced; give the subnet another \
             prefix, or limit what tenants may use with address_scopes"
        );
        Some(Problem::error(object::subnet(net), Class::Refused, ProblemCode::ReservedPrefix, what))
    }

    /// Reports a port whose addresses cannot all be read; what was exposed because of it stays.
    pub(super) fn read(&mut self, port: &PortBinding) {
        if let Some(what) = malformed(port) {
            self.unreadable(port, ProblemCode::BadAddresses, what);
        }
        if let Some(what) = malformed_cidrs(port) {
            self.unreadable(port, ProblemCode::BadCidrs, what);
        }
    }

    /// Reports a row that does not say what it should; what was exposed because of it stays.
    pub(super) fn unreadable(&mut self, port: &PortBinding, code: ProblemCode, what: String) {
        let object = ObjectId::new("port", port.logical_port.clone());
        self.report(Problem::error(object, Class::Refused, code, what));
        self.carry(|reason| reason.row().name == port.logical_port);
        let texts =
            port.mac.iter().map(Text::to_string).chain(port.nat_addresses.iter().map(Text::to_string));
        let cidrs = port.external_ids.get(key::CIDRS).map(Str::to_string);
        self.doubts.of_texts(texts.chain(cidrs));
    }

    /// Reports a port that is bound here and of which nothing can be made.
    pub(super) fn stray(&mut self, port: &PortBinding, code: ProblemCode, what: impl Into<String>) {
        let object = ObjectId::new("port", port.logical_port.clone());
        self.report(Problem::warning(object, Class::Refused, code, what));
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
        // So are rows that are not asked now.
        self.doubts.of_all();
        self.carry(|_| true);
        let before = &self.snapshot.before;
        for (net, subnet) in &before.subnets {
            let subnets = &mut self.decision.subnets;
            if self.decision.networks.contains_key(&subnet.dev)
                && self.snapshot.reserved.overlap(*net).is_none()
                && !subnets.keys().any(|other| overlap(other, net))
            {
                subnets.insert(*net, subnet.clone());
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
    pub(super) fn carry(&mut self, reason: impl Fn(&Reason) -> bool) {
        for (ip, address) in &self.snapshot.before.addresses {
            let carried = match &address.place {
                Place::Wired { dev, .. } => self.decision.networks.contains_key(dev),
                // A subnet that goes takes its addresses with it, when all is decided.
                Place::Subnet(_) => true,
            };
            let carried = carried && self.snapshot.reserved.has(*ip).is_none();
            if carried && !self.addresses.contains_key(ip) && address.reasons.iter().any(&reason) {
                self.addresses.insert(*ip, address.clone());
            }
        }
    }

    /// Settles conflicts (D9), and takes back what lost its ground.
    pub(super) fn finish(mut self, silence: Option<Silence>) -> Outcome<Decision> {
        self.settle();
        let subnets = &self.decision.subnets;
        self.addresses.retain(|_, address| match &address.place {
            Place::Wired { .. } => true,
            Place::Subnet(net) => subnets.contains_key(net),
        });
        let mut shared = Vec::new();
        for (ip, address) in &mut self.addresses {
            address.reasons.sort();
            address.reasons.dedup();
            shared.extend(conflicts::shared(*ip, &address.reasons));
        }
        shared.into_iter().for_each(|problem| self.report(problem));
        let wired = self.addresses.values().filter(|address| address.is_wired()).count();
        let many = many_rules(&self.snapshot.config, wired + self.decision.subnets.len());
        many.into_iter().for_each(|problem| self.report(problem));
        let subnets = self.decision.subnets.keys().map(IpNet::network);
        let exposed = self.addresses.keys().copied().chain(subnets);
        self.decision.inherited = self.doubts.after(&self.snapshot.before.inherited, exposed);
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
    Some(Problem::warning(
        ObjectId::new("setting", "rule_mode"),
        Class::Refused,
        ProblemCode::ManyRules,
        what,
    ))
}

fn merge(known: &mut Address, new: Address) {
    known.neighbour = known.neighbour.or(new.neighbour);
    known.reasons.extend(new.reasons);
}
