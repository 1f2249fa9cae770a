//! Policies of the pods' router: exceptions from the route that sends all traffic of pods to the gateway router.

use std::net::IpAddr;

use ipnet::IpNet;
use ovn::nb::{LogicalRouterPolicy, PolicyAction};
use ovn::text::Text;
use ovn::text::match_expr::{End, Match, Side};
use ovsdb::Ref;

use super::{Draft, egress, text};

/// Traffic to the node itself goes through its management port.
const TO_NODE: i64 = 1004;
/// Traffic that stays in the overlay goes on as routed.
pub(super) const INSIDE: i64 = 102;

pub(super) type Policy = Ref<LogicalRouterPolicy>;

pub(super) fn of_pods(draft: &mut Draft<'_>) -> Vec<Policy> {
    let network = &draft.network.network;
    let mut policies = Vec::new();
    let from_switch = draft.gateway_port();
    for node in draft.local.addresses.addresses().all() {
        let Some(management) = network.management.addresses().of_family(node) else { continue };
        let matches = Match::port(Side::In, &from_switch).and(Match::ip(End::Dst, node));
        let row = LogicalRouterPolicy {
            action: PolicyAction::Reroute,
            nexthops: [Text::<IpAddr>::from(management)].into_iter().collect(),
            ..policy(draft, TO_NODE, matches)
        };
        policies.push(draft.own(&format!("policy-node {node}"), row));
    }
    let default_join = draft.snapshot.cluster.default_join;
    for subnet in network.subnets.nets() {
        let joins = default_join.nets().filter(|join| join.addr().is_ipv4() == subnet.addr().is_ipv4());
        for to in std::iter::once(subnet).chain(joins) {
            let matches = Match::ip(End::Src, subnet.trunc()).and(Match::ip(End::Dst, IpNet::trunc(&to)));
            let row = LogicalRouterPolicy { action: PolicyAction::Allow, ..policy(draft, INSIDE, matches) };
            policies.push(draft.own(&format!("policy-inside {subnet} {to}"), row));
        }
    }
    policies.extend(egress::of_pods(draft));
    policies
}

pub(super) fn policy(draft: &Draft<'_>, priority: i64, matches: Match) -> LogicalRouterPolicy {
    LogicalRouterPolicy {
        priority,
        matches: text(matches),
        external_ids: draft.external_ids(),
        ..Default::default()
    }
}
