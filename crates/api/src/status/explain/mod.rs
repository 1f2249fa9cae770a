//! `meridian explain` of a server: sentences about one object of the network, found by its address, MAC address, name or id. They report
//! where it is, what it needs, and why it does not work. There is one file per noun.
//!
//! Tenants choose names, device ids and more. So names are quoted, and control characters in every sentence are escaped: otherwise a port's
//! name could move the cursor of an operator's terminal and overwrite other output.

mod balancer;
mod chassis;
mod floating_ip;
mod network;
mod port;
mod router;

use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use ovn::MacAddr;
use uuid::Uuid;

use crate::Caller;
use crate::fleet::Fleet;
use crate::model::{
    FloatingIp, HealthMonitor, Listener, LoadBalancer, Member, Network, Pool, Port, Router, Subnet,
};
use crate::report::Report;
use crate::resource::Scene;
use crate::world::{Entity, Kind, Link, Outside, World};

/// The limit of explanations for one address, MAC address or name. Tenants may give one name to thousands of ports.
const MOST: usize = 20;

/// Explains a subject: an IP address, a MAC address, the id or the name of an object, or the name of a chassis or a host.
///
/// Several tenants may use one address or one name, so there may be several explanations.
pub fn explain(world: &World, report: &Report, fleet: &Fleet, now: Timestamp, subject: &str) -> Vec<String> {
    let (outside, caller) = (Outside { fleet: fleet.clone(), ..Outside::default() }, Caller::admin(""));
    let scene = Scene { world, report, outside: &outside, caller: &caller, now, parent: None };
    let mut lines = Vec::new();
    if let Ok(ip) = subject.parse::<IpAddr>() {
        explain_by_address(&scene, ip, &mut lines);
    } else if let Ok(mac) = subject.parse::<MacAddr>() {
        let ports = world.table::<Port>().iter().filter(|port| port.mac == mac);
        ports.take(MOST).for_each(|port| port::explain(&scene, port, &mut lines));
    } else {
        explain_by_id_or_name(&scene, subject, &mut lines);
    }
    if lines.is_empty() {
        lines.push(format!(
            "cannot find {subject:?}: no port, router, network, floating IP or load balancer has this address, MAC address, \
             name or id, and no chassis this name; `meridian status` lists routers, load balancers and chassis"
        ));
    }
    lines.iter().map(|line| escape(line)).collect()
}

/// Escapes control characters.
fn escape(line: &str) -> String {
    let escaped = line.chars().map(|char| match char.is_control() {
        true => char.escape_default().to_string(),
        false => char.to_string(),
    });
    escaped.collect()
}

fn explain_by_address(scene: &Scene<'_>, ip: IpAddr, lines: &mut Vec<String>) {
    let holders = scene.world.table::<Port>().iter().filter(|port| {
        // The port of a floating IP or of a VIP only holds the address; another explanation has the details.
        let is_shell = port.device_owner == crate::model::owner::FLOATING_IP
            || scene.world.has_linked(Link::LoadBalancerOfVipPort(port.id));
        !is_shell && port.fixed_ips.iter().any(|fixed| fixed.ip_address == ip)
    });
    holders.take(MOST).for_each(|port| port::explain(scene, port, lines));
    if let IpAddr::V4(address) = ip {
        let floating = scene.world.table::<FloatingIp>().iter();
        let floating = floating.filter(|floating| floating.floating_ip_address == address);
        floating.for_each(|floating| floating_ip::explain(scene, floating, lines));
    }
    balancer::explain_address(scene, ip, lines);
    if lines.is_empty() {
        network::explain_free_address(scene, ip, lines);
    }
}

fn explain_by_id_or_name(scene: &Scene<'_>, subject: &str, lines: &mut Vec<String>) {
    let id = Uuid::try_parse(subject).ok();
    explain_noun::<Port>(scene, Kind::Port, id, subject, port::explain, lines);
    explain_noun::<Router>(scene, Kind::Router, id, subject, router::explain, lines);
    explain_noun::<Network>(scene, Kind::Network, id, subject, network::explain, lines);
    explain_noun::<FloatingIp>(scene, Kind::FloatingIp, id, subject, floating_ip::explain, lines);
    explain_noun::<LoadBalancer>(scene, Kind::LoadBalancer, id, subject, balancer::explain, lines);
    explain_whole(scene, id, lines);
    for found in &scene.outside.fleet.chassis {
        if found.name == subject || found.hostname == subject {
            chassis::explain(scene, found, lines);
        }
    }
}

/// Explains the object that a part with this id belongs to: the network of a subnet, the load balancer of a member.
fn explain_whole(scene: &Scene<'_>, id: Option<Uuid>, lines: &mut Vec<String>) {
    let (Some(id), world) = (id, scene.world) else { return };
    if let Some(network) = world.get::<Subnet>(&id).and_then(|it| world.get::<Network>(&it.network_id)) {
        lines.push(format!("{id} is a subnet of"));
        network::explain(scene, network, lines);
    }
    let balancer = None
        .or_else(|| world.get::<Listener>(&id).map(|it| ("listener", it.load_balancer_id)))
        .or_else(|| world.get::<Pool>(&id).map(|it| ("pool", it.load_balancer_id)))
        .or_else(|| world.get::<Member>(&id).map(|it| ("member", it.load_balancer_id)))
        .or_else(|| world.get::<HealthMonitor>(&id).map(|it| ("health monitor", it.load_balancer_id)));
    if let Some((noun, balancer)) =
        balancer.and_then(|(noun, id)| Some((noun, world.get::<LoadBalancer>(&id)?)))
    {
        lines.push(format!("{id} is a {noun} of"));
        balancer::explain(scene, balancer, lines);
    }
}

/// Explains the object with an id, or those with a name.
fn explain_noun<T: Entity<Key = Uuid>>(
    scene: &Scene<'_>,
    kind: Kind,
    id: Option<Uuid>,
    name: &str,
    explain: fn(&Scene<'_>, &T, &mut Vec<String>),
    lines: &mut Vec<String>,
) {
    let by_id = id.and_then(|id| scene.world.get::<T>(&id));
    let named = scene.world.linked::<T>(Link::Named(kind, name.into())).filter(|_| !name.is_empty());
    for object in by_id.into_iter().chain(named).take(MOST) {
        explain(scene, Arc::as_ref(object), lines);
    }
}

/// The name of an object in a sentence: its name, if any, and its id.
fn title(noun: &str, name: &str, id: Uuid) -> String {
    if name.is_empty() { format!("{noun} {id}") } else { format!("{noun} {name:?} ({id})") }
}

#[cfg(test)]
mod tests;
