//! What gateways may not be.

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

/// What can be said of the elements alone: external networks that the caller sees, addresses that are not a subnet's gateway and
/// do not repeat.
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

/// That a router takes no more of what everybody shares than its project may: gateways, and addresses of each. Asked before
/// anything is looked up for an element, so that a long list costs nothing.
pub(super) fn limits(txn: &Txn, before: &Before, count: usize, elements: &[Element]) -> Result<(), Fault> {
    let project = &before.router.project;
    quota::check_growth(txn, "router_gateway", project, before.gateways.len(), count)?;
    // An element may stand for any gateway that is there, so none needs to shrink.
    let largest = before.gateways.iter().map(|port| port.fixed_ips.len()).max().unwrap_or(0);
    let asked = elements.iter().map(|element| element.fixed_ips.len()).max().unwrap_or(0);
    quota::check_growth(txn, "port_fixed_ip", project, largest, asked)
}

/// That a gateway does not take the address that its default route goes through. `resource` is what the request is about.
fn not_the_next_hop(world: &World, resource: &str, network: Uuid, address: IpAddr) -> Result<(), Fault> {
    let mut subnets = world.linked::<Subnet>(Link::SubnetsOfNetwork(network));
    if subnets.any(|subnet| subnet.gateway_ip == Some(address)) {
        let text = format!("External IP {address} is the same as the gateway IP");
        return Err(Fault::senseless(resource, text));
    }
    Ok(())
}

/// What the addresses of a router's port may not be, when they change by other ways than the router.
pub fn check_readdressed(world: &World, router: &Router, port: &Port) -> Result<(), Fault> {
    if port.is_gateway() {
        for fixed in &port.fixed_ips {
            not_the_next_hop(world, "port", port.network_id, fixed.ip_address)?;
        }
    }
    own_addresses(router, &port.fixed_ips)
}

/// That no subnet of a network overlaps with what the router is attached to, unless it is attached to this network already.
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

/// That no address of the router is what one of its routes goes through.
pub(super) fn own_addresses(router: &Router, fixed_ips: &[FixedIp]) -> Result<(), Fault> {
    let through = |fixed: &FixedIp| router.routes.iter().any(|route| route.nexthop == fixed.ip_address);
    match fixed_ips.iter().find(|fixed| through(fixed)) {
        Some(_) => Err(reach::invalid_routes(&router.routes, "the nexthop is used by router")),
        None => Ok(()),
    }
}

/// That the router's project holds no more addresses on networks of others than it may.
pub(super) fn addresses(txn: &Txn, before: &Before) -> Result<(), Fault> {
    let project = &before.router.project;
    let addresses = |port: &Arc<Port>| quota::shared_addresses(txn, project, port);
    let had = before.gateways.iter().map(addresses).sum();
    let has = of_router(txn, &before.router).into_iter().map(addresses).sum();
    quota::check_shared_addresses(txn, project, had, has)
}

/// That nothing lost its gateway: floating IPs theirs to their network, routes theirs to their next hop.
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
