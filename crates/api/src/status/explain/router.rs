//! Explains routers: their interfaces, and the chassis, BFD sessions and default routes of their gateways.

use uuid::Uuid;

use super::super::RouterGateway;
use super::title;
use crate::model::{Network, Port, Router};
use crate::resource::Scene;
use crate::world::Link;

pub(super) fn explain(scene: &Scene<'_>, router: &Router, lines: &mut Vec<String>) {
    lines.push(title("router", &router.name, router.id));
    if !router.admin_state_up {
        lines.push("it forwards nothing: it is disabled (admin_state_up)".to_owned());
    }
    describe_gateways(scene, router, None, lines);
    for port in scene.world.linked::<Port>(Link::PortsOfDevice(router.id.into())) {
        let Some(network) = scene.world.get::<Network>(&port.network_id).filter(|_| !port.is_gateway())
        else {
            continue;
        };
        let addresses: Vec<String> =
            port.fixed_ips.iter().map(|fixed| fixed.ip_address.to_string()).collect();
        let network = title("network", &network.name, network.id);
        lines.push(format!("interface {} on {network}", addresses.join(", ")));
    }
    lines.extend(super::super::of_router(scene.world, scene.report, router).warnings);
}

/// Describes the gateways of a router, or one of them: the chassis, BFD, and whether OVN uses the default route.
pub(super) fn describe_gateways(
    scene: &Scene<'_>,
    router: &Router,
    only: Option<Uuid>,
    lines: &mut Vec<String>,
) {
    let status = super::super::of_router(scene.world, scene.report, router);
    let gateways = status.gateways.iter();
    let gateways: Vec<_> =
        gateways.filter(|gateway| only.is_none_or(|port| gateway.status.port_id == port)).collect();
    if gateways.is_empty() {
        lines.push("  it has no external gateway: nothing behind it reaches the outside".to_owned());
    }
    gateways.into_iter().for_each(|gateway| describe_gateway(scene, gateway, lines));
}

fn describe_gateway(scene: &Scene<'_>, gateway: &RouterGateway, lines: &mut Vec<String>) {
    let addresses: Vec<String> = gateway.addresses.iter().map(ToString::to_string).collect();
    let name = format!("gateway {} on network {:?}", addresses.join(", "), gateway.network);
    lines.push(match &gateway.status.chassis {
        Some(chassis) => format!("  {name} is on chassis {chassis}{}", state(scene, chassis)),
        None if gateway.group.is_empty() => format!(
            "  {name} carries no traffic: no chassis is chosen. A chassis needs a bridge for the physical network of {:?} \
             (ovn-bridge-mappings) and ovn-cms-options=enable-chassis-as-gw",
            gateway.network
        ),
        None => format!(
            "  {name} carries no traffic: none of its chassis {} hosts it; see that ovn-controller runs there",
            gateway.group.join(", ")
        ),
    });
    for route in &gateway.status.routes {
        let bfd = route.bfd.as_deref().map_or_else(String::new, |state| format!(", BFD {state}"));
        let used = match (route.installed, route.is_used()) {
            (false, _) => "not in OVN",
            (true, true) => "in use",
            (true, false) => "not in use",
        };
        lines.push(format!("    default route via {}: {used}{bfd}", route.nexthop));
    }
}

/// The problem of a chassis, if any.
fn state(scene: &Scene<'_>, name: &str) -> &'static str {
    match scene.outside.fleet.named(name) {
        Some(chassis) if !chassis.alive => ", whose ovn-controller does not report",
        _ => "",
    }
}
