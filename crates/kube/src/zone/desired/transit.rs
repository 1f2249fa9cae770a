//! The transit router: its port to the switch with the default gateway's addresses, and a port to each node's gateway router.

use ovn::nb::{GatewayChassis, LogicalRouter, LogicalRouterPort, LogicalSwitchPort, StaticMacBinding};
use ovn::text::{PortAddresses, Text};
use ovn::{MacAddr, PortType};
use ovsdb::{Map, Ref, Str};

use super::{Draft, identity, map, nat, networks, policies, refs, routes, scaffold, switch, text};
use crate::address::{DualNet, mac_of};
use crate::ident::ROUTER_PORT_KEY;
use crate::zone::ZoneNode;

/// Seconds between unsolicited router advertisements.
const RA_INTERVAL: (u32, u32) = (300, 900);

/// Compiles the router, and the switch's ports to it.
pub(super) fn compile(draft: &mut Draft<'_>) -> Vec<Ref<LogicalSwitchPort>> {
    let scaffold = scaffold::compile(draft);
    // Of the two ports on the switch exactly one may answer for these addresses.
    let shared = if scaffold.is_some() { nat::management(draft) } else { DualNet::default() };
    let mut ports = vec![port_to_switch(draft, shared), port_to_local_gateway(draft)];
    ports.extend(scaffold.as_ref().map(|(port, _)| *port));
    for (name, node) in draft.remote_nodes() {
        ports.extend(port_to_remote_gateway(draft, name, node));
    }
    let static_routes = routes::of_transit_router(draft);
    let policies = policies::of_pods(draft);
    let nat = nat::to_management(draft);
    let mut options = vec![("requested-tnl-key", text(draft.network.keys.router.get()))];
    if routes::is_local_mode(draft) {
        options.push(("ct-commit-all", "true".into()));
    }
    let mut external_ids = draft.datapath_ids();
    external_ids.insert("k8s-cluster-router".into(), "yes".into());
    let router = LogicalRouter {
        name: text(draft.names.transit_router()),
        ports: refs(ports),
        static_routes: refs(static_routes),
        policies: refs(policies),
        nat: refs(nat),
        options: map(options),
        external_ids,
        ..Default::default()
    };
    draft.own("transit-router", router);
    let mut options = vec![("router-port", text(draft.names.router_to_switch()))];
    options.extend(switch::platform_keys(draft).router.map(|key| ("requested-tnl-key", text(key))));
    let row = LogicalSwitchPort {
        name: text(draft.names.switch_to_router()),
        kind: PortType::Router,
        addresses: [Text::from(PortAddresses::Router)].into_iter().collect(),
        options: map(options),
        external_ids: draft.external_ids(),
        ..Default::default()
    };
    let mut switch_ports = vec![draft.own("switch-to-router", row)];
    switch_ports.extend(scaffold.map(|(_, port)| port));
    switch_ports
}

/// The default gateway of all pods. It is a distributed gateway port on the local chassis, because the translation of traffic to
/// the node itself needs one.
fn port_to_switch(draft: &mut Draft<'_>, shared: DualNet) -> Ref<LogicalRouterPort> {
    let name = draft.names.router_to_switch();
    let chassis = draft.local.chassis.as_str();
    let gateway_chassis = GatewayChassis {
        name: format!("{name}-{chassis}").into(),
        chassis_name: chassis.into(),
        priority: 1,
        external_ids: draft.external_ids(),
        ..Default::default()
    };
    let gateway_chassis = draft.own("gateway-chassis", gateway_chassis);
    let network = &draft.network.network;
    let mut options = vec![("requested-tnl-key", text(ROUTER_PORT_KEY))];
    options.extend(draft.gateway_mtu());
    let row = LogicalRouterPort {
        name: name.into(),
        mac: Text::from(network.gateway_mac()),
        networks: networks([network.gateway, shared]),
        gateway_chassis: refs(vec![gateway_chassis]),
        options: map(options),
        ipv6_ra_configs: advertisements(draft),
        external_ids: draft.external_ids(),
        ..Default::default()
    };
    draft.own("router-to-switch", row)
}

/// Router advertisements, the same on every node. A pod's own static gateway wins over them.
pub(super) fn advertisements(draft: &Draft<'_>) -> Map<Str, Str> {
    if draft.network.network.subnets.ipv6.is_none() {
        return Map::default();
    }
    let (shortest, longest) = RA_INTERVAL;
    let mut configs = vec![
        ("address_mode", "dhcpv6_stateful".into()),
        ("send_periodic", "true".into()),
        ("max_interval", text(longest)),
        ("min_interval", text(shortest)),
        ("router_preference", "LOW".into()),
    ];
    configs.extend(draft.network.network.mtu.map(|mtu| ("mtu", text(mtu))));
    map(configs)
}

fn port_to_local_gateway(draft: &mut Draft<'_>) -> Ref<LogicalRouterPort> {
    let peers = draft.peers.router_side();
    let row = LogicalRouterPort {
        name: text(draft.names.transit_to_gateway(draft.node())),
        mac: Text::from(mac_of(peers.addresses()).unwrap_or_default()),
        networks: networks([peers]),
        peer: Some(text(draft.names.gateway_to_transit(draft.node()))),
        options: map([("requested-tnl-key", text(draft.local.id.peer_port_key()))]),
        external_ids: draft.external_ids(),
        ..Default::default()
    };
    draft.own(&format!("transit-to-gateway {}", draft.node()), row)
}

/// The port that stands for a remote node's gateway router. Its neighbours are written down, so that the first packet needs no
/// ARP through the tunnel and no reply is flooded to all zones.
fn port_to_remote_gateway(
    draft: &mut Draft<'_>,
    name: &str,
    node: &ZoneNode,
) -> Option<Ref<LogicalRouterPort>> {
    let subnet = draft.remote_peers(node)?;
    let network = &draft.network.network;
    let peers = subnet.router_side();
    let port = draft.names.transit_to_gateway(name);
    if let Some(mac) = mac_of(node.join(network).addresses()) {
        for address in subnet.gateway_side().addresses().all() {
            neighbour(draft, &port, address, mac);
        }
    }
    let row = LogicalRouterPort {
        name: text(port),
        mac: Text::from(mac_of(peers.addresses()).unwrap_or_default()),
        networks: networks([peers]),
        options: map([
            ("requested-tnl-key", text(node.id.peer_port_key())),
            ("requested-chassis", text(node.chassis.as_str())),
        ]),
        external_ids: draft.remote_ids(name),
        ..Default::default()
    };
    let object = identity::of_remote_gateway(&draft.names, name);
    Some(draft.own_for(object, &format!("transit-to-gateway {name}"), row))
}

/// Writes down the MAC address of a neighbour of a router port.
pub(super) fn neighbour(draft: &mut Draft<'_>, port: &str, address: std::net::IpAddr, mac: MacAddr) {
    let row = StaticMacBinding {
        logical_port: port.into(),
        ip: Text::from(address),
        mac: Text::from(mac),
        override_dynamic_mac: true,
    };
    draft.own_marked(identity::of_neighbours(port), &format!("neighbour {port} {address}"), row);
}
