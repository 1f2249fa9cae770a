//! The topology before transit routers: each node's gateway router is itself on the switch, with the pods' gateway addresses and the
//! node's join addresses. For every other node the switch has a remote port with the join addresses of that node.
//!
//! A node keeps this topology until it switches. A node that has switched keeps the remote ports of those that have not.

use ovn::PortType;
use ovn::nb::{LogicalRouterPort, LogicalSwitchPort};
use ovn::text::{HostAddr, PortAddresses, Text};
use ovsdb::Ref;
use reconcile::Class;

use super::transit::advertisements;
use super::{Draft, identity, map, networks, text};
use crate::address::mac_of;
use crate::zone::ZoneNode;

/// The switch's port to the gateway router.
pub(super) fn switch_to_gateway(draft: &mut Draft<'_>) -> Ref<LogicalSwitchPort> {
    let mut options = vec![("router-port", text(draft.names.old_gateway_to_switch()))];
    match draft.local.old_key(&draft.network.network) {
        Some(key) => options.push(("requested-tnl-key", text(key))),
        None => report_keyless(draft, &[draft.node()]),
    }
    let row = LogicalSwitchPort {
        name: text(draft.names.old_switch_to_gateway()),
        kind: PortType::Router,
        addresses: [Text::from(PortAddresses::Router)].into_iter().collect(),
        options: map(options),
        external_ids: draft.external_ids(),
        ..Default::default()
    };
    draft.own("old-switch-to-gateway", row)
}

/// The gateway router's port to the switch.
pub(super) fn gateway_to_switch(draft: &mut Draft<'_>) -> Ref<LogicalRouterPort> {
    let network = &draft.network.network;
    let join = draft.local.join(network);
    let row = LogicalRouterPort {
        name: text(draft.names.old_gateway_to_switch()),
        mac: Text::from(mac_of(join.addresses()).unwrap_or_default()),
        networks: networks([join, network.gateway]),
        options: map(draft.gateway_mtu()),
        ipv6_ra_configs: advertisements(draft),
        external_ids: draft.external_ids(),
        ..Default::default()
    };
    draft.own("old-gateway-to-switch", row)
}

/// The ports that stand for the gateway routers of other nodes. A node on the old topology needs them for all nodes: those on the
/// new topology still answer there. A node on the new topology needs them for the others only.
pub(super) fn remote_gateways(draft: &mut Draft<'_>) -> Vec<Ref<LogicalSwitchPort>> {
    let (mut ports, mut keyless) = (Vec::new(), Vec::new());
    for (name, node) in draft.remote_nodes() {
        if (!draft.is_old() && !node.is_old()) || !draft.is_reachable(node) {
            continue;
        }
        match node.old_key(&draft.network.network) {
            Some(key) => ports.push(remote_gateway(draft, name, node, key)),
            None => keyless.push(name),
        }
    }
    if !keyless.is_empty() {
        report_keyless(draft, &keyless);
    }
    ports
}

fn remote_gateway(draft: &mut Draft<'_>, name: &str, node: &ZoneNode, key: u16) -> Ref<LogicalSwitchPort> {
    let join = node.join(&draft.network.network);
    let mac = mac_of(join.addresses()).unwrap_or_default();
    let addresses = PortAddresses::Fixed { mac, ips: join.nets().map(HostAddr::from).collect() };
    let row = LogicalSwitchPort {
        name: text(draft.names.remote_gateway_on_switch(name)),
        kind: PortType::Remote,
        addresses: [Text::from(addresses)].into_iter().collect(),
        options: map([("requested-tnl-key", text(key)), ("requested-chassis", text(node.chassis.as_str()))]),
        external_ids: draft.remote_ids(name),
        ..Default::default()
    };
    let object = identity::of_remote_gateway(&draft.names, name);
    draft.own_for(object, &format!("old-remote-gateway {name}"), row)
}

/// Reports nodes whose gateway router has no key on the switch: packets would arrive at another port.
pub(super) fn report_keyless(draft: &mut Draft<'_>, nodes: &[&str]) {
    let message = format!(
        "no tunnel key for the gateway router of {} on the switch, which nodes on the old topology need; see that the manager runs",
        nodes.join(", ")
    );
    draft.report(Class::Transient, "gateway-without-key", message);
}
