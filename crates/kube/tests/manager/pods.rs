//! Addresses and tunnel keys of pods.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use kubernetes::crd::IPAMClaim;
use serde_json::{Value, json};

use super::cluster::{Cluster, POD_NETWORKS, Udn, settings, until};

const REQUEST: &str = "v1.multus-cni.io/default-network";

async fn network(cluster: &Cluster) {
    cluster.create_primary_namespace("test12").await;
    cluster.create_network("test12", "namespace-scoped", &["203.203.0.0/16", "2010:100:200::/60"]).await;
    cluster.numbered_attachment("test12", "namespace-scoped").await;
}

const KEY: &str = "test12/namespace-scoped";

#[tokio::test(flavor = "multi_thread")]
async fn scenario_26_a_pod_gets_addresses_and_a_key_beside_its_default_network() {
    let cluster = Cluster::start().await;
    let manager = cluster.manager(settings());
    network(&cluster).await;
    let default =
        r#"{"default":{"ip_addresses":["10.244.1.5/24"],"mac_address":"0a:58:0a:f4:01:05","later":[1]}}"#;
    cluster.create_pod("test12", "first", &[(POD_NETWORKS, default)]).await;
    let entry = cluster.awaited_entry("test12", "first", KEY).await;
    assert_eq!(
        entry,
        json!({
            "ip_addresses": ["203.203.0.3/16", "2010:100:200::3/60"], "mac_address": "0a:58:cb:cb:00:03",
            "gateway_ips": ["203.203.0.1", "2010:100:200::1"],
            "routes": [
                { "dest": "10.96.0.0/16", "nextHop": "203.203.0.1" }, { "dest": "100.65.0.0/16", "nextHop": "203.203.0.1" },
                { "dest": "fd00:10:96::/112", "nextHop": "2010:100:200::1" }, { "dest": "fd99::/64", "nextHop": "2010:100:200::1" },
            ],
            "ipv6_lla_gateway_ip": "fe80::858:cbff:fecb:1", "tunnel_id": 10, "role": "primary",
        })
    );
    let kept = cluster.entry("test12", "first", "default").await.unwrap();
    assert_eq!(kept["later"], json!([1]));
    cluster.create_pod("test12", "second", &[]).await;
    let second = cluster.awaited_entry("test12", "second", KEY).await;
    assert_eq!((&second["ip_addresses"][0], &second["tunnel_id"]), (&json!("203.203.0.4/16"), &json!(11)));
    // Neither a pod of another namespace nor one of the host's network gets any.
    cluster.create_namespace("plain", &[]).await;
    cluster.create_pod("plain", "other", &[]).await;
    manager.converged().await;
    assert!(!cluster.pods("plain").get("other").await.unwrap().annotations().contains_key(POD_NETWORKS));
    // The network stays as long as a pod uses it.
    cluster.objects::<Udn>("test12").delete("namespace-scoped", &DeleteParams::default()).await.unwrap();
    cluster.condition::<Udn>("test12", "namespace-scoped", ("False", "SyncError"), "still use it").await;
    for pod in ["first", "second"] {
        cluster.delete_pod("test12", pod).await;
    }
    until("the network is gone", || async {
        cluster.objects::<Udn>("test12").get_opt("namespace-scoped").await.unwrap().is_none()
    })
    .await;
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn edited_addresses_are_restored_and_a_full_network_says_so() {
    let cluster = Cluster::start().await;
    let manager = cluster.manager(settings());
    cluster.create_primary_namespace("small").await;
    cluster.create_network("small", "net", &["10.0.0.0/29"]).await;
    cluster.numbered_attachment("small", "net").await;
    for name in ["a", "b", "c", "d"] {
        cluster.create_pod("small", name, &[]).await;
    }
    let entry = cluster.awaited_entry("small", "d", "small/net").await;
    assert_eq!((&entry["ip_address"], &entry["gateway_ip"]), (&json!("10.0.0.6/29"), &json!("10.0.0.1")));
    manager.converged().await;
    let edit = json!({ "metadata": { "annotations": { POD_NETWORKS: "{}" } } });
    cluster.pods("small").patch("d", &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();
    assert_eq!(cluster.awaited_entry("small", "d", "small/net").await, entry);
    cluster.event("d", "PodAddressesRestored").await;
    cluster.create_pod("small", "e", &[]).await;
    let message = cluster.event("e", "ErrorAllocatingPod").await;
    assert!(message.contains("no free address in 10.0.0.0/29"), "{message}");
    cluster.delete_pod("small", "b").await;
    let freed = cluster.awaited_entry("small", "e", "small/net").await;
    assert_eq!(freed["ip_address"], "10.0.0.4/29");
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requested_mac_addresses_are_kept_and_conflicts_refused() {
    let cluster = Cluster::start().await;
    let manager = cluster.manager(settings());
    network(&cluster).await;
    let request = r#"[{"name":"default","namespace":"ovn","mac":"02:00:00:00:00:07"}]"#;
    cluster.create_pod("test12", "first", &[(REQUEST, request)]).await;
    assert_eq!(cluster.awaited_entry("test12", "first", KEY).await["mac_address"], "02:00:00:00:00:07");
    let gateway = r#"[{"name":"default","mac":"0a:58:cb:cb:00:01"}]"#;
    for (name, request) in [("again", request), ("gateway", gateway)] {
        cluster.create_pod("test12", name, &[(REQUEST, request)]).await;
        let message = cluster.event(name, "ErrorAllocatingPod").await;
        assert!(message.contains("belongs to somebody else"), "{message}");
    }
    cluster.create_pod("test12", "broken", &[(REQUEST, r#"[{"mac":"zz"}]"#)]).await;
    let message = cluster.event("broken", "ErrorAllocatingPod").await;
    assert!(message.contains("cannot read annotation v1.multus-cni.io/default-network"), "{message}");
    cluster.create_pod("test12", "fine", &[]).await;
    cluster.awaited_entry("test12", "fine", KEY).await;
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn claimed_addresses_survive_their_pods_and_the_manager() {
    let cluster = Cluster::start().await;
    let manager = cluster.manager(settings());
    cluster.create_primary_namespace("vms").await;
    let layer2 =
        json!({ "role": "Primary", "subnets": ["10.5.0.0/16"], "ipam": { "lifecycle": "Persistent" } });
    cluster.create::<Udn>("vms", "net", json!({ "topology": "Layer2", "layer2": layer2 })).await;
    cluster.numbered_attachment("vms", "net").await;
    let request = r#"[{"name":"default","ipam-claim-reference":"vm1"}]"#;
    cluster.create_pod("vms", "launcher-1", &[(REQUEST, request)]).await;
    let message = cluster.event("launcher-1", "ErrorAllocatingPod").await;
    assert!(message.contains("IPAMClaim vms/vm1 does not exist"), "{message}");
    cluster.create::<IPAMClaim>("vms", "vm1", json!({ "network": "vms_net", "interface": "eth0" })).await;
    let first = cluster.awaited_entry("vms", "launcher-1", "vms/net").await;
    let claims = cluster.objects::<IPAMClaim>("vms");
    assert_eq!(claims.get("vm1").await.unwrap().data["status"]["ips"], json!(["10.5.0.3/16"]));
    // The target of a migration: the same addresses, another key.
    cluster.create_pod("vms", "launcher-2", &[(REQUEST, request)]).await;
    let second = cluster.awaited_entry("vms", "launcher-2", "vms/net").await;
    assert_eq!(
        (&first["ip_address"], &first["mac_address"]),
        (&second["ip_address"], &second["mac_address"])
    );
    assert_ne!(first["tunnel_id"], second["tunnel_id"]);
    for name in ["launcher-1", "launcher-2"] {
        cluster.delete_pod("vms", name).await;
    }
    manager.stop().await;
    let manager = cluster.manager(settings());
    cluster.create_pod("vms", "other", &[]).await;
    assert_eq!(cluster.awaited_entry("vms", "other", "vms/net").await["ip_address"], "10.5.0.4/16");
    cluster.create_pod("vms", "launcher-3", &[(REQUEST, request)]).await;
    assert_eq!(cluster.awaited_entry("vms", "launcher-3", "vms/net").await["ip_address"], "10.5.0.3/16");
    manager.stop().await;
}

/// Fails if two living pods share an address or a key; returns how many have some.
pub(crate) async fn assert_unique(cluster: &Cluster, namespace: &str, key: &str) -> usize {
    let api: Api<Pod> = Api::namespaced(cluster.client.clone(), namespace);
    let (mut addresses, mut keys) = (BTreeSet::new(), BTreeSet::new());
    for pod in api.list(&ListParams::default()).await.unwrap() {
        let Some(text) = pod.annotations().get(POD_NETWORKS) else { continue };
        let networks: Value = serde_json::from_str(text).unwrap();
        let entry = &networks[key];
        for address in entry["ip_addresses"].as_array().unwrap() {
            assert!(addresses.insert(address.to_string()), "{address} twice");
        }
        assert!(keys.insert(entry["tunnel_id"].as_u64().unwrap()), "key {} twice", entry["tunnel_id"]);
    }
    keys.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_27_a_thousand_pods_over_three_restarts_share_nothing() {
    use futures_util::StreamExt;
    let cluster = Cluster::start().await;
    let mut manager = cluster.manager(settings());
    network(&cluster).await;
    for batch in 0..4 {
        let names: Vec<String> = (0..250).map(|n| format!("pod-{batch}-{n}")).collect();
        futures_util::stream::iter(&names)
            .for_each_concurrent(16, |name| cluster.create_pod("test12", name, &[]))
            .await;
        if batch < 3 {
            // In the middle of its work: some pods have addresses, others do not.
            manager.kill().await;
            assert_unique(&cluster, "test12", KEY).await;
            let doomed: Vec<String> = names.iter().take(125).cloned().collect();
            futures_util::stream::iter(&doomed)
                .for_each_concurrent(16, |name| cluster.delete_pod("test12", name))
                .await;
            manager = cluster.manager(settings());
        }
    }
    until("all living pods have addresses", || async { assert_unique(&cluster, "test12", KEY).await == 625 })
        .await;
    manager.stop().await;
}
