//! The path from a router's instances to the metadata service, for instances that do not use DHCP's route to it.
//!
//! Chassis serve `169.254.169.254` at the metadata port of each network, whose packets never leave the chassis. A router needs three kinds
//! of rows for it:
//!
//! - A route, because OVN evaluates policies only for packets that have a route. It leads to one network's metadata port.
//! - A policy for each interface, which sends its packets to the metadata port of its own network. With the route alone, an instance of a
//!   second network would reach the first network's service, which does not know it.
//! - A policy that drops all other packets. Without it, packets from outside and from networks without a metadata port would take the
//!   route.
//!
//! Routers and ports that route on one central chassis have none of these rows: packets to a metadata port do not cross tunnels. The same
//! holds for a router whose owner has a route to this address: two routes would share the packets.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;
use ovn::ident::{name, row_uuid};
use ovn::nb::{LogicalRouterPolicy, LogicalRouterStaticRoute, PolicyAction};
use ovn::target::Part;
use ovn::text::match_expr::{End, Match, Side};
use ovn::text::neutron::key;
use ovn::text::{HostAddr, Nexthop, Text};
use ovsdb::{Map, Ref, Str};
use uuid::Uuid;

use super::look::Look;
use super::{map, object, router, router_port, text};
use crate::model::{Port, Router};

/// The address of the metadata service on all networks.
pub(super) const METADATA: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);

/// Above other policies, which lead elsewhere.
const OWN_NETWORK: i64 = 1000;
const NOBODY_ELSE: i64 = 999;

/// The rows of a router for metadata.
#[derive(Default)]
pub(super) struct MetadataRows {
    pub(super) route: Option<Ref<LogicalRouterStaticRoute>>,
    pub(super) policies: Vec<Ref<LogicalRouterPolicy>>,
}

/// An interface of a router, and the metadata address of its network.
struct MetadataHop<'w> {
    port: &'w Port,
    subnet: Uuid,
    address: Ipv4Addr,
}

pub(super) fn compile(look: &Look<'_, '_>, router: &Router, to: &mut Part) -> MetadataRows {
    let hops = hops(look, router);
    // The smallest subnet id decides, so that the route is stable when other interfaces are added.
    let Some(first) = hops.iter().min_by_key(|hop| hop.subnet) else { return MetadataRows::default() };
    let row = |role: &str| look.row(row_uuid("router", &router.id.to_string(), role));
    let of = object("router", router.id);

    let route = LogicalRouterStaticRoute {
        ip_prefix: Text::from(HostAddr { addr: METADATA.into(), len: Some(32) }),
        nexthop: Text::from(Nexthop::Ip(first.address.into())),
        output_port: Some(text(name::router_port(first.port.id))),
        external_ids: mark(),
        ..Default::default()
    };
    let route_row = row("metadata-route");
    to.own(of.clone(), route_row, route);

    let service = || Match::ip(End::Dst, IpAddr::from(METADATA));
    let mut policies = Vec::new();
    let mut add = |role: &str, policy: LogicalRouterPolicy| {
        let row = row(role);
        to.own(of.clone(), row, LogicalRouterPolicy { external_ids: mark(), ..policy });
        policies.push(Ref::new(row));
    };
    for hop in &hops {
        let from_here = Match::port(Side::In, &name::router_port(hop.port.id));
        let policy = LogicalRouterPolicy {
            priority: OWN_NETWORK,
            matches: text(from_here.and(service())),
            action: PolicyAction::Reroute,
            nexthops: [Text::from(IpAddr::from(hop.address))].into_iter().collect(),
            ..Default::default()
        };
        add(&format!("metadata-policy {}", hop.port.id), policy);
    }
    let nobody_else = LogicalRouterPolicy {
        priority: NOBODY_ELSE,
        matches: text(service()),
        action: PolicyAction::Drop,
        ..Default::default()
    };
    add("metadata-drop", nobody_else);
    MetadataRows { route: Some(Ref::new(route_row)), policies }
}

fn mark() -> Map<Str, Str> {
    map([(key::METADATA, "true")])
}

/// The interfaces from which the service is reachable, in order of id.
fn hops<'w>(look: &Look<'_, 'w>, router: &Router) -> Vec<MetadataHop<'w>> {
    let service = IpNet::from(IpAddr::from(METADATA));
    let is_taken = router.routes.iter().any(|route| route.destination == service);
    let is_on = look.settings().ovn_metadata_enabled && look.settings().metadata_router_route;
    if !is_on || is_taken || router::chassis(look, router).is_some() {
        return Vec::new();
    }
    let siblings = look.router_ports(router.id);
    let mut hops = Vec::new();
    for port in
        siblings.iter().copied().filter(|port| !port.is_gateway() && router_port::is_there(look, port))
    {
        let Some(network) = look.network(port.network_id) else { continue };
        if router_port::is_centralised(look, network, &siblings) == Some(true) {
            continue;
        }
        let address = port.fixed_ips.iter().find_map(|fixed| {
            let subnet = look.subnet(fixed.subnet_id)?;
            match look.metadata_ip(subnet)? {
                IpAddr::V4(address) => Some((subnet.id, address)),
                IpAddr::V6(_) => None,
            }
        });
        hops.extend(address.map(|(subnet, address)| MetadataHop { port, subnet, address }));
    }
    hops.sort_by_key(|hop| hop.port.id);
    hops
}
