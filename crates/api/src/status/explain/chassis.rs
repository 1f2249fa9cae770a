//! Explains chassis: whether they report, their physical networks, and the gateways that they host or would take over.

use super::title;
use crate::fleet::Chassis;
use crate::model::{Placement, Port, Router};
use crate::resource::Scene;
use crate::world::Link;

pub(super) fn explain(scene: &Scene<'_>, chassis: &Chassis, lines: &mut Vec<String>) {
    let state =
        if chassis.alive { "its ovn-controller reports" } else { "its ovn-controller does not report" };
    lines.push(format!("chassis {} on host {}: {state}", chassis.name, chassis.hostname));
    let physical: Vec<&str> = chassis.physical_networks.iter().map(String::as_str).collect();
    lines.push(match physical.as_slice() {
        [] => "it has no bridge for a physical network (ovn-bridge-mappings is empty)".to_owned(),
        physical => format!("it has bridges for {}", physical.join(", ")),
    });
    if !chassis.gateway {
        lines.push("it carries no gateways: ovn-cms-options has no enable-chassis-as-gw".to_owned());
    }
    let ports = scene.world.linked::<Port>(Link::GatewayPorts);
    for port in ports.filter(|port| scene.report.gateway_chassis(port.id) == Some(&chassis.name)) {
        lines.push(format!("it hosts gateway {}", of_router(scene, port)));
    }
    let waiting = scene.world.linked::<Placement>(Link::PlacementsOn(chassis.name.as_str().into()));
    for placement in waiting {
        let Some(port) = scene.world.get::<Port>(&placement.port_id) else { continue };
        if scene.report.gateway_chassis(port.id) != Some(&chassis.name) {
            lines.push(format!("it would take over gateway {}", of_router(scene, port)));
        }
    }
    let instances = scene.world.linked::<Port>(Link::PortsOnHost(chassis.hostname.as_str().into()));
    lines.push(format!("{} ports are requested on its host", instances.count()));
}

fn of_router(scene: &Scene<'_>, port: &Port) -> String {
    let addresses: Vec<String> = port.fixed_ips.iter().map(|fixed| fixed.ip_address.to_string()).collect();
    let router = port.router_id().and_then(|id| scene.world.get::<Router>(&id));
    let router =
        router.map_or_else(String::new, |router| format!(" of {}", title("router", &router.name, router.id)));
    format!("{}{router}", addresses.join(", "))
}
