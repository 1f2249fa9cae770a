//! The manager when it, its rivals or the API server go away.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, ResourceExt};
use kubernetes::manager::LeaseSettings;

use super::cluster::{Cluster, Manager, NODE_ID, PEERS, settings, unique, until};
use super::pods::assert_unique;

#[tokio::test(flavor = "multi_thread")]
async fn of_two_managers_one_writes_and_the_other_takes_over() {
    let cluster = Cluster::start().await;
    let lease = || LeaseSettings {
        duration: Duration::from_secs(6),
        deadline: Duration::from_secs(4),
        interval: Duration::from_millis(500),
        ..LeaseSettings::new("default", "manager", unique())
    };
    let first = Manager::start(cluster.client.clone(), settings(), lease());
    cluster.create_node("node1", &[]).await;
    cluster.node_has("node1", NODE_ID, "2").await;
    let second = Manager::start(cluster.client.clone(), settings(), lease());
    cluster.create_node("node2", &[]).await;
    cluster.node_has("node2", NODE_ID, "3").await;
    assert!(first.is_active() && !second.is_active());
    // Killed, it gives nothing back: the other waits for the end of the lease.
    first.kill().await;
    cluster.create_node("node3", &[]).await;
    cluster.node_has("node3", NODE_ID, "4").await;
    assert!(second.is_active());
    // Stopped, it does.
    let third = Manager::start(cluster.client.clone(), settings(), lease());
    second.stop().await;
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), "default");
    let spec = leases.get("manager").await.unwrap().spec.unwrap();
    assert_ne!(spec.holder_identity.as_deref(), Some("manager-1"));
    cluster.create_node("node4", &[]).await;
    cluster.node_has("node4", NODE_ID, "5").await;
    third.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_again_and_again_it_gives_no_number_twice() {
    let cluster = Cluster::start().await;
    cluster.create_primary_namespace("ns").await;
    cluster.create_network("ns", "net", &["10.0.0.0/16"]).await;
    for n in 0..60 {
        cluster.create_node(&format!("node{n}"), &[]).await;
        cluster.create_pod("ns", &format!("pod{n}"), &[]).await;
    }
    let lease = || LeaseSettings {
        interval: Duration::from_millis(100),
        ..LeaseSettings::new("default", "manager", "same")
    };
    // Each life is a little longer than the one before, so the end meets it at another point.
    for life in 0..12u64 {
        let manager = Manager::start(cluster.client.clone(), settings(), lease());
        tokio::time::sleep(Duration::from_millis(40 + 25 * life)).await;
        manager.kill().await;
        assert_unique(&cluster, "ns", "ns/net").await;
    }
    let manager = Manager::start(cluster.client.clone(), settings(), lease());
    until("all nodes and pods have numbers", || async {
        let nodes = cluster.nodes().list(&Default::default()).await.unwrap();
        nodes.iter().all(|node| node.annotations().contains_key(PEERS))
            && assert_unique(&cluster, "ns", "ns/net").await == 60
    })
    .await;
    let nodes = cluster.nodes().list(&Default::default()).await.unwrap();
    let ids: std::collections::BTreeSet<&String> =
        nodes.iter().map(|node| &node.annotations()[NODE_ID]).collect();
    assert_eq!(ids.len(), 60);
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_api_server_costs_time_and_nothing_else() {
    let cluster = Cluster::start().await;
    let manager = cluster.manager(settings());
    cluster.create_node("node1", &[]).await;
    cluster.node_has("node1", NODE_ID, "2").await;
    manager.converged().await;
    let before = cluster.node("node1").await.resource_version();
    cluster.server.server().kill().unwrap();
    cluster.server.start_again().unwrap();
    cluster.create_node("node2", &[]).await;
    // The manager lost the lease if the server was away for long; its successor does the same work.
    let successor = cluster.manager(settings());
    cluster.node_has("node2", NODE_ID, "3").await;
    assert_eq!(cluster.node("node1").await.resource_version(), before);
    manager.kill().await;
    successor.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restored_backup_the_manager_starts_over() {
    let cluster = Cluster::start().await;
    let lease = || LeaseSettings {
        // Longer than the server is away: the same manager goes on, with its memory and its watches of before.
        duration: Duration::from_secs(150),
        deadline: Duration::from_secs(120),
        interval: Duration::from_millis(200),
        ..LeaseSettings::new("default", "manager", "same")
    };
    let manager = Manager::start(cluster.client.clone(), settings(), lease());
    cluster.create_node("node1", &[]).await;
    cluster.node_has("node1", NODE_ID, "2").await;
    manager.converged().await;
    cluster.server.stop_and_back_up().unwrap();
    cluster.server.start_both_again().unwrap();
    for (name, id) in [("node2", "3"), ("node3", "4")] {
        cluster.create_node(name, &[]).await;
        cluster.node_has(name, NODE_ID, id).await;
    }
    // Both nodes were never there, and the versions of objects begin again before those that the watches have seen.
    cluster.server.stop_and_restore().unwrap();
    cluster.server.start_both_again().unwrap();
    // So the manager starts over.
    manager.lost_the_lease().await;
    let manager = Manager::start(cluster.client.clone(), settings(), lease());
    cluster.create_node("node4", &[]).await;
    cluster.node_has("node4", NODE_ID, "3").await;
    assert_eq!(cluster.nodes().list(&Default::default()).await.unwrap().items.len(), 2);
    manager.kill().await;
}
