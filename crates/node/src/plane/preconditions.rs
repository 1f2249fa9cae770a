//! Whether a change may be made now.
//!
//! A plan is in a safe order, but steps of it may fail, and others are held back because they failed before. So each step that
//! could break the promise (an announced address has its way) is checked against what is there when its turn comes.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

use super::state::{Act, Needs, Op};
use crate::flows::Seen;
use crate::kernel::paths::{ObservedWays, OurRules, RemovedWays};
use crate::kernel::{Address, Dev, Family, Hop, SeenRoute, Select, Sysctl};
use crate::{flows, kernel, ports};

/// The observed state, prepared for a batch of steps that run together.
pub struct Ground<'a> {
    kernel: &'a kernel::Observed,
    flows: &'a flows::Observed,
    /// The addresses whose paths must stay, if these are not the announced ones.
    carried: Option<&'a BTreeSet<IpAddr>>,
    ways: OnceCell<ObservedWays<'a>>,
    /// The objects that the allowed steps of the batch will remove.
    gone: RemovedWays,
    bare: BTreeSet<Address>,
}

impl<'a> Ground<'a> {
    /// Looks at what is there.
    pub fn new(kernel: &'a kernel::Observed, flows: &'a flows::Observed) -> Self {
        let (ways, gone, bare) = Default::default();
        Ground { kernel, flows, carried: None, ways, gone, bare }
    }

    /// The same with an eye on the ways of other addresses than those that are announced.
    pub fn carrying(
        carried: &'a BTreeSet<IpAddr>,
        kernel: &'a kernel::Observed,
        flows: &'a flows::Observed,
    ) -> Self {
        Ground { carried: Some(carried), ..Self::new(kernel, flows) }
    }

    /// Whether what a change needs is there, after the changes that were allowed before.
    pub fn allows(&mut self, op: &Op) -> bool {
        let change = match (&op.act, &op.needs) {
            (Act::Kernel(change), _) => change,
            (Act::Port(ports::Op::Delete { dev, .. }), Needs::Idle { announce, rules }) => {
                return self.device_idle(announce, rules, dev);
            }
            _ => return true,
        };
        // Where a device could not be made it is said once, of the device.
        if stands_on(change).is_some_and(|dev| !self.kernel.links.contains_key(dev)) {
            return false;
        }
        match (&op.needs, change) {
            (Needs::Nothing, _) => true,
            (Needs::Route(rules), kernel::Op::AddRule { select: Select::To(net), table, .. }) => {
                self.ways(rules).route(*table, net.network(), &self.gone).is_some()
            }
            (Needs::Route(_), _) => true,
            (
                Needs::Way { rules, hop: Some(hop), flows },
                kernel::Op::AddAddress(Address { net: to, .. }) | kernel::Op::SetRoute { dst: to, .. },
            ) => self.ways(rules).leads(to.network(), hop, &self.gone) && self.flows(flows),
            (Needs::Way { hop: None, .. }, _) => false,
            (Needs::Way { .. }, _) => true,
            (Needs::Idle { announce, rules }, change) => self.idle(announce, rules, change),
        }
    }

    fn idle(&mut self, announce: &Dev, rules: &OurRules, change: &kernel::Op) -> bool {
        match change {
            kernel::Op::DelRule(rule) => {
                self.gone.rules.insert(rule.clone());
                let idle = match rule.select {
                    Some(Select::To(net)) => self.all_have_ways(announce, rules, net),
                    Some(Select::All(family)) => self.all_have_ways(announce, rules, family.default_net()),
                    // Nothing of ours relies on a rule that is not of our making.
                    None => true,
                };
                idle || !self.gone.rules.remove(rule)
            }
            kernel::Op::DelRoute(route) => {
                self.gone.routes.insert(route.clone());
                // Nothing is announced on the strength of a default route.
                let idle = route.dst.prefix_len() == 0 || self.all_have_ways(announce, rules, route.dst);
                idle || !self.gone.routes.remove(route)
            }
            // A next hop's Ethernet address is of use as long as a route leads through it to something announced.
            kernel::Op::DelNeighbour { ip, .. } if self.is_carried(*ip) => false,
            kernel::Op::DelProxy { ip, .. } => !self.is_carried((*ip).into()),
            kernel::Op::DelNeighbour { dev, ip } => {
                let through = |route: &&SeenRoute| {
                    route.hop.as_ref().is_some_and(|hop| hop.via == Some(*ip) && hop.dev == *dev)
                };
                let mut routes = self.kernel.routes.iter().filter(through);
                routes.all(|route| self.hosts(announce, route.dst).next().is_none())
            }
            kernel::Op::DelLink { dev } => self.device_idle(announce, rules, dev),
            kernel::Op::DelAddress(address) => {
                // With the last address of a family a device loses its routes of that family.
                self.bare.insert(address.clone());
                let family = Family::of(address.net);
                let other = |a: &Address| {
                    a.dev == address.dev && Family::of(a.net) == family && !self.bare.contains(a)
                };
                let idle = self.kernel.addresses.iter().any(other)
                    || self.device_idle(announce, rules, &address.dev);
                idle || !self.bare.remove(address)
            }
            _ => true,
        }
    }

    /// Whether everything announced that goes through a device has another way.
    fn device_idle(&mut self, announce: &Dev, rules: &OurRules, dev: &Dev) -> bool {
        let through = |route: &&SeenRoute| route.hop.as_ref().is_some_and(|hop| hop.dev == *dev);
        let routes: Vec<SeenRoute> = self.kernel.routes.iter().filter(through).cloned().collect();
        let before = self.gone.routes.clone();
        self.gone.routes.extend(routes.iter().cloned());
        let mut prefixes = routes.iter().map(|route| route.dst).filter(|dst| dst.prefix_len() > 0);
        let idle = prefixes.all(|dst| self.all_have_ways(announce, rules, dst));
        if !idle {
            self.gone.routes = before;
        }
        idle
    }

    fn all_have_ways(&self, announce: &Dev, rules: &OurRules, prefix: IpNet) -> bool {
        self.hosts(announce, prefix).all(|ip| self.way(rules, ip))
    }

    /// The addresses within a prefix that need their ways.
    fn hosts<'s>(&'s self, announce: &'s Dev, prefix: IpNet) -> Box<dyn Iterator<Item = IpAddr> + 's> {
        match self.carried {
            None => Box::new(self.kernel.hosts_on(announce, prefix)),
            Some(carried) => Box::new(carried.range(prefix.network()..=prefix.broadcast()).copied()),
        }
    }

    fn is_carried(&self, ip: IpAddr) -> bool {
        self.carried.is_some_and(|carried| carried.contains(&ip))
    }

    fn way(&self, rules: &OurRules, ip: IpAddr) -> bool {
        self.ways(rules).has_way(ip, &self.gone)
    }

    fn ways(&self, rules: &OurRules) -> &ObservedWays<'a> {
        self.ways.get_or_init(|| ObservedWays::new(rules.clone(), self.kernel))
    }

    fn flows(&self, wanted: &[(Dev, flows::Flow)]) -> bool {
        wanted.iter().all(|(bridge, flow)| match self.flows.get(bridge) {
            Some(Seen::Flows(flows)) => flows.iter().any(|seen| seen.flow == Some(*flow)),
            Some(Seen::Silent(_)) | None => false,
        })
    }
}

/// The device that must be there for something to be added to it.
fn stands_on(change: &kernel::Op) -> Option<&Dev> {
    match change {
        kernel::Op::AddAddress(Address { dev, .. })
        | kernel::Op::SetSysctl(Sysctl { dev, .. })
        | kernel::Op::SetRoute { hop: Hop { dev, .. }, .. }
        | kernel::Op::SetNeighbour { dev, .. }
        | kernel::Op::AddProxy { dev, .. } => Some(dev),
        _ => None,
    }
}
