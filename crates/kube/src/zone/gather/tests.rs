use kube::core::DynamicObject;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::cluster::decode::{Part, decode};
use crate::cluster::kind::{Kind, Reader};
use crate::cluster::snapshot::{Described, Objects};
use crate::network::{Layer2Input, render_config};
use crate::zone::desired::compile;

const TEST: &str = "test12/namespace-scoped";

fn settings() -> ZoneSettings {
    ZoneSettings {
        node: "node1".to_owned(),
        cluster: ClusterNetwork::default(),
        default_mtu: 1400,
        profile: NameProfile::Seed,
        shared_services: [ObjectName { namespace: "kube-system".into(), name: "kube-dns".into() }].into(),
    }
}

fn put<T: Described>(objects: &mut Objects<T>, object: T) {
    let name = object.meta().object_name();
    objects.insert(name, std::sync::Arc::new(object));
}

/// Puts an object of the API into a snapshot, as the program of a node reads it.
fn add(snapshot: &mut Snapshot, kind: Kind, object: Value) {
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    match decode(Reader::Node, kind, object) {
        Some(Part::Node(it)) => put(&mut snapshot.nodes, it),
        Some(Part::Pod(it)) => put(&mut snapshot.pods, it),
        Some(Part::Attachment(it)) => put(&mut snapshot.attachments, it),
        Some(Part::Service(it)) => put(&mut snapshot.services, it),
        Some(Part::Slice(it)) => put(&mut snapshot.slices, it),
        _ => {}
    }
}

fn node(id: u16) -> Value {
    let n = id - 1;
    let peers = ClusterNetwork::default();
    let peers = peers.peers.derive(peers.transit, NodeId::new(id.into()).unwrap());
    let gateway = format!(
        r#"{{"default":{{"mode":"shared","bridge-id":"breth0","interface-id":"breth0_node{n}","mac-address":"02:42:ac:12:00:0{id}",
            "ip-addresses":["172.18.0.{id}/16"],"next-hops":["172.18.0.1"]}}}}"#
    );
    json!({ "metadata": { "name": format!("node{n}"), "uid": format!("n{n}"), "annotations": {
        "k8s.ovn.org/node-id": id.to_string(),
        "k8s.ovn.org/node-chassis-id": format!("ch{n}"),
        "k8s.ovn.org/node-encap-ips": format!("[\"172.18.0.{id}\"]"),
        "k8s.ovn.org/node-transit-peer-ports-subnet": TransitPeerSubnet(peers).format(),
        "k8s.ovn.org/layer2-topology-version": "2.0",
        "k8s.ovn.org/l3-gateway-config": gateway,
        "k8s.ovn.org/node-primary-ifaddr": format!("{{\"ipv4\":\"172.18.0.{id}/16\"}}"),
    } } })
}

fn config(namespace: &str, name: &str, subnet: &str) -> String {
    let input = Layer2Input {
        path: "spec.layer2.",
        join_field: "joinSubnets",
        mtu: None,
        subnets: vec![subnet.to_owned()],
        reserved: Vec::new(),
        infrastructure: Vec::new(),
        gateways: Vec::new(),
        join: Vec::new(),
        transit: None,
        is_allocated: true,
        persistent: false,
    };
    let network =
        input.check(NetworkName::of_namespaced(namespace, name), &ClusterNetwork::default()).unwrap();
    render_config(&network, &AttachmentKey::new(namespace, name))
}

fn definition(namespace: &str, name: &str, id: u16, subnet: &str) -> Value {
    json!({
        "metadata": { "namespace": namespace, "name": name, "uid": format!("a-{namespace}-{name}"),
            "ownerReferences": [{ "apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork", "name": name,
                "uid": "u", "controller": true }],
            "annotations": {
                "k8s.ovn.org/network-name": format!("{namespace}_{name}"),
                "k8s.ovn.org/network-id": id.to_string(),
                "k8s.ovn.org/tunnel-keys": format!("[{},{}]", 16_711_683 + u32::from(id), 16_715_778 + u32::from(id)),
            } },
        "spec": { "config": config(namespace, name, subnet) },
    })
}

fn pod(namespace: &str, name: &str, node: &str, key: &str, entry: Value) -> Value {
    json!({
        "metadata": { "namespace": namespace, "name": name, "uid": format!("p-{name}"),
            "annotations": { "k8s.ovn.org/pod-networks": json!({ key: entry }).to_string() } },
        "spec": { "nodeName": node },
    })
}

fn entry(last: u8, key: u16) -> Value {
    json!({ "ip_addresses": [format!("203.203.0.{last}/16")], "mac_address": format!("0a:58:cb:cb:00:{last:02x}"),
        "tunnel_id": key, "role": "primary" })
}

fn remote() -> BTreeSet<String> {
    ["ch2".to_owned(), "ch3".to_owned()].into()
}

/// Three nodes, a network, a pod on each of two nodes.
fn cluster() -> Snapshot {
    let mut all = Snapshot::default();
    (2..=4).for_each(|id| add(&mut all, Kind::Node, node(id)));
    add(&mut all, Kind::Attachment, definition("test12", "namespace-scoped", 1, "203.203.0.0/16"));
    add(&mut all, Kind::Pod, pod("test12", "a", "node1", TEST, entry(5, 10)));
    add(&mut all, Kind::Pod, pod("test12", "b", "node3", TEST, entry(6, 11)));
    let dns = json!({ "metadata": { "namespace": "kube-system", "name": "kube-dns" },
        "spec": { "clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10", "fd00:10:96::a"] } });
    add(&mut all, Kind::Service, dns);
    all
}

fn gathered(all: &Snapshot) -> ZoneContents {
    gather(all, &settings(), remote())
}

#[test]
fn the_api_becomes_the_inputs_of_a_zone() {
    let out = gathered(&cluster());
    assert!(out.problems.is_empty() && out.keep.is_empty(), "{out:?}");
    assert!(out.zone.nodes.keys().eq(["node1", "node2", "node3"]));
    let local = &out.zone.nodes["node1"];
    assert_eq!(local.gateway.as_ref().unwrap().bridge, "breth0");
    assert_eq!(out.zone.shared_services["kube-system/kube-dns"].len(), 2, "both families");
    let [network] = &out.networks[..] else { panic!("{:?}", out.networks) };
    assert_eq!((network.id.get(), network.pods.len()), (1, 2));
    let compiled = compile(&out.zone, network, "meridian");
    assert!(compiled.problems.is_empty() && !compiled.value.is_empty());
}

#[test]
fn scenario_19_and_20_a_node_has_rows_once_it_has_id_and_chassis_in_any_order() {
    for missing in ["k8s.ovn.org/node-id", "k8s.ovn.org/node-chassis-id"] {
        let mut all = cluster();
        let mut bare = node(3);
        bare["metadata"]["annotations"].as_object_mut().unwrap().remove(missing);
        add(&mut all, Kind::Node, bare);
        let out = gathered(&all);
        assert!(out.zone.nodes.keys().eq(["node1", "node3"]) && out.problems.is_empty(), "{missing}");
        add(&mut all, Kind::Node, node(3));
        assert!(gathered(&all).zone.nodes.contains_key("node2"), "{missing}");
    }
}

#[test]
fn unreadable_annotations_of_a_node_keep_its_rows() {
    for (key, value) in [
        ("k8s.ovn.org/node-id", "x"),
        ("k8s.ovn.org/node-chassis-id", "a,b"),
        ("k8s.ovn.org/node-encap-ips", "[]"),
        // Another node's addresses, and addresses that are not the cluster's.
        ("k8s.ovn.org/node-transit-peer-ports-subnet", r#"{"ipv4":"203.203.0.8/30"}"#),
        ("k8s.ovn.org/layer2-topology-version", "1.0"),
    ] {
        let mut all = cluster();
        let mut bad = node(4);
        bad["metadata"]["annotations"][key] = value.into();
        add(&mut all, Kind::Node, bad);
        let out = gathered(&all);
        assert!(out.zone.unreadable.contains("node3") && out.problems[0].code == "unreadable-node", "{key}");
        let compiled = compile(&out.zone, &out.networks[0], "meridian");
        assert!(
            compiled
                .keep
                .contains(&ObjectId::new("remote-gateway", "trtor-GR_test12_namespace.scoped_node3"))
        );
        assert!(compiled.keep.contains(&ObjectId::new("pod", "test12.namespace.scoped_test12_b")));
    }
}

#[test]
fn a_network_without_numbers_waits_and_one_with_wrong_ones_keeps_its_rows() {
    let change = |change: &dyn Fn(&mut Value)| {
        let mut all = cluster();
        let mut object = definition("test12", "namespace-scoped", 1, "203.203.0.0/16");
        change(&mut object);
        add(&mut all, Kind::Attachment, object);
        gathered(&all)
    };
    let waiting = change(&|object| drop(object["metadata"]["annotations"].take()));
    assert!(waiting.networks.is_empty() && waiting.problems.is_empty(), "{:?}", waiting.problems);
    let pod_port = ObjectId::new("pod", "test12.namespace.scoped_test12_a");
    let network = ObjectId::new("network", "test12_namespace-scoped");
    assert!(waiting.keep.contains(&network) && waiting.keep.contains(&pod_port), "{:?}", waiting.keep);
    for (key, value) in [
        ("k8s.ovn.org/network-id", "4096"),
        ("k8s.ovn.org/network-id", "2"),
        ("k8s.ovn.org/tunnel-keys", "[1,2]"),
        ("k8s.ovn.org/network-name", "blue_net"),
    ] {
        let out = change(&|object| object["metadata"]["annotations"][key] = value.into());
        assert!(out.networks.is_empty() && out.problems[0].code == "unreadable-definition", "{key}");
        assert!(out.keep.contains(&network) && out.keep.contains(&pod_port), "{key}");
        assert!(out.named.contains("test12_namespace-scoped"), "{key}");
    }
}

#[test]
fn no_definition_takes_the_number_or_the_name_of_another_network() {
    // Written by hand with the id of the first network, and older than it.
    let mut all = cluster();
    let mut copy = definition("red", "net", 1, "10.9.0.0/16");
    copy["metadata"]["ownerReferences"] = json!([]);
    add(&mut all, Kind::Attachment, copy);
    let out = gathered(&all);
    assert_eq!(out.networks.len(), 1);
    assert_eq!(out.networks[0].network.name.as_str(), "test12_namespace-scoped", "{:?}", out.problems);
    assert_eq!(out.problems[0].code, "network-conflict");
    // Written by hand with the name of another namespace's network.
    let mut all = cluster();
    let mut thief = definition("red", "net", 1, "203.203.0.0/16");
    thief["metadata"]["ownerReferences"] = json!([]);
    let stolen = config("test12", "namespace-scoped", "203.203.0.0/16").replace(TEST, "red/net");
    thief["spec"]["config"] = stolen.into();
    add(&mut all, Kind::Attachment, thief);
    add(&mut all, Kind::Pod, pod("red", "x", "node1", "red/net", entry(9, 20)));
    let out = gathered(&all);
    assert_eq!(out.networks[0].pods.len(), 2, "the thief's pod is not on it");
    assert!(out.problems.iter().any(|it| it.to_string().contains("may not join")), "{:?}", out.problems);
}

#[test]
fn pods_get_no_rows_that_belong_to_others() {
    let gateway =
        json!({ "ip_addresses": ["203.203.0.1/16"], "mac_address": "0a:58:cb:cb:00:07", "tunnel_id": 12 });
    let outside =
        json!({ "ip_addresses": ["10.0.0.1/16"], "mac_address": "0a:58:cb:cb:00:07", "tunnel_id": 12 });
    let mac =
        json!({ "ip_addresses": ["203.203.0.7/16"], "mac_address": "0a:58:cb:cb:00:01", "tunnel_id": 12 });
    for (bad, words) in [
        (gateway, "no address 203.203.0.1"),
        (outside, "no address 10.0.0.1"),
        (mac, "belongs to the network itself"),
        (entry(7, 10), "another pod has its tunnel key 10"),
        (entry(7, 1), "belongs to the network itself"),
        (json!("x"), "the entry"),
    ] {
        let mut all = cluster();
        let mut late = pod("test12", "late", "node1", TEST, bad);
        late["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
        add(&mut all, Kind::Pod, late);
        let out = gathered(&all);
        assert_eq!(out.networks[0].pods.len(), 2, "{words}");
        assert!(out.problems[0].to_string().contains(words), "{words}: {:?}", out.problems);
        assert!(out.keep.contains(&ObjectId::new("pod", "test12.namespace.scoped_test12_late")), "{words}");
    }
    // A definition of another namespace, and an annotation that nobody can read.
    let mut all = cluster();
    add(&mut all, Kind::Pod, pod("red", "x", "node1", TEST, entry(7, 12)));
    let mut broken = pod("test12", "y", "node1", TEST, entry(8, 13));
    broken["metadata"]["annotations"]["k8s.ovn.org/pod-networks"] = "{".into();
    add(&mut all, Kind::Pod, broken);
    let out = gathered(&all);
    assert_eq!(out.networks[0].pods.len(), 2);
    assert!(out.keep.contains(&ObjectId::new("pod", "test12.namespace.scoped_test12_y")));
    assert_eq!(out.problems.len(), 1, "{:?}", out.problems);
}

#[test]
fn services_have_the_mirrored_endpoints_of_their_network_and_no_others() {
    let mut all = cluster();
    let web = json!({ "metadata": { "namespace": "test12", "name": "web" },
        "spec": { "clusterIP": "10.96.0.50", "ports": [{ "name": "http", "protocol": "TCP", "port": 80 }] } });
    add(&mut all, Kind::Service, web);
    let slice = |name: &str, network: &str, labels: Value, addresses: &[&str], ready: bool| {
        json!({ "metadata": { "namespace": "test12", "name": name, "labels": labels,
                "annotations": { "k8s.ovn.org/endpointslice-network": network } },
            "addressType": "IPv4", "ports": [{ "name": "http", "protocol": "TCP", "port": 8080 }],
            "endpoints": [{ "addresses": addresses, "conditions": { "ready": ready } }] })
    };
    let mirrored = || json!({ "k8s.ovn.org/service-name": "web" });
    let own = "test12_namespace-scoped";
    for object in [
        // A backend outside of the network would let a tenant reach anything, and the gateway's address is nobody's backend.
        slice("a", own, mirrored(), &["203.203.0.5", "8.8.8.8", "203.203.0.1"], true),
        slice("b", own, mirrored(), &["203.203.0.6"], false),
        slice("c", "blue_net", mirrored(), &["203.203.0.7"], true),
        slice("d", own, json!({ "kubernetes.io/service-name": "web" }), &["203.203.0.8"], true),
    ] {
        add(&mut all, Kind::EndpointSlice, object);
    }
    let out = gathered(&all);
    let [service] = &out.networks[0].services[..] else { panic!("{:?}", out.networks[0].services) };
    assert_eq!((service.name.as_str(), service.ports[0].port), ("test12/web", 80));
    assert_eq!(service.ports[0].backends, [("203.203.0.5".parse().unwrap(), 8080)].into());
}

fn hostile() -> impl Strategy<Value = String> {
    let start = config("test12", "namespace-scoped", "203.203.0.0/16");
    prop_oneof![
        Just(String::new()),
        "\\PC{0,40}",
        "[\\[\\]{}\",:0-9a-f./]{0,60}",
        (0..start.len()).prop_map(move |at| start.chars().take(at).collect()),
        Just(r#"{"ipv4":"100.88.0.8/30"}"#.to_owned()),
        Just("[16711684,16715779]".to_owned()),
        (0_u32..70_000).prop_map(|number| number.to_string()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever stands in annotations, nothing panics, and no row has a number or an address that nobody gave.
    #[test]
    fn hostile_annotations_never_become_rows(key in 0_usize..11, text in hostile()) {
        let mut all = cluster();
        let node_keys = ["node-id", "node-chassis-id", "node-encap-ips", "node-transit-peer-ports-subnet",
            "layer2-topology-version", "l3-gateway-config", "node-primary-ifaddr"];
        if let Some(name) = node_keys.get(key) {
            for id in [2, 4] {
                let mut bad = node(id);
                bad["metadata"]["annotations"][format!("k8s.ovn.org/{name}")] = text.clone().into();
                add(&mut all, Kind::Node, bad);
            }
        } else {
            let mut bad = definition("test12", "namespace-scoped", 1, "203.203.0.0/16");
            match key {
                7 => bad["metadata"]["annotations"]["k8s.ovn.org/network-id"] = text.clone().into(),
                8 => bad["metadata"]["annotations"]["k8s.ovn.org/tunnel-keys"] = text.clone().into(),
                9 => bad["spec"]["config"] = text.clone().into(),
                _ => {
                    let mut pod = pod("test12", "a", "node1", TEST, entry(5, 10));
                    pod["metadata"]["annotations"]["k8s.ovn.org/pod-networks"] = text.clone().into();
                    add(&mut all, Kind::Pod, pod);
                }
            }
            add(&mut all, Kind::Attachment, bad);
        }
        let out = gathered(&all);
        for network in &out.networks {
            prop_assert!(network.keys.belong_to(network.id));
            for pod in &network.pods {
                prop_assert!(pod.addresses.addresses().all(|net| network.network.may_be_requested(net.addr())));
            }
            let _ = compile(&out.zone, network, "meridian");
        }
    }
}
