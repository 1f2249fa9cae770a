//! The subnets that a router is attached to, and the checks on them: overlaps and reachable next hops.

use std::sync::Arc;

use serde_json::json;
use uuid::Uuid;

use crate::fault::Fault;
use crate::model::{ExtraRoute, Port, Subnet};
use crate::world::{Link, World};

/// The ports of a router: interfaces and gateways.
pub fn ports(world: &World, router: Uuid) -> impl Iterator<Item = &Arc<Port>> {
    world
        .linked::<Port>(Link::PortsOfDevice(router.into()))
        .filter(move |port| port.router_id() == Some(router))
}

/// The interfaces of a router.
pub fn interfaces(world: &World, router: Uuid) -> impl Iterator<Item = &Arc<Port>> {
    ports(world, router).filter(|port| port.is_router_interface())
}

/// The subnets that no other may overlap with: those of interfaces, and all subnets of a gateway's network, even those without an address
/// of the gateway.
pub fn attached(world: &World, router: Uuid) -> Vec<Arc<Subnet>> {
    let mut subnets: Vec<Arc<Subnet>> = Vec::new();
    for port in ports(world, router) {
        if port.is_gateway() {
            subnets.extend(world.linked::<Subnet>(Link::SubnetsOfNetwork(port.network_id)).cloned());
        } else {
            subnets.extend(connected(world, port).cloned());
        }
    }
    subnets.sort_by_key(|subnet| subnet.id);
    subnets.dedup_by_key(|subnet| subnet.id);
    subnets
}

/// The subnets of a port's addresses.
fn connected<'w>(world: &'w World, port: &'w Port) -> impl Iterator<Item = &'w Arc<Subnet>> {
    port.fixed_ips.iter().filter_map(|fixed| world.get::<Subnet>(&fixed.subnet_id))
}

/// Fails with 400 if a subnet overlaps with another. `resource` is the subject of the request, for the error.
pub fn refuse_overlap(resource: &str, new: &Subnet, others: &[Arc<Subnet>]) -> Result<(), Fault> {
    let overlaps = |old: &&Arc<Subnet>| old.cidr.contains(&new.cidr) || new.cidr.contains(&old.cidr);
    match others.iter().find(overlaps) {
        Some(old) => {
            let text = format!(
                "Cidr {} of subnet {} overlaps with cidr {} of subnet {}",
                new.cidr, new.id, old.cidr, old.id
            );
            Err(Fault::senseless(resource, text))
        }
        None => Ok(()),
    }
}

/// Checks that the next hop of each route is in a subnet of one of the router's ports.
pub fn check_connected(world: &World, router: Uuid, routes: &[ExtraRoute]) -> Result<(), Fault> {
    if routes.is_empty() {
        return Ok(());
    }
    let subnets: Vec<_> = ports(world, router).flat_map(|port| connected(world, port)).collect();
    match routes.iter().find(|route| !subnets.iter().any(|subnet| subnet.cidr.contains(&route.nexthop))) {
        Some(_) => Err(invalid_routes(routes, "the nexthop is not connected with router")),
        None => Ok(()),
    }
}

/// Checks that no next hop is an address of the router itself.
pub fn check_not_own(world: &World, router: Uuid, routes: &[ExtraRoute]) -> Result<(), Fault> {
    let own = |route: &&ExtraRoute| {
        ports(world, router).any(|port| port.fixed_ips.iter().any(|fixed| fixed.ip_address == route.nexthop))
    };
    match routes.iter().find(own) {
        Some(_) => Err(invalid_routes(routes, "the nexthop is used by router")),
        None => Ok(()),
    }
}

/// The fault for invalid routes: 400.
pub fn invalid_routes(routes: &[ExtraRoute], reason: &str) -> Fault {
    let text = format!("Invalid format for routes: {}, {reason}", json!(routes));
    Fault::new(400, "InvalidRoutes", text)
}
