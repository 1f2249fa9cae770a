//! Network attachment definitions, the form in which CNI plugins read networks.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The configuration of a network for pods.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "k8s.cni.cncf.io",
    version = "v1",
    kind = "NetworkAttachmentDefinition",
    plural = "network-attachment-definitions",
    singular = "network-attachment-definition",
    shortname = "net-attach-def",
    namespaced,
    doc = "The configuration of a network for pods"
)]
pub struct NetworkAttachmentDefinitionSpec {
    /// The configuration, a JSON string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
}
