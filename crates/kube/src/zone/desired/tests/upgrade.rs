//! The rolling upgrade: the rows of every zone while nodes switch one by one.

use ovn::nb::{LogicalRouter, LogicalRouterPort, LogicalSwitch, LogicalSwitchPort};
use ovsdb::{Map, Str};

use super::*;

/// A cluster of nodes `node1`, `node2`, … with keys of the old topology; those named are on it.
pub(super) fn cluster(ids: impl IntoIterator<Item = u16>, old: &[&str]) -> ZoneSnapshot {
    let mut zone = zone("node1");
    let named = |id: u16| {
        let name = format!("node{}", id - 1);
        let mut node = node(id);
        // Keys that pods of other networks could have too, and in another order than the nodes.
        node.old_keys.0.insert("test12_namespace-scoped".into(), 300 - id);
        node.is_new = !old.contains(&name.as_str());
        (name, node)
    };
    zone.nodes = ids.into_iter().map(named).collect();
    zone
}

/// The same cluster from the zone of a node.
pub(super) fn seen_from(zone: &ZoneSnapshot, local: &str) -> ZoneSnapshot {
    let remote = zone.nodes.iter().filter(|(name, _)| *name != local);
    ZoneSnapshot {
        local: local.to_owned(),
        topology: if zone.nodes[local].is_new { Topology::New } else { Topology::Old },
        remote_chassis: remote.map(|(_, node)| node.chassis.as_str().to_owned()).collect(),
        ..zone.clone()
    }
}

fn rows_of(zone: &ZoneSnapshot, local: &str) -> Part {
    let zone = seen_from(zone, local);
    compiled(&zone, &network(&DUAL, &zone.cluster))
}

const ALL: [&str; 3] = ["node1", "node2", "node3"];

#[test]
fn scenario_36_nodes_switch_one_by_one() {
    let before = cluster(2..=4, &ALL);
    for name in ALL {
        insta::assert_snapshot!(format!("s0_{name}"), dump(&rows_of(&before, name)));
    }
    let first = cluster(2..=4, &["node2", "node3"]);
    insta::assert_snapshot!("s1_node1", dump(&rows_of(&first, "node1")));
    for name in ["node2", "node3"] {
        assert_eq!(dump(&rows_of(&first, name)), dump(&rows_of(&before, name)), "{name} has not switched");
    }
    let second = cluster(2..=4, &["node3"]);
    for name in ["node1", "node2"] {
        insta::assert_snapshot!(format!("s1_second_{name}"), dump(&rows_of(&second, name)));
    }
    let after = cluster(2..=4, &[]);
    for name in ALL {
        let never_old = zone(name);
        let expected = compiled(&never_old, &network(&DUAL, &never_old.cluster));
        assert_eq!(dump(&rows_of(&after, name)), dump(&expected), "{name}");
    }
}

#[test]
fn rows_with_connections_keep_their_identity_when_a_node_switches() {
    let ids = |old: &[&str]| -> BTreeMap<(String, Uuid), String> {
        let part = rows_of(&cluster(2..=4, old), "node1");
        let name =
            |row: &dyn Row| column(row, "name").or_else(|| column(row, "logical_ip")).unwrap_or_default();
        part.rows().map(|(id, row)| ((id.table.to_string(), id.uuid), name(row))).collect()
    };
    let (before, after) = (ids(&ALL), ids(&["node2", "node3"]));
    let stays = |text: &str| {
        let (id, _) =
            before.iter().find(|(_, name)| *name == text).unwrap_or_else(|| panic!("no {text} before"));
        assert_eq!(after.get(id).map(String::as_str), Some(text));
    };
    for name in [
        "GR_test12_namespace.scoped_node1",
        "rtoe-GR_test12_namespace.scoped_node1",
        "test12_namespace.scoped_ovn_layer2_switch",
        "test12.namespace.scoped_test12_a",
        "test12.namespace.scoped_test12_b",
        "k8s-test12_namespace.scoped_node1",
        "stor-test12_namespace.scoped_ovn_layer2_switch_node2",
        "203.203.0.0/16",
        "100.65.0.2/32",
    ] {
        stays(name);
    }
    // The port of this name moves to another router: OVN gets another row.
    let port = |rows: &BTreeMap<(String, Uuid), String>| {
        let mut found =
            rows.iter().filter(|(_, name)| *name == "rtos-test12_namespace.scoped_ovn_layer2_switch");
        found.next().unwrap().0.1
    };
    assert_ne!(port(&before), port(&after));
}

#[test]
fn scenario_38_join_addresses_win_against_any_pod_subnet() {
    for subnet in ["203.203.0.0/24", "203.192.0.0/12"] {
        let zone = seen_from(&cluster(2..=4, &["node2"]), "node1");
        let mut whole = network(&[subnet], &zone.cluster);
        whole.pods.clear();
        let text = dump(&compiled(&zone, &whole));
        for route in ["100.65.0.2/32 100.88.0.6", "100.65.0.3/32 100.65.0.3", "100.65.0.4/32 100.88.0.14"] {
            assert!(text.contains(&format!("Logical_Router_Static_Route {route}\n")), "{route} in\n{text}");
        }
    }
}

#[test]
fn scenario_39_the_rows_of_an_old_node_and_its_new_ones_change_together() {
    let text = |old: &[&str]| dump(&rows_of(&cluster(2..=4, old), "node1"));
    let (old, new) = (text(&["node2"]), text(&[]));
    for (rows, other) in [(&old, &new), (&new, &old)] {
        let is_old = rows == &old;
        let gone = ["stor-test12_namespace.scoped_ovn_layer2_switch_node2", "100.65.0.3/32 100.65.0.3"];
        let come =
            ["Logical_Router_Port trtor-GR_test12_namespace.scoped_node2", "100.65.0.3/32 100.88.0.10"];
        for part in if is_old { gone } else { come } {
            assert!(rows.contains(part) && !other.contains(part), "{part}");
        }
    }
}

#[test]
fn scenario_40_a_deleted_old_node_takes_its_rows_and_the_last_one_the_scaffold() {
    let mut zone = cluster(2..=4, &["node2", "node3"]);
    zone.nodes.remove("node2");
    let text = dump(&rows_of(&zone, "node1"));
    assert!(!text.contains("node2") && !text.contains("100.65.0.3"), "{text}");
    assert!(text.contains("rtos-GR_test12_namespace.scoped_node1"), "node3 is still old\n{text}");
    zone.nodes.remove("node3");
    let text = dump(&rows_of(&zone, "node1"));
    for part in ["rtos-GR_", "stor-GR_", "100.65.255.254", "169.254.0.12/17", "_node3"] {
        assert!(!text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn scenario_43_a_join_subnet_without_room_keeps_the_old_topology() {
    let mut zone = cluster([2, 3, 14], &["node1", "node2", "node13"]);
    let mut whole = network(&DUAL, &zone.cluster);
    whole.network.join.ipv4 = Some("100.65.0.0/28".parse().unwrap());
    let conflict = crate::upgrade::join_conflict(&whole.network, &zone.nodes).unwrap();
    assert_eq!(crate::upgrade::JoinConflict::REASON, "JoinSubnetTooSmall");
    assert!(conflict.to_string().contains("node node13 has its last address 100.65.0.14"), "{conflict}");
    // A node that is new already, because it never was an old one, keeps its rows without the scaffold.
    zone.nodes.get_mut("node1").unwrap().is_new = true;
    let out = compile(&seen_from(&zone, "node1"), &whole, OWNER);
    assert_eq!(out.problems[0].code, "join-subnet-too-small");
    let text = dump(&out.value);
    assert!(text.contains("trtor-GR_test12_namespace.scoped_node1") && !text.contains("rtos-GR_"), "{text}");
    whole.network.join.ipv4 = Some("100.65.0.0/24".parse().unwrap());
    assert_eq!(crate::upgrade::join_conflict(&whole.network, &zone.nodes), None);
}

#[test]
fn gateway_routers_without_keys_are_reported_and_wait() {
    let mut zone = cluster(2..=4, &["node2", "node3"]);
    let without = |node: &mut ZoneNode| node.old_keys.0 = [("other-network".to_owned(), 12)].into();
    without(zone.nodes.get_mut("node3").unwrap());
    let out = compile(&seen_from(&zone, "node1"), &network(&DUAL, &zone.cluster), OWNER);
    assert_eq!(out.problems.len(), 1);
    assert!(out.problems[0].message.contains("gateway router of node3 on"), "{:?}", out.problems);
    let text = dump(&out.value);
    assert!(text.contains("ovn_layer2_switch_node2") && !text.contains("ovn_layer2_switch_node3"), "{text}");
    without(zone.nodes.get_mut("node1").unwrap());
    let out = compile(&seen_from(&zone, "node1"), &network(&DUAL, &zone.cluster), OWNER);
    assert!(
        out.problems.iter().any(|it| it.message.contains("gateway router of node1 on")),
        "{:?}",
        out.problems
    );
    assert!(!dump(&out.value).contains("stor-GR_"));
}

#[test]
fn a_network_that_gave_platform_keys_away_chooses_others() {
    let mut zone = cluster(2..=4, &["node2", "node3"]);
    let keys = |node: &mut ZoneNode, key| _ = node.old_keys.0.insert("test12_namespace-scoped".into(), key);
    keys(zone.nodes.get_mut("node1").unwrap(), 1);
    keys(zone.nodes.get_mut("node2").unwrap(), 2);
    let mut whole = network(&DUAL, &zone.cluster);
    whole.pods[0].addresses.tunnel_id = Some(3);
    let text = dump(&compiled(&seen_from(&zone, "node1"), &whole));
    assert!(
        text.contains("{requested-tnl-key=4, router-port=rtos-test12_namespace.scoped_ovn_layer2_switch}"),
        "{text}"
    );
    assert!(text.contains("k8s-test12_namespace.scoped_node1\n    options: {requested-tnl-key=5}"), "{text}");
    whole.pods = (3..=9).map(|key| pod(&format!("p{key}"), "node1", key as u8 + 3, key)).collect();
    let text = dump(&compiled(&seen_from(&zone, "node1"), &whole));
    assert!(
        text.contains("{router-port=rtos-test12_namespace.scoped_ovn_layer2_switch}"),
        "OVN chooses\n{text}"
    );
}

#[test]
fn an_old_node_in_local_mode_sends_egress_to_the_host() {
    let mut zone = cluster(2..=4, &ALL);
    zone.nodes.get_mut("node1").unwrap().gateway.as_mut().unwrap().mode = GatewayMode::Local;
    let text = dump(&rows_of(&zone, "node1"));
    assert!(text.contains("Logical_Router_Static_Route 203.203.0.0/16 203.203.0.2\n"), "{text}");
    assert!(!text.contains("10.96.0.1/32"), "{text}");
}

#[test]
fn names_of_ovn_kubernetes_in_the_mixed_stage() {
    let mut zone = cluster(2..=4, &["node2", "node3"]);
    zone.profile = NameProfile::Upstream;
    let text = dump(&rows_of(&zone, "node1"));
    for name in [
        "Logical_Router_Port trtos-test12_namespace.scoped_ovn_layer2_switch-upgrade\n",
        "Logical_Switch_Port stotr-test12_namespace.scoped_ovn_layer2_switch-upgrade\n",
        "Logical_Switch_Port stor-test12_namespace.scoped_ovn_layer2_switch_node2\n",
        "Logical_Router_Port trtos-test12_namespace.scoped_ovn_layer2_switch\n",
    ] {
        assert!(text.contains(name), "{name} in\n{text}");
    }
}

#[test]
fn a_node_is_old_as_long_as_it_has_keys_and_no_mark() {
    let mut node = node(2);
    for (is_new, has_keys, is_old) in [(true, true, false), (false, true, true), (false, false, false)] {
        node.is_new = is_new;
        node.old_keys.0 = has_keys.then(|| ("n".to_owned(), 4)).into_iter().collect();
        assert_eq!(node.is_old(), is_old);
    }
}

pub(super) fn all<'p, T: 'static>(part: &'p Part) -> impl Iterator<Item = (Uuid, &'p T)> + 'p {
    part.rows().filter_map(|(id, row)| Some((id.uuid, row.as_any().downcast_ref::<T>()?)))
}

fn key_of(options: &Map<Str, Str>) -> Option<u16> {
    options.get("requested-tnl-key").map(|text| text.parse().unwrap())
}

/// The keys on the layer-2 switch by the party that answers there: a pod, or the gateway router of a node.
fn switch_keys(part: &Part, local: &str) -> Vec<(String, u16)> {
    let switch = "test12_namespace.scoped_ovn_layer2_switch";
    let scaffold = format!("stor-GR_test12_namespace.scoped_{local}");
    let is_old = !all::<LogicalRouter>(part).any(|(_, row)| row.name.ends_with("ovn_cluster_router"));
    let meaning = |name: &str| {
        if name == scaffold || (is_old && name == format!("stor-{switch}")) {
            return format!("gateway of {local}");
        }
        if let Some(node) = name.strip_prefix(&format!("stor-{switch}_")) {
            return format!("gateway of {node}");
        }
        if name == format!("stor-{switch}") { "transit router".to_owned() } else { name.to_owned() }
    };
    let (_, row) = all::<LogicalSwitch>(part).find(|(_, row)| row.name == *switch).unwrap();
    let ports: BTreeSet<Uuid> = row.ports.iter().map(|port| port.uuid()).collect();
    let on_switch = all::<LogicalSwitchPort>(part).filter(|(uuid, _)| ports.contains(uuid));
    // Management ports never leave their zone.
    let shared = on_switch.filter(|(_, row)| !row.name.starts_with("k8s-"));
    shared.filter_map(|(_, row)| Some((meaning(&row.name), key_of(&row.options)?))).collect()
}

/// What must hold within one zone.
fn check_zone(part: &Part, local: &str) -> Result<(), TestCaseError> {
    let keys = switch_keys(part, local);
    let distinct: BTreeSet<u16> = keys.iter().map(|(_, key)| *key).collect();
    prop_assert_eq!(distinct.len(), keys.len(), "two ports of {} share a key: {:?}", local, keys);
    let mut names = BTreeSet::new();
    for (_, row) in all::<LogicalSwitchPort>(part) {
        prop_assert!(names.insert(row.name.to_string()), "{} twice", row.name);
    }
    let routers: BTreeSet<String> =
        all::<LogicalRouterPort>(part).map(|(_, row)| row.name.to_string()).collect();
    prop_assert_eq!(routers.len(), all::<LogicalRouterPort>(part).count());
    for (_, row) in all::<LogicalSwitchPort>(part) {
        if let Some(port) = row.options.get("router-port") {
            prop_assert!(routers.contains(port.as_str()), "{} leads to no port", row.name);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_order_of_switches_ends_in_the_new_topology(
        order in prop::collection::btree_set(2_u16..=250, 1..6).prop_flat_map(|ids| {
            Just(ids.into_iter().collect::<Vec<_>>()).prop_shuffle()
        }),
    ) {
        let names: Vec<String> = order.iter().map(|id| format!("node{}", id - 1)).collect();
        for switched in 0..=names.len() {
            let old: Vec<&str> = names[switched..].iter().map(String::as_str).collect();
            let zone = cluster(order.iter().copied(), &old);
            let mut whole = network(&DUAL, &zone.cluster);
            whole.pods = names.iter().zip(10..).map(|(name, key)| pod(&format!("p{key}"), name, key as u8, key)).collect();
            let mut shared: BTreeMap<String, u16> = BTreeMap::new();
            for local in &names {
                let own = seen_from(&zone, local);
                let part = compiled(&own, &whole);
                check_zone(&part, local)?;
                // The transit router's port never leaves its zone, but all zones choose the same key.
                for (party, key) in switch_keys(&part, local) {
                    prop_assert_eq!(*shared.entry(party.clone()).or_insert(key), key, "{} in {}", party, local);
                }
                if switched == names.len() {
                    let mut fresh = own.clone();
                    fresh.nodes.values_mut().for_each(|node| node.old_keys = GatewayPortKeys::default());
                    prop_assert_eq!(dump(&part), dump(&compiled(&fresh, &whole)));
                }
            }
        }
    }
}
