//! Custom resources: their types and their schemas.
//!
//! The rules stand twice. An API server evaluates those of the schema (CEL), if it is new enough, and then a bad object is refused
//! before anybody sees it. The manager repeats all of them in `network::Layer2Input`, for older servers.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod attachment;
mod claim;
mod egress_ip;
mod layer2;
mod network;
mod schema;

pub use attachment::{NetworkAttachmentDefinition, NetworkAttachmentDefinitionSpec};
pub use claim::{IPAMClaim, IPAMClaimSpec, IPAMClaimStatus};
pub use egress_ip::{EgressIP, EgressIPSpec, EgressIPStatus, EgressIPStatusItem};
pub use layer2::{CidrText, IpamMode, IpamSpec, Layer2Spec, Lifecycle, Role};
pub use network::{
    ClusterUserDefinedNetwork, ClusterUserDefinedNetworkSpec, NetworkSpec, NetworkStatus, Topology,
    UserDefinedNetwork, UserDefinedNetworkSpec,
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

/// The definitions that the manager needs, for a cluster without them.
pub fn definitions() -> Vec<CustomResourceDefinition> {
    vec![
        UserDefinedNetwork::crd(),
        ClusterUserDefinedNetwork::crd(),
        NetworkAttachmentDefinition::crd(),
        IPAMClaim::crd(),
        EgressIP::crd(),
    ]
}

#[cfg(test)]
mod tests;
