//! The rolling upgrade of a cluster from the topology without transit routers.

use kube::ResourceExt;
use serde_json::json;

use super::cluster::{Cluster, settings, until};

const KEYS: &str = "k8s.ovn.org/udn-layer2-node-gateway-router-lrp-tunnel-ids";
const VERSION: &str = "k8s.ovn.org/layer2-topology-version";

async fn keys(cluster: &Cluster, node: &str) -> Option<String> {
    cluster.node(node).await.annotations().get(KEYS).cloned()
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_36_gateway_routers_have_keys_until_the_last_node_has_switched() {
    let cluster = Cluster::start().await;
    cluster.create_primary_namespace("ns").await;
    cluster.create_network("ns", "net", &["203.203.0.0/16"]).await;
    let old = [("node1", "4"), ("node2", "5")];
    for (name, key) in old {
        cluster.create_node(name, &[(KEYS, &format!(r#"{{"ns_net":"{key}"}}"#))]).await;
    }
    let manager = cluster.manager(settings());
    // A node that comes during the upgrade gets a key as well: old nodes reach it there.
    cluster.create_node("node3", &[]).await;
    until("node3 has a key", || async { keys(&cluster, "node3").await.is_some() }).await;
    assert_eq!(keys(&cluster, "node3").await.as_deref(), Some(r#"{"ns_net":"10"}"#));
    cluster.create_pod("ns", "pod", &[]).await;
    let entry = cluster.awaited_entry("ns", "pod", "ns/net").await;
    assert_eq!(entry["tunnel_id"], json!(11), "keys of pods and of gateway routers are different");
    // A restart keeps all keys.
    manager.kill().await;
    let manager = cluster.manager(settings());
    manager.converged().await;
    for (name, key) in old {
        assert_eq!(keys(&cluster, name).await, Some(format!(r#"{{"ns_net":"{key}"}}"#)));
    }
    for name in ["node1", "node3"] {
        cluster.annotate_node(name, VERSION, json!("2.0")).await;
    }
    manager.converged().await;
    assert_eq!(keys(&cluster, "node1").await.as_deref(), Some(r#"{"ns_net":"4"}"#), "node2 is still old");
    cluster.annotate_node("node2", VERSION, json!("2.0")).await;
    for name in ["node1", "node2", "node3"] {
        cluster.node_has(name, KEYS, "{}").await;
    }
    manager.stop().await;
}
