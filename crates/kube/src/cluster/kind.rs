//! The kinds of objects that our programs read, and which program reads which.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;

/// A kind of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A node.
    Node,
    /// A namespace.
    Namespace,
    /// A pod.
    Pod,
    /// A network of one namespace.
    UserDefinedNetwork,
    /// A network of several namespaces.
    ClusterUserDefinedNetwork,
    /// An attachment definition.
    Attachment,
    /// A claim of addresses.
    Claim,
    /// Addresses with which pods leave the cluster.
    EgressIp,
    /// A service.
    Service,
    /// A part of a service's endpoints.
    EndpointSlice,
}

/// The group of endpoint slices, whose version depends on the server.
pub const SLICES: &str = "discovery.k8s.io";

impl Kind {
    /// The kind's name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Node => "Node",
            Kind::Namespace => "Namespace",
            Kind::Pod => "Pod",
            Kind::UserDefinedNetwork => "UserDefinedNetwork",
            Kind::ClusterUserDefinedNetwork => "ClusterUserDefinedNetwork",
            Kind::Attachment => "NetworkAttachmentDefinition",
            Kind::Claim => "IPAMClaim",
            Kind::EgressIp => "EgressIP",
            Kind::Service => "Service",
            Kind::EndpointSlice => "EndpointSlice",
        }
    }

    /// The group and version in the API: `k8s.ovn.org/v1`. Servers before Kubernetes 1.21 have slices as `v1beta1`.
    pub fn api_version(self) -> &'static str {
        match self {
            Kind::Node | Kind::Namespace | Kind::Pod | Kind::Service => "v1",
            Kind::UserDefinedNetwork | Kind::ClusterUserDefinedNetwork | Kind::EgressIp => "k8s.ovn.org/v1",
            Kind::Attachment => "k8s.cni.cncf.io/v1",
            Kind::Claim => "k8s.cni.cncf.io/v1alpha1",
            Kind::EndpointSlice => "discovery.k8s.io/v1",
        }
    }

    /// The kind's name in paths of the API.
    pub fn plural(self) -> &'static str {
        match self {
            Kind::Node => "nodes",
            Kind::Namespace => "namespaces",
            Kind::Pod => "pods",
            Kind::UserDefinedNetwork => "userdefinednetworks",
            Kind::ClusterUserDefinedNetwork => "clusteruserdefinednetworks",
            Kind::Attachment => "network-attachment-definitions",
            Kind::Claim => "ipamclaims",
            Kind::EgressIp => "egressips",
            Kind::Service => "services",
            Kind::EndpointSlice => "endpointslices",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A program that reads the API. A cluster has tens of thousands of pods, so each program keeps only what it decides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// The manager of the cluster.
    Manager,
    /// The program of a node: pods with addresses in our networks, and mirrored slices.
    Node,
}

impl Reader {
    /// The kinds that it watches.
    pub fn kinds(self) -> &'static [Kind] {
        match self {
            Reader::Manager => &[
                Kind::Node,
                Kind::Namespace,
                Kind::Pod,
                Kind::UserDefinedNetwork,
                Kind::ClusterUserDefinedNetwork,
                Kind::Attachment,
                Kind::Claim,
                Kind::EgressIp,
            ],
            Reader::Node => &[Kind::Node, Kind::Pod, Kind::Attachment, Kind::Service, Kind::EndpointSlice],
        }
    }
}
