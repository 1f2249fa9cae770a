use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use proptest::prelude::*;

use super::*;
use crate::address::DualNet;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn node(last: u8, is_available: bool) -> EgressNode {
    let primary = DualNet::from_nets([format!("172.18.0.{last}/24").parse().unwrap()]).unwrap();
    EgressNode { is_available, primary, addresses: [ip(&format!("172.18.0.{last}"))].into() }
}

fn nodes(available: [bool; 3]) -> BTreeMap<String, EgressNode> {
    let named = available.into_iter().zip(1_u8..);
    named.map(|(is_available, n)| (format!("node{n}"), node(n, is_available))).collect()
}

fn request(name: &str, addresses: &[&str], assigned: &[(&str, &str)]) -> EgressRequest {
    EgressRequest {
        name: name.to_owned(),
        addresses: addresses.iter().map(|text| ip(text)).collect(),
        assigned: assigned.iter().map(|(address, node)| (ip(address), (*node).to_owned())).collect(),
    }
}

fn shown(assignment: &Assignment) -> Vec<(String, String)> {
    assignment.nodes.iter().map(|(address, node)| (address.to_string(), node.clone())).collect()
}

#[test]
fn addresses_are_spread_and_stay_where_they_are() {
    let all = nodes([true; 3]);
    let first = request("a", &["172.18.0.101", "172.18.0.102"], &[]);
    let out = assign(&all, std::slice::from_ref(&first));
    assert_eq!(
        shown(&out[0]),
        [("172.18.0.101".into(), "node1".into()), ("172.18.0.102".into(), "node2".into())]
    );
    let kept = EgressRequest { assigned: out[0].nodes.clone(), ..first };
    let out = assign(&all, &[kept.clone(), request("b", &["172.18.0.103"], &[])]);
    assert_eq!(out[0].nodes, kept.assigned);
    assert_eq!(shown(&out[1]), [("172.18.0.103".into(), "node3".into())], "it has none yet");
}

#[test]
fn scenario_32_an_address_leaves_a_node_that_is_not_ready_and_all_addresses_of_an_object_are_on_different_nodes()
 {
    let pair = request(
        "a",
        &["172.18.0.101", "172.18.0.102"],
        &[("172.18.0.101", "node1"), ("172.18.0.102", "node2")],
    );
    let out = assign(&nodes([true, false, false]), std::slice::from_ref(&pair));
    assert_eq!(shown(&out[0]), [("172.18.0.101".into(), "node1".into())]);
    assert_eq!(out[0].refusals, [Refusal::NoNode { address: ip("172.18.0.102") }]);
    let out =
        assign(&nodes([true, true, false]), &[EgressRequest { assigned: out[0].nodes.clone(), ..pair }]);
    assert_eq!(out[0].nodes.len(), 2, "node2 is back");
    assert_eq!(out[0].refusals, []);
}

#[test]
fn conflicts_are_refused_with_their_reason() {
    let all = nodes([true, true, false]);
    let requests = [
        // node3 is not available, and has its address all the same.
        request("a", &["172.18.0.3", "172.18.0.100"], &[]),
        request("b", &["172.18.0.100", "10.0.0.1", "172.18.0.255", "172.18.0.0", "fd00::1"], &[]),
    ];
    let out = assign(&all, &requests);
    let reasons = |assignment: &Assignment| -> Vec<&'static str> {
        assignment.refusals.iter().map(|it| it.reason()).collect()
    };
    assert_eq!(reasons(&out[0]), ["EgressIPConflict"]);
    assert_eq!(
        out[0].refusals[0].to_string(),
        "egress address 172.18.0.3 is an address of node node3; choose another one"
    );
    assert_eq!(out[0].nodes.len(), 1);
    let none = "NoMatchingNodeFound";
    assert_eq!(reasons(&out[1]), ["UnsupportedRequest", none, none, none, none]);
    assert!(out[1].refusals[0].to_string().contains("belongs to EgressIP a already"));
    // The same address twice in one object is one address.
    let out = assign(&all, &[request("c", &["172.18.0.9", "172.18.0.9"], &[])]);
    assert_eq!((out[0].nodes.len(), reasons(&out[0])), (1, vec!["UnsupportedRequest"]));
}

proptest! {
    #[test]
    fn assignments_keep_the_rules(
        available in prop::collection::vec(any::<bool>(), 6),
        wishes in prop::collection::vec(prop::collection::vec(0_u8..30, 0..4), 0..8),
        old in prop::collection::vec((0_usize..8, 0_u8..30, 0_usize..7), 0..12),
    ) {
        let nodes: BTreeMap<String, EgressNode> =
            available.iter().zip(1_u8..).map(|(is, n)| (format!("node{n}"), node(n, *is))).collect();
        let requests: Vec<EgressRequest> = wishes.iter().enumerate().map(|(at, wishes)| EgressRequest {
            name: format!("e{at}"),
            addresses: wishes.iter().map(|last| ip(&format!("172.18.0.{last}"))).collect(),
            assigned: old.iter().filter(|it| it.0 == at)
                .map(|(_, last, node)| (ip(&format!("172.18.0.{last}")), format!("node{node}"))).collect(),
        }).collect();
        let out = assign(&nodes, &requests);
        let mut all = BTreeSet::new();
        for (request, assignment) in requests.iter().zip(&out) {
            let distinct: BTreeSet<&String> = assignment.nodes.values().collect();
            prop_assert_eq!(distinct.len(), assignment.nodes.len(), "two addresses of one object on one node");
            for (address, node) in &assignment.nodes {
                prop_assert!(all.insert(*address), "{} is assigned twice", address);
                prop_assert!(nodes[node].is_available && request.addresses.contains(address));
                prop_assert!(nodes.values().all(|node| !node.addresses.contains(address)));
            }
            prop_assert_eq!(assignment.nodes.len() + assignment.refusals.len(), request.addresses.len());
        }
        // A second run with the result changes nothing.
        let again: Vec<EgressRequest> = requests.iter().zip(&out)
            .map(|(request, it)| EgressRequest { assigned: it.nodes.clone(), ..request.clone() }).collect();
        prop_assert_eq!(assign(&nodes, &again), out);
    }
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn rule(name: &str, mark: u32, pods: &[(&str, &str)]) -> EgressRule {
    let selector = |pairs| LabelSelector { match_labels: Some(labels(pairs)), ..Default::default() };
    let items = [("node1", "172.18.0.101"), ("node2", "fd00::102")];
    let items = items.map(|(node, address)| EgressItem { node: node.to_owned(), address: ip(address) });
    EgressRule::new(
        name,
        EgressMark::new(mark).unwrap(),
        items.to_vec(),
        (selector(&[("team", "a")]), selector(pods)),
    )
    .unwrap()
}

#[test]
fn scenario_35_a_pod_uses_the_oldest_object_that_matches_it() {
    let rules = [rule("old", 50_000, &[("app", "web")]), rule("new", 50_001, &[])];
    let (team, web, other) = (labels(&[("team", "a")]), labels(&[("app", "web")]), labels(&[("app", "db")]));
    let of = |rules: &[EgressRule], namespace: &BTreeMap<String, String>, pod: &BTreeMap<String, String>| {
        let (active, standby) = select(rules, SelectablePod { namespace_labels: namespace, labels: pod });
        (active.map(|it| it.name), standby.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    };
    assert_eq!(of(&rules, &team, &web), (Some("old".into()), vec!["new".into()]));
    assert_eq!(of(&rules, &team, &other), (Some("new".into()), vec![]), "scenario 33: relabelled");
    assert_eq!(of(&rules[1..], &team, &web), (Some("new".into()), vec![]), "the older one was deleted");
    assert_eq!(of(&rules, &labels(&[]), &web), (None, vec![]));
    let (active, _) = select(&rules, SelectablePod { namespace_labels: &team, labels: &web });
    let active = active.unwrap();
    assert_eq!(active.nodes(ip("203.203.0.5")), &BTreeSet::from(["node1".to_owned()]));
    assert_eq!(active.nodes(ip("2010::5")), &BTreeSet::from(["node2".to_owned()]));
}

#[test]
fn marks_are_numbers_of_their_range() {
    assert_eq!(EgressMark::parse("50000").unwrap().get(), 50_000);
    for text in ["49999", "55000", "0", "-1", "50000 ", "x"] {
        assert!(EgressMark::parse(text).is_err(), "{text}");
    }
}
