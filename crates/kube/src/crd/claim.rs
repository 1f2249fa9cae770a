//! Claims of addresses that survive their pod.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A claim of addresses in a network.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "k8s.cni.cncf.io",
    version = "v1alpha1",
    kind = "IPAMClaim",
    plural = "ipamclaims",
    singular = "ipamclaim",
    namespaced,
    status = "IPAMClaimStatus",
    doc = "A claim of addresses that survive their pod"
)]
pub struct IPAMClaimSpec {
    /// The network's name.
    pub network: String,
    /// The pod's interface.
    pub interface: String,
}

/// The claimed addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IPAMClaimStatus {
    /// The addresses with prefix lengths.
    #[serde(default)]
    pub ips: Vec<String>,
}
