//! Explains ports: their host, their state in OVN, their security groups, and the routers that lead out of their networks.

use super::{router, title};
use crate::model::{FixedIp, FloatingIp, Network, Port, Router, SecurityGroup, Subnet, owner};
use crate::resource::Scene;
use crate::world::Link;

pub(super) fn explain(scene: &Scene<'_>, port: &Port, lines: &mut Vec<String>) {
    let addresses: Vec<String> = port.fixed_ips.iter().map(|fixed| fixed.ip_address.to_string()).collect();
    let addresses = if addresses.is_empty() { "no address".to_owned() } else { addresses.join(", ") };
    let network = scene.world.get::<Network>(&port.network_id);
    let network = network.map_or_else(String::new, |it| format!(" on {}", title("network", &it.name, it.id)));
    lines.push(format!(
        "{} has {addresses} and MAC {}{network}",
        title("port", &port.name, port.id),
        port.mac
    ));
    if let Some(of) = scene.world.get::<Router>(&port.router_id().unwrap_or_default()) {
        let role = if port.is_gateway() { "an external gateway" } else { "an interface" };
        lines.push(format!("it is {role} of {}", title("router", &of.name, of.id)));
        if port.is_gateway() {
            router::describe_gateways(scene, of, Some(port.id), lines);
        }
        return;
    }
    if !port.device_owner.is_empty() {
        lines.push(format!("it belongs to {:?} {:?}", port.device_owner, port.device_id));
    }
    describe_binding(scene, port, lines);
    describe_security(scene, port, lines);
    for fixed in &port.fixed_ips {
        describe_routers(scene, fixed, lines);
    }
    for floating in scene.world.linked::<FloatingIp>(Link::FloatingIpsOfPort(port.id)) {
        let state = if scene.report.fip_active(floating.id) { "in OVN" } else { "not in OVN yet" };
        lines.push(format!("floating IP {} leads to it; {state}", floating.floating_ip_address));
    }
}

/// Describes the host of a port, or the reason why it has none. Ports of the network itself are on every chassis.
fn describe_binding(scene: &Scene<'_>, port: &Port, lines: &mut Vec<String>) {
    if [owner::DISTRIBUTED, owner::DHCP, owner::LB_HEALTH_MONITOR].contains(&port.device_owner.as_str()) {
        lines.push("it is on every chassis".to_owned());
        return;
    }
    if !port.admin_state_up {
        lines.push("it carries no traffic: it is disabled (admin_state_up)".to_owned());
    }
    let asked = port.binding.host_id.as_str();
    match (scene.report.bound_host(port.id), scene.report.port_up(port.id)) {
        (Some(host), true) => lines.push(format!("host {host} has it, and OVN reports it as up")),
        (Some(host), false) => lines.push(format!(
            "host {host} has it, but OVN does not report it as up: see the log of ovn-controller there"
        )),
        (None, _) if asked.is_empty() => {
            lines.push("no host has it, and none is requested: nothing is attached to it".to_owned());
        }
        (None, _) => {
            lines.push(format!("host {asked} should have it and does not: {}", obstacle(scene, asked)));
        }
    }
    if let Some(parent) = scene.report.virtual_parent(port.id) {
        lines.push(format!("port {parent} has claimed its addresses"));
    }
}

/// The reason why the requested host does not have the port.
fn obstacle(scene: &Scene<'_>, host: &str) -> &'static str {
    match scene.outside.fleet.on_host(host) {
        None => {
            "no chassis of this host name is in the Southbound; compare it with external_ids:hostname in Open vSwitch"
        }
        Some(chassis) if !chassis.alive => "its ovn-controller does not report; start it",
        Some(_) => {
            "ovn-controller runs there and has no interface with external_ids:iface-id of this port; see that the instance runs"
        }
    }
}

fn describe_security(scene: &Scene<'_>, port: &Port, lines: &mut Vec<String>) {
    if !port.port_security_enabled {
        lines.push("port security is off: it may send and receive everything".to_owned());
        return;
    }
    let groups = port.security_groups.iter().filter_map(|id| scene.world.get::<SecurityGroup>(id));
    let names: Vec<String> = groups.map(|group| format!("{:?}", group.name)).collect();
    lines.push(match names.as_slice() {
        [] => "it has no security group, so nothing is dropped but forged addresses".to_owned(),
        names => format!("security groups {} decide what it receives", names.join(", ")),
    });
}

/// Describes the routers of an address's subnet: without one it reaches only its own network.
fn describe_routers(scene: &Scene<'_>, fixed: &FixedIp, lines: &mut Vec<String>) {
    let ports = scene.world.linked::<Port>(Link::PortsOfSubnet(fixed.subnet_id));
    let mut interfaces = ports.filter(|port| !port.is_gateway() && port.router_id().is_some()).peekable();
    if interfaces.peek().is_none() {
        let external = scene.world.get::<Subnet>(&fixed.subnet_id);
        let external = external.and_then(|subnet| scene.world.get::<Network>(&subnet.network_id));
        let is_physical = external.is_some_and(|network| network.segment.is_physical());
        lines.push(if is_physical {
            format!(
                "{}: its traffic leaves through the physical network; no router has an interface there",
                fixed.ip_address
            )
        } else {
            format!(
                "{} reaches its own network only: no router has an interface in its subnet",
                fixed.ip_address
            )
        });
    }
    for interface in interfaces {
        let Some(of) = scene.world.get::<Router>(&interface.router_id().unwrap_or_default()) else {
            continue;
        };
        lines.push(format!(
            "{} leaves its network by {}",
            fixed.ip_address,
            title("router", &of.name, of.id)
        ));
        router::describe_gateways(scene, of, None, lines);
    }
}
