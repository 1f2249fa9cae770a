//! Explains floating IPs: their port, and the router and the chassis that translate them.

use super::{router, title};
use crate::model::{FloatingIp, Port, Router};
use crate::resource::Scene;

pub(super) fn explain(scene: &Scene<'_>, floating: &FloatingIp, lines: &mut Vec<String>) {
    let address = floating.floating_ip_address;
    lines.push(format!("{address} is floating IP {}", floating.id));
    let port = floating.port_id.and_then(|id| scene.world.get::<Port>(&id));
    let (Some(port), Some(fixed)) = (port, floating.fixed_ip_address) else {
        lines.push("it leads nowhere: it is not associated with a port".to_owned());
        return;
    };
    let host = scene.report.bound_host(port.id).map_or_else(String::new, |host| format!(" on host {host}"));
    lines.push(format!("it leads to {fixed} of {}{host}", title("port", &port.name, port.id)));
    lines.push(if scene.report.fip_active(floating.id) {
        "OVN has its translation (a NAT row)".to_owned()
    } else {
        "OVN does not have its translation: see `meridian status` for what the server waits for".to_owned()
    });
    match floating.router_id.and_then(|id| scene.world.get::<Router>(&id)) {
        Some(of) => {
            lines.push(format!("{} translates it", title("router", &of.name, of.id)));
            router::describe_gateways(scene, of, None, lines);
        }
        None => lines.push("no router with a gateway on its network leads to the port".to_owned()),
    }
    lines.push("to see whether a node announces the address, run `meridian explain` on that node".to_owned());
}
