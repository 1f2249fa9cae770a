//! EgressIP: addresses with which pods leave the cluster.
#![expect(clippy::duplicated_attributes, reason = "each column of the printed table has the same fields")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Addresses with which the pods of some namespaces leave the cluster.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "k8s.ovn.org",
    version = "v1",
    kind = "EgressIP",
    plural = "egressips",
    singular = "egressip",
    shortname = "eip",
    status = "EgressIPStatus",
    doc = "Addresses with which pods leave the cluster",
    printcolumn(name = "EgressIPs", type_ = "string", json_path = ".spec.egressIPs[*]"),
    printcolumn(name = "Assigned Node", type_ = "string", json_path = ".status.items[*].node"),
    printcolumn(name = "Assigned EgressIPs", type_ = "string", json_path = ".status.items[*].egressIP")
)]
#[serde(rename_all = "camelCase")]
pub struct EgressIPSpec {
    /// The addresses. Each is on another node.
    #[serde(rename = "egressIPs")]
    pub egress_ips: Vec<String>,
    /// The namespaces of the pods.
    #[schemars(schema_with = "super::schema::label_selector")]
    pub namespace_selector: LabelSelector,
    /// The pods; empty for all of these namespaces.
    #[serde(default)]
    #[schemars(schema_with = "super::schema::label_selector")]
    pub pod_selector: LabelSelector,
}

/// The nodes that have the addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EgressIPStatus {
    /// The assigned addresses.
    #[serde(default)]
    pub items: Vec<EgressIPStatusItem>,
}

/// An assigned address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct EgressIPStatusItem {
    /// The node.
    pub node: String,
    /// The address.
    #[serde(rename = "egressIP")]
    pub egress_ip: String,
}
