//! Pods with an EgressIP: the rows on their node, on egress nodes and on all others.

use ovn::nb::{AddressSet, LogicalRouterPolicy, PolicyAction, Qos};

use super::upgrade::{all, cluster, seen_from};
use super::*;
use crate::eip::PodEgress;
use crate::ident::EgressMark;

fn egress(name: &str, mark: u32, ipv4: &[&str]) -> PodEgress {
    PodEgress {
        name: name.to_owned(),
        mark: EgressMark::new(mark).unwrap(),
        ipv4: ipv4.iter().map(|name| (*name).to_owned()).collect(),
        ipv6: BTreeSet::new(),
    }
}

/// The rows of a zone where pod `a` of node1 has a way out.
fn rows(zone: &ZoneSnapshot, local: &str, egress: Option<PodEgress>) -> Part {
    let zone = seen_from(zone, local);
    let mut whole = network(&DUAL, &zone.cluster);
    whole.pods[0].egress = egress;
    compiled(&zone, &whole)
}

/// The next hops of the policies of a priority, each with its match and mark.
fn policies(part: &Part, priority: i64) -> Vec<(String, Vec<String>, Option<String>)> {
    let rows = all::<LogicalRouterPolicy>(part).filter(|(_, row)| row.priority == priority);
    let mut found: Vec<_> = rows
        .map(|(_, row)| {
            let mut hops: Vec<String> = row.nexthops.iter().map(|hop| hop.to_string()).collect();
            hops.sort();
            (row.matches.to_string(), hops, row.options.get("pkt_mark").map(|mark| mark.to_string()))
        })
        .collect();
    found.sort();
    found
}

const POD: &str = "ip4.src == 203.203.0.5";

#[test]
fn scenario_31_the_pods_node_sends_to_all_egress_nodes_and_these_send_out() {
    let zone = cluster(2..=4, &[]);
    let both = Some(egress("e", 50_000, &["node1", "node2"]));
    let mark = Some("50000".to_owned());
    let hops = |list: &[&str]| list.iter().map(|hop| (*hop).to_owned()).collect::<Vec<_>>();
    let unmarked = format!("{POD} && pkt.mark == 0");

    let node1 = rows(&zone, "node1", both.clone());
    assert_eq!(policies(&node1, 100), [(POD.to_owned(), hops(&["100.88.0.10", "100.88.0.6"]), mark.clone())]);
    assert_eq!(policies(&node1, 95), [(unmarked.clone(), vec![], mark.clone())]);

    let node2 = rows(&zone, "node2", both.clone());
    assert_eq!(policies(&node2, 100), [(POD.to_owned(), hops(&["100.88.0.10"]), mark.clone())]);
    assert_eq!(policies(&node2, 95), [(unmarked, vec![], mark)]);

    let node3 = rows(&zone, "node3", both);
    assert_eq!((policies(&node3, 100), policies(&node3, 95)), (vec![], vec![]));
    // Replies, and traffic to nodes and services, go on as routed on all nodes.
    for part in [&node1, &node2, &node3] {
        let sets: Vec<Vec<String>> = all::<AddressSet>(part)
            .map(|(_, row)| row.addresses.iter().map(|address| address.to_string()).collect())
            .collect();
        assert!(sets.contains(&vec!["203.203.0.5".to_owned()]), "{sets:?}");
        assert!(sets.contains(&hops(&["172.18.0.2", "172.18.0.3", "172.18.0.4"])), "{sets:?}");
        assert!(sets.contains(&hops(&["10.96.0.1", "10.96.0.10"])), "{sets:?}");
        let inside = policies(part, 102);
        assert!(inside.iter().any(|(matches, ..)| matches == "pkt.mark == 42"), "{inside:?}");
        assert!(inside.iter().any(|(.., mark)| mark.as_deref() == Some("1008")), "{inside:?}");
        let (_, rule) = all::<Qos>(part).next().unwrap();
        assert!(rule.matches.ends_with(" && ct.trk && ct.rpl"), "{}", rule.matches);
        assert_eq!(rule.action.get("mark"), Some(&42));
    }
}

#[test]
fn scenario_32_a_node_that_lost_its_address_is_no_next_hop() {
    let zone = cluster(2..=4, &[]);
    let one = rows(&zone, "node1", Some(egress("e", 50_000, &["node1"])));
    assert_eq!(policies(&one, 100)[0].1, ["100.88.0.6"]);
    // Without any node the pod leaves by its own node's address, as if it had no EgressIP.
    let none = rows(&zone, "node1", Some(egress("e", 50_000, &[])));
    assert_eq!((policies(&none, 100), policies(&none, 95)), (vec![], vec![]));
    // An egress node without a chassis here is no next hop: OVN would drop the packets.
    let mut far = seen_from(&zone, "node1");
    far.remote_chassis.remove("ch2");
    let mut whole = network(&DUAL, &far.cluster);
    whole.pods[0].egress = Some(egress("e", 50_000, &["node2", "node3"]));
    assert_eq!(policies(&compiled(&far, &whole), 100)[0].1, ["100.88.0.14"]);
}

#[test]
fn scenario_33_without_the_object_no_row_of_it_is_left() {
    let zone = cluster(2..=4, &[]);
    for name in ["node1", "node2", "node3"] {
        let part = rows(&zone, name, None);
        let marked = part.rows().filter(|(_, row)| {
            row.external_ids().is_some_and(|ids| ids.contains_key("k8s.ovn.org/owner-type"))
        });
        assert_eq!(marked.count(), 0);
        assert_eq!(all::<AddressSet>(&part).count() + all::<Qos>(&part).count(), 0);
    }
}

#[test]
fn scenario_34_an_egress_node_needs_no_default_route() {
    let mut zone = cluster(2..=4, &[]);
    zone.nodes.get_mut("node2").unwrap().gateway.as_mut().unwrap().next_hops.clear();
    let way = || Some(egress("e", 50_000, &["node2"]));
    assert_eq!(policies(&rows(&zone, "node1", way()), 100)[0].1, ["100.88.0.10"]);
    assert_eq!(policies(&rows(&zone, "node2", way()), 100)[0].1, ["100.88.0.10"]);
    assert_eq!(policies(&rows(&zone, "node2", way()), 95).len(), 1);
}

#[test]
fn scenario_35_another_object_takes_over_in_the_same_row() {
    let zone = cluster(2..=4, &[]);
    let row = |name, mark| {
        let part = rows(&zone, "node1", Some(egress(name, mark, &["node2"])));
        let (uuid, row) = all::<LogicalRouterPolicy>(&part).find(|(_, row)| row.priority == 100).unwrap();
        (uuid, row.external_ids.get("k8s.ovn.org/name").map(|name| name.to_string()), row.action.clone())
    };
    let (older, newer) = (row("older", 50_000), row("newer", 50_001));
    assert_eq!(older.1.as_deref(), Some("older_test12/a"));
    assert_eq!(newer.1.as_deref(), Some("newer_test12/a"));
    assert_eq!((older.0, &older.2), (newer.0, &PolicyAction::Reroute));
}

#[test]
fn scenario_39_the_next_hop_is_the_join_address_until_the_egress_node_switches() {
    let way = || Some(egress("e", 50_000, &["node2"]));
    let mixed = rows(&cluster(2..=4, &["node2"]), "node1", way());
    assert_eq!(policies(&mixed, 100)[0].1, ["100.65.0.3"]);
    let port = "stor-test12_namespace.scoped_ovn_layer2_switch_node2";
    assert!(dump(&mixed).contains(port));
    // Both changes are in the rows of one instant, which are one transaction.
    let new = rows(&cluster(2..=4, &[]), "node1", way());
    assert_eq!(policies(&new, 100)[0].1, ["100.88.0.10"]);
    assert!(!dump(&new).contains(port));
}

#[test]
fn pods_of_old_nodes_leave_by_join_addresses_or_the_router_outside() {
    let zone = cluster(2..=4, &["node1", "node2"]);
    let from_node1 =
        |nodes: &[&str]| policies(&rows(&zone, "node1", Some(egress("e", 50_000, nodes))), 100)[0].1.clone();
    assert_eq!(from_node1(&["node2"]), ["100.65.0.3"]);
    assert_eq!(from_node1(&["node3"]), ["100.65.0.4"], "a new node answers on the switch");
    assert_eq!(from_node1(&["node1"]), ["172.18.0.1"]);
    // Traffic from old nodes enters a new one through the scaffold.
    let node3 = rows(&zone, "node3", Some(egress("e", 50_000, &["node3"])));
    assert_eq!(policies(&node3, 100)[0].1, ["100.88.0.14"]);
}
