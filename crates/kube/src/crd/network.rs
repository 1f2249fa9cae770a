//! User-defined networks: of a namespace, and of all namespaces that a selector matches.
#![expect(unreachable_pub, reason = "the schema's macro copies the structs into a function")]
#![expect(clippy::duplicated_attributes, reason = "each column of the printed table has the same fields")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::layer2::Layer2Spec;

/// The topology of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Topology {
    /// One switch over all nodes.
    Layer2,
    /// One switch per node. Meridian leaves these to other programs.
    Layer3,
    /// A physical network. Meridian leaves these to other programs.
    Localnet,
}

/// The state of a network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkStatus {
    /// `NetworkCreated`, with the cause if it is false.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// A network of the pods of one namespace.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "k8s.ovn.org",
    version = "v1",
    kind = "UserDefinedNetwork",
    plural = "userdefinednetworks",
    singular = "userdefinednetwork",
    shortname = "udn",
    namespaced,
    status = "NetworkStatus",
    doc = "A network of the pods of one namespace",
    printcolumn(name = "Topology", type_ = "string", json_path = ".spec.topology"),
    printcolumn(name = "Role", type_ = "string", json_path = ".spec.layer2.role"),
    printcolumn(name = "Subnets", type_ = "string", json_path = ".spec.layer2.subnets"),
    printcolumn(
        name = "Created",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='NetworkCreated')].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='NetworkCreated')].reason"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='NetworkCreated')].message",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.layer2) == (self.topology == 'Layer2')")
        .message("layer2 belongs to topology Layer2 and to no other"),
    validation = Rule::new("self.topology != 'Localnet'")
        .message("topology Localnet is for ClusterUserDefinedNetworks")
)]
pub struct UserDefinedNetworkSpec {
    /// Layer2 or Layer3.
    #[x_kube(validation = Rule::new("self == oldSelf").message("topology cannot be changed"))]
    pub topology: Topology,
    /// The fields of topology Layer2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self == oldSelf").message("layer2 cannot be changed; create another network"))]
    pub layer2: Option<Layer2Spec>,
    /// The fields of topology Layer3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::schema::any_object")]
    pub layer3: Option<Value>,
}

/// A network of the pods of all namespaces that a selector matches.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "k8s.ovn.org",
    version = "v1",
    kind = "ClusterUserDefinedNetwork",
    plural = "clusteruserdefinednetworks",
    singular = "clusteruserdefinednetwork",
    shortname = "cudn",
    status = "NetworkStatus",
    doc = "A network of the pods of all namespaces that a selector matches",
    printcolumn(name = "Topology", type_ = "string", json_path = ".spec.network.topology"),
    printcolumn(name = "Role", type_ = "string", json_path = ".spec.network.layer2.role"),
    printcolumn(name = "Subnets", type_ = "string", json_path = ".spec.network.layer2.subnets"),
    printcolumn(
        name = "Created",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='NetworkCreated')].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='NetworkCreated')].reason"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='NetworkCreated')].message",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterUserDefinedNetworkSpec {
    /// The namespaces whose pods are in the network.
    #[schemars(schema_with = "super::schema::label_selector")]
    pub namespace_selector: LabelSelector,
    /// The network.
    pub network: NetworkSpec,
}

/// The network of a ClusterUserDefinedNetwork.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.layer2) == (self.topology == 'Layer2')")
        .message("layer2 belongs to topology Layer2 and to no other")
)]
pub struct NetworkSpec {
    /// Layer2, Layer3 or Localnet.
    #[x_kube(validation = Rule::new("self == oldSelf").message("topology cannot be changed"))]
    pub topology: Topology,
    /// The fields of topology Layer2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self == oldSelf").message("layer2 cannot be changed; create another network"))]
    pub layer2: Option<Layer2Spec>,
    /// The fields of topology Layer3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::schema::any_object")]
    pub layer3: Option<Value>,
    /// The fields of topology Localnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::schema::any_object")]
    pub localnet: Option<Value>,
}
