//! The scaffold of a mixed cluster: a second port of the transit router on the switch, with the tunnel key that the node's gateway
//! router had there. Nodes on the old topology send what is for the node's join addresses to that key, and it arrives here.
//!
//! The port has the MAC address of the gateway router, but not its join addresses: OVN drops packets to a router's own address, so
//! they would never reach the gateway router behind. It has the last usable address of the join subnet instead, on all nodes the
//! same, which no packet carries.

use ovn::PortType;
use ovn::nb::{LogicalRouterPort, LogicalSwitchPort};
use ovn::text::{PortAddresses, Text};
use ovsdb::Ref;
use reconcile::Class;

use super::{Draft, map, networks, old, text};
use crate::address::{mac_of, upgrade_join_addresses};
use crate::ident::UPGRADE_PORT_KEY;
use crate::upgrade::join_conflict;

/// Whether some other node is on the old topology.
fn is_wanted(draft: &Draft<'_>) -> bool {
    !draft.is_old() && draft.remote_nodes().any(|(_, node)| node.is_old())
}

/// The transit router's port and the switch's port of the scaffold, while some other node is on the old topology.
pub(super) fn compile(draft: &mut Draft<'_>) -> Option<(Ref<LogicalRouterPort>, Ref<LogicalSwitchPort>)> {
    if !is_wanted(draft) {
        return None;
    }
    let network = &draft.network.network;
    if let Some(conflict) = join_conflict(network, &draft.snapshot.nodes) {
        draft.report(Class::Refused, "join-subnet-too-small", conflict.to_string());
        return None;
    }
    let Some(key) = draft.local.old_key(network) else {
        old::report_keyless(draft, &[draft.node()]);
        return None;
    };
    let name = draft.names.upgrade_router_to_switch(draft.node());
    let router_port = LogicalRouterPort {
        name: text(&name),
        mac: Text::from(mac_of(draft.local.join(network).addresses()).unwrap_or_default()),
        networks: networks([upgrade_join_addresses(network.join).only_families_of(&network.subnets)]),
        options: map([("requested-tnl-key", text(UPGRADE_PORT_KEY))]),
        external_ids: draft.external_ids(),
        ..Default::default()
    };
    let switch_port = LogicalSwitchPort {
        name: text(draft.names.upgrade_switch_to_router(draft.node())),
        kind: PortType::Router,
        addresses: [Text::from(PortAddresses::Router)].into_iter().collect(),
        options: map([("router-port", text(&name)), ("requested-tnl-key", text(key))]),
        external_ids: draft.external_ids(),
        ..Default::default()
    };
    Some((
        draft.own("upgrade-router-to-switch", router_port),
        draft.own("upgrade-switch-to-router", switch_port),
    ))
}
