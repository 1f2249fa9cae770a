//! The reasons why a load balancer or a member does not serve, as sentences.
//!
//! Octavia's own bodies have no key for them. `GET .../status?verbose=true`, `meridian status` and `meridian explain` show them.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use uuid::Uuid;

use super::health::MemberHealth;
use super::status::{self, DEADLINE, Provisioning};
use crate::model::{LoadBalancer, Member, Port, Router, Subnet, Vip};
use crate::resource::Scene;
use crate::world::{Link, World};

/// The reason why a load balancer is in `ERROR`, or why nobody answers for one of its VIPs.
pub fn of_load_balancer(scene: &Scene<'_>, whole: &LoadBalancer) -> Option<String> {
    of_error(scene, whole).or_else(|| unrouted_text(&unrouted(scene.world, whole)))
}

/// The reason why a load balancer is in `ERROR`.
pub fn of_error(scene: &Scene<'_>, whole: &LoadBalancer) -> Option<String> {
    if status::of_load_balancer(scene, whole).provisioning != Provisioning::Error {
        return None;
    }
    Some(match scene.report.refusal(whole.id) {
        Some(refusal) if !whole.deleted => format!("the Northbound refuses its rows: {}", refusal.reason),
        _ if !scene.report.has_northbound() => {
            "the server has not read the Northbound since it started, so it has not written the last change; the server keeps trying"
                .to_owned()
        }
        _ => format!(
            "the Northbound has not had the last change for more than {DEADLINE} s; the server keeps trying"
        ),
    })
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

/// Whether a router answers for VIPs of this owner in the subnet of one of its ports: with an interface always, with a gateway only if it
/// is the owner's own.
pub(crate) fn answers(port: &Port, router: &Router, owner: &str) -> bool {
    !port.is_gateway() || router.project == owner
}

/// The routers that answer for a VIP.
pub fn routers_of_vip<'w>(world: &'w World, balancer: &LoadBalancer, vip: &Vip) -> Vec<&'w Router> {
    let ports = world.linked::<Port>(Link::PortsOfSubnet(vip.subnet_id));
    let found = ports.filter_map(|port| Some((port, world.get::<Router>(&port.router_id()?)?)));
    let answering = found.filter(|(port, router)| answers(port, router, &balancer.project));
    let routers: BTreeMap<Uuid, &Router> = answering.map(|(_, router)| (router.id, &**router)).collect();
    routers.into_values().collect()
}

/// The routers that answer for any VIP of a load balancer.
pub fn routers<'w>(world: &'w World, balancer: &LoadBalancer) -> Vec<&'w Router> {
    let found = balancer.vips.iter().flat_map(|vip| routers_of_vip(world, balancer, vip));
    let routers: BTreeMap<Uuid, &Router> = found.map(|router| (router.id, router)).collect();
    routers.into_values().collect()
}

/// The VIPs that no router answers for.
pub fn unrouted(world: &World, balancer: &LoadBalancer) -> Vec<IpAddr> {
    let unrouted = balancer.vips.iter().filter(|vip| routers_of_vip(world, balancer, vip).is_empty());
    unrouted.map(|vip| vip.address.value).collect()
}

/// The reason why nobody answers for these VIPs; none without VIPs.
pub(crate) fn unrouted_text(vips: &[IpAddr]) -> Option<String> {
    let all: Vec<String> = vips.iter().map(ToString::to_string).collect();
    let rest = "no router has a port in the VIP's subnet. Add the subnet to a router";
    (!all.is_empty()).then(|| format!("nobody answers for {}: {rest}", all.join(" and ")))
}
