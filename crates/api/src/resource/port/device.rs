//! The device of a port: who may set it, and what follows from it.

use ovn::text::neutron::device_owner::LB_VIP;
use uuid::Uuid;

use crate::fault::Fault;
use crate::model::{FixedIp, FloatingIp, LoadBalancer, Port, Router, owner};
use crate::resource::load_balancer::monitor_port;
use crate::resource::{gateway, load_balancer, metadata_port};
use crate::world::{Link, World};

/// Refuses a port that claims to be one of a router, a floating IP or a network: it would count as such without the checks. The device must
/// not claim an unknown router either, because the store would refuse it.
pub(super) fn check_device(world: &World, device_id: &str, device_owner: &str) -> Result<(), Fault> {
    let id = Uuid::try_parse(device_id).ok();
    let (taken, instead) = match device_owner {
        owner::ROUTER_INTERFACE => (id.is_some(), "attach it with add_router_interface"),
        owner::ROUTER_GATEWAY => (id.is_some(), "give the router an external gateway"),
        owner::FLOATING_IP => {
            (id.is_some_and(|id| world.get::<FloatingIp>(&id).is_some()), "a floating IP makes its own port")
        }
        owner::DISTRIBUTED | owner::DHCP => {
            (device_id.starts_with(metadata_port::PREFIX), "a network makes its own metadata port")
        }
        LB_VIP => {
            let id = device_id.strip_prefix(load_balancer::vip::DEVICE_PREFIX);
            let id = id.and_then(|id| Uuid::try_parse(id).ok());
            // Ports of load balancers that this API does not know are fine: an Octavia that uses this API creates them.
            (
                id.is_some_and(|id| world.get::<LoadBalancer>(&id).is_some()),
                "a load balancer makes its own ports",
            )
        }
        owner::LB_HEALTH_MONITOR => {
            (monitor_port::is_needed(world, device_id), "a health monitor makes its own ports")
        }
        _ => return Ok(()),
    };
    if taken {
        let message =
            format!("a port with device_owner {device_owner} cannot be made for {device_id}: {instead}");
        return Err(Fault::senseless("port", message));
    }
    Ok(())
}

/// Whether the object that created a port still uses it.
pub fn is_in_service(world: &World, port: &Port) -> bool {
    if world.has_linked(Link::LoadBalancerOfVipPort(port.id)) {
        return true;
    }
    let id = Uuid::try_parse(&port.device_id).ok();
    match port.device_owner.as_str() {
        owner::ROUTER_INTERFACE | owner::ROUTER_GATEWAY => {
            id.is_some_and(|id| world.get::<Router>(&id).is_some())
        }
        owner::FLOATING_IP => id.is_some_and(|id| world.get::<FloatingIp>(&id).is_some()),
        owner::DISTRIBUTED | owner::DHCP => port.device_id.starts_with(metadata_port::PREFIX),
        owner::LB_HEALTH_MONITOR => monitor_port::is_needed(world, &port.device_id),
        _ => false,
    }
}

/// Refuses to delete a port that a router, a floating IP or a network needs.
pub(super) fn check_delete(world: &World, port: &Port) -> Result<(), Fault> {
    if is_in_service(world, port) {
        let message = format!(
            "Port {} cannot be deleted directly via the port API: has device owner {}.",
            port.id, port.device_owner
        );
        return Err(Fault::conflict("ServicePortInUse", message));
    }
    Ok(())
}

/// Refuses changes that would break a port of a router, a floating IP or a network.
pub(super) fn check_update(world: &World, before: &Port, after: &Port) -> Result<(), Fault> {
    if !is_in_service(world, before) {
        return Ok(());
    }
    if (&before.device_id, &before.device_owner) != (&after.device_id, &after.device_owner) {
        let message = format!(
            "Unable to complete operation on port {} for network {}. Port already has an attached device {}.",
            before.id, before.network_id, before.device_id
        );
        return Err(Fault::conflict("PortInUse", message));
    }
    let mut addresses = [&before.fixed_ips, &after.fixed_ips].map(|of| of.clone());
    addresses.iter_mut().for_each(|of| of.sort_unstable());
    let [old, new] = addresses;
    if old == new {
        return Ok(());
    }
    let subnets = |of: &[FixedIp]| of.iter().map(|fixed| fixed.subnet_id).collect::<Vec<_>>();
    // Other objects repeat the address of a floating IP, a VIP or a probe source, so a change here would not reach them.
    let is_vip = world.has_linked(Link::LoadBalancerOfVipPort(before.id));
    let is_source = before.device_owner == owner::LB_HEALTH_MONITOR;
    if is_vip || is_source || before.device_owner == owner::FLOATING_IP || subnets(&old) != subnets(&new) {
        let instead = match before.device_owner.as_str() {
            owner::ROUTER_INTERFACE => "use add_router_interface and remove_router_interface",
            owner::ROUTER_GATEWAY => "use update_external_gateways",
            _ => "its addresses follow what it was made for",
        };
        let message = format!(
            "Port {} cannot get or lose addresses via the port API: has device owner {}; {instead}.",
            before.id, before.device_owner
        );
        return Err(Fault::conflict("ServicePortInUse", message));
    }
    match after.router_id().and_then(|id| world.get::<Router>(&id)) {
        Some(router) => gateway::check_readdressed(world, router, after),
        None => Ok(()),
    }
}

/// Refuses to remove an address that a floating IP leads to.
pub(super) fn check_floating(world: &World, before: &Port, after: &Port) -> Result<(), Fault> {
    for floating in world.linked::<FloatingIp>(Link::FloatingIpsOfPort(before.id)) {
        let Some(address) = floating.fixed_ip_address else { continue };
        if !after.fixed_ips.iter().any(|fixed| fixed.ip_address == address) {
            let message = format!(
                "Unable to complete operation for network {}. The IP address {address} is in use: floating IP {} \
                 leads to it.",
                before.network_id, floating.floating_ip_address
            );
            return Err(Fault::conflict("IpAddressInUse", message));
        }
    }
    Ok(())
}
