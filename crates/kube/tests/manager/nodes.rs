//! Ids and peer subnets of nodes.

use kube::ResourceExt;
use kube::api::DeleteParams;
use kubernetes::address::{DualNet, PeerScheme};
use kubernetes::manager::{ManagerSettings, PeerSource};
use serde_json::{Value, json};

use super::cluster::{Cluster, NODE_ID, PEERS, settings, until};

fn transit(ipv4: &str, ipv6: Option<&str>) -> ManagerSettings {
    let mut settings = settings();
    settings.cluster.transit =
        DualNet { ipv4: ipv4.parse().ok(), ipv6: ipv6.map(|net| net.parse().unwrap()) };
    settings
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_01_a_new_node_gets_its_numbers_in_one_write() {
    let cluster = Cluster::start().await;
    let manager = cluster.manager(settings());
    cluster.create_node("node1", &[]).await;
    let created = cluster.node("node1").await.resource_version().unwrap();
    cluster.node_has("node1", NODE_ID, "2").await;
    let node = cluster.node("node1").await;
    assert_eq!(node.annotations()[PEERS], r#"{"ipv4":"100.88.0.4/30","ipv6":"fd97::4/127"}"#);
    manager.converged().await;
    assert!(cluster.writes_to_node("node1", &created).await <= 1);
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_02_ids_follow_the_order_of_appearance_and_a_restart_writes_nothing() {
    let cluster = Cluster::start().await;
    let manager = cluster.manager(settings());
    for (name, id) in [("c", "2"), ("a", "3"), ("b", "4")] {
        cluster.create_node(name, &[]).await;
        cluster.node_has(name, NODE_ID, id).await;
    }
    manager.converged().await;
    manager.stop().await;
    let versions = || async {
        let mut versions = Vec::new();
        for name in ["a", "b", "c"] {
            versions.push(cluster.node(name).await.resource_version());
        }
        versions
    };
    let before = versions().await;
    let again = cluster.manager(settings());
    again.converged().await;
    assert_eq!(versions().await, before);
    again.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_03_a_freed_id_comes_again_only_after_all_others() {
    let cluster = Cluster::start().await;
    let manager = cluster.manager(settings());
    for (name, id) in [("a", "2"), ("b", "3"), ("c", "4")] {
        cluster.create_node(name, &[]).await;
        cluster.node_has(name, NODE_ID, id).await;
    }
    cluster.nodes().delete("b", &DeleteParams::default()).await.unwrap();
    cluster.create_node("d", &[]).await;
    cluster.node_has("d", NODE_ID, "5").await;
    // The last id: the next one begins from the front.
    cluster.create_node("last", &[(NODE_ID, "5000")]).await;
    cluster.node_has("last", PEERS, r#"{"ipv4":"100.88.78.28/30","ipv6":"fd97::2710/127"}"#).await;
    cluster.create_node("e", &[]).await;
    cluster.node_has("e", NODE_ID, "3").await;
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_04_the_older_of_two_nodes_keeps_the_id() {
    let cluster = Cluster::start().await;
    cluster.create_node("older", &[(NODE_ID, "7")]).await;
    cluster.create_node("a-newer", &[(NODE_ID, "7")]).await;
    let manager = cluster.manager(settings());
    cluster.node_has("a-newer", NODE_ID, "8").await;
    cluster.node_has("older", NODE_ID, "7").await;
    let message = cluster.event("a-newer", "NodeIDConflict").await;
    assert!(message.contains("id 7 belongs to node older"), "{message}");
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_05_and_09_edited_numbers_are_restored_with_an_event() {
    let cluster = Cluster::start().await;
    let manager = cluster.manager(settings());
    cluster.create_node("node1", &[]).await;
    cluster.create_node("node2", &[]).await;
    cluster.node_has("node2", NODE_ID, "3").await;
    manager.converged().await;
    for wrong in [json!("x"), json!("-1"), json!("70000"), json!("3"), Value::Null] {
        cluster.annotate_node("node1", NODE_ID, wrong).await;
        cluster.node_has("node1", NODE_ID, "2").await;
    }
    cluster.event("node1", "NodeIDRestored").await;
    let own = r#"{"ipv4":"100.88.0.4/30","ipv6":"fd97::4/127"}"#;
    let others = r#"{"ipv4":"100.88.0.8/30","ipv6":"fd97::6/127"}"#;
    for wrong in [json!(others), json!("{}"), Value::Null] {
        cluster.annotate_node("node1", PEERS, wrong).await;
        cluster.node_has("node1", PEERS, own).await;
    }
    cluster.event("node1", "PeerSubnetRestored").await;
    cluster.node_has("node2", PEERS, others).await;
    manager.stop().await;
    // While no manager runs, one edited node of several is still an edit.
    cluster.annotate_node("node1", PEERS, json!(others)).await;
    cluster.annotate_node("node1", NODE_ID, json!("x")).await;
    let manager = cluster.manager(settings());
    cluster.node_has("node1", NODE_ID, "4").await;
    cluster.node_has("node1", PEERS, r#"{"ipv4":"100.88.0.12/30","ipv6":"fd97::8/127"}"#).await;
    cluster.event("node1", "NodeIDInvalid").await;
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_07_a_small_transit_subnet_gives_the_other_family_only() {
    let cluster = Cluster::start().await;
    cluster.create_node("node64", &[(NODE_ID, "64")]).await;
    let manager = cluster.manager(transit("100.88.0.0/24", Some("fd97::/64")));
    cluster.node_has("node64", PEERS, r#"{"ipv4":"100.88.0.252/30","ipv6":"fd97::80/127"}"#).await;
    cluster.create_node("node65", &[]).await;
    cluster.node_has("node65", PEERS, r#"{"ipv6":"fd97::82/127"}"#).await;
    let message = cluster.event("node65", "TransitSubnetTooSmall").await;
    assert!(message.contains("100.88.0.0/24 has no peer subnet"), "{message}");
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_08_a_second_family_leaves_the_first_as_it_is() {
    let cluster = Cluster::start().await;
    cluster.create_node("node1", &[]).await;
    let manager = cluster.manager(transit("100.88.0.0/16", None));
    cluster.node_has("node1", PEERS, r#"{"ipv4":"100.88.0.4/30"}"#).await;
    manager.stop().await;
    let manager = cluster.manager(settings());
    cluster.node_has("node1", PEERS, r#"{"ipv4":"100.88.0.4/30","ipv6":"fd97::4/127"}"#).await;
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_transit_subnet_is_refused_until_the_old_addresses_are_gone() {
    let cluster = Cluster::start().await;
    let old = r#"{"ipv4":"100.88.0.4/30","ipv6":"fd97::4/127"}"#;
    cluster.create_node("node1", &[(NODE_ID, "2"), (PEERS, old)]).await;
    let mut other = transit("100.90.0.0/16", Some("fd97::/64"));
    other.cluster.peers = PeerScheme::Upstream;
    let manager = cluster.manager(other);
    let message = cluster.event("node1", "TransitSubnetChanged").await;
    assert!(message.contains("do not follow from the transit subnets 100.90.0.0/16"), "{message}");
    cluster.node_has("node1", PEERS, old).await;
    cluster.annotate_node("node1", PEERS, Value::Null).await;
    cluster.node_has("node1", PEERS, r#"{"ipv4":"100.90.0.4/31","ipv6":"fd97::4/127"}"#).await;
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn allocated_peer_subnets_survive_a_restart_and_are_unique() {
    let cluster = Cluster::start().await;
    let own = r#"{"ipv4":"100.88.0.28/30","ipv6":"fd97::e/127"}"#;
    cluster.create_node("old", &[(PEERS, own)]).await;
    cluster.create_node("double", &[(PEERS, own)]).await;
    let settings = ManagerSettings { peers: PeerSource::Allocated, ..settings() };
    let manager = cluster.manager(settings.clone());
    cluster.create_node("node1", &[]).await;
    until("node1 has a subnet", || async { cluster.node("node1").await.annotations().contains_key(PEERS) })
        .await;
    cluster.node_has("old", PEERS, own).await;
    manager.converged().await;
    let all = || async {
        let mut all = Vec::new();
        for name in ["old", "double", "node1"] {
            all.push(cluster.node(name).await.annotations()[PEERS].clone());
        }
        all
    };
    let before = all().await;
    assert_eq!(before.iter().collect::<std::collections::BTreeSet<_>>().len(), 3, "{before:?}");
    manager.stop().await;
    let manager = cluster.manager(settings);
    manager.converged().await;
    assert_eq!(all().await, before);
    manager.stop().await;
}
