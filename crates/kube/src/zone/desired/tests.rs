//! The worked example of three nodes as golden files, and the rules that hold in every zone.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use ovn::target::{Part, Row};
use ovsdb::Uuid;
use ovsdb::wire::Datum;
use proptest::prelude::*;

use super::*;
use crate::address::PeerScheme;
use crate::annotation::{
    Annotation, ChassisId, GatewayMode, GatewayPortKeys, L3GatewayConfig, PodNetwork, TunnelKeys,
};
use crate::cluster::snapshot::Protocol;
use crate::ident::{NetworkId, NodeId};
use crate::network::{AttachmentKey, ClusterNetwork, Layer2Input, NetworkName};
use crate::upgrade::LastingRows;
use crate::zone::migration::PodTraffic;
use crate::zone::{NameProfile, ZonePod, ZoneService, ZoneServicePort};

// These tests run a real database.
#[allow(clippy::disallowed_methods, clippy::disallowed_types)]
mod database;
mod egress;
mod migration;
// These tests run a real database.
#[allow(clippy::disallowed_methods, clippy::disallowed_types)]
mod takeover;
mod upgrade;

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
        encaps: [format!("172.18.0.{id}").parse().unwrap()].into(),
        is_new: true,
        peers: Some(
            PeerScheme::Seed.derive(ClusterNetwork::default().transit, NodeId::new(id.into()).unwrap()),
        ),
        gateway: Option::<L3GatewayConfig>::parse(&gateway).unwrap(),
        addresses: DualNet::from_nets([
            address(format!("172.18.0.{id}/16")),
            address(format!("fc00:f853:ccd:e793::{id:x}/64")),
        ])
        .unwrap(),
        has_gateway_mtu: true,
        old_keys: GatewayPortKeys::default(),
    }
}

/// node1 to node3 with the ids 2 to 4, seen from one of them.
fn zone(local: &str) -> ZoneSnapshot {
    let nodes: BTreeMap<String, ZoneNode> = (2..=4).map(|id| (format!("node{}", id - 1), node(id))).collect();
    let remote = nodes.iter().filter(|(name, _)| *name != local);
    ZoneSnapshot {
        local: local.to_owned(),
        topology: Topology::New,
        cluster: ClusterNetwork::default(),
        default_mtu: 1400,
        profile: NameProfile::Seed,
        remote_chassis: remote.map(|(_, node)| node.chassis.as_str().to_owned()).collect(),
        nodes,
        unreadable: BTreeSet::new(),
        lasting: LastingRows::default(),
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
        traffic: PodTraffic::Passes,
        egress: None,
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
        services: Vec::new(),
    }
}

/// The network of the worked example.
pub(crate) fn dual_network() -> crate::network::Layer2Network {
    network(&DUAL, &ClusterNetwork::default()).network
}

/// The nodes of the worked example.
pub(crate) fn three_nodes() -> BTreeMap<String, ZoneNode> {
    zone("node1").nodes
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
        for spec in row.columns().iter().filter(|spec| spec.name != "name") {
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
    // ovn-kubernetes writes no peer subnets into annotations.
    zone.nodes.values_mut().for_each(|node| node.peers = None);
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
    // The chassis appears, and with it exactly these rows.
    zone.remote_chassis.insert("ch3".into());
    assert_eq!(compiled(&zone, &whole).rows().count(), all);
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
    // The address of the node changes: its policy is replaced.
    zone.nodes.get_mut("node1").unwrap().addresses.ipv4 = Some("172.18.0.99/16".parse().unwrap());
    let text = dump(&compiled(&zone, &network(&DUAL, &zone.cluster)));
    assert!(text.contains("ip4.dst == 172.18.0.99") && !text.contains("ip4.dst == 172.18.0.2"), "{text}");
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
    let out = compile_chassis(&zone("node1"), &ChassisSeen::default(), OWNER);
    assert!(out.problems.is_empty() && out.value.keys().eq(["node2", "node3"]), "{out:?}");
    let text = dump(&out.value["node2"]);
    assert!(text.contains("other_config: {is-remote=true}") && text.contains("ip: 172.18.0.3"), "{text}");
}

#[test]
fn chassis_of_other_programs_serve_and_conflicts_are_reported() {
    let foreign = |name: &str, is_remote| ChassisSeen {
        foreign: [(name.to_owned(), is_remote)].into(),
        ..ChassisSeen::default()
    };
    let remote = compile_chassis(&zone("node1"), &foreign("ch2", true), OWNER);
    assert!(remote.problems.is_empty() && remote.value.keys().eq(["node3"]), "{remote:?}");
    let local = compile_chassis(&zone("node1"), &foreign("ch2", false), OWNER);
    assert_eq!(local.problems[0].code, "chassis-of-this-zone");
    let ends = [("172.18.0.3".parse().unwrap(), "before".to_owned())].into();
    let taken =
        compile_chassis(&zone("node1"), &ChassisSeen { foreign_ends: ends, ..ChassisSeen::default() }, OWNER);
    assert_eq!(taken.problems[0].code, "tunnel-address-conflict");
    assert!(taken.value.keys().eq(["node3"]), "one bad node stops no other");
    let mut copied = zone("node1");
    copied.nodes.get_mut("node3").unwrap().chassis = ChassisId::parse("ch1").unwrap();
    let own = compile_chassis(&copied, &ChassisSeen::default(), OWNER);
    assert_eq!(own.problems[0].code, "chassis-conflict");
}

#[test]
fn rows_of_a_node_whose_annotations_do_not_parse_stay() {
    let mut zone = zone("node1");
    zone.nodes.remove("node3");
    zone.unreadable.insert("node3".into());
    let seen = ChassisSeen { own: [("node3".to_owned(), "ch3".to_owned())].into(), ..ChassisSeen::default() };
    let out = compile_chassis(&zone, &seen, OWNER);
    assert!(out.keep.contains(&ObjectId::new("chassis", "ch3")), "{out:?}");
    let out = compile(&zone, &network(&DUAL, &zone.cluster), OWNER);
    for (kind, id) in [
        ("remote-gateway", "trtor-GR_test12_namespace.scoped_node3"),
        ("pod", "test12.namespace.scoped_test12_b"),
    ] {
        assert!(out.keep.contains(&ObjectId::new(kind, id)), "{id} in {:?}", out.keep);
    }
}

#[test]
fn a_pod_that_loses_its_key_keeps_its_port() {
    let zone = zone("node1");
    let mut whole = network(&DUAL, &zone.cluster);
    whole.pods[0].addresses.tunnel_id = None;
    let out = compile(&zone, &whole, OWNER);
    assert_eq!(out.problems[0].code, "pod-without-key");
    assert!(out.keep.contains(&ObjectId::new("pod", "test12.namespace.scoped_test12_a")));
}

#[test]
fn peer_subnets_are_never_guessed() {
    let mut zone = zone("node1");
    let whole = network(&DUAL, &zone.cluster);
    zone.nodes.get_mut("node3").unwrap().peers = None;
    let text = dump(&compiled(&zone, &whole));
    assert!(!text.contains("trtor-GR_test12_namespace.scoped_node3"), "{text}");
    assert!(text.contains("test12.namespace.scoped_test12_b"), "its pods do not need them\n{text}");
    zone.nodes.get_mut("node1").unwrap().peers = None;
    let out = compile(&zone, &whole, OWNER);
    assert_eq!(out.problems[0].code, "node-not-ready");
    // ovn-kubernetes derives all of them.
    zone.profile = NameProfile::Upstream;
    assert!(compile(&zone, &whole, OWNER).problems.is_empty());
}

#[test]
fn a_node_of_the_old_topology_has_no_port_on_the_transit_router() {
    let mut zone = zone("node1");
    zone.nodes.get_mut("node3").unwrap().is_new = false;
    let text = dump(&compiled(&zone, &network(&DUAL, &zone.cluster)));
    assert!(!text.contains("trtor-GR_test12_namespace.scoped_node3"), "{text}");
    assert!(text.contains("test12.namespace.scoped_test12_b"), "pods do not depend on it\n{text}");
}

#[test]
fn scenario_13_a_network_with_its_own_transit_subnet_derives_its_peers() {
    let zone = zone("node1");
    let whole = network(&["100.88.0.0/16"], &zone.cluster);
    assert_eq!(whole.network.transit.ipv4.unwrap().to_string(), "100.89.0.0/16");
    let text = dump(&compiled(&zone, &whole));
    assert!(text.contains("networks: [100.89.0.5/30]") || text.contains("networks: 100.89.0.5/30"), "{text}");
    // The nodes' annotations are those of the cluster's transit subnet.
    assert!(!text.contains("100.88.0.5/30"), "{text}");
}

/// A service with an address of each family and two ports, whose pods are on two nodes.
fn service() -> ZoneService {
    let backends = |port| {
        let all = ["203.203.0.5", "203.203.0.6", "2010:100:200::5"];
        all.map(|ip| (ip.parse().unwrap(), port)).into()
    };
    let port = |protocol, port, target| ZoneServicePort { protocol, port, backends: backends(target) };
    ZoneService {
        name: "test12/web".into(),
        addresses: vec!["10.96.0.50".parse().unwrap(), "fd00:10:96::50".parse().unwrap()],
        ports: vec![port(Protocol::Tcp, 80, 8080), port(Protocol::Udp, 53, 5353)],
        affinity: Some(60),
    }
}

#[test]
fn services_are_load_balancers_of_the_switch_and_the_gateway_router() {
    let zone = zone("node1");
    let mut whole = network(&DUAL, &zone.cluster);
    whole.services.push(service());
    let text = dump(&compiled(&zone, &whole));
    let balancers: Vec<&str> =
        text.split("\nLoad_Balancer").skip(1).map(|rows| rows.split("\nL").next().unwrap()).collect();
    insta::assert_snapshot!("service", balancers.join("\n"));
    for group in ["GR_test12_namespace.scoped_node1", "test12_namespace.scoped_ovn_layer2_switch"] {
        let row = text.split(&format!(" {group}\n")).nth(1).unwrap();
        let row = row.split("\nL").next().unwrap();
        assert!(
            row.contains("load_balancer_group: <test12_namespace.scoped_clusterLBGroup>"),
            "{group}\n{row}"
        );
    }
    // A service without pods refuses its clients.
    whole.services[0].ports.iter_mut().for_each(|port| port.backends.clear());
    let text = dump(&compiled(&zone, &whole));
    assert!(text.contains("reject=true") && !text.contains(":8080"), "{text}");
}

#[test]
fn every_row_names_its_object() {
    let zone = zone("node1");
    let mut whole = network(&DUAL, &zone.cluster);
    whole.services.push(service());
    let part = compiled(&zone, &whole);
    let mut desired = ovn::target::Desired::default();
    desired.add(&part);
    for (id, row) in part.rows() {
        let object = name_row(id.uuid, row);
        assert_eq!(object.as_ref(), desired.owner(id), "{id} {row:?}");
    }
}

/// The tunnel keys of a zone by the name of the port, the switch or the router.
fn keys(part: &Part) -> BTreeMap<String, String> {
    let keyed = part.rows().filter_map(|(_, row)| {
        let options = column(row, "options").into_iter().chain(column(row, "other_config"));
        let mut key = options.filter_map(|text| {
            Some(text.split("requested-tnl-key=").nth(1)?.split([',', '}']).next()?.to_owned())
        });
        Some((column(row, "name")?, key.next_back()?))
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
        // The datapaths as well: without their keys, packets end in another network.
        prop_assert_eq!(&all["test12_namespace.scoped_ovn_layer2_switch"], "16711684");
        prop_assert_eq!(&all["test12_namespace.scoped_ovn_cluster_router"], "16715779");
        for id in &ids {
            let port = format!("trtor-GR_test12_namespace.scoped_n{id}");
            prop_assert_eq!(&all[&port], &(10 + id).to_string());
        }
    }
}
