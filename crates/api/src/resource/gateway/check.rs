//! Checks of gateway requests and of their outcome.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use uuid::Uuid;

use super::change::Before;
use super::element::Element;
use super::{of_router, router};
use crate::caller::Caller;
use crate::fault::Fault;
use crate::model::{FixedIp, FloatingIp, Port, Router, Subnet};
use crate::resource::router::reach;
use crate::resource::{ipam, network, quota};
use crate::world::{Link, Txn, World};

/// Checks elements without their ports: the caller sees the external networks, no address is a subnet's gateway, and none repeats.
pub(super) fn elements(world: &World, caller: &Caller, elements: &[Element]) -> Result<(), Fault> {
    let mut named = BTreeSet::new();
    for element in elements {
        let network = network::visible(world, caller, element.network_id)?;
        if !network.external {
            let text = format!("Network {} is not an external network", network.id);
            return Err(Fault::senseless("router", text));
        }
        for address in element.addresses() {
            not_the_next_hop(world, "router", network.id, address)?;
            if !named.insert((network.id, address)) {
                let mut of_network = world.linked::<Subnet>(Link::SubnetsOfNetwork(network.id));
                let subnet = of_network.find(|subnet| subnet.cidr.contains(&address)).map(|subnet| subnet.id);
                return Err(ipam::already_allocated(address, subnet.unwrap_or(network.id)));
            }
        }
    }
    Ok(())
}

/// Checks that a router stays within its project's quotas of shared resources: gateways, and addresses of each. This comes before any
/// lookup for an element, so that a long list costs little.
pub(super) fn limits(txn: &Txn, before: &Before, count: usize, elements: &[Element]) -> Result<(), Fault> {
    let project = &before.router.project;
    quota::check_growth(txn, "router_gateway", project, before.gateways.len(), count)?;
    // An element may match any present gateway, so the largest one counts as the previous size.
    let largest = before.gateways.iter().map(|port| port.fixed_ips.len()).max().unwrap_or(0);
    let asked = elements.iter().map(|element| element.fixed_ips.len()).max().unwrap_or(0);
    quota::check_growth(txn, "port_fixed_ip", project, largest, asked)
}

/// Checks that a gateway does not take the address that its own default route points to. `resource` is the subject of the request, for the
/// error.
fn not_the_next_hop(world: &World, resource: &str, network: Uuid, address: IpAddr) -> Result<(), Fault> {
    let mut subnets = world.linked::<Subnet>(Link::SubnetsOfNetwork(network));
    if subnets.any(|subnet| subnet.gateway_ip == Some(address)) {
        let text = format!("External IP {address} is the same as the gateway IP");
        return Err(Fault::senseless(resource, text));
    }
    Ok(())
}

/// Checks the new addresses of a router's port when a request on the port, not on the router, changes them.
pub fn check_readdressed(world: &World, router: &Router, port: &Port) -> Result<(), Fault> {
    if port.is_gateway() {
        for fixed in &port.fixed_ips {
            not_the_next_hop(world, "port", port.network_id, fixed.ip_address)?;
        }
    }
    own_addresses(router, &port.fixed_ips)
}

/// Checks that no subnet of a network overlaps with those that the router is attached to, unless it is already attached to this network.
pub(super) fn overlap(world: &World, router_id: Uuid, network: Uuid) -> Result<(), Fault> {
    let router = router(world, router_id)?;
    if of_router(world, router).iter().any(|port| port.network_id == network) {
        return Ok(());
    }
    let attached = reach::attached(world, router_id);
    for subnet in world.linked::<Subnet>(Link::SubnetsOfNetwork(network)) {
        reach::refuse_overlap("router", subnet, &attached)?;
    }
    Ok(())
}

/// Checks that no address of the router is the next hop of one of its routes.
pub(super) fn own_addresses(router: &Router, fixed_ips: &[FixedIp]) -> Result<(), Fault> {
    let through = |fixed: &FixedIp| router.routes.iter().any(|route| route.nexthop == fixed.ip_address);
    match fixed_ips.iter().find(|fixed| through(fixed)) {
        Some(_) => Err(reach::invalid_routes(&router.routes, "the nexthop is used by router")),
        None => Ok(()),
    }
}

/// Checks that the router's project stays within its quota of addresses on networks of others.
pub(super) fn addresses(txn: &Txn, before: &Before) -> Result<(), Fault> {
    let project = &before.router.project;
    let addresses = |port: &Arc<Port>| quota::shared_addresses(txn, project, port);
    let had = before.gateways.iter().map(addresses).sum();
    let has = of_router(txn, &before.router).into_iter().map(addresses).sum();
    quota::check_shared_addresses(txn, project, had, has)
}

/// Checks that no floating IP lost its gateway, and no route its next hop.
pub(super) fn outcome(world: &World, before: &Before) -> Result<(), Fault> {
    let router = router(world, before.router.id)?;
    let gateways = of_router(world, router);
    let lost: BTreeSet<Uuid> = before
        .gateways
        .iter()
        .map(|port| port.network_id)
        .filter(|network| !gateways.iter().any(|port| port.network_id == *network))
        .collect();
    let through = world.linked::<FloatingIp>(Link::FloatingIpsOfRouter(router.id));
    if let Some(floating) = through.into_iter().find(|it| lost.contains(&it.floating_network_id)) {
        let text = format!(
            "Gateway cannot be updated for router {}, since a gateway to external network {} is required by one or more \
             floating IPs.",
            router.id, floating.floating_network_id
        );
        return Err(Fault::conflict("RouterExternalGatewayInUseByFloatingIp", text));
    }
    let stays = |old: &Port| gateways.iter().any(|new| new.id == old.id && new.fixed_ips == old.fixed_ips);
    if before.gateways.iter().all(|old| stays(old)) {
        return Ok(());
    }
    reach::check_connected(world, router.id, &router.routes)
}
