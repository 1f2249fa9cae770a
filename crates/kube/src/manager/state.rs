//! The state that the manager wants in the API, and the marks of objects that are its own.
//!
//! The manager owns single annotations of nodes, pods and definitions, one condition of a network's status, and whole attachment
//! definitions with its mark. It touches nothing else.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::annotation::PodNetwork;
use crate::cluster::snapshot::{AttachmentObject, ObjectName, Snapshot};
pub use crate::cluster::write::{Notice, ObjectRef};
use crate::crd::EgressIPStatusItem;

/// The finalizer of networks and of their definitions.
pub const FINALIZER: &str = "k8s.ovn.org/user-defined-network-protection";
/// The label of definitions that belong to a user-defined network.
pub const DEFINITION_LABEL: &str = "k8s.ovn.org/user-defined-network";
/// The label of namespaces that may have a primary network.
pub const NAMESPACE_LABEL: &str = "k8s.ovn.org/primary-user-defined-network";
/// The annotation that makes a definition ours: a digest of the fields that it was made from.
pub const MARK: &str = "meridian/layer2-digest";
/// The condition of a network's status.
pub const CONDITION: &str = "NetworkCreated";

/// The addresses of a pod in its primary network.
#[derive(Clone, Debug, PartialEq)]
pub struct PodWant {
    /// The pod.
    pub pod: ObjectRef,
    /// The key of its network's definition.
    pub key: Arc<str>,
    /// The addresses.
    pub network: Arc<PodNetwork>,
    /// The version of the pod that has them already.
    pub confirmed: Option<u64>,
    /// The claim that must have the addresses before the pod gets them.
    pub claim: Option<ObjectRef>,
}

/// An attachment definition of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachmentWant {
    /// The network that owns it.
    pub owner: ObjectRef,
    /// The text.
    pub config: String,
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The annotations.
    pub annotations: BTreeMap<String, String>,
}

/// The condition of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionWant {
    /// Whether the network exists.
    pub is_true: bool,
    /// The reason, one word.
    pub reason: &'static str,
    /// The cause, and what to do.
    pub message: String,
}

/// The state that the manager wants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Desired {
    /// Annotations of nodes and of definitions written by hand: the value of each key.
    pub annotations: BTreeMap<ObjectRef, BTreeMap<&'static str, String>>,
    /// Our definitions. `None` removes one of ours.
    pub attachments: BTreeMap<ObjectName, Option<AttachmentWant>>,
    /// The addresses of claims.
    pub claims: BTreeMap<ObjectRef, Vec<String>>,
    /// The addresses of pods.
    pub pods: Vec<PodWant>,
    /// The conditions of networks.
    pub conditions: BTreeMap<ObjectRef, ConditionWant>,
    /// The nodes of egress addresses.
    pub egress: BTreeMap<ObjectRef, Vec<EgressIPStatusItem>>,
    /// Networks with our finalizer, and those without.
    pub finalizers: BTreeMap<ObjectRef, bool>,
    /// Events.
    pub notices: BTreeSet<Notice>,
}

/// The observed state: what the API has shown, and the events that this process has written.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The objects.
    pub objects: Snapshot,
    /// The names of written events.
    pub events: BTreeSet<String>,
}

/// True if a definition is ours: it has our mark, and nobody writes that by accident.
pub fn is_marked(attachment: &AttachmentObject) -> bool {
    attachment.meta.annotations.contains_key(MARK)
}
