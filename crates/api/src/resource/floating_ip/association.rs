//! The association of a floating IP: the port that it leads to, and the router in between.

use std::net::IpAddr;

use uuid::Uuid;

use super::{FloatingIps, as_v4, found};
use crate::caller::Caller;
use crate::fault::Fault;
use crate::model::{FixedIp, FloatingIp, Network, Port, Router, Subnet};
use crate::resource::router::reach;
use crate::resource::{port, touch};
use crate::world::{Link, Txn, World};

/// Associates a floating IP with an address of a port.
pub(super) fn associate(
    txn: &mut Txn,
    caller: &Caller,
    id: Uuid,
    port_id: Uuid,
    fixed: Option<IpAddr>,
) -> Result<(), Fault> {
    let floating = found(txn, id)?.clone();
    let port = port::found(txn, port_id)?.clone();
    if !caller.sees_project(&port.project) {
        return Err(Fault::absent("PortNotFound", "Port", port_id));
    }
    if !caller.admin && port.project != floating.project {
        let text = format!(
            "Cannot process floating IP association with Port {port_id}, since that port is owned by a different project"
        );
        return Err(Fault::senseless("floatingip", text));
    }
    let inside = address(&port, fixed)?;
    let fixed = as_v4(inside.ip_address);
    let taken = |other: &FloatingIp| {
        other.id != id
            && other.fixed_ip_address == fixed
            && other.floating_network_id == floating.floating_network_id
    };
    if txn.linked::<FloatingIp>(Link::FloatingIpsOfPort(port_id)).any(|other| taken(other)) {
        let text = format!(
            "Cannot associate floating IP {} ({id}) with port {port_id} using fixed IP {}, as that fixed IP already has a \
             floating IP on external network {}.",
            floating.floating_ip_address, inside.ip_address, floating.floating_network_id
        );
        return Err(Fault::conflict("FloatingIPPortAlreadyAssociated", text));
    }
    let router = router_between(txn, &port, inside.subnet_id, floating.floating_network_id).ok_or_else(|| {
        let text = format!(
            "External network {} is not reachable from subnet {}. Therefore, cannot associate Port {port_id} with a \
             Floating IP.",
            floating.floating_network_id, inside.subnet_id
        );
        Fault::new(404, "ExternalGatewayForFloatingIPNotFound", text)
    })?;
    txn.edit::<FloatingIp>(&id, |floating| {
        floating.port_id = Some(port_id);
        floating.fixed_ip_address = fixed;
        floating.router_id = Some(router);
    });
    Ok(())
}

/// Ends the association, if there is one.
pub(super) fn release(txn: &mut Txn, id: Uuid) {
    txn.edit::<FloatingIp>(&id, |floating| {
        floating.port_id = None;
        floating.fixed_ip_address = None;
        floating.router_id = None;
    });
}

/// Ends the associations with a port that is being deleted.
pub fn release_port(txn: &mut Txn, port: Uuid) {
    release_where(txn, port, |_| true);
}

/// Ends the associations with addresses that a port no longer has.
pub fn release_lost(txn: &mut Txn, port: Uuid) {
    let kept: Vec<IpAddr> = txn
        .get::<Port>(&port)
        .map(|port| port.fixed_ips.iter().map(|fixed| fixed.ip_address).collect())
        .unwrap_or_default();
    release_where(txn, port, |floating| {
        floating.fixed_ip_address.is_none_or(|ip| !kept.contains(&ip.into()))
    });
}

fn release_where(txn: &mut Txn, port: Uuid, ends: impl Fn(&FloatingIp) -> bool) {
    let leading = txn.linked::<FloatingIp>(Link::FloatingIpsOfPort(port));
    let ended: Vec<Uuid> = leading.filter(|floating| ends(floating)).map(|it| it.id).collect();
    for id in ended {
        release(txn, id);
        touch::<FloatingIps>(txn, id);
    }
}

/// The address of a port for an association: the requested one, or its only IPv4 address.
fn address(port: &Port, fixed: Option<IpAddr>) -> Result<FixedIp, Fault> {
    let refused = |text: String| Err(Fault::senseless("floatingip", text));
    if let Some(fixed) = fixed {
        if !fixed.is_ipv4() {
            return refused(format!(
                "Cannot process floating IP association with {fixed}, since that is not an IPv4 address"
            ));
        }
        return match port.fixed_ips.iter().find(|own| own.ip_address == fixed) {
            Some(own) => Ok(*own),
            None => refused(format!("Port {} does not have fixed ip {fixed}", port.id)),
        };
    }
    let of_v4: Vec<FixedIp> = port.fixed_ips.iter().copied().filter(|own| own.ip_address.is_ipv4()).collect();
    match of_v4.as_slice() {
        [one] => Ok(*one),
        [] => refused(format!("Cannot add floating IP to port {} that has no fixed IPv4 addresses", port.id)),
        _ => refused(format!(
            "Port {} has multiple fixed IPv4 addresses. Must provide a specific IPv4 address when assigning a floating IP",
            port.id
        )),
    }
}

/// The router from a port's subnet to an external network: it has an interface here and any gateway there. If several do, the one that is
/// the subnet's gateway wins. On a shared network anybody can attach a router, so a router counts only if it is the subnet's gateway, or
/// belongs to the project of the port, the subnet or the network.
fn router_between(world: &World, port: &Port, subnet_id: Uuid, external: Uuid) -> Option<Uuid> {
    let subnet = world.get::<Subnet>(&subnet_id)?;
    let network = world.get::<Network>(&subnet.network_id)?;
    let is_gateway = |port: &Port| port.fixed_ips.iter().any(|it| Some(it.ip_address) == subnet.gateway_ip);
    let trusted = [&port.project, &subnet.project, &network.project];
    world
        .linked::<Port>(Link::PortsOfSubnet(subnet_id))
        .filter(|port| port.is_router_interface())
        .filter_map(|port| Some((world.get::<Router>(&port.router_id()?)?, is_gateway(port))))
        .filter(|(router, is_gateway)| *is_gateway || trusted.contains(&&router.project))
        .filter(|(router, _)| {
            reach::ports(world, router.id).any(|port| port.is_gateway() && port.network_id == external)
        })
        .min_by_key(|(router, is_gateway)| (!is_gateway, router.id))
        .map(|(router, _)| router.id)
}
