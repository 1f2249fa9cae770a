//! The reasons why a load balancer or a member does not serve, as sentences.
//!
//! Octavia's own bodies have no key for them. `GET .../status?verbose=true`, `meridian status` and `meridian explain` show them.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::health::MemberHealth;
use super::status::{self, DEADLINE, Provisioning};
use crate::model::{LoadBalancer, Member, Port, Router, Subnet};
use crate::resource::Scene;
use crate::world::{Link, World};

/// The reason why a load balancer is in `ERROR`, or why nothing answers for its VIP.
pub fn of_load_balancer(scene: &Scene<'_>, whole: &LoadBalancer) -> Option<String> {
    let is_failed = status::of_load_balancer(scene, whole).provisioning == Provisioning::Error;
    match scene.report.refusal(whole.id) {
        Some(refusal) if is_failed && !whole.deleted => {
            Some(format!("the Northbound refuses its rows: {}", refusal.reason))
        }
        _ if is_failed => Some(format!(
            "the Northbound has not had the last change for more than {DEADLINE} s; the server keeps trying"
        )),
        _ if routers(scene.world, whole).is_empty() => Some(
            "nobody answers for its VIP: no router has a port in the VIP's subnet. Add the subnet to a router".to_owned(),
        ),
        _ => None,
    }
}

/// The reason why a member gets no connections, or fewer than it could.
pub fn of_member(scene: &Scene<'_>, member: &Member) -> Option<String> {
    let port = scene.world.address_holder(member.subnet(), member.address.value);
    match status::health_of_member(scene, member) {
        _ if !member.admin_state_up => Some("it is disabled".to_owned()),
        MemberHealth::Unprobeable(obstacle) => Some(obstacle.as_str().to_owned()),
        MemberHealth::Offline => Some(match port {
            Some(port) if !scene.report.port_up(port) => "its port is not up: no chassis has it".to_owned(),
            _ => "it does not answer the probes of its health monitor".to_owned(),
        }),
        _ if member.weight == 0 => Some("its weight is 0: it keeps its connections".to_owned()),
        MemberHealth::Unknown if member.backup => Some("it waits as a backup".to_owned()),
        MemberHealth::Unknown => Some("it has not been probed yet".to_owned()),
        MemberHealth::Unmonitored | MemberHealth::Online if !is_reachable(scene.world, member) => Some(
            "no router joins its subnet with the VIP's, so clients there do not reach it. Add both subnets to one router".to_owned(),
        ),
        MemberHealth::Unmonitored | MemberHealth::Online => None,
    }
}

/// Whether a member is on the network of a VIP, or a router joins both.
fn is_reachable(world: &World, member: &Member) -> bool {
    let Some(whole) = world.get::<LoadBalancer>(&member.load_balancer_id) else { return true };
    let network = world.get::<Subnet>(&member.subnet()).map(|subnet| subnet.network_id);
    if network == Some(whole.vip_network_id) {
        return true;
    }
    let routers_at = |subnet: Uuid| -> BTreeSet<Uuid> {
        let ports = world.linked::<Port>(Link::PortsOfSubnet(subnet));
        ports.filter_map(|port| port.router_id()).collect()
    };
    let near = routers_at(member.subnet());
    whole.vips.iter().any(|vip| !routers_at(vip.subnet_id).is_disjoint(&near))
}

/// The routers that answer for a VIP: those with an interface in its subnet, and the owner's own with a gateway there.
pub fn routers<'w>(world: &'w World, balancer: &LoadBalancer) -> Vec<&'w Router> {
    let subnets = balancer.vips.iter().map(|vip| vip.subnet_id);
    let ports = subnets.flat_map(|subnet| world.linked::<Port>(Link::PortsOfSubnet(subnet)));
    let found = ports.filter_map(|port| Some((port, world.get::<Router>(&port.router_id()?)?)));
    let answering = found.filter(|(port, router)| !port.is_gateway() || router.project == balancer.project);
    let routers: BTreeMap<Uuid, &Router> = answering.map(|(_, router)| (router.id, &**router)).collect();
    routers.into_values().collect()
}
