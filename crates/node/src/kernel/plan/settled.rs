//! The last state in which observed and desired state were equal, and the changes since.
//!
//! A plan for everything looks at everything. But mostly all was as wanted a moment ago, and one address has changed since: on the
//! side of what is wanted, or because somebody deleted its rule. Then a plan for that address is the plan for everything. What
//! concerns more than single addresses (a device, a subnet, a neighbour, a name of a table) is planned for in full, and so is
//! everything as long as there is something to report.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use imbl::OrdSet;
use imbl::ordmap;
use imbl::ordset::DiffItem;
use ipnet::IpNet;

use super::{Focus, Planner, whole};
use crate::kernel::observed::{Kind, Observed, SeenLink, SeenRoute, SeenRule, is_host, protocol};
use crate::kernel::op::Op;
use crate::kernel::state::{Address, Desired, Dev, Rule, Select, Table};
use crate::kernel::tables::Tables;
use crate::part::Part;
use crate::part::keep::Keep;
use crate::part::kind::Kind as Counted;

/// The desired and the observed state when they last agreed.
#[derive(Debug, Clone)]
pub struct SettledKernel {
    want: Desired,
    have: Arc<Observed>,
    tables: Tables,
}

/// The steps from `have` to `want`, starting from the settled state. The result equals that of [`plan`](super::plan) except for the order
/// within phases. If nothing is left to do, this state becomes the settled one.
pub fn plan(
    settled: &mut Option<SettledKernel>,
    want: &Desired,
    keep: &Keep,
    have: &Arc<Observed>,
) -> Part<Op> {
    if !keep.is_empty() {
        return super::plan(want, keep, have);
    }
    let done = |part: &Part<Op>| {
        part.steps.is_empty() && part.problems.is_empty() && part.counts.want() == part.counts.have()
    };
    if let Some(settled) = settled.as_mut()
        && let Some(part) = settled.narrow(want, keep, have)
    {
        if done(&part) {
            (settled.want, settled.have) = (want.clone(), Arc::clone(have));
        }
        return part;
    }
    let tables = Tables::resolve(want, have);
    let part = whole(want, keep, have, &tables);
    let native = |route: &SeenRoute| route.protocol == protocol::OVN;
    if done(&part) && !have.routes.iter().any(native) {
        *settled = Some(SettledKernel { want: want.clone(), have: Arc::clone(have), tables });
    }
    part
}

impl SettledKernel {
    /// The plan for the addresses that have changed, if nothing else has.
    fn narrow(&self, want: &Desired, keep: &Keep, have: &Observed) -> Option<Part<Op>> {
        let mut hosts = BTreeSet::new();
        self.wanted(want, &mut hosts)?;
        self.seen(have, &mut hosts)?;
        if decide_on_neighbours(have, &hosts) {
            return None;
        }
        let mut planner = Planner::new(want, keep, have, &self.tables, Focus::Hosts(&hosts));
        planner.addresses();
        planner.routes();
        planner.rules();
        planner.forwarding();
        let mut part = planner.part;
        for kind in Counted::ALL {
            let count = part.counts.of_mut(kind);
            let missing = count.want - count.have;
            count.want = want.count(kind);
            count.have = count.want - missing;
        }
        part.problems.is_empty().then_some(part)
    }

    /// The addresses for which something else is wanted now; nothing if more than that has changed.
    fn wanted(&self, want: &Desired, hosts: &mut BTreeSet<IpAddr>) -> Option<()> {
        let old = &self.want;
        let same = want.own == old.own
            && want.links == old.links
            && want.neighbours == old.neighbours
            && want.proxies == old.proxies
            && want.sysctls == old.sysctls;
        if !same {
            return None;
        }
        for address in changed(&old.addresses, &want.addresses) {
            hosts.insert(host(address.net).filter(|_| address.dev == want.own.announce)?);
        }
        for Rule { select, .. } in changed(&old.rules, &want.rules) {
            let Select::To(net) = select else { return None };
            hosts.insert(host(*net)?);
        }
        for difference in old.routes.diff(&want.routes) {
            let (ordmap::DiffItem::Add(key, _)
            | ordmap::DiffItem::Remove(key, _)
            | ordmap::DiffItem::Update { new: (key, _), .. }) = difference;
            let (Table::Bridge(_), net) = key else { return None };
            hosts.insert(host(*net)?);
        }
        Some(())
    }

    /// The addresses for which something else is there now; nothing if more than that has changed.
    fn seen(&self, have: &Observed, hosts: &mut BTreeSet<IpAddr>) -> Option<()> {
        let old = &*self.have;
        let same = have.neighbours == old.neighbours
            && have.proxies == old.proxies
            && have.sysctls == old.sysctls
            && have.forwarding == old.forwarding
            && have.names == old.names;
        if !same {
            return None;
        }
        for difference in old.links.diff(&have.links) {
            let (ordmap::DiffItem::Add(dev, link)
            | ordmap::DiffItem::Remove(dev, link)
            | ordmap::DiffItem::Update { new: (dev, link), .. }) = difference;
            let before = old.links.get(dev);
            if self.matters(dev, link) || before.is_some_and(|link| self.matters(dev, link)) {
                return None;
            }
        }
        for Address { dev, net } in changed(&old.addresses, &have.addresses) {
            if *dev == self.want.own.announce {
                hosts.insert(host(*net)?);
            } else if have.links.get(dev).is_none_or(|link| self.matters(dev, link)) {
                return None;
            }
        }
        let bridges = |table: u32| self.tables.current.values().any(|number| *number == table);
        for SeenRule { select, table, priority, .. } in changed(&old.rules, &have.rules) {
            match select {
                _ if *priority != self.want.own.priority => {}
                Some(Select::To(net)) if bridges(*table) => _ = hosts.insert(host(*net)?),
                _ => return None,
            }
        }
        for SeenRoute { table, dst, protocol: by, .. } in changed(&old.routes, &have.routes) {
            if !bridges(*table) || *by == protocol::OVN {
                return None;
            }
            hosts.insert(host(*dst)?);
        }
        Some(())
    }

    /// Whether a device is one that a plan looks at: it is wanted, it may be ours, or a table has its name.
    fn matters(&self, dev: &Dev, link: &SeenLink) -> bool {
        let kinds = matches!(link.kind, Kind::Vrf(_) | Kind::Vlan { .. } | Kind::Port { .. });
        kinds || self.want.links.contains_key(dev) || self.have.names.number(dev).is_some()
    }
}

/// Whether a neighbour or an NDP proxy may be ours or foreign because of these addresses: the routes to an address decide that, see
/// [`Ours`](crate::kernel::own::Ours).
fn decide_on_neighbours(have: &Observed, hosts: &BTreeSet<IpAddr>) -> bool {
    let near = |proxy: &Ipv6Addr| {
        let is_near =
            |host: &IpAddr| matches!(host, IpAddr::V6(host) if host.segments()[..4] == proxy.segments()[..4]);
        hosts.iter().any(is_near)
    };
    have.neighbours.keys().any(|(_, ip)| hosts.contains(ip)) || have.proxies.iter().any(|(_, ip)| near(ip))
}

/// The members of exactly one of two sets.
fn changed<'a, T: Ord + Clone>(old: &'a OrdSet<T>, new: &'a OrdSet<T>) -> impl Iterator<Item = &'a T> {
    old.diff(new).map(|difference| match difference {
        DiffItem::Add(item) | DiffItem::Remove(item) => item,
    })
}

/// The address that a prefix is, if it is one.
fn host(net: IpNet) -> Option<IpAddr> {
    is_host(net).then(|| net.addr())
}
