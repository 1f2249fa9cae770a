//! Addresses that a project holds on networks of other projects.
//!
//! A shared or external network has few addresses for many projects. Limits per port and per router do not protect them, because a project
//! may have many ports and routers. So this limit counts the sum over the project's ports, the gateways of its routers and its floating
//! IPs. On its own networks a project is free.

use std::sync::Arc;

use super::check_count;
use crate::fault::Fault;
use crate::model::{FloatingIp, Network, Port, Router};
use crate::resource::gateway;
use crate::world::{Kind, Link, Txn, World};

/// The name of the limit.
pub(super) const SHARED_ADDRESS: &str = "shared_address";

/// The number of addresses of a port if its network belongs to another project; else zero.
pub fn shared_addresses(world: &World, project: &str, port: &Port) -> usize {
    let foreign = world.get::<Network>(&port.network_id).is_none_or(|network| network.project != project);
    if foreign { port.fixed_ips.len() } else { 0 }
}

/// The number of a project's addresses on networks of other projects.
pub(super) fn total(world: &World, project: &str) -> usize {
    let owned = |kind| Link::OwnedBy(kind, project.into());
    let ports = world.linked::<Port>(owned(Kind::Port)).map(Arc::as_ref);
    let routers = world.linked::<Router>(owned(Kind::Router));
    let gateways = routers.flat_map(|router| gateway::of_router(world, router)).map(Arc::as_ref);
    let floating_ips = world.linked::<FloatingIp>(owned(Kind::FloatingIp));
    let holders = floating_ips.filter_map(|floating| world.get::<Port>(&floating.floating_port_id));
    let holders = holders.map(Arc::as_ref);
    ports.chain(gateways).chain(holders).map(|port| shared_addresses(world, project, port)).sum()
}

/// Refuses a change from `before` to `after` such addresses if it exceeds the project's limit. A project that was over its limit already,
/// because it was imported or the limit was lowered, keeps its addresses and may release some.
pub fn check_shared_addresses(txn: &Txn, project: &str, before: usize, after: usize) -> Result<(), Fault> {
    // The sum scans all ports of the project, so it is computed only if it matters.
    if after <= before || super::limit(txn, &txn.outside().settings, project, SHARED_ADDRESS) < 0 {
        return Ok(());
    }
    check_count(txn, SHARED_ADDRESS, project, u64::try_from(total(txn, project)).unwrap_or(u64::MAX))
}
