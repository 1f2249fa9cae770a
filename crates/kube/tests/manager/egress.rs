//! EgressIPs: marks, nodes, failover and conflicts.

use std::collections::BTreeMap;

use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kubernetes::crd::EgressIP;
use kubernetes::manager::{EgressAssigner, ManagerSettings};
use serde_json::json;

use super::cluster::{Cluster, settings, until};

const MARK: &str = "k8s.ovn.org/egressip-mark";

fn assigning() -> ManagerSettings {
    ManagerSettings { egress: EgressAssigner::Manager, ..settings() }
}

/// A ready node that may have egress addresses: `node2` has the address 172.18.0.2.
async fn create_node(cluster: &Cluster, last: u8) {
    let primary = format!(r#"{{"ipv4":"172.18.0.{last}/24"}}"#);
    let node = json!({ "metadata": {
        "name": format!("node{last}"),
        "labels": { "k8s.ovn.org/egress-assignable": "" },
        "annotations": {
            "k8s.ovn.org/node-primary-ifaddr": primary,
            "k8s.ovn.org/host-cidrs": format!(r#"["172.18.0.{last}/24","10.9.0.{last}/24"]"#),
        },
    }});
    cluster.nodes().create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    set_ready(cluster, last, "True").await;
}

async fn set_ready(cluster: &Cluster, last: u8, status: &str) {
    let conditions = json!([{ "type": "Ready", "status": status, "reason": "test", "message": "",
        "lastHeartbeatTime": "2026-11-19T00:00:00Z", "lastTransitionTime": "2026-11-19T00:00:00Z" }]);
    let patch = Patch::Merge(json!({ "status": { "conditions": conditions } }));
    cluster.nodes().patch_status(&format!("node{last}"), &PatchParams::default(), &patch).await.unwrap();
}

async fn create(cluster: &Cluster, name: &str, addresses: &[&str]) {
    let spec = json!({ "egressIPs": addresses, "namespaceSelector": { "matchLabels": { "team": "a" } } });
    cluster.create::<EgressIP>("", name, spec).await;
}

/// The nodes of the addresses in the status.
async fn assigned(cluster: &Cluster, name: &str) -> BTreeMap<String, String> {
    let object = cluster.objects::<EgressIP>("").get(name).await.unwrap();
    let items = object.data.pointer("/status/items").and_then(|items| items.as_array()).cloned();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    items.into_iter().flatten().map(|item| (text(&item["egressIP"]), text(&item["node"]))).collect()
}

async fn becomes(cluster: &Cluster, name: &str, want: &[(&str, &str)]) {
    let want: BTreeMap<String, String> =
        want.iter().map(|(address, node)| ((*address).to_owned(), (*node).to_owned())).collect();
    until(&format!("{name} is assigned to {want:?}"), || async { assigned(cluster, name).await == want })
        .await;
}

async fn mark(cluster: &Cluster, name: &str) -> Option<String> {
    cluster.objects::<EgressIP>("").get(name).await.unwrap().annotations().get(MARK).cloned()
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_32_addresses_leave_a_node_that_is_not_ready_and_come_back() {
    let cluster = Cluster::start().await;
    create_node(&cluster, 2).await;
    create_node(&cluster, 3).await;
    let manager = cluster.manager(assigning());
    create(&cluster, "both", &["172.18.0.101", "172.18.0.102"]).await;
    becomes(&cluster, "both", &[("172.18.0.101", "node2"), ("172.18.0.102", "node3")]).await;
    assert_eq!(mark(&cluster, "both").await.as_deref(), Some("50000"));
    set_ready(&cluster, 3, "Unknown").await;
    becomes(&cluster, "both", &[("172.18.0.101", "node2")]).await;
    assert!(cluster.event("both", "NoMatchingNodeFound").await.contains("172.18.0.102"));
    set_ready(&cluster, 3, "True").await;
    becomes(&cluster, "both", &[("172.18.0.101", "node2"), ("172.18.0.102", "node3")]).await;
    // Another node takes over for one that is deleted.
    create_node(&cluster, 4).await;
    cluster.nodes().delete("node3", &DeleteParams::default()).await.unwrap();
    becomes(&cluster, "both", &[("172.18.0.101", "node2"), ("172.18.0.102", "node4")]).await;
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn egress_addresses_are_spread_keep_their_nodes_and_conflicts_are_told() {
    let cluster = Cluster::start().await;
    for last in 2..=4 {
        create_node(&cluster, last).await;
    }
    let manager = cluster.manager(assigning());
    for (name, address, node) in
        [("a", "172.18.0.101", "node2"), ("b", "172.18.0.102", "node3"), ("c", "172.18.0.103", "node4")]
    {
        create(&cluster, name, &[address]).await;
        becomes(&cluster, name, &[(address, node)]).await;
    }
    create(&cluster, "host", &["10.9.0.4"]).await;
    assert!(cluster.event("host", "EgressIPConflict").await.contains("an address of node node4"));
    create(&cluster, "taken", &["172.18.0.101"]).await;
    assert!(cluster.event("taken", "UnsupportedRequest").await.contains("belongs to EgressIP a already"));
    create(&cluster, "garbage", &["172.18.0.300"]).await;
    assert!(cluster.event("garbage", "UnsupportedRequest").await.contains("is not an address"));
    create(&cluster, "elsewhere", &["192.0.2.1"]).await;
    assert!(cluster.event("elsewhere", "NoMatchingNodeFound").await.contains("192.0.2.1"));
    manager.converged().await;
    for name in ["host", "taken", "garbage", "elsewhere"] {
        assert_eq!(assigned(&cluster, name).await, BTreeMap::new(), "{name}");
    }
    let mut marks = Vec::new();
    for name in ["a", "b", "c", "host", "taken", "garbage", "elsewhere"] {
        marks.push(mark(&cluster, name).await.unwrap());
    }
    assert_eq!(marks, ["50000", "50001", "50002", "50003", "50004", "50005", "50006"]);
    manager.stop().await;

    // A restart changes nothing, and the address of a deleted object is free.
    let before = cluster.objects::<EgressIP>("").get("b").await.unwrap().resource_version();
    let manager = cluster.manager(assigning());
    manager.converged().await;
    assert_eq!(cluster.objects::<EgressIP>("").get("b").await.unwrap().resource_version(), before);
    cluster.objects::<EgressIP>("").delete("a", &DeleteParams::default()).await.unwrap();
    becomes(&cluster, "taken", &[("172.18.0.101", "node2")]).await;
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manager_beside_another_assigner_leaves_egress_ips_alone() {
    let cluster = Cluster::start().await;
    create_node(&cluster, 2).await;
    create(&cluster, "theirs", &["172.18.0.101"]).await;
    let manager = cluster.manager(settings());
    cluster.node_has("node2", super::cluster::NODE_ID, "2").await;
    manager.converged().await;
    assert_eq!((mark(&cluster, "theirs").await, assigned(&cluster, "theirs").await), (None, BTreeMap::new()));
    manager.stop().await;
}
