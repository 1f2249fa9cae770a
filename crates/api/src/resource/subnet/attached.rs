//! What a new subnet on an external network means for the routers that have gateways there.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::prefix::overlap;
use crate::fault::Fault;
use crate::model::{Port, Subnet, owner};
use crate::resource::ipam;
use crate::resource::port;
use crate::world::{Link, Txn, World};

/// Refuses a subnet that overlaps with another one of a router attached to its network: the router could not tell where to
/// send a packet.
pub(super) fn check_overlap(world: &World, new: &Subnet) -> Result<(), Fault> {
    let routers: BTreeSet<Uuid> =
        gateways(world, new.network_id).filter_map(|port| port.router_id()).collect();
    for router in routers {
        for other in subnets_of_router(world, router) {
            if other.network_id != new.network_id && overlap(other.cidr, new.cidr) {
                let message = format!(
                    "Cidr {} of subnet {} overlaps with cidr {} of subnet {}",
                    new.cidr, new.id, other.cidr, other.id
                );
                return Err(Fault::senseless("subnet", message));
            }
        }
    }
    Ok(())
}

/// Gives every gateway port that has no address of the new subnet's family one of it. A pool that is too small for all of
/// them leaves the rest as they are.
pub(super) fn give_addresses(txn: &mut Txn, new: &Subnet) {
    let v4 = new.cidr.addr().is_ipv4();
    let suits =
        new.service_types.is_empty() || new.service_types.iter().any(|of| of == owner::ROUTER_GATEWAY);
    let without =
        |port: &&Port| suits && !port.fixed_ips.iter().any(|fixed| fixed.ip_address.is_ipv4() == v4);
    let ports: Vec<Uuid> = gateways(txn, new.network_id).filter(without).map(|port| port.id).collect();
    for id in ports {
        let Some(address) = ipam::lowest_free(txn, new) else { break };
        port::add_address(txn, id, new.id, address);
    }
}

fn gateways(world: &World, network: Uuid) -> impl Iterator<Item = &Port> {
    world.linked::<Port>(Link::PortsOfNetwork(network)).map(|port| &**port).filter(|port| port.is_gateway())
}

/// Every subnet that a router is in: those of its interfaces, and all of the networks of its gateways.
fn subnets_of_router(world: &World, router: Uuid) -> Vec<&Subnet> {
    let ports = world.linked::<Port>(Link::PortsOfDevice(router.to_string().into()));
    let mut found: Vec<&Subnet> = Vec::new();
    for port in ports.filter(|port| port.router_id() == Some(router)) {
        if port.is_gateway() {
            found.extend(world.linked::<Subnet>(Link::SubnetsOfNetwork(port.network_id)).map(|it| &**it));
        } else {
            let own = port.fixed_ips.iter().filter_map(|fixed| world.get::<Subnet>(&fixed.subnet_id));
            found.extend(own.map(|it| &**it));
        }
    }
    found
}
