//! The worked example of three nodes as golden files, and the rules that hold in every zone.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::IpAddr;

use ovn::target::{Part, Row};
use ovsdb::Uuid;
use ovsdb::wire::Datum;
use proptest::prelude::*;

use super::*;
use crate::address::PeerScheme;
use crate::annotation::{Annotation, ChassisId, GatewayMode, L3GatewayConfig, PodNetwork, TunnelKeys};
use crate::ident::{NetworkId, NodeId};
use crate::network::{AttachmentKey, ClusterNetwork, Layer2Input, NetworkName};
use crate::zone::{NameProfile, ZonePod};

// These tests run a real database.
#[allow(clippy::disallowed_methods, clippy::disallowed_types)]
mod database;

const OWNER: &str = "meridian";

fn node(id: u16) -> ZoneNode {
    let gateway = format!(
        r#"{{"default":{{"mode":"shared","bridge-id":"breth0","interface-id":"breth0_node","mac-address":"02:42:ac:12:00:{id:02x}",
            "ip-addresses":["172.18.0.{id}/16","fc00:f853:ccd:e793::{id:x}/64"],
            "next-hops":["172.18.0.1","fc00:f853:ccd:e793::1"],"node-port-enable":"true","vlan-id":"0"}}}}"#
    );
    let address = |text: String| text.parse().unwrap();
    ZoneNode {
        id: NodeId::new(id.into()).unwrap(),
        chassis: ChassisId::parse(&format!("ch{}", id - 1)).unwrap(),
        peers: None,
        gateway: Option::<L3GatewayConfig>::parse(&gateway).unwrap(),
        addresses: DualNet::from_nets([
            address(format!("172.18.0.{id}/16")),
            address(format!("fc00:f853:ccd:e793::{id:x}/64")),
        ])
        .unwrap(),
        has_gateway_mtu: true,
    }
}

/// node1 to node3 with the ids 2 to 4, seen from one of them.
fn zone(local: &str) -> ZoneSnapshot {
    let nodes: BTreeMap<String, ZoneNode> = (2..=4).map(|id| (format!("node{}", id - 1), node(id))).collect();
    let remote = nodes.iter().filter(|(name, _)| *name != local);
    ZoneSnapshot {
        local: local.to_owned(),
        cluster: ClusterNetwork::default(),
        default_mtu: 1400,
        profile: NameProfile::Seed,
        remote_chassis: remote.map(|(_, node)| node.chassis.as_str().to_owned()).collect(),
        nodes,
        shared_services: [
            ("default/kubernetes".to_owned(), vec!["10.96.0.1".parse().unwrap()]),
            ("kube-system/kube-dns".to_owned(), vec!["10.96.0.10".parse().unwrap()]),
        ]
        .into(),
    }
}

fn pod(name: &str, node: &str, last: u8, key: u16) -> ZonePod {
    ZonePod {
        attachment: AttachmentKey::new("test12", "namespace-scoped"),
        namespace: "test12".into(),
        name: name.into(),
        uid: format!("uid-of-{name}"),
        node: node.into(),
        addresses: PodNetwork {
            ip_addresses: vec![
                format!("203.203.0.{last}/16").parse().unwrap(),
                format!("2010:100:200::{last:x}/60").parse().unwrap(),
            ],
            mac_address: format!("0a:58:cb:cb:00:{last:02x}").parse().unwrap(),
            gateway_ips: Vec::new(),
            routes: Vec::new(),
            ip_address: None,
            gateway_ip: None,
            ipv6_lla_gateway_ip: None,
            tunnel_id: Some(key),
            role: Some("primary".into()),
        },
    }
}

fn network(subnets: &[&str], cluster: &ClusterNetwork) -> ZoneNetwork {
    let input = Layer2Input {
        path: "spec.layer2.",
        join_field: "joinSubnets",
        mtu: None,
        subnets: subnets.iter().map(|text| (*text).to_owned()).collect(),
        reserved: Vec::new(),
        infrastructure: Vec::new(),
        gateways: Vec::new(),
        join: Vec::new(),
        transit: None,
        is_allocated: true,
        persistent: false,
    };
    let network = input.check(NetworkName::of_namespaced("test12", "namespace-scoped"), cluster).unwrap();
    ZoneNetwork {
        network,
        id: NetworkId::new(1).unwrap(),
        keys: TunnelKeys::parse("[16711684,16715779]").unwrap(),
        pods: vec![pod("a", "node1", 5, 10), pod("b", "node3", 6, 11)],
    }
}

const DUAL: [&str; 2] = ["203.203.0.0/16", "2010:100:200::/60"];

fn compiled(zone: &ZoneSnapshot, network: &ZoneNetwork) -> Part {
    let out = compile(zone, network, OWNER);
    assert!(out.problems.is_empty(), "{:?}", out.problems);
    out.value
}

/// A column's value, or nothing if it is the default.
fn column(row: &dyn Row, name: &str) -> Option<String> {
    let at = row.columns().iter().position(|spec| spec.name == name)?;
    let datum: Datum = row.datum(at);
    let text = datum.to_string();
    (!datum.is_empty() && !["", "0", "false"].contains(&text.as_str())).then_some(text)
}

/// All rows, one per line, with names in the place of UUIDs. Rows are sorted, so that no order is part of the golden file.
fn dump(part: &Part) -> String {
    let mut names: BTreeMap<Uuid, String> = BTreeMap::new();
    for (id, row) in part.rows() {
        let name = column(row, "name").unwrap_or_else(|| {
            let columns =
                ["priority", "match", "type", "logical_ip", "ip_prefix", "nexthop", "logical_port", "ip"];
            let parts: Vec<String> = columns.iter().filter_map(|name| column(row, name)).collect();
            parts.join(" ")
        });
        assert!(names.insert(id.uuid, name).is_none(), "{id} is wanted twice");
    }
    let mut lines = BTreeSet::new();
    for (id, row) in part.rows() {
        let mut line = format!("{} {}", id.table, names[&id.uuid]);
        for spec in row.columns().iter().filter(|spec| !["name", "external_ids"].contains(&spec.name)) {
            if let Some(mut value) = column(row, spec.name) {
                for (uuid, name) in &names {
                    value = value.replace(&uuid.to_string(), &format!("<{name}>"));
                }
                write!(line, "\n    {}: {value}", spec.name).unwrap();
            }
        }
        assert!(lines.insert(line.clone()), "two rows are the same: {line}");
    }
    lines.into_iter().collect::<Vec<_>>().join("\n")
}

#[test]
fn scenario_16_three_zones_have_the_rows_of_the_worked_example() {
    for name in ["node1", "node2", "node3"] {
        let zone = zone(name);
        insta::assert_snapshot!(
            format!("seed_{name}"),
            dump(&compiled(&zone, &network(&DUAL, &zone.cluster)))
        );
    }
}

#[test]
fn scenario_17_names_and_numbers_of_ovn_kubernetes() {
    let mut zone = zone("node3");
    (zone.profile, zone.cluster.peers) = (NameProfile::Upstream, PeerScheme::Upstream);
    let part = compiled(&zone, &network(&DUAL, &zone.cluster));
    insta::assert_snapshot!("upstream_node3", dump(&part));
}

#[test]
fn scenario_18_a_network_of_one_family_has_nothing_of_the_other() {
    let zone = zone("node1");
    let mut ipv6 = network(&["2010:100:200::/60"], &zone.cluster);
    ipv6.pods.clear();
    let text = dump(&compiled(&zone, &ipv6));
    for ipv4 in ["203.203", "100.65", "100.88", "169.254", "172.18", "ip4"] {
        assert!(!text.contains(ipv4), "{ipv4} in\n{text}");
    }
    assert!(text.contains("mac: 0a:58:d7:eb:90:5e") && text.contains("router_preference=LOW"), "{text}");
    let mut ipv4 = network(&["203.203.0.0/16"], &zone.cluster);
    ipv4.pods.clear();
    let text = dump(&compiled(&zone, &ipv4));
    for ipv6 in ["fd97", "fd99", "fd69", "2010:", "ip6", "ipv6_ra_configs"] {
        assert!(!text.contains(ipv6), "{ipv6} in\n{text}");
    }
}

#[test]
fn scenario_19_a_node_without_its_chassis_row_has_no_remote_ports() {
    let mut zone = zone("node1");
    let whole = network(&DUAL, &zone.cluster);
    let all = compiled(&zone, &whole).rows().count();
    zone.remote_chassis.remove("ch3");
    let text = dump(&compiled(&zone, &whole));
    assert!(!text.contains("trtor-GR_test12_namespace.scoped_node3"), "{text}");
    assert!(!text.contains("test12.namespace.scoped_test12_b"), "its pods wait as well\n{text}");
    // A router port, two routes to the join addresses, two neighbours, a pod.
    assert_eq!(all - compiled(&zone, &whole).rows().count(), 1 + 2 + 2 + 1);
}

#[test]
fn scenario_24_every_next_hop_has_a_default_route() {
    let mut zone = zone("node1");
    let local = zone.nodes.get_mut("node1").unwrap();
    local.gateway.as_mut().unwrap().next_hops.push("172.18.0.254".parse().unwrap());
    let text = dump(&compiled(&zone, &network(&DUAL, &zone.cluster)));
    for hop in ["172.18.0.1", "172.18.0.254", "fc00:f853:ccd:e793::1"] {
        assert!(text.contains(&format!("/0 {hop}\n")), "{hop} in\n{text}");
    }
}

#[test]
fn scenario_25_mtu_and_vlan_follow_the_node() {
    let mut zone = zone("node1");
    let local = zone.nodes.get_mut("node1").unwrap();
    local.has_gateway_mtu = false;
    local.gateway.as_mut().unwrap().vlan = Some(100);
    let text = dump(&compiled(&zone, &network(&DUAL, &zone.cluster)));
    assert!(!text.contains("gateway_mtu"), "{text}");
    assert!(text.contains("tag_request: 100"), "{text}");
}

#[test]
fn in_local_mode_traffic_leaves_through_the_host() {
    let mut zone = zone("node1");
    zone.nodes.get_mut("node1").unwrap().gateway.as_mut().unwrap().mode = GatewayMode::Local;
    let text = dump(&compiled(&zone, &network(&DUAL, &zone.cluster)));
    assert!(text.contains("Logical_Router_Static_Route 203.203.0.0/16 203.203.0.2\n"), "{text}");
    assert!(text.contains("ct-commit-all=true") && !text.contains("10.96.0.1/32"), "{text}");
}

#[test]
fn a_node_that_switched_its_gateway_off_has_no_way_out() {
    let mut zone = zone("node1");
    zone.nodes.get_mut("node1").unwrap().gateway = None;
    let text = dump(&compiled(&zone, &network(&DUAL, &zone.cluster)));
    assert!(!text.contains("rtoe-") && !text.contains("ext_") && !text.contains("0.0.0.0/0"), "{text}");
}

#[test]
fn rows_stay_while_the_local_node_is_not_ready() {
    let mut zone = zone("node1");
    zone.nodes.remove("node1");
    let out = compile(&zone, &network(&DUAL, &zone.cluster), OWNER);
    assert!(out.value.is_empty());
    assert_eq!(out.problems[0].code, "node-not-ready");
    assert!(out.keep.contains(&ObjectId::new("network", "test12_namespace-scoped")));
}

#[test]
fn remote_chassis_are_marked_as_remote() {
    let encaps: Vec<IpAddr> = vec!["172.18.0.3".parse().unwrap()];
    let text = dump(&compile_chassis("node2", &node(3), encaps, OWNER));
    assert!(text.contains("other_config: {is-remote=true}") && text.contains("ip: 172.18.0.3"), "{text}");
}

/// The tunnel keys of a zone by the name of the port.
fn keys(part: &Part) -> BTreeMap<String, String> {
    let ports = part.rows().filter(|(id, _)| id.table.ends_with("_Port"));
    let keyed = ports.filter_map(|(_, row)| {
        let options = column(row, "options")?;
        let key = options.split("requested-tnl-key=").nth(1)?.split([',', '}']).next()?.to_owned();
        Some((column(row, "name")?, key))
    });
    keyed.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// OVN delivers to the wrong port where keys differ between zones, without an error.
    #[test]
    fn ports_have_one_key_in_all_zones(ids in prop::collection::btree_set(2_u16..=250, 1..6)) {
        let mut snapshot = zone("node1");
        snapshot.nodes = ids.iter().map(|id| (format!("n{id}"), node(*id))).collect();
        snapshot.remote_chassis = snapshot.nodes.values().map(|node| node.chassis.as_str().to_owned()).collect();
        let mut whole = network(&DUAL, &snapshot.cluster);
        whole.pods = ids.iter().zip(10..).map(|(id, key)| pod(&format!("p{id}"), &format!("n{id}"), *id as u8, key)).collect();
        let mut all: BTreeMap<String, String> = BTreeMap::new();
        for name in snapshot.nodes.keys().cloned().collect::<Vec<_>>() {
            snapshot.local = name;
            let part = compiled(&snapshot, &whole);
            let own = keys(&part);
            for (port, key) in own {
                let known = all.entry(port.clone()).or_insert_with(|| key.clone());
                prop_assert_eq!(&*known, &key, "{}", port);
            }
        }
        for id in &ids {
            let port = format!("trtor-GR_test12_namespace.scoped_n{id}");
            prop_assert_eq!(&all[&port], &(10 + id).to_string());
        }
    }
}
