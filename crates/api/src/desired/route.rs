//! `Logical_Router_Static_Route`: default routes through gateways, and extra routes.
//!
//! A default route always names its port. Otherwise two gateways on one subnet would share one route.

use std::net::IpAddr;

use ipnet::IpNet;
use ovn::ident::{name, row_uuid};
use ovn::nb::LogicalRouterStaticRoute;
use ovn::target::Part;
use ovn::text::neutron::key;
use ovn::text::{HostAddr, Nexthop, Text};
use ovsdb::{Map, Ref, Str, Weak};
use uuid::Uuid;

use super::look::Look;
use super::{bfd, map, object, text};
use crate::model::{Port, Router};

/// A possible default route: a gateway port, a next hop there, and the subnet whose gateway it is.
struct Candidate<'w> {
    port: &'w Port,
    subnet: Uuid,
    hop: IpAddr,
}

type Routes = Vec<Ref<LogicalRouterStaticRoute>>;

/// The UUID of a gateway's default route.
pub fn default_row(port: Uuid, hop: IpAddr) -> Uuid {
    row_uuid("port", &port.to_string(), &format!("default-route {hop}"))
}

/// All routes of a router, with their BFD sessions.
pub(super) fn compile(look: &Look<'_, '_>, router: &Router, to: &mut Part) -> Routes {
    let gateways = look.gateways(router.id);
    let mut routes = Vec::new();
    for candidate in chosen(look, router, &gateways) {
        let watched = router.enable_default_route_bfd;
        let session =
            if watched { bfd::compile(look, router, candidate.port, candidate.hop, to) } else { None };
        let row = look.row(default_row(candidate.port.id, candidate.hop));
        to.own(object("router", router.id), row, default_route(&candidate, session));
        routes.push(Ref::new(row));
        if watched && bfd::is_starting(look, candidate.port, candidate.hop) {
            routes.push(starter(look, router, &candidate, to));
        }
    }
    routes.extend(extra(look, router, to));
    routes
}

/// The default routes to install. Without ECMP, only the compatibility gateway has one. If there are several gateways, those that no
/// chassis has hosted for a while have none, because OVN would still send packets there (ovn-org/ovn issue 320).
fn chosen<'w>(look: &Look<'_, 'w>, router: &Router, gateways: &[&'w Port]) -> Vec<Candidate<'w>> {
    let in_use = |port: &&&Port| router.enable_default_route_ecmp || router.gw_port_id == Some(port.id);
    let in_use: Vec<&Port> = gateways.iter().filter(in_use).copied().collect();
    let hosted = |port: &Port| look.gateway_host(port.id).is_some();
    let mut all = Vec::new();
    for port in &in_use {
        let relieved = in_use.iter().any(|other| other.id != port.id && hosted(other));
        if look.is_stranded(port.id) && !hosted(port) && relieved {
            continue;
        }
        let mut hops = Vec::new();
        for fixed in &port.fixed_ips {
            let Some(hop) = look.subnet(fixed.subnet_id).and_then(|subnet| subnet.gateway_ip) else {
                continue;
            };
            if hop.is_ipv4() == fixed.ip_address.is_ipv4() && !hops.contains(&hop) {
                hops.push(hop);
                all.push(Candidate { port, subnet: fixed.subnet_id, hop });
            }
        }
    }
    all
}

fn default_route(candidate: &Candidate<'_>, session: Option<Uuid>) -> LogicalRouterStaticRoute {
    let anywhere = match candidate.hop {
        IpAddr::V4(_) => HostAddr { addr: IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), len: Some(0) },
        IpAddr::V6(_) => HostAddr { addr: IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED), len: Some(0) },
    };
    LogicalRouterStaticRoute {
        ip_prefix: Text::from(anywhere),
        nexthop: Text::from(Nexthop::Ip(candidate.hop)),
        output_port: Some(text(name::router_port(candidate.port.id))),
        bfd: session.map(Weak::new),
        external_ids: map([
            (key::IS_EXT_GW, Str::new_static("true")),
            (key::SUBNET_ID, text(candidate.subnet)),
            (key::IS_STATIC_ROUTE, Str::new_static("true")),
            (key::GATEWAY_PORT, text(candidate.port.id)),
        ]),
        ..Default::default()
    }
}

/// A host route to the next hop itself. It does not change the path of packets, but makes OVN start the session that others wait for.
fn starter(
    look: &Look<'_, '_>,
    router: &Router,
    candidate: &Candidate<'_>,
    to: &mut Part,
) -> Ref<LogicalRouterStaticRoute> {
    let (port, hop) = (candidate.port.id, candidate.hop);
    let row = look.row(row_uuid("port", &port.to_string(), &format!("bfd-start {hop}")));
    let length = if hop.is_ipv4() { 32 } else { 128 };
    let route = LogicalRouterStaticRoute {
        ip_prefix: Text::from(HostAddr { addr: hop, len: Some(length) }),
        nexthop: Text::from(Nexthop::Ip(hop)),
        output_port: Some(text(name::router_port(port))),
        bfd: Some(Weak::new(look.row(bfd::row(port, hop)))),
        external_ids: Map::default(),
        ..Default::default()
    };
    to.own(object("router", router.id), row, route);
    Ref::new(row)
}

/// The extra routes of the owner. They have no BFD session.
fn extra(look: &Look<'_, '_>, router: &Router, to: &mut Part) -> Routes {
    let ports = look.router_ports(router.id);
    let mut routes = Vec::new();
    for route in &router.routes {
        let id = router.id.to_string();
        let row =
            look.row(row_uuid("router", &id, &format!("route {} {}", route.destination, route.nexthop)));
        let wanted = LogicalRouterStaticRoute {
            ip_prefix: Text::from(HostAddr::from(route.destination)),
            nexthop: Text::from(Nexthop::Ip(route.nexthop)),
            output_port: ambiguous(look, router, &ports, route.nexthop)
                .map(|port| text(name::router_port(port))),
            external_ids: map([(key::IS_STATIC_ROUTE, "true")]),
            ..Default::default()
        };
        to.own(object("router", router.id), row, wanted);
        routes.push(Ref::new(row));
    }
    routes
}

/// The output port of a route if several of the router's ports are on the next hop's subnet: the compatibility gateway, if it is one of
/// them.
fn ambiguous(look: &Look<'_, '_>, router: &Router, ports: &[&Port], hop: IpAddr) -> Option<Uuid> {
    let reaches = |port: &&&Port| {
        port.fixed_ips.iter().any(|fixed| {
            let subnet = look.subnet(fixed.subnet_id);
            subnet.is_some_and(|subnet| contains(&subnet.cidr, hop))
        })
    };
    let mut near: Vec<&Port> = ports.iter().filter(reaches).copied().collect();
    if near.len() < 2 {
        return None;
    }
    near.sort_by_key(|port| (router.gw_port_id != Some(port.id), port.gateway_ordinal, port.id));
    near.first().map(|port| port.id)
}

fn contains(net: &IpNet, ip: IpAddr) -> bool {
    net.contains(&ip)
}
