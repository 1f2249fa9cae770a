//! EgressIP: pods that leave through the nodes with their egress addresses.
//!
//! The pods' router sends such a pod's traffic to the gateway routers of all egress nodes, never to a router outside: so it works on
//! nodes without a default route, and OVN balances over all addresses. The mark tells the external bridge which address to use. It
//! does not survive the tunnel, so the gateway router of the egress node sets it again.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ovn::ident::row_uuid;
use ovn::nb::{AddressSet, Direction, LogicalRouterPolicy, PolicyAction, Qos};
use ovn::text::match_expr::{Bit, End, Family, Field, GroupName, Match, Relation, Test};
use ovn::text::{HostAddr, Text};
use ovsdb::{Map, Ref, Str};

use super::policies::{INSIDE, Policy, policy};
use super::{Draft, map, text};
use crate::eip::PodEgress;
use crate::zone::ZonePod;

/// Traffic with an egress address.
const EGRESS: i64 = 100;
/// The mark that traffic from another node lost in the tunnel.
const RESTORE_MARK: i64 = 95;
/// Replies of pods, which go back to where the question came from.
const REPLY: i64 = 103;
/// The mark of replies.
const REPLY_MARK: i64 = 42;
/// The mark of traffic to nodes, which keeps the pod's own address.
const TO_NODES_MARK: u32 = 1008;

/// A pod's address with its way out.
struct Exit<'z> {
    pod: &'z ZonePod,
    egress: &'z PodEgress,
    address: IpAddr,
}

/// The addresses that have a way out of their own.
fn exits<'z>(draft: &Draft<'z>) -> Vec<Exit<'z>> {
    let pods = draft.network.pods.iter().filter(|pod| draft.snapshot.nodes.contains_key(&pod.node));
    let with = pods.filter_map(|pod| Some((pod, pod.egress.as_ref()?)));
    with.flat_map(|(pod, egress)| {
        let addresses = pod.addresses.addresses().map(|net| net.addr());
        addresses.map(move |address| Exit { pod, egress, address })
    })
    .collect()
}

/// The policies of the pods' router.
pub(super) fn of_pods(draft: &mut Draft<'_>) -> Vec<Policy> {
    let exits = exits(draft);
    let mut policies = Vec::new();
    for exit in &exits {
        let hops = hops(draft, exit);
        if hops.is_empty() {
            continue;
        }
        let row = LogicalRouterPolicy {
            action: PolicyAction::Reroute,
            nexthops: hops.into_iter().map(Text::<IpAddr>::from).collect(),
            options: mark(exit),
            external_ids: ids(draft, exit, EGRESS),
            ..policy(draft, EGRESS, Match::ip(End::Src, exit.address))
        };
        policies.push(draft.own(&format!("egress {} {}", exit.pod.uid, exit.address), row));
    }
    if !exits.is_empty() {
        policies.extend(exceptions(draft, &exits));
    }
    policies
}

/// The next hops of an address: for a pod of this node all egress nodes. Traffic of other nodes' pods enters here only if this node is
/// an egress node, and then leaves here.
fn hops(draft: &Draft<'_>, exit: &Exit<'_>) -> BTreeSet<IpAddr> {
    let is_local_pod = exit.pod.node == draft.snapshot.local;
    let nodes = exit.egress.nodes(exit.address).iter();
    let nodes = nodes.filter(|node| is_local_pod || **node == draft.snapshot.local);
    nodes.filter_map(|node| hop(draft, node, exit.address)).collect()
}

/// The address of an egress node's gateway router, in the family of another address.
fn hop(draft: &Draft<'_>, name: &str, like: IpAddr) -> Option<IpAddr> {
    if name != draft.snapshot.local {
        return draft.remote_hops(draft.snapshot.nodes.get(name)?)?.of_family(like);
    }
    if draft.is_old() {
        // The pods' router is the gateway router itself.
        let outside = draft.local.gateway.as_ref()?.next_hops.iter();
        return outside.copied().find(|hop| hop.is_ipv4() == like.is_ipv4());
    }
    draft.peers.gateway_side().addresses().of_family(like)
}

/// The policies of the gateway router, if this is an egress node.
pub(super) fn of_gateway_router(draft: &mut Draft<'_>) -> Vec<Policy> {
    let mut policies = Vec::new();
    for exit in exits(draft) {
        if !exit.egress.nodes(exit.address).contains(draft.node()) {
            continue;
        }
        let unmarked = Match::Test(Test::Number(Field::PktMark, Relation::Eq, 0));
        let row = LogicalRouterPolicy {
            action: PolicyAction::Allow,
            options: mark(&exit),
            external_ids: ids(draft, &exit, RESTORE_MARK),
            ..policy(draft, RESTORE_MARK, Match::ip(End::Src, exit.address).and(unmarked))
        };
        policies.push(draft.own(&format!("egress-mark {} {}", exit.pod.uid, exit.address), row));
    }
    policies
}

/// Traffic of these pods that goes on as routed: to nodes, to shared services, and replies.
fn exceptions(draft: &mut Draft<'_>, exits: &[Exit<'_>]) -> Vec<Policy> {
    let nodes: BTreeSet<IpAddr> =
        draft.snapshot.nodes.values().flat_map(|node| node.addresses.addresses().all()).collect();
    let services: BTreeSet<IpAddr> = draft.snapshot.shared_services.values().flatten().copied().collect();
    let mut policies = Vec::new();
    for family in [Family::V4, Family::V6] {
        let of = |addresses: &BTreeSet<IpAddr>| -> Vec<IpAddr> {
            addresses.iter().copied().filter(|it| it.is_ipv4() == (family == Family::V4)).collect()
        };
        let pods = of(&exits.iter().map(|exit| exit.address).collect());
        let Some(source) = address_set(draft, "pods", family, &pods) else { continue };
        let source = Match::Test(Test::AddressSet(family, End::Src, source));
        for (name, to, mark) in
            [("nodes", of(&nodes), Some(TO_NODES_MARK)), ("services", of(&services), None)]
        {
            let Some(set) = address_set(draft, name, family, &to) else { continue };
            let matches = source.clone().and(Match::Test(Test::AddressSet(family, End::Dst, set)));
            let row = LogicalRouterPolicy {
                action: PolicyAction::Allow,
                options: map(mark.map(|mark| ("pkt_mark", text(mark)))),
                ..policy(draft, INSIDE, matches)
            };
            policies.push(draft.own(&format!("egress-to-{name} {family:?}"), row));
        }
    }
    let matches = Match::Test(Test::Number(Field::PktMark, Relation::Eq, REPLY_MARK as u64));
    let row = LogicalRouterPolicy { action: PolicyAction::Allow, ..policy(draft, INSIDE, matches) };
    policies.push(draft.own("egress-replies", row));
    policies
}

/// The rules of the switch that mark replies of these pods.
pub(super) fn of_switch(draft: &mut Draft<'_>) -> Vec<Ref<Qos>> {
    let exits = exits(draft);
    let mut rules = Vec::new();
    for family in [Family::V4, Family::V6] {
        if !exits.iter().any(|exit| exit.address.is_ipv4() == (family == Family::V4)) {
            continue;
        }
        let Some(set) = set_name(draft, "pods", family) else { continue };
        let is_reply = Match::Test(Test::Bit(Bit::CtTracked)).and(Match::Test(Test::Bit(Bit::CtReply)));
        let row = Qos {
            priority: REPLY,
            direction: Direction::FromLport,
            matches: text(Match::Test(Test::AddressSet(family, End::Src, set)).and(is_reply)),
            action: [(Str::from("mark"), REPLY_MARK)].into_iter().collect(),
            external_ids: draft.external_ids(),
            ..Default::default()
        };
        rules.push(draft.own(&format!("egress-replies {family:?}"), row));
    }
    rules
}

/// Wants an address set of the network. `None` without addresses: OVN would never match, and needs no rule.
fn address_set(draft: &mut Draft<'_>, role: &str, family: Family, addresses: &[IpAddr]) -> Option<GroupName> {
    let name = set_name(draft, role, family).filter(|_| !addresses.is_empty())?;
    let row = AddressSet {
        name: name.as_str().into(),
        addresses: addresses.iter().map(|address| Text::from(HostAddr::from(*address))).collect(),
        external_ids: draft.external_ids(),
    };
    draft.own(&format!("egress {role} {family:?}"), row);
    Some(name)
}

/// The name of an address set. A network's own name may have characters that no name in a match has.
fn set_name(draft: &Draft<'_>, role: &str, family: Family) -> Option<GroupName> {
    let uuid =
        row_uuid("udn", draft.network.network.name.as_str(), &format!("address set {role} {family:?}"));
    GroupName::new(&format!("a{}", uuid.to_string().replace('-', "_"))).ok()
}

fn mark(exit: &Exit<'_>) -> Map<Str, Str> {
    map([("pkt_mark", text(exit.egress.mark))])
}

/// The keys by which the rows of one object, pod and family are found.
fn ids(draft: &Draft<'_>, exit: &Exit<'_>, priority: i64) -> Map<Str, Str> {
    let mut ids = draft.external_ids();
    let owner = format!("{}_{}/{}", exit.egress.name, exit.pod.namespace, exit.pod.name);
    let family = if exit.address.is_ipv4() { "ip4" } else { "ip6" };
    for (key, value) in [
        ("k8s.ovn.org/owner-type", "EgressIP".to_owned()),
        ("k8s.ovn.org/name", owner),
        ("k8s.ovn.org/ip-family", family.to_owned()),
        ("k8s.ovn.org/priority", priority.to_string()),
    ] {
        ids.insert(key.into(), value.into());
    }
    ids
}
