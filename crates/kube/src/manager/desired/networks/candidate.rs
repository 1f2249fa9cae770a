//! Objects that ask for a primary network: user-defined networks, and definitions that somebody wrote by hand.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt};

use super::super::super::state::{DEFINITION_LABEL, is_marked};
use crate::cluster::kind::Kind;
use crate::cluster::snapshot::{AttachmentObject, Meta, NetworkObject, NetworkScope, ObjectName, Snapshot};
use crate::network::{
    AttachmentKey, ClusterNetwork, ConfigError, Layer2Network, NetworkName, describe_problems, parse_config,
};

/// The object that asks.
#[derive(Debug)]
pub(super) enum CandidateSource<'s> {
    /// A user-defined network.
    Network(&'s NetworkObject),
    /// A definition without an owner.
    Definition(&'s AttachmentObject),
}

/// A network that an object asks for.
#[derive(Debug)]
pub(super) struct Candidate<'s> {
    pub(super) source: CandidateSource<'s>,
    pub(super) name: NetworkName,
    /// The network's name for messages, unique among all candidates.
    pub(super) label: String,
    /// The network, or the rules that its fields break.
    pub(super) network: Result<Layer2Network, String>,
    /// The namespaces that are to have it.
    pub(super) namespaces: Vec<String>,
}

impl<'s> Candidate<'s> {
    pub(super) fn object(&self) -> (Kind, &'s Meta) {
        match self.source {
            CandidateSource::Network(object) => match object.scope {
                NetworkScope::Namespace => (Kind::UserDefinedNetwork, &object.meta),
                NetworkScope::Selector(_) => (Kind::ClusterUserDefinedNetwork, &object.meta),
            },
            CandidateSource::Definition(object) => (Kind::Attachment, &object.meta),
        }
    }

    pub(super) fn is_deleting(&self) -> bool {
        self.object().1.is_deleting
    }

    /// True if a definition is this candidate's: its controlled one, or itself.
    pub(super) fn owns(&self, attachment: &AttachmentObject) -> bool {
        let uid = &self.object().1.uid;
        attachment.meta.uid == *uid
            || attachment.meta.owners.iter().any(|it| it.is_controller && it.uid == *uid)
    }

    /// The definition's key in a namespace.
    pub(super) fn key_in(&self, namespace: &str) -> AttachmentKey {
        AttachmentKey::new(namespace, &self.object().1.name)
    }
}

/// All candidates. A network that has its definition already comes before one that has none, an older one before a newer one:
/// of two that exclude each other, the one in use stays.
pub(super) fn all<'s>(snapshot: &'s Snapshot, cluster: &ClusterNetwork) -> Vec<Candidate<'s>> {
    let mut candidates = Vec::new();
    for object in snapshot.networks.values() {
        let name = NetworkName::of_namespaced(&object.meta.namespace, &object.meta.name);
        candidates.push(of_network(
            object,
            name,
            "spec.layer2.",
            vec![object.meta.namespace.clone()],
            cluster,
        ));
    }
    for object in snapshot.cluster_networks.values() {
        let NetworkScope::Selector(selector) = &object.scope else { continue };
        let namespaces = matching(selector, snapshot);
        let name = NetworkName::of_cluster(&object.meta.name);
        let found = namespaces.clone().unwrap_or_default();
        let mut candidate = of_network(object, name, "spec.network.layer2.", found, cluster);
        if let Err(error) = namespaces {
            candidate.network = Err(error);
        }
        candidates.push(candidate);
    }
    for object in snapshot.attachments.values() {
        candidates.extend(of_definition(object, cluster));
    }
    let has_definition = |candidate: &Candidate<'_>| {
        snapshot
            .attachments
            .values()
            .any(|it| candidate.owns(it) && it.meta.annotations.contains_key("k8s.ovn.org/network-id"))
    };
    let mut keyed: Vec<_> = candidates.into_iter().map(|it| (!has_definition(&it), it)).collect();
    keyed.sort_by(|(a, one), (b, other)| {
        a.cmp(b).then_with(|| one.object().1.age().cmp(&other.object().1.age()))
    });
    keyed.into_iter().map(|(_, candidate)| candidate).collect()
}

fn of_network<'s>(
    object: &'s NetworkObject,
    name: NetworkName,
    path: &'static str,
    namespaces: Vec<String>,
    cluster: &ClusterNetwork,
) -> Candidate<'s> {
    let network = match &object.spec {
        Ok(spec) => {
            spec.input(path).check(name.clone(), cluster).map_err(|problems| describe_problems(&problems))
        }
        Err(error) => Err(error.clone()),
    };
    Candidate { source: CandidateSource::Network(object), label: name.to_string(), name, network, namespaces }
}

/// The namespaces that a selector matches, without those that are being deleted.
fn matching(selector: &LabelSelector, snapshot: &Snapshot) -> Result<Vec<String>, String> {
    let selector: Selector = selector
        .clone()
        .try_into()
        .map_err(|error: kube::core::ParseExpressionError| format!("spec.namespaceSelector: {error}"))?;
    let matches =
        snapshot.namespaces.values().filter(|it| !it.meta.is_deleting && selector.matches(&it.meta.labels));
    Ok(matches.map(|it| it.meta.name.clone()).collect())
}

/// A definition that nobody owns. Those of other plugins are none of our business.
fn of_definition<'s>(object: &'s AttachmentObject, cluster: &ClusterNetwork) -> Option<Candidate<'s>> {
    let is_owned = object.meta.owners.iter().any(|owner| owner.is_controller);
    if is_owned || is_marked(object) || object.meta.labels.contains_key(DEFINITION_LABEL) {
        return None;
    }
    let key = AttachmentKey::new(&object.meta.namespace, &object.meta.name);
    // A text that is not JSON says nothing of our plugin.
    let named_us = object.config.contains("ovn-k8s-cni-overlay");
    let network = match parse_config(&object.config, &key, cluster) {
        Ok(Some(network)) => match ConfigError::unless_own_name(&network, &key) {
            Ok(()) => Ok(network),
            Err(error) => Err(error.to_string()),
        },
        Ok(None) => return None,
        Err(_) if !named_us => return None,
        Err(error) => Err(error.to_string()),
    };
    let name = match &network {
        Ok(network) => network.name.clone(),
        Err(_) => NetworkName::of_namespaced(&key.namespace, &key.name),
    };
    let namespaces = vec![object.meta.namespace.clone()];
    let label = format!("{name} of definition {key}");
    Some(Candidate { source: CandidateSource::Definition(object), label, name, network, namespaces })
}

/// The name of an object in a namespace.
impl From<&AttachmentKey> for ObjectName {
    fn from(key: &AttachmentKey) -> ObjectName {
        ObjectName { namespace: key.namespace.clone(), name: key.name.clone() }
    }
}
