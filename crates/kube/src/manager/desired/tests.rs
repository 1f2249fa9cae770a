//! The decider and the plan over a pretended API of JSON objects, which refuses patches whose tests fail.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::plan::plan;
use super::super::settings::PeerSource;
use super::super::state::{NAMESPACE_LABEL, Observed};
use super::*;
use crate::annotation::{
    Annotation, GatewayPortKeys, PodNetworks, TopologyVersion, TransitPeerSubnet, TunnelKeys,
};
use crate::cluster::decode::{Part, decode};
use crate::cluster::kind::Reader;
use crate::cluster::snapshot::{Described, ObjectName};
use crate::cluster::write::{Change, PatchOp, Write};
use crate::ident::{NetworkId, NodeId};

/// The objects of the pretended API.
#[derive(Debug, Default)]
struct World {
    objects: BTreeMap<(Kind, ObjectName), Value>,
    version: u64,
    events: BTreeSet<String>,
}

impl World {
    fn create(&mut self, kind: Kind, namespace: &str, name: &str, mut object: Value) {
        self.version += 1;
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.insert("namespace".into(), json!(namespace));
        metadata.insert("name".into(), json!(name));
        metadata.insert("uid".into(), json!(format!("uid-{}", self.version)));
        metadata.insert("creationTimestamp".into(), json!("2026-11-01T00:00:00Z"));
        metadata.insert("resourceVersion".into(), json!(self.version.to_string()));
        let key = (kind, ObjectName { namespace: namespace.into(), name: name.into() });
        self.objects.insert(key, object);
    }

    fn node(&mut self, name: &str) {
        self.create(Kind::Node, "", name, json!({ "metadata": {} }));
    }

    fn namespace_with_network(&mut self, namespace: &str, subnets: &[&str]) {
        self.create(
            Kind::Namespace,
            "",
            namespace,
            json!({ "metadata": { "labels": { NAMESPACE_LABEL: "" } } }),
        );
        let spec = json!({ "topology": "Layer2", "layer2": { "role": "Primary", "subnets": subnets } });
        self.create(Kind::UserDefinedNetwork, namespace, "net", json!({ "metadata": {}, "spec": spec }));
    }

    fn pod(&mut self, namespace: &str, name: &str) {
        self.create(Kind::Pod, namespace, name, json!({ "metadata": {}, "spec": { "nodeName": "n" } }));
    }

    fn annotate(&mut self, kind: Kind, namespace: &str, name: &str, key: &str, value: Option<&str>) {
        let name = ObjectName { namespace: namespace.into(), name: name.into() };
        let Some(object) = self.objects.get_mut(&(kind, name)) else { return };
        let annotations =
            object["metadata"].as_object_mut().unwrap().entry("annotations").or_insert_with(|| json!({}));
        match value {
            Some(value) => drop(annotations.as_object_mut().unwrap().insert(key.into(), json!(value))),
            None => drop(annotations.as_object_mut().unwrap().remove(key)),
        }
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
    }

    fn annotations_of(&self, kind: Kind, key: &str) -> BTreeMap<ObjectName, String> {
        let of = |object: &Value| object["metadata"]["annotations"][key].as_str().map(|text| text.to_owned());
        let all = self.objects.iter().filter(|((of_kind, _), _)| *of_kind == kind);
        all.filter_map(|((_, name), object)| Some((name.clone(), of(object)?))).collect()
    }

    fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for ((kind, _), object) in &self.objects {
            let object = serde_json::from_value(object.clone()).unwrap();
            match decode(Reader::Manager, *kind, object) {
                Some(Part::Node(it)) => put(&mut snapshot.nodes, it),
                Some(Part::Namespace(it)) => put(&mut snapshot.namespaces, it),
                Some(Part::Pod(it)) => put(&mut snapshot.pods, it),
                Some(Part::Network(it)) => put(&mut snapshot.networks, it),
                Some(Part::ClusterNetwork(it)) => put(&mut snapshot.cluster_networks, it),
                Some(Part::Attachment(it)) => put(&mut snapshot.attachments, it),
                Some(Part::Claim(it)) => put(&mut snapshot.claims, it),
                Some(Part::EgressIp(it)) => put(&mut snapshot.egress_ips, it),
                Some(Part::Service(_) | Part::Slice(_)) | None => {}
            }
        }
        snapshot
    }

    /// One run of the loop; `reaches` says which writes reach the API. Returns their number.
    fn run(&mut self, decider: &mut ManagerDecider, mut reaches: impl FnMut() -> bool) -> usize {
        let snapshot = self.snapshot();
        let outcome = decider.desire(&snapshot);
        let observed = Observed { objects: snapshot, events: self.events.clone() };
        let planned = plan(&outcome.value, &observed);
        let mut count = 0;
        let mut failed = BTreeSet::new();
        for step in &planned.steps {
            if !failed.contains(&step.object) && reaches() {
                self.write(&step.op);
                count += 1;
            } else {
                failed.insert(step.object.clone());
            }
        }
        count
    }

    /// Runs until nothing is left to do.
    fn converge(&mut self, decider: &mut ManagerDecider) {
        for _ in 0..12 {
            if self.run(decider, || true) == 0 {
                return;
            }
        }
        panic!("the loop does not converge");
    }

    fn write(&mut self, write: &Write) {
        let key = (write.kind, write.name.clone());
        match &write.change {
            Change::Create { object } => {
                assert!(!self.objects.contains_key(&key), "created twice: {write}");
                self.create(write.kind, &write.name.namespace, &write.name.name, object.clone());
            }
            Change::Patch { ops, .. } | Change::PatchStatus { ops, .. } => {
                let object = self.objects.get_mut(&key).unwrap();
                let mut changed = object.clone();
                for op in ops {
                    patch(&mut changed, op).unwrap_or_else(|error| panic!("{write}: {error} in {ops:?}"));
                }
                self.version += 1;
                changed["metadata"]["resourceVersion"] = json!(self.version.to_string());
                let is_gone = changed["metadata"]["deletionTimestamp"].is_string()
                    && changed["metadata"]["finalizers"].as_array().is_none_or(|it| it.is_empty());
                if is_gone { drop(self.objects.remove(&key)) } else { *object = changed }
            }
            Change::SetCondition { conditions, .. } => {
                self.objects.get_mut(&key).unwrap()["status"] = json!({ "conditions": conditions });
                self.version += 1;
                self.objects.get_mut(&key).unwrap()["metadata"]["resourceVersion"] =
                    json!(self.version.to_string());
            }
            Change::Delete { .. } => self.delete(write.kind, &write.name.namespace, &write.name.name),
            Change::Notify { event, .. } => drop(self.events.insert(event.clone())),
        }
    }

    fn delete(&mut self, kind: Kind, namespace: &str, name: &str) {
        let key = (kind, ObjectName { namespace: namespace.into(), name: name.into() });
        let Some(object) = self.objects.get_mut(&key) else { return };
        self.version += 1;
        if object["metadata"]["finalizers"].as_array().is_some_and(|it| !it.is_empty()) {
            object["metadata"]["deletionTimestamp"] = json!("2026-11-01T00:00:01Z");
            object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        } else {
            self.objects.remove(&key);
        }
    }
}

fn put<T: Described>(objects: &mut crate::cluster::snapshot::Objects<T>, object: T) {
    objects.insert(object.meta().object_name(), std::sync::Arc::new(object));
}

/// One operation of a JSON patch, for paths without array indexes.
fn patch(object: &mut Value, op: &PatchOp) -> Result<(), String> {
    match op {
        PatchOp::Test { path, value } => {
            let found = object.pointer(path).unwrap_or(&Value::Null);
            if found == value { Ok(()) } else { Err(format!("{path} is {found} and not {value}")) }
        }
        PatchOp::Add { path, value } => {
            let (parent, key) = path.rsplit_once('/').unwrap();
            let parent = object.pointer_mut(parent).and_then(|it| it.as_object_mut()).ok_or("no parent")?;
            parent.insert(key.replace("~1", "/").replace("~0", "~"), value.clone());
            Ok(())
        }
        PatchOp::Remove { path } => Err(format!("{path}: nobody removes anything")),
    }
}

fn settings() -> ManagerSettings {
    ManagerSettings::default()
}

/// The cause why two objects share a number, if any do.
fn shared(world: &World) -> Option<String> {
    let mut ids = BTreeMap::new();
    for (name, id) in world.annotations_of(Kind::Node, NodeId::KEY) {
        if let Some(other) = ids.insert(id.clone(), name.clone()) {
            return Some(format!("nodes {other} and {name} share {id}"));
        }
    }
    let mut subnets: Vec<(ObjectName, TransitPeerSubnet)> = Vec::new();
    for (name, text) in world.annotations_of(Kind::Node, TransitPeerSubnet::KEY) {
        let subnet = TransitPeerSubnet::parse(&text).unwrap();
        for (other, taken) in &subnets {
            if taken.0.nets().any(|a| subnet.0.nets().any(|b| crate::address::nets_overlap(a, b))) {
                return Some(format!("nodes {other} and {name} share {text}"));
            }
        }
        subnets.push((name, subnet));
    }
    for key in [NetworkId::KEY, TunnelKeys::KEY] {
        let mut numbers = BTreeSet::new();
        for (name, number) in world.annotations_of(Kind::Attachment, key) {
            if !numbers.insert(number.clone()) {
                return Some(format!("definition {name} shares {key}={number}"));
            }
        }
    }
    let mut used = BTreeSet::new();
    for (name, text) in world.annotations_of(Kind::Pod, PodNetworks::KEY) {
        let networks = PodNetworks::parse(&text).unwrap();
        let key = format!("{}/net", name.namespace);
        let entry = networks.get(&key).unwrap().unwrap();
        for value in
            entry.addresses().map(|net| net.to_string()).chain([format!("key {}", entry.tunnel_id.unwrap())])
        {
            if !used.insert((name.namespace.clone(), value.clone())) {
                return Some(format!("pod {name} shares {value}"));
            }
        }
    }
    None
}

#[test]
fn scenario_06_a_cluster_with_too_many_nodes_serves_all_but_the_last() {
    let mut world = World::default();
    for n in 0..5000 {
        world.node(&format!("node{n}"));
    }
    let mut decider = ManagerDecider::new(settings());
    let snapshot = world.snapshot();
    let outcome = decider.desire(&snapshot);
    let ids: BTreeSet<&String> =
        outcome.value.annotations.values().map(|values| &values[NodeId::KEY]).collect();
    assert_eq!(ids.len(), 4999);
    assert!(ids.contains(&"2".to_owned()) && ids.contains(&"5000".to_owned()));
    let [problem] = outcome.problems.as_slice() else { panic!("{} problems", outcome.problems.len()) };
    assert_eq!(problem.object, ObjectId::new("node", "node4999"));
    assert_eq!((problem.code.as_str(), outcome.value.notices.len()), ("NodeIDsExhausted", 1));
    // Nobody lost anything by it.
    assert_eq!(decider.desire(&snapshot).value, outcome.value);
}

#[test]
fn a_second_run_writes_nothing_and_neither_does_a_new_process() {
    let mut world = World::default();
    world.node("a");
    world.namespace_with_network("red", &["10.0.0.0/24", "fd01::/64"]);
    world.pod("red", "one");
    let mut decider = ManagerDecider::new(settings());
    world.converge(&mut decider);
    assert_eq!(world.run(&mut decider, || true), 0);
    assert_eq!(world.run(&mut ManagerDecider::new(settings()), || true), 0);
    let pods = world.annotations_of(Kind::Pod, PodNetworks::KEY);
    assert!(pods.values().next().unwrap().contains("10.0.0.3/24"), "{pods:?}");
    assert_eq!(shared(&world), None);
}

#[test]
fn a_deleted_network_takes_its_definition_along_only_when_no_pod_uses_it() {
    let mut world = World::default();
    world.namespace_with_network("red", &["10.0.0.0/24"]);
    world.pod("red", "one");
    let mut decider = ManagerDecider::new(settings());
    world.converge(&mut decider);
    world.delete(Kind::UserDefinedNetwork, "red", "net");
    world.converge(&mut decider);
    assert_eq!(world.annotations_of(Kind::Attachment, NetworkId::KEY).len(), 1, "a pod uses it");
    world.delete(Kind::Pod, "red", "one");
    world.converge(&mut decider);
    let left: Vec<&(Kind, ObjectName)> = world.objects.keys().collect();
    assert!(matches!(left.as_slice(), [(Kind::Namespace, _)]), "{left:?}");
}

#[test]
fn networks_whose_rows_would_have_the_same_names_exclude_each_other() {
    let mut world = World::default();
    for (namespace, name) in [("one", "a-b"), ("two", "a.b")] {
        let labels = json!({ NAMESPACE_LABEL: "", "is": namespace });
        world.create(Kind::Namespace, "", namespace, json!({ "metadata": { "labels": labels } }));
        let spec = json!({
            "namespaceSelector": { "matchLabels": { "is": namespace } },
            "network": { "topology": "Layer2", "layer2": { "role": "Primary", "subnets": ["10.0.0.0/24"] } },
        });
        world.create(Kind::ClusterUserDefinedNetwork, "", name, json!({ "metadata": {}, "spec": spec }));
    }
    let mut decider = ManagerDecider::new(settings());
    world.converge(&mut decider);
    assert_eq!(world.annotations_of(Kind::Attachment, NetworkId::KEY).len(), 1);
    let problems = decider.desire(&world.snapshot()).problems;
    assert!(problems[0].message.contains("too much like that of network cluster_udn_a-b"), "{problems:?}");
}

#[test]
fn an_allocated_subnet_of_a_deleted_node_waits_before_it_is_used_again() {
    let settings = ManagerSettings { peers: PeerSource::Allocated, ..settings() };
    let mut decider = ManagerDecider::new(settings);
    let mut world = World::default();
    world.node("a");
    let subnet_of = |decider: &mut ManagerDecider, world: &World, name: &str, now: i64| {
        let outcome = decider.desire(&Snapshot { now, ..world.snapshot() });
        let found = outcome.value.annotations.iter().find(|(object, _)| object.name.name == name);
        found.unwrap().1[TransitPeerSubnet::KEY].clone()
    };
    let first = subnet_of(&mut decider, &world, "a", 0);
    assert_eq!(first, r#"{"ipv4":"100.88.0.4/30","ipv6":"fd97::2/127"}"#);
    world.delete(Kind::Node, "", "a");
    world.node("b");
    assert_ne!(subnet_of(&mut decider, &world, "b", 10), first);
    drop(decider.desire(&Snapshot { now: 60, ..world.snapshot() }));
    assert_eq!(decider.nodes.allocated_peers(), 1, "the grace is over");
}

/// The key of a node's gateway router in the network of namespace `ns`.
fn gateway_key(world: &World, node: &str) -> Option<u16> {
    let all = world.annotations_of(Kind::Node, GatewayPortKeys::KEY);
    let text = all.get(&ObjectName { namespace: String::new(), name: node.into() })?;
    GatewayPortKeys::parse(text).unwrap().0.get("ns_net").copied()
}

#[test]
fn gateway_routers_have_keys_of_the_old_topology_while_a_node_is_old() {
    let mut world = World::default();
    for node in ["n1", "n2", "n3"] {
        world.node(node);
    }
    world.namespace_with_network("ns", &["203.203.0.0/16"]);
    world.pod("ns", "p1");
    let mut decider = ManagerDecider::new(ManagerSettings::default());
    world.converge(&mut decider);
    assert_eq!(world.annotations_of(Kind::Node, GatewayPortKeys::KEY), BTreeMap::new(), "no node is old");

    // ovn-kubernetes gave keys to two nodes, one of them the key of a pod here, and n3 has come since.
    let key = GatewayPortKeys::KEY;
    world.annotate(Kind::Node, "", "n1", key, Some(r#"{"ns_net":"4","other_net":"7"}"#));
    world.annotate(Kind::Node, "", "n2", key, Some(r#"{"ns_net":"10"}"#));
    world.converge(&mut decider);
    let given: Vec<Option<u16>> = ["n1", "n2", "n3"].map(|node| gateway_key(&world, node)).to_vec();
    assert_eq!(given[0], Some(4));
    assert!(given[1].is_some_and(|it| it > 10) && given[2].is_some_and(|it| it > 10), "{given:?}");
    assert_ne!(given[1], given[2]);

    // Another manager, an edit, and new pods change nothing.
    let mut decider = ManagerDecider::new(ManagerSettings::default());
    for pod in ["p2", "p3", "p4"] {
        world.pod("ns", pod);
    }
    world.converge(&mut decider);
    world.annotate(Kind::Node, "", "n2", key, Some(r#"{"ns_net":"5"}"#));
    world.converge(&mut decider);
    assert_eq!(["n1", "n2", "n3"].map(|node| gateway_key(&world, node)).to_vec(), given);

    // One after the other switches. The keys stay until the last one has.
    for node in ["n3", "n1", "n2"] {
        assert_eq!(gateway_key(&world, "n1"), Some(4));
        world.annotate(Kind::Node, "", node, TopologyVersion::KEY, Some("2.0"));
        world.converge(&mut decider);
    }
    let left = world.annotations_of(Kind::Node, key);
    let texts: Vec<&str> = left.values().map(|text| text.as_str()).collect();
    assert_eq!(texts, [r#"{"other_net":"7"}"#, "{}", "{}"], "entries of others stay");
    world.pod("ns", "p5");
    world.converge(&mut decider);
}

#[test]
fn pods_of_old_nodes_have_the_gateway_router_of_their_node_as_gateway() {
    let mut world = World::default();
    world.node("n");
    world.node("other");
    world.namespace_with_network("ns", &["203.203.0.0/16", "2010:100:200::/60"]);
    let mut decider = ManagerDecider::new(ManagerSettings::default());
    world.converge(&mut decider);
    let gateway = |world: &World, pod: &str| {
        let all = world.annotations_of(Kind::Pod, PodNetworks::KEY);
        let text = &all[&ObjectName { namespace: "ns".into(), name: pod.into() }];
        PodNetworks::parse(text)
            .unwrap()
            .get("ns/net")
            .unwrap()
            .unwrap()
            .ipv6_lla_gateway_ip
            .unwrap()
            .to_string()
    };
    world.pod("ns", "before");
    world.converge(&mut decider);
    // Pods of these tests run on node n, the one with id 2.
    world.annotate(Kind::Node, "", "n", GatewayPortKeys::KEY, Some(r#"{"ns_net":"4"}"#));
    world.pod("ns", "old");
    world.converge(&mut decider);
    world.annotate(Kind::Node, "", "n", TopologyVersion::KEY, Some("2.0"));
    world.pod("ns", "after");
    world.converge(&mut decider);
    assert_eq!(gateway(&world, "old"), "fe80::858:64ff:fe41:2");
    for pod in ["before", "after"] {
        assert_eq!(gateway(&world, pod), "fe80::858:cbff:fecb:1", "{pod}");
    }
}

#[test]
fn keys_that_nobody_can_read_keep_the_cluster_in_the_mixed_stage() {
    let mut world = World::default();
    for node in ["n1", "n2"] {
        world.node(node);
    }
    world.namespace_with_network("ns", &["203.203.0.0/16"]);
    world.annotate(Kind::Node, "", "n1", GatewayPortKeys::KEY, Some("x"));
    let mut decider = ManagerDecider::new(ManagerSettings::default());
    world.converge(&mut decider);
    assert!(gateway_key(&world, "n2").is_some());
    let all = world.annotations_of(Kind::Node, GatewayPortKeys::KEY);
    assert!(all.values().any(|text| text == "x"), "the manager leaves it to the operator");
    let problems = decider.desire(&world.snapshot()).problems;
    assert!(problems.iter().any(|it| it.code == "GatewayKeysInvalid"), "{problems:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Objects come and go, annotations are edited, writes get lost, and the process is killed, in any order.
    #[test]
    fn no_number_is_given_twice_whatever_happens(
        steps in proptest::collection::vec((0u8..10, 0u8..6, any::<u16>()), 1..50),
        is_allocated: bool,
    ) {
        let peers = if is_allocated { PeerSource::Allocated } else { PeerSource::Derived };
        let settings = ManagerSettings { peers, ..settings() };
        let mut decider = ManagerDecider::new(settings.clone());
        let mut world = World::default();
        for namespace in ["red", "blue"] {
            world.namespace_with_network(namespace, &["10.0.0.0/27", "fd01::/64"]);
        }
        for (what, which, losses) in steps {
            let (node, pod) = (format!("node{which}"), format!("pod{}", which / 2));
            let namespace = if which % 2 == 0 { "red" } else { "blue" };
            let exists = |world: &World, kind, namespace: &str, name: &str| {
                world.objects.contains_key(&(kind, ObjectName { namespace: namespace.into(), name: name.into() }))
            };
            match what {
                0 if !exists(&world, Kind::Node, "", &node) => world.node(&node),
                1 => world.delete(Kind::Node, "", &node),
                2 | 3 if !exists(&world, Kind::Pod, namespace, &pod) => world.pod(namespace, &pod),
                4 => world.delete(Kind::Pod, namespace, &pod),
                5 => world.annotate(Kind::Node, "", &node, NodeId::KEY, None),
                6 => world.annotate(Kind::Pod, namespace, &pod, PodNetworks::KEY, None),
                7 => decider = ManagerDecider::new(settings.clone()),
                8 => world.annotate(Kind::Attachment, namespace, "net", TunnelKeys::KEY, None),
                _ => {}
            }
            let mut bits = losses;
            world.run(&mut decider, || {
                bits = bits.rotate_left(1);
                bits & 1 == 1
            });
            prop_assert_eq!(shared(&world), None);
        }
        world.converge(&mut decider);
        prop_assert_eq!(shared(&world), None);
        let nodes = world.objects.keys().filter(|(kind, _)| *kind == Kind::Node).count();
        prop_assert_eq!(world.annotations_of(Kind::Node, TransitPeerSubnet::KEY).len(), nodes);
        let pods = world.objects.keys().filter(|(kind, _)| *kind == Kind::Pod).count();
        prop_assert_eq!(world.annotations_of(Kind::Pod, PodNetworks::KEY).len(), pods);
    }
}
