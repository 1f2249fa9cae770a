//! The state of a router's gateways.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use ovn::ident::name;
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

use super::{of_router, router};
use crate::fault::Fault;
use crate::model::{Port, Router, Subnet};
use crate::report::Report;
use crate::resource::{ActionCall, Reply, Scene};
use crate::world::World;

/// A default route that a gateway gives its router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultRoute {
    /// The gateway port that it leaves through.
    pub port: Uuid,
    /// The subnet whose gateway is the next hop.
    pub subnet: Uuid,
    /// `0.0.0.0/0` or `::/0`.
    pub destination: IpNet,
    /// The subnet's gateway.
    pub nexthop: IpAddr,
}

/// The default routes of a router: those of the compatibility gateway or, with ECMP, of all gateways in their order.
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
        // Several addresses in one subnet share its route.
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

/// Warnings about a router's gateways: configurations that are valid but probably not intended.
pub fn warnings(world: &World, router: &Router) -> Vec<String> {
    let gateways = of_router(world, router).len();
    if router.enable_snat && gateways > 1 {
        let name = if router.name.is_empty() { String::new() } else { format!("{} ", router.name) };
        vec![format!(
            "router {name}({}) translates source addresses on {gateways} gateways: a connection that moves from one gateway to \
             another breaks, because each chassis knows only its own translations. Disable SNAT, or use one gateway",
            router.id
        )]
    } else {
        Vec::new()
    }
}

/// The state of one gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayStatus {
    /// Its port.
    pub port_id: Uuid,
    /// The external network.
    pub network_id: Uuid,
    /// The chassis that hosts it now, if any.
    pub chassis: Option<String>,
    /// Its host name.
    pub host: Option<String>,
    /// Its possible default routes.
    pub routes: Vec<RouteStatus>,
}

/// The state of one default route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteStatus {
    /// `0.0.0.0/0` or `::/0`.
    pub destination: IpNet,
    /// The subnet's gateway.
    pub nexthop: IpAddr,
    /// The BFD state of the next hop, if monitored: `up`, `down`, `init`, `admin_down`.
    pub bfd: Option<String>,
    /// Whether the route is in the Northbound.
    pub installed: bool,
}

impl RouteStatus {
    /// Whether packets take the route: it is in the Northbound, and BFD does not report its next hop as down.
    pub fn is_used(&self) -> bool {
        self.installed && self.bfd.as_deref().is_none_or(|state| state == "up")
    }
}

/// The states of a router's gateways, in their order.
pub fn statuses(world: &World, report: &Report, router: &Router) -> Vec<GatewayStatus> {
    let wanted = default_routes(world, router);
    let route = |route: DefaultRoute| {
        let bfd = report.bfd(&name::router_port(route.port), route.nexthop);
        RouteStatus {
            destination: route.destination,
            nexthop: route.nexthop,
            bfd: bfd.filter(|_| router.enable_default_route_bfd).map(|state| state.as_str().to_owned()),
            installed: wanted.contains(&route) && report.route_installed(route.port, route.nexthop),
        }
    };
    let gateways = of_router(world, router).into_iter().map(|port| GatewayStatus {
        port_id: port.id,
        network_id: port.network_id,
        chassis: report.gateway_chassis(port.id).map(str::to_owned),
        host: report.gateway_host(port.id).map(str::to_owned),
        routes: routes_of(world, port).into_iter().map(route).collect(),
    });
    gateways.collect()
}

/// `GET /routers/{id}/gateway_status`.
pub fn status(scene: &Scene<'_>, call: &ActionCall<'_>) -> Result<Reply, Fault> {
    let router = router(scene.world, call.id)?;
    Ok(Reply::Value(json!({
        "gateway_status": statuses(scene.world, scene.report, router),
        "warnings": warnings(scene.world, router),
    })))
}
