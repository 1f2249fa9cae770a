//! Source translation.
//!
//! The gateway router translates what leaves the node. The transit router translates only what goes to the node itself, because
//! connection tracking does not cross zones: its rows work on the local chassis alone.

use std::net::IpAddr;

use ipnet::IpNet;
use ovn::nb::{Nat, NatType};
use ovn::text::Text;
use ovn::text::match_expr::{End, Match, Side, Test};
use ovsdb::{Ref, Str};

use super::gateway::masquerade;
use super::{Draft, host, host_cell, map, text};
use crate::address::{DualNet, management_masquerade};

/// Pods to their own node: their source becomes an address that the node's own stack knows the network by.
pub(super) fn to_management(draft: &mut Draft<'_>) -> Vec<Ref<Nat>> {
    let network = &draft.network.network;
    let external = management(draft).addresses();
    let to_management = Match::Test(Test::Mac(End::Dst, network.management_mac()));
    let mut rows = Vec::new();
    for subnet in network.subnets.nets() {
        let Some(external_ip) = external.of_family(subnet.addr()) else { continue };
        let row = Nat {
            logical_port: Some(text(draft.gateway_port())),
            matches: text(&to_management),
            options: map([("stateless", "false")]),
            ..translation(draft, subnet.trunc(), external_ip)
        };
        rows.push(draft.own(&format!("nat-management {subnet}"), row));
    }
    rows
}

/// Pods, and errors of the gateway router itself, to the world outside.
pub(super) fn of_gateway_router(draft: &mut Draft<'_>) -> Vec<Ref<Nat>> {
    let network = &draft.network.network;
    let external = masquerade(draft).addresses();
    let join = draft.local.join(network).addresses().all().map(host);
    let sources: Vec<IpNet> = network.subnets.nets().map(|net| net.trunc()).chain(join).collect();
    // In the old topology the gateway router has the pods' gateway too, and must not translate what goes from pod to pod.
    let to_external = Match::port(Side::Out, &draft.names.gateway_to_external(draft.node()));
    let matches = if draft.is_old() { text(to_external) } else { Str::default() };
    let mut rows = Vec::new();
    for source in sources {
        let Some(external_ip) = external.of_family(source.addr()) else { continue };
        let mut row = translation(draft, source, external_ip);
        if network.subnets.nets().any(|net| net.trunc() == source) {
            row.matches = matches.clone();
        }
        rows.push(draft.own(&format!("nat-gateway {source}"), row));
    }
    rows
}

/// The addresses that the network's pods have for the node itself.
pub(super) fn management(draft: &Draft<'_>) -> DualNet {
    management_masquerade(draft.snapshot.cluster.masquerade, draft.network.id)
        .only_families_of(&draft.network.network.subnets)
}

fn translation(draft: &Draft<'_>, source: IpNet, external_ip: IpAddr) -> Nat {
    Nat {
        kind: NatType::Snat,
        external_ip: Text::from(external_ip),
        logical_ip: host_cell(source),
        external_ids: draft.external_ids(),
        ..Default::default()
    }
}
