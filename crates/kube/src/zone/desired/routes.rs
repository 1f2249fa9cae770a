//! Static routes of both routers.
//!
//! OVN compares routes by source and by destination in one contest of prefix lengths, where a destination wins a tie. So join
//! addresses are host routes: the route of a short pod subnet by source would beat the join subnet otherwise.

use std::net::IpAddr;

use ipnet::IpNet;
use ovn::nb::{LogicalRouterStaticRoute, RoutePolicy};
use ovn::text::{Nexthop, Text};
use ovsdb::{Map, Ref, Str};
use reconcile::ObjectId;

use super::{Draft, host, host_cell, identity, text};
use crate::address::{DualAddress, DualNet, SharedMasquerade};
use crate::annotation::GatewayMode;
use crate::zone::{Topology, ZoneNode};

type Route = Ref<LogicalRouterStaticRoute>;

pub(super) fn of_transit_router(draft: &mut Draft<'_>) -> Vec<Route> {
    let network = &draft.network.network;
    let mut routes = Vec::new();
    for (name, node) in draft.remote_nodes() {
        if let Some(hops) = draft.remote_hops(node) {
            let object = identity::of_remote_gateway(&draft.names, name);
            let ids = draft.remote_ids(name);
            routes.extend(to_join(draft, object, (name, node, hops), &ids));
        }
    }
    let ids = draft.external_ids();
    let local = (draft.node(), draft.local, draft.peers.gateway_side().addresses());
    routes.extend(to_join(draft, draft.object.clone(), local, &ids));
    // Pods leave the overlay through the gateway router of their own node, whatever their destination.
    let hops = match is_local_mode(draft) {
        true => network.management.addresses(),
        false => draft.peers.gateway_side().addresses(),
    };
    routes.extend(of_egress(draft, hops));
    routes.extend(to_services(draft));
    routes
}

/// The routes that pods leave the overlay by, whatever their destination.
fn of_egress(draft: &mut Draft<'_>, hops: DualAddress) -> Vec<Route> {
    let (subnets, ids) = (draft.network.network.subnets, draft.external_ids());
    let own = |(subnet, hop)| {
        let row =
            LogicalRouterStaticRoute { policy: Some(RoutePolicy::SrcIp), ..route(subnet, hop, None, &ids) };
        draft.own(&format!("transit-egress {subnet}"), row)
    };
    by_family(subnets, hops).map(own).collect()
}

/// The routes to services of the default network. In local mode the host's own routes lead there.
fn to_services(draft: &mut Draft<'_>) -> Vec<Route> {
    if is_local_mode(draft) {
        return Vec::new();
    }
    let services = draft.snapshot.shared_services.iter();
    services.flat_map(|(service, addresses)| to_service(draft, service, addresses)).collect()
}

/// The routes to a node's join addresses, through its gateway router.
fn to_join(
    draft: &mut Draft<'_>,
    object: ObjectId,
    (name, node, hops): (&str, &ZoneNode, DualAddress),
    ids: &Map<Str, Str>,
) -> Vec<Route> {
    let join = node.join(&draft.network.network);
    let pairs = by_family(join, hops);
    let own = |(join, hop): (IpNet, IpAddr)| {
        let row = route(host(join.addr()), hop, None, ids);
        draft.own_for(object.clone(), &format!("transit-join {name} {}", join.addr()), row)
    };
    pairs.map(own).collect()
}

/// The routes to a service of the default network that all pods may use, through the node's own stack.
fn to_service(draft: &mut Draft<'_>, service: &str, addresses: &[IpAddr]) -> Vec<Route> {
    let hops = draft.network.network.management.addresses();
    let mut routes = Vec::new();
    for address in addresses {
        let Some(hop) = hops.of_family(*address) else { continue };
        let mut ids = draft.external_ids();
        ids.insert("k8s.ovn.org/udn-enabled-default-service".into(), service.into());
        let row = route(host(*address), hop, None, &ids);
        routes.push(draft.own(&format!("transit-service {address}"), row));
    }
    routes
}

pub(super) fn of_gateway_router(draft: &mut Draft<'_>) -> Vec<Route> {
    let network = &draft.network.network;
    let ids = draft.external_ids();
    let mut routes = match draft.snapshot.topology {
        Topology::New => to_pods(draft, &ids),
        Topology::Old => of_old_gateway_router(draft),
    };
    let Some(gateway) = &draft.local.gateway else { return routes };
    let to_external = draft.names.gateway_to_external(draft.node());
    let masquerade = draft.snapshot.cluster.masquerade.only_families_of(&network.subnets);
    let dummies = SharedMasquerade::NextHop.addresses(draft.snapshot.cluster.masquerade).addresses();
    for (subnet, hop) in by_family(masquerade, dummies) {
        let row = route(subnet.trunc(), hop, Some(&to_external), &ids);
        routes.push(draft.own(&format!("gateway-masquerade {subnet}"), row));
    }
    // Several next hops of a family are several routes, over which OVN balances.
    for hop in gateway.next_hops.iter().filter(|hop| network.subnets.of_family(**hop).is_some()) {
        let row = route(default_net(*hop), *hop, Some(&to_external), &ids);
        routes.push(draft.own(&format!("gateway-default {hop}"), row));
    }
    routes
}

/// The routes from the gateway router to the pods.
fn to_pods(draft: &mut Draft<'_>, ids: &Map<Str, Str>) -> Vec<Route> {
    let network = &draft.network.network;
    let to_transit = draft.names.gateway_to_transit(draft.node());
    let peers = draft.peers.router_side().addresses();
    let own = |(subnet, hop)| {
        let row = route(subnet, hop, Some(&to_transit), ids);
        draft.own(&format!("gateway-pods {subnet}"), row)
    };
    by_family(network.subnets, peers).map(own).collect()
}

/// The routes that the transit router has in the new topology. The gateway router of the old one is on the switch itself.
fn of_old_gateway_router(draft: &mut Draft<'_>) -> Vec<Route> {
    let hops = match is_local_mode(draft) {
        true => draft.network.network.management.addresses(),
        false => DualAddress::default(),
    };
    let mut routes = of_egress(draft, hops);
    routes.extend(to_services(draft));
    routes
}

/// Whether traffic leaves the overlay through the host's own routes.
pub(super) fn is_local_mode(draft: &Draft<'_>) -> bool {
    draft.local.gateway.as_ref().is_some_and(|gateway| gateway.mode == GatewayMode::Local)
}

/// Subnets with the next hop of their family.
fn by_family(nets: DualNet, hops: DualAddress) -> impl Iterator<Item = (IpNet, IpAddr)> {
    nets.nets().filter_map(move |net| Some((net, hops.of_family(net.addr())?)))
}

fn default_net(like: IpAddr) -> IpNet {
    match like {
        IpAddr::V4(_) => IpNet::V4(ipnet::Ipv4Net::default()),
        IpAddr::V6(_) => IpNet::V6(ipnet::Ipv6Net::default()),
    }
}

fn route(to: IpNet, hop: IpAddr, port: Option<&str>, ids: &Map<Str, Str>) -> LogicalRouterStaticRoute {
    LogicalRouterStaticRoute {
        ip_prefix: host_cell(to),
        nexthop: Text::from(Nexthop::Ip(hop)),
        output_port: port.map(text),
        external_ids: ids.clone(),
        ..Default::default()
    }
}
