//! How the gateways of a router are doing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{of_router, router};
use crate::fault::Fault;
use crate::model::{Port, Router, Subnet};
use crate::resource::{Call, Reply, Scene};
use crate::world::World;

/// A default route that a gateway gives its router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultRoute {
    /// The gateway port it goes out of.
    pub port: Uuid,
    /// The subnet that its next hop comes from.
    pub subnet: Uuid,
    /// Everything, of one family.
    pub destination: IpNet,
    /// The subnet's gateway.
    pub nexthop: IpAddr,
}

/// The default routes of a router: those of the compatibility gateway or, with ECMP, of all gateways, in the order of the
/// gateways.
pub fn default_routes(world: &World, router: &Router) -> Vec<DefaultRoute> {
    let gateways = of_router(world, router).into_iter();
    let in_use =
        gateways.filter(|port| router.enable_default_route_ecmp || Some(port.id) == router.gw_port_id);
    in_use.flat_map(|port| routes_of(world, port)).collect()
}

fn routes_of(world: &World, port: &Port) -> Vec<DefaultRoute> {
    let mut routes: Vec<DefaultRoute> = Vec::new();
    for fixed in &port.fixed_ips {
        let Some(nexthop) = world.get::<Subnet>(&fixed.subnet_id).and_then(|subnet| subnet.gateway_ip) else {
            continue;
        };
        // Several addresses of one subnet share its route.
        if !routes.iter().any(|route| route.nexthop == nexthop) {
            let destination = everything(nexthop);
            routes.push(DefaultRoute { port: port.id, subnet: fixed.subnet_id, destination, nexthop });
        }
    }
    routes
}

fn everything(like: IpAddr) -> IpNet {
    match like {
        IpAddr::V4(_) => IpNet::new_assert(Ipv4Addr::UNSPECIFIED.into(), 0),
        IpAddr::V6(_) => IpNet::new_assert(Ipv6Addr::UNSPECIFIED.into(), 0),
    }
}

/// What an operator should know about a router's gateways though nothing is wrong with the request that made them.
pub fn warnings(world: &World, router: &Router) -> Vec<String> {
    let gateways = of_router(world, router).len();
    if router.enable_snat && gateways > 1 {
        vec![format!(
            "router {} translates source addresses on {gateways} gateways: a connection that moves from one gateway to another \
             breaks, because each chassis knows only its own translations",
            router.id
        )]
    } else {
        Vec::new()
    }
}

/// `GET /routers/{id}/gateway_status`.
pub fn status(scene: &Scene<'_>, call: &Call<'_>) -> Result<Reply, Fault> {
    let router = router(scene.world, call.id)?;
    let installed = default_routes(scene.world, router);
    let route = |route: &DefaultRoute| {
        let bfd = scene.report.bfd(&format!("lrp-{}", route.port), route.nexthop);
        json!({
            "destination": route.destination,
            "nexthop": route.nexthop,
            "bfd": bfd.filter(|_| router.enable_default_route_bfd).map(|state| state.as_str()),
            "installed": installed.contains(route) && scene.report.route_installed(route.port, route.nexthop),
        })
    };
    let gateway = |port: &Port| {
        json!({
            "port_id": port.id,
            "network_id": port.network_id,
            "chassis": scene.report.gateway_chassis(port.id),
            "host": scene.report.gateway_host(port.id),
            "routes": routes_of(scene.world, port).iter().map(route).collect::<Vec<_>>(),
        })
    };
    let gateways: Vec<Value> = of_router(scene.world, router).into_iter().map(|port| gateway(port)).collect();
    Ok(Reply::Value(json!({
        "gateway_status": gateways,
        "warnings": warnings(scene.world, router),
    })))
}
