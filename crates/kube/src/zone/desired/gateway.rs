//! The node's gateway router, and the switch that connects it to the external bridge.

use ipnet::IpNet;
use ovn::PortType;
use ovn::nb::{LogicalRouter, LogicalRouterPort, LogicalSwitch, LogicalSwitchPort};
use ovn::text::{HostAddr, PortAddresses, Text};
use ovsdb::Ref;

use super::transit::neighbour;
use super::{Draft, egress, host, map, nat, networks, old, policies, refs, routes, text};
use crate::address::{DualNet, SharedMasquerade, gateway_masquerade, mac_of, mac_of_address};
use crate::annotation::L3GatewayConfig;
use crate::zone::Topology;

/// The name of the physical network of the external bridge.
const PHYSICAL_NETWORK: &str = "physnet";
/// Seconds that the router keeps a neighbour that it does not use.
const NEIGHBOUR_AGE: u32 = 300;

pub(super) fn compile(draft: &mut Draft<'_>) {
    let mut ports = match draft.snapshot.topology {
        Topology::New => vec![port_to_transit(draft)],
        Topology::Old => vec![old::gateway_to_switch(draft)],
    };
    let mut gateway_ids = Vec::new();
    if let Some(gateway) = draft.local.gateway.clone() {
        ports.push(port_to_external(draft, &gateway));
        external_switch(draft, &gateway);
        let addresses = draft.network.network.of_families(&gateway.addresses);
        let addresses: Vec<String> = addresses.map(|net| net.addr().to_string()).collect();
        gateway_ids.extend(addresses.first().map(|first| ("physical_ip", first.clone())));
        gateway_ids.push(("physical_ips", addresses.join(",")));
    }
    let join: Vec<String> =
        draft.local.join(&draft.network.network).addresses().all().map(|it| it.to_string()).collect();
    let static_routes = routes::of_gateway_router(draft);
    let mut nat = nat::of_gateway_router(draft);
    let mut policies = egress::of_gateway_router(draft);
    if draft.is_old() {
        policies.extend(policies::of_pods(draft));
        nat.extend(nat::to_management(draft));
    }
    let mut external_ids = draft.datapath_ids();
    gateway_ids.into_iter().for_each(|(key, value)| _ = external_ids.insert(key.into(), value.into()));
    let router = LogicalRouter {
        name: text(draft.names.gateway_router(draft.node())),
        ports: refs(ports),
        static_routes: refs(static_routes),
        policies: refs(policies),
        nat: refs(nat),
        options: map([
            ("chassis", text(draft.local.chassis.as_str())),
            ("always_learn_from_arp_request", "false".into()),
            ("dynamic_neigh_routers", "false".into()),
            ("mac_binding_age_threshold", text(NEIGHBOUR_AGE)),
            ("lb_force_snat_ip", join.join(" ").into()),
            // OVN before 26.03 ignores it.
            ("disable_garp_rarp", "true".into()),
        ]),
        external_ids,
        ..Default::default()
    };
    draft.own("gateway-router", router);
}

/// The port to the transit router. It has the node's join addresses as well: they are what others know the node by.
fn port_to_transit(draft: &mut Draft<'_>) -> Ref<LogicalRouterPort> {
    let network = &draft.network.network;
    let join = draft.local.join(network);
    let peers = draft.peers.gateway_side();
    let row = LogicalRouterPort {
        name: text(draft.names.gateway_to_transit(draft.node())),
        mac: Text::from(mac_of(join.addresses()).unwrap_or_default()),
        networks: networks([join, peers]),
        peer: Some(text(draft.names.transit_to_gateway(draft.node()))),
        options: map(draft.gateway_mtu()),
        external_ids: draft.external_ids(),
        ..Default::default()
    };
    draft.own("gateway-to-transit", row)
}

/// The port to the external bridge, with the node's own addresses and those that the network masquerades with.
fn port_to_external(draft: &mut Draft<'_>, gateway: &L3GatewayConfig) -> Ref<LogicalRouterPort> {
    let network = &draft.network.network;
    let name = draft.names.gateway_to_external(draft.node());
    let masquerade = masquerade(draft).addresses().all().map(host);
    let addresses: Vec<IpNet> = network.of_families(&gateway.addresses).chain(masquerade).collect();
    for shared in [SharedMasquerade::NextHop, SharedMasquerade::Host] {
        for address in shared.addresses(draft.snapshot.cluster.masquerade).addresses().all() {
            if network.subnets.of_family(address).is_some() {
                neighbour(draft, &name, address, mac_of_address(address));
            }
        }
    }
    let row = LogicalRouterPort {
        name: text(name),
        mac: Text::from(gateway.mac),
        networks: addresses.into_iter().map(Text::from).collect(),
        external_ids: draft.external_ids(),
        ..Default::default()
    };
    draft.own("gateway-to-external", row)
}

fn external_switch(draft: &mut Draft<'_>, gateway: &L3GatewayConfig) {
    let localnet = LogicalSwitchPort {
        name: text(draft.names.bridge_port(&gateway.bridge, draft.node())),
        kind: PortType::Localnet,
        addresses: [Text::from(PortAddresses::Unknown)].into_iter().collect(),
        options: map([("network_name", PHYSICAL_NETWORK)]),
        tag_request: gateway.vlan.map(i64::from).filter(|vlan| *vlan != 0),
        external_ids: draft.external_ids(),
        ..Default::default()
    };
    let localnet = draft.own("external-localnet", localnet);
    let router = LogicalSwitchPort {
        name: text(draft.names.external_to_gateway(draft.node())),
        kind: PortType::Router,
        addresses: [Text::from(PortAddresses::Fixed { mac: gateway.mac, ips: Box::<[HostAddr]>::default() })]
            .into_iter()
            .collect(),
        options: map([("router-port", text(draft.names.gateway_to_external(draft.node())))]),
        external_ids: draft.external_ids(),
        ..Default::default()
    };
    let router = draft.own("external-to-gateway", router);
    let switch = LogicalSwitch {
        name: text(draft.names.external_switch(draft.node())),
        ports: refs(vec![localnet, router]),
        external_ids: draft.datapath_ids(),
        ..Default::default()
    };
    draft.own("external-switch", switch);
}

/// The addresses that the gateway router translates the network's traffic to.
pub(super) fn masquerade(draft: &Draft<'_>) -> DualNet {
    gateway_masquerade(draft.snapshot.cluster.masquerade, draft.network.id)
        .only_families_of(&draft.network.network.subnets)
}
