//! Load balancers with their switches and routers: those that have them, directly or by group, and those that they name
//! themselves, as Octavia's and Neutron's do.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ovn::nb::{LoadBalancer, LoadBalancerGroup, LogicalRouter, LogicalSwitch};
use ovn::sb;
use ovn::text::neutron::key::ROUTER_NAME;
use ovn::text::octavia::{LsRefs, key};
use ovsdb::{Ref, Set, Snapshot, Str, Uuid, Weak};

use super::routers::is_on;

/// The rows of load balancers that are anywhere.
pub(super) fn rows(nb: &Snapshot) -> BTreeMap<Uuid, sb::LoadBalancer> {
    if nb.table::<LoadBalancer>().is_empty() {
        return BTreeMap::new();
    }
    let mut members: BTreeMap<Uuid, BTreeSet<Uuid>> = BTreeMap::new();
    let mut named: BTreeMap<&str, Vec<Uuid>> = BTreeMap::new();
    let switches = nb.table::<LogicalSwitch>().iter().map(|(row, switch)| {
        (row.uuid(), &switch.name, of(nb, &switch.load_balancer, &switch.load_balancer_group))
    });
    let routers =
        nb.table::<LogicalRouter>().iter().filter(|(_, router)| is_on(router)).map(|(row, router)| {
            (row.uuid(), &router.name, of(nb, &router.load_balancer, &router.load_balancer_group))
        });
    for (row, name, balancers) in switches.chain(routers) {
        named.entry(name).or_default().push(row);
        balancers.into_iter().for_each(|balancer| _ = members.entry(balancer).or_default().insert(row));
    }
    let mut rows = BTreeMap::new();
    for (row, balancer) in nb.table::<LoadBalancer>().iter() {
        let mut members = members.remove(&row.uuid()).unwrap_or_default();
        let names = told(balancer);
        members.extend(names.iter().filter_map(|name| named.get(name.as_str())).flatten());
        if members.is_empty() {
            continue;
        }
        let made = sb::LoadBalancer {
            name: balancer.name.clone(),
            vips: balancer.vips.clone(),
            datapaths: members.into_iter().map(Ref::new).collect(),
            ..Default::default()
        };
        rows.insert(row.uuid(), made);
    }
    rows
}

/// The addresses of the load balancers on a router.
pub(super) fn on_router<'n>(nb: &'n Snapshot, router: &LogicalRouter) -> impl Iterator<Item = IpAddr> + 'n {
    let all = of(nb, &router.load_balancer, &router.load_balancer_group);
    let all = all.into_iter().filter_map(|row| nb.get::<LoadBalancer>(row));
    all.flat_map(|balancer| balancer.vips.keys().filter_map(|text| text.value()).map(|vip| vip.ip))
}

/// Load balancers, one by one and by group.
fn of(
    nb: &Snapshot,
    single: &Set<Weak<LoadBalancer>>,
    groups: &Set<Ref<LoadBalancerGroup>>,
) -> BTreeSet<Uuid> {
    let grouped =
        groups.iter().filter_map(|group| nb.get(*group)).flat_map(|group| group.load_balancer.iter());
    single.iter().chain(grouped).map(|balancer| balancer.uuid()).collect()
}

/// The names of the switches and routers that a load balancer says it is for.
fn told(balancer: &LoadBalancer) -> BTreeSet<String> {
    let id = |key: &str| balancer.external_ids.get(key).map_or("", Str::as_str);
    let routers = [id(key::LR_REF), id(ROUTER_NAME)].into_iter().flat_map(|list| list.split(','));
    let routers = routers.map(|name| name.trim_ascii().to_owned());
    // Its owner's bookkeeping; the switches' own columns tell the same, so what cannot be read is no loss.
    let switches = id(key::LS_REFS).parse().map(|LsRefs(counts)| counts).unwrap_or_default();
    let switches = switches.into_iter().filter(|(_, count)| *count > 0).map(|(name, _)| name.to_string());
    routers.chain(switches).filter(|name| !name.is_empty()).collect()
}
