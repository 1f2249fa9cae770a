//! The API's objects at one instant: the parts of them that decide something.
//!
//! A cluster has tens of thousands of pods, so only these parts stay in memory, and each is parsed once when its object changes.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use imbl::OrdMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use ovn::MacAddr;

use super::kind::Kind;
use crate::annotation::{AnnotationError, Annotations, PodNetworks};
use crate::crd::{EgressIPStatusItem, Layer2Spec};

/// The namespace and the name of an object; the namespace of a cluster-wide one is empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl std::fmt::Display for ObjectName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.namespace.as_str() {
            "" => f.write_str(&self.name),
            namespace => write!(f, "{namespace}/{}", self.name),
        }
    }
}

/// The owner of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The kind.
    pub kind: String,
    /// The identity.
    pub uid: String,
    /// Whether it is the one that controls the object.
    pub is_controller: bool,
}

/// The metadata of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// The namespace, empty for cluster-wide objects.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The identity: an object that is deleted and created again has another one.
    pub uid: String,
    /// The time of creation, in seconds.
    pub created: i64,
    /// The version of the object; a later one is larger.
    pub version: u64,
    /// The version of its specification.
    pub generation: i64,
    /// Whether it is being deleted, and waits for its finalizers.
    pub is_deleting: bool,
    /// Whether it has a map of annotations, with ours or without.
    pub has_annotations: bool,
    /// The annotations that decide something.
    pub annotations: Annotations,
    /// The labels that decide something.
    pub labels: BTreeMap<String, String>,
    /// The finalizers.
    pub finalizers: Vec<String>,
    /// The owners.
    pub owners: Vec<Owner>,
}

impl Meta {
    /// The namespace and the name.
    pub fn object_name(&self) -> ObjectName {
        ObjectName { namespace: self.namespace.clone(), name: self.name.clone() }
    }

    /// The order of creation. The API's times are whole seconds, so the version decides within one.
    pub fn age(&self) -> (i64, u64, &str, &str) {
        (self.created, self.version, &self.namespace, &self.name)
    }
}

/// An object with metadata.
pub trait Described {
    /// The metadata.
    fn meta(&self) -> &Meta;
}

macro_rules! described {
    ($($name:ident),*) => {
        $(impl Described for $name {
            fn meta(&self) -> &Meta {
                &self.meta
            }
        })*
    };
}
described!(
    NodeObject,
    NamespaceObject,
    PodObject,
    NetworkObject,
    AttachmentObject,
    ClaimObject,
    EgressIpObject,
    ServiceObject,
    SliceObject
);

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeObject {
    /// The metadata.
    pub meta: Meta,
    /// Whether its kubelet says that it is ready.
    pub is_ready: bool,
}

/// A namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceObject {
    /// The metadata.
    pub meta: Meta,
}

/// The wishes of a pod for its primary network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodRequest {
    /// The MAC address.
    pub mac: Option<MacAddr>,
    /// The name of its claim of addresses.
    pub claim: Option<String>,
}

/// A pod.
#[derive(Clone, Debug, PartialEq)]
pub struct PodObject {
    /// The metadata.
    pub meta: Meta,
    /// The node that it runs on, once it is scheduled.
    pub node: Option<String>,
    /// Whether it uses the node's own network.
    pub is_host_network: bool,
    /// Whether all its containers have ended for good.
    pub is_finished: bool,
    /// Its networks, or why the annotation is none.
    pub networks: Result<Option<PodNetworks>, AnnotationError>,
    /// Its wishes, or why they cannot be read.
    pub request: Result<PodRequest, String>,
}

impl PodObject {
    /// Whether it needs addresses.
    pub fn needs_addresses(&self) -> bool {
        self.node.is_some() && !self.is_host_network && !self.is_finished
    }
}

/// The scope of a user-defined network.
#[derive(Clone, Debug, PartialEq)]
pub enum NetworkScope {
    /// The object's own namespace.
    Namespace,
    /// All namespaces that a selector matches.
    Selector(LabelSelector),
}

/// A primary layer-2 network that a user defined. Others are not read.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkObject {
    /// The metadata.
    pub meta: Meta,
    /// The scope.
    pub scope: NetworkScope,
    /// The fields, or why they cannot be read.
    pub spec: Result<Layer2Spec, String>,
    /// The conditions of the status, of all programs.
    pub conditions: Vec<Condition>,
}

/// An attachment definition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttachmentObject {
    /// The metadata.
    pub meta: Meta,
    /// The text.
    pub config: String,
}

/// A claim of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimObject {
    /// The metadata.
    pub meta: Meta,
    /// The network's name.
    pub network: String,
    /// The claimed addresses, as they stand.
    pub addresses: Vec<String>,
}

/// Addresses with which pods leave the cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct EgressIpObject {
    /// The metadata.
    pub meta: Meta,
    /// The addresses, or why they cannot be read.
    pub addresses: Result<Vec<IpAddr>, String>,
    /// The namespaces and the pods.
    pub selectors: (LabelSelector, LabelSelector),
    /// The assigned addresses, as they stand in the status.
    pub items: Vec<EgressIPStatusItem>,
}

/// A transport protocol of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl Protocol {
    /// The protocol of a name of the API: `TCP`. None is TCP.
    pub fn parse(text: Option<&str>) -> Option<Protocol> {
        match text {
            None | Some("TCP") => Some(Protocol::Tcp),
            Some("UDP") => Some(Protocol::Udp),
            Some("SCTP") => Some(Protocol::Sctp),
            Some(_) => None,
        }
    }

    /// The name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
            Protocol::Sctp => "SCTP",
        }
    }
}

/// A port of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// The name, empty for the only one.
    pub name: String,
    /// The protocol.
    pub protocol: Protocol,
    /// The port at the service's addresses.
    pub port: u16,
    /// The port at the nodes' addresses.
    pub node_port: Option<u16>,
}

/// A service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceObject {
    /// The metadata.
    pub meta: Meta,
    /// The addresses inside of the cluster; none of a headless service.
    pub addresses: Vec<IpAddr>,
    /// Addresses outside of the cluster that lead to it as well.
    pub external_addresses: Vec<IpAddr>,
    /// The ports.
    pub ports: Vec<ServicePort>,
    /// Whether nodes pass traffic from outside only to pods of their own.
    pub is_local_outside: bool,
    /// Seconds for which a client stays with a pod.
    pub affinity: Option<u32>,
}

/// A port of the endpoints of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlicePort {
    /// The name of the service's port.
    pub name: String,
    /// The protocol.
    pub protocol: Protocol,
    /// The port; none is every port.
    pub port: Option<u16>,
}

/// One endpoint of a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SliceEndpoint {
    /// The addresses.
    pub addresses: Vec<IpAddr>,
    /// Whether it takes new connections.
    pub is_ready: bool,
    /// Whether it answers, although it may be about to end.
    pub is_serving: bool,
    /// Whether it is about to end.
    pub is_terminating: bool,
    /// The node.
    pub node: Option<String>,
    /// The pod.
    pub pod: Option<ObjectName>,
}

/// A part of the endpoints of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SliceObject {
    /// The metadata.
    pub meta: Meta,
    /// `IPv4` or `IPv6`.
    pub address_type: String,
    /// The ports.
    pub ports: Vec<SlicePort>,
    /// The endpoints.
    pub endpoints: Vec<SliceEndpoint>,
}

/// The objects of one kind by name.
pub type Objects<T> = OrdMap<ObjectName, Arc<T>>;

/// All objects at one instant. Copies share everything.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The time, in seconds.
    pub now: i64,
    /// The nodes.
    pub nodes: Objects<NodeObject>,
    /// The namespaces.
    pub namespaces: Objects<NamespaceObject>,
    /// The pods.
    pub pods: Objects<PodObject>,
    /// The networks of one namespace.
    pub networks: Objects<NetworkObject>,
    /// The networks of several namespaces.
    pub cluster_networks: Objects<NetworkObject>,
    /// The attachment definitions.
    pub attachments: Objects<AttachmentObject>,
    /// The claims of addresses.
    pub claims: Objects<ClaimObject>,
    /// Addresses with which pods leave the cluster.
    pub egress_ips: Objects<EgressIpObject>,
    /// The services.
    pub services: Objects<ServiceObject>,
    /// The parts of services' endpoints.
    pub slices: Objects<SliceObject>,
}

impl Snapshot {
    /// The metadata of an object.
    pub fn meta(&self, kind: Kind, name: &ObjectName) -> Option<&Meta> {
        fn of<'s, T: Described>(objects: &'s Objects<T>, name: &ObjectName) -> Option<&'s Meta> {
            objects.get(name).map(|object| object.meta())
        }
        match kind {
            Kind::Node => of(&self.nodes, name),
            Kind::Namespace => of(&self.namespaces, name),
            Kind::Pod => of(&self.pods, name),
            Kind::UserDefinedNetwork => of(&self.networks, name),
            Kind::ClusterUserDefinedNetwork => of(&self.cluster_networks, name),
            Kind::Attachment => of(&self.attachments, name),
            Kind::Claim => of(&self.claims, name),
            Kind::EgressIp => of(&self.egress_ips, name),
            Kind::Service => of(&self.services, name),
            Kind::EndpointSlice => of(&self.slices, name),
        }
    }
}

/// Objects of a kind from the oldest to the newest.
pub fn by_age<T: Described>(objects: &Objects<T>) -> Vec<&Arc<T>> {
    let mut sorted: Vec<&Arc<T>> = objects.values().collect();
    sorted.sort_by(|a, b| a.meta().age().cmp(&b.meta().age()));
    sorted
}
