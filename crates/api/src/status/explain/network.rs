//! Explains networks: their type, the chassis with their physical network, their subnets, and unused addresses.

use std::net::IpAddr;

use super::title;
use crate::model::{Network, Port, Router, Subnet};
use crate::resource::Scene;
use crate::world::Link;

pub(super) fn explain(scene: &Scene<'_>, network: &Network, lines: &mut Vec<String>) {
    let segment = &network.segment;
    let kind = segment.network_type.as_str();
    let physical = segment.physical_network.as_ref();
    let physical = physical.map_or_else(String::new, |name| format!(" on physical network {name}"));
    let external = if network.external { ", external" } else { "" };
    lines.push(format!("{}: {kind}{physical}{external}", title("network", &network.name, network.id)));
    if let Some(name) = &segment.physical_network {
        let fleet = &scene.outside.fleet;
        let having = fleet.chassis.iter().filter(|it| it.physical_networks.contains(name.as_str()));
        let having: Vec<&str> = having.map(|chassis| chassis.name.as_str()).collect();
        lines.push(match having.as_slice() {
            [] => format!("no chassis has a bridge for {name}: nothing crosses between it and OVN"),
            having => format!("chassis with a bridge for {name}: {}", having.join(", ")),
        });
    }
    for subnet in scene.world.linked::<Subnet>(Link::SubnetsOfNetwork(network.id)) {
        describe_subnet(scene, subnet, lines);
    }
}

fn describe_subnet(scene: &Scene<'_>, subnet: &Subnet, lines: &mut Vec<String>) {
    let ports = scene.world.linked::<Port>(Link::PortsOfSubnet(subnet.id));
    let routers = ports.filter_map(|port| scene.world.get::<Router>(&port.router_id()?));
    let routers: Vec<String> = routers.map(|router| title("router", &router.name, router.id)).collect();
    let routers = if routers.is_empty() { "no router".to_owned() } else { routers.join(", ") };
    lines.push(format!("{} {}, with {routers}", title("subnet", &subnet.name, subnet.id), subnet.cidr));
}

/// Explains an unused address: the subnets that contain it.
pub(super) fn explain_free_address(scene: &Scene<'_>, ip: IpAddr, lines: &mut Vec<String>) {
    for subnet in scene.world.table::<Subnet>().iter().filter(|subnet| subnet.cidr.contains(&ip)) {
        lines.push(match subnet.gateway_ip == Some(ip) {
            true => format!(
                "{ip} is the gateway of {}, and no port has it: no router has an interface there, or it is outside of OVN",
                title("subnet", &subnet.name, subnet.id)
            ),
            false => format!("{ip} is of {}, and no port has it", title("subnet", &subnet.name, subnet.id)),
        });
    }
}
