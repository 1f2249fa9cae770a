//! Networks, their definitions and their conditions.

use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kubernetes::crd::NetworkAttachmentDefinition;
use kubernetes::manager::state::FINALIZER;
use serde_json::{Value, json};

use super::cluster::{Cluster, Cudn, NETWORK_ID, TUNNEL_KEYS, Udn, settings, until};

const CREATED: (&str, &str) = ("True", "NetworkAttachmentDefinitionCreated");
const REFUSED: (&str, &str) = ("False", "SyncError");
const SUBNETS: [&str; 2] = ["203.203.0.0/16", "2010:100:200::/60"];

#[tokio::test(flavor = "multi_thread")]
async fn scenario_10_a_namespace_without_the_label_gets_no_network() {
    let cluster = Cluster::start().await;
    let manager = cluster.manager(settings());
    cluster.create_namespace("plain", &[]).await;
    cluster.create_network("plain", "blue", &SUBNETS).await;
    cluster
        .condition::<Udn>("plain", "blue", REFUSED, "has no label k8s.ovn.org/primary-user-defined-network")
        .await;
    manager.converged().await;
    assert!(cluster.attachment("plain", "blue").await.is_none());
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_11_a_network_gets_its_definition_and_gives_everything_back() {
    let cluster = Cluster::start().await;
    let manager = cluster.manager(settings());
    cluster.create_primary_namespace("test12").await;
    cluster.create_network("test12", "namespace-scoped", &SUBNETS).await;
    let made = cluster.numbered_attachment("test12", "namespace-scoped").await;
    assert_eq!(made.annotations()["k8s.ovn.org/network-name"], "test12_namespace-scoped");
    assert_eq!(
        (made.annotations()[NETWORK_ID].as_str(), made.annotations()[TUNNEL_KEYS].as_str()),
        ("1", "[16711684,16715779]")
    );
    assert_eq!(made.labels()["k8s.ovn.org/user-defined-network"], "");
    assert_eq!(made.finalizers(), [FINALIZER]);
    let owner = &made.owner_references()[0];
    assert_eq!((owner.kind.as_str(), owner.controller), ("UserDefinedNetwork", Some(true)));
    let config: Value = serde_json::from_str(made.data["spec"]["config"].as_str().unwrap()).unwrap();
    assert_eq!(config["transitSubnet"], "100.88.0.0/16,fd97::/64");
    cluster.condition::<Udn>("test12", "namespace-scoped", CREATED, "has been created").await;
    let shown = cluster.server.kubectl(&["get", "udn", "-n", "test12"]).unwrap();
    for words in [
        "TOPOLOGY",
        "ROLE",
        "SUBNETS",
        "Layer2",
        "Primary",
        "203.203.0.0/16",
        "NetworkAttachmentDefinitionCreated",
    ] {
        assert!(shown.contains(words), "{words} in {shown}");
    }

    // A second network has other numbers, and a deleted one gives its own back.
    cluster.create_primary_namespace("other").await;
    cluster.create_network("other", "green", &["10.10.0.0/16"]).await;
    let other = cluster.numbered_attachment("other", "green").await;
    assert_eq!(
        (other.annotations()[NETWORK_ID].as_str(), other.annotations()[TUNNEL_KEYS].as_str()),
        ("2", "[16711685,16715780]")
    );
    cluster.objects::<Udn>("test12").delete("namespace-scoped", &DeleteParams::default()).await.unwrap();
    until("network and definition are gone", || async {
        cluster.attachment("test12", "namespace-scoped").await.is_none()
            && cluster.objects::<Udn>("test12").get_opt("namespace-scoped").await.unwrap().is_none()
    })
    .await;
    assert!(cluster.attachment("other", "green").await.is_some());
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_12_bad_fields_are_named_and_make_no_definition() {
    let cluster = Cluster::start().await;
    let manager = cluster.manager(settings());
    cluster.create_primary_namespace("bad").await;
    for (name, layer2, words) in [
        (
            "prefix",
            json!({ "role": "Primary", "subnets": ["203.203.0.0/99"] }),
            "spec.layer2.subnets: \"203.203.0.0/99\"",
        ),
        (
            "families",
            json!({ "role": "Primary", "subnets": ["10.0.0.0/8", "11.0.0.0/8"] }),
            "spec.layer2.subnets: two subnets",
        ),
        ("mtu", json!({ "role": "Primary", "subnets": ["fd01::/64"], "mtu": 1000 }), "spec.layer2.mtu: 1000"),
        (
            "gateway",
            json!({ "role": "Primary", "subnets": ["10.0.0.0/16"], "defaultGatewayIPs": ["10.9.0.1"] }),
            "spec.layer2.defaultGatewayIPs: 10.9.0.1",
        ),
    ] {
        cluster.create::<Udn>("bad", name, json!({ "topology": "Layer2", "layer2": layer2 })).await;
        cluster.condition::<Udn>("bad", name, REFUSED, words).await;
        assert!(cluster.attachment("bad", name).await.is_none(), "{name}");
    }
    // One bad object stops no other.
    cluster.create_network("bad", "good", &["10.7.0.0/16"]).await;
    cluster.condition::<Udn>("bad", "good", CREATED, "").await;
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_13_overlapping_subnets_get_another_transit_subnet_or_an_error() {
    let cluster = Cluster::start().await;
    let manager = cluster.manager(settings());
    cluster.create_primary_namespace("a").await;
    cluster.create_primary_namespace("b").await;
    cluster.create_network("a", "transit", &["100.88.0.0/16"]).await;
    let made = cluster.numbered_attachment("a", "transit").await;
    let config: Value = serde_json::from_str(made.data["spec"]["config"].as_str().unwrap()).unwrap();
    assert_eq!(config["transitSubnet"], "100.89.0.0/16");
    cluster.create_network("b", "huge", &["100.0.0.0/8"]).await;
    cluster.condition::<Udn>("b", "huge", REFUSED, "overlaps with the join subnet 100.65.0.0/16").await;
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_14_the_second_primary_network_of_a_namespace_is_refused() {
    let cluster = Cluster::start().await;
    let manager = cluster.manager(settings());
    cluster.create_primary_namespace("ns").await;
    cluster.create_network("ns", "first", &["10.1.0.0/16"]).await;
    let first = cluster.numbered_attachment("ns", "first").await;
    cluster.create_network("ns", "a-second", &["10.2.0.0/16"]).await;
    cluster.condition::<Udn>("ns", "a-second", REFUSED, "has the primary network ns_first already").await;
    assert!(cluster.attachment("ns", "a-second").await.is_none());
    let still = cluster.attachment("ns", "first").await.unwrap();
    assert_eq!(still.resource_version(), first.resource_version());
    // A restart must not change who was first.
    manager.stop().await;
    let manager = cluster.manager(settings());
    manager.converged().await;
    cluster.condition::<Udn>("ns", "a-second", REFUSED, "ns_first").await;
    cluster.objects::<Udn>("ns").delete("first", &DeleteParams::default()).await.unwrap();
    cluster.condition::<Udn>("ns", "a-second", CREATED, "").await;
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_15_a_cluster_network_follows_its_selector() {
    let cluster = Cluster::start().await;
    let manager = cluster.manager(settings());
    for name in ["red", "blue"] {
        cluster.create_primary_namespace(name).await;
        cluster.label_namespace(name, "tenant", json!("one")).await;
    }
    cluster.create_primary_namespace("out").await;
    let network =
        json!({ "topology": "Layer2", "layer2": { "role": "Primary", "subnets": ["10.3.0.0/16"] } });
    let spec = json!({ "namespaceSelector": { "matchLabels": { "tenant": "one" } }, "network": network });
    cluster.create::<Cudn>("", "shared", spec).await;
    let (red, blue) = (
        cluster.numbered_attachment("red", "shared").await,
        cluster.numbered_attachment("blue", "shared").await,
    );
    for key in [NETWORK_ID, TUNNEL_KEYS, "k8s.ovn.org/network-name"] {
        assert_eq!(red.annotations()[key], blue.annotations()[key]);
    }
    assert_eq!(red.annotations()["k8s.ovn.org/network-name"], "cluster_udn_shared");
    cluster.condition::<Cudn>("", "shared", CREATED, "blue, red").await;
    assert!(cluster.attachment("out", "shared").await.is_none());
    cluster.label_namespace("red", "tenant", Value::Null).await;
    until("the definition in red is gone", || async { cluster.attachment("red", "shared").await.is_none() })
        .await;
    assert_eq!(cluster.attachment("blue", "shared").await.unwrap().uid(), blue.uid());
    // A namespace without the label is named, and the others stay.
    cluster.create_namespace("plain", &[("tenant", "one")]).await;
    let refused = ("False", "NetworkAttachmentDefinitionSyncError");
    cluster.condition::<Cudn>("", "shared", refused, "namespace plain has no label").await;
    assert!(cluster.attachment("blue", "shared").await.is_some());
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_definitions_and_networks_of_other_kinds_stay_untouched() {
    let cluster = Cluster::start().await;
    cluster.create_primary_namespace("ns").await;
    let foreign = json!({ "config": "{\"type\":\"macvlan\"}" });
    cluster.create::<NetworkAttachmentDefinition>("ns", "taken", foreign).await;
    // What another program would have made of a layer-3 network.
    let other = json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {
            "name": "layer3", "labels": { "k8s.ovn.org/user-defined-network": "" }, "finalizers": [FINALIZER],
            "ownerReferences": [{ "apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork", "name": "layer3",
                "uid": "5e1f7e5c-0000-4000-8000-000000000000", "controller": true }],
        },
        "spec": { "config": "{}" },
    });
    let api = cluster.objects::<NetworkAttachmentDefinition>("ns");
    api.create(&PostParams::default(), &serde_json::from_value(other).unwrap()).await.unwrap();
    cluster
        .create::<Udn>(
            "ns",
            "secondary",
            json!({ "topology": "Layer2", "layer2": { "role": "Secondary", "subnets": ["10.1.0.0/16"] } }),
        )
        .await;
    cluster
        .create::<Udn>(
            "ns",
            "layer3",
            json!({ "topology": "Layer3", "layer3": { "role": "Primary", "subnets": [] } }),
        )
        .await;
    let versions = || async {
        let mut versions = Vec::new();
        for name in ["taken", "layer3"] {
            versions.push(api.get(name).await.unwrap().resource_version());
        }
        for name in ["secondary", "layer3"] {
            versions.push(cluster.objects::<Udn>("ns").get(name).await.unwrap().resource_version());
        }
        versions
    };
    let before = versions().await;
    let manager = cluster.manager(settings());
    cluster.create_network("ns", "taken", &["10.2.0.0/16"]).await;
    cluster.condition::<Udn>("ns", "taken", REFUSED, "ns/taken exists and belongs to somebody else").await;
    manager.converged().await;
    assert_eq!(versions().await, before);
    let kept = cluster.objects::<Udn>("ns").get("layer3").await.unwrap();
    assert_eq!(kept.data["spec"]["layer3"]["role"], "Primary");
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn edited_definitions_are_restored_and_changed_networks_refused() {
    let cluster = Cluster::start().await;
    let manager = cluster.manager(settings());
    cluster.create_primary_namespace("ns").await;
    cluster.create_network("ns", "blue", &["10.1.0.0/16"]).await;
    let made = cluster.numbered_attachment("ns", "blue").await;
    manager.converged().await;
    let api = cluster.objects::<NetworkAttachmentDefinition>("ns");
    let edit = json!({
        "metadata": { "annotations": { NETWORK_ID: "77", TUNNEL_KEYS: Value::Null }, "labels": Value::Null, "finalizers": Value::Null },
        "spec": { "config": "{}" },
    });
    api.patch("blue", &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();
    until("the definition is as it was", || async {
        let now = api.get("blue").await.unwrap();
        now.data == made.data
            && now.annotations() == made.annotations()
            && now.labels() == made.labels()
            && now.finalizers() == made.finalizers()
    })
    .await;
    cluster.event("blue", "NetworkIDRestored").await;
    // An old API server lets users change what cannot change.
    let change = json!({ "spec": { "layer2": { "subnets": ["10.9.0.0/16"] } } });
    cluster.objects::<Udn>("ns").patch("blue", &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    cluster.condition::<Udn>("ns", "blue", REFUSED, "cannot be changed").await;
    assert_eq!(api.get("blue").await.unwrap().data, made.data);
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_by_hand_gets_numbers_and_cannot_join_another_network() {
    let cluster = Cluster::start().await;
    let manager = cluster.manager(settings());
    cluster.create_primary_namespace("mine").await;
    cluster.create_primary_namespace("theirs").await;
    cluster.create_network("theirs", "secret", &["10.1.0.0/16"]).await;
    cluster.numbered_attachment("theirs", "secret").await;
    let config = |network: &str| {
        json!({ "config": json!({
            "cniVersion": "1.1.0", "type": "ovn-k8s-cni-overlay", "name": network, "netAttachDefName": "mine/hand",
            "topology": "layer2", "role": "primary", "subnets": "10.1.0.0/16",
        }).to_string() })
    };
    cluster.create::<NetworkAttachmentDefinition>("mine", "hand", config("theirs_secret")).await;
    let message = cluster.event("hand", "SyncError").await;
    assert!(message.contains("may not join \"theirs_secret\""), "{message}");
    let api = cluster.objects::<NetworkAttachmentDefinition>("mine");
    assert!(api.get("hand").await.unwrap().annotations().is_empty());
    let patch = json!({ "spec": config("mine_hand") });
    api.patch("hand", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let made = cluster.numbered_attachment("mine", "hand").await;
    assert_eq!(made.annotations()[NETWORK_ID], "2");
    assert!(made.finalizers().is_empty() && made.labels().is_empty(), "only annotations are ours");
    manager.stop().await;
}
