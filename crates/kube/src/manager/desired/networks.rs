//! Networks, their ids and keys, and their attachment definitions.

mod candidate;
mod definition;
mod ids;

use std::collections::{BTreeMap, BTreeSet};

use super::super::state::{ConditionWant, FINALIZER, NAMESPACE_LABEL, ObjectRef, is_marked};
use super::Decision;
use crate::cluster::kind::Kind;
use crate::cluster::snapshot::{AttachmentObject, NetworkScope, ObjectName, PodObject, Snapshot};
use crate::network::{AttachmentKey, ClusterNetwork, Layer2Network};
use candidate::{Candidate, CandidateSource};
use ids::IdLedger;

/// The primary network of a namespace, with its id and keys in the API.
#[derive(Clone, Debug)]
pub(super) struct ActiveNetwork {
    pub(super) network: Layer2Network,
    pub(super) key: AttachmentKey,
}

/// The ids and keys that networks have.
#[derive(Debug, Default)]
pub(super) struct NetworkLedger {
    ids: IdLedger,
}

/// What a candidate gets in one namespace.
struct Place {
    namespace: String,
    key: AttachmentKey,
}

impl NetworkLedger {
    /// Decides all networks. Returns those whose numbers are in the API, by namespace.
    pub(super) fn decide(
        &mut self,
        snapshot: &Snapshot,
        cluster: &ClusterNetwork,
        out: &mut Decision,
    ) -> BTreeMap<String, ActiveNetwork> {
        let candidates = candidate::all(snapshot, cluster);
        let users = users_of_definitions(snapshot);
        let mut primaries: BTreeMap<String, String> = BTreeMap::new();
        let mut prefixes: BTreeMap<String, String> = BTreeMap::new();
        let mut accepted = Vec::new();
        for candidate in &candidates {
            let (places, problems) = settle(candidate, snapshot, &mut primaries, &mut prefixes);
            accepted.push((candidate, places, problems));
        }
        let wanted: BTreeSet<_> = accepted
            .iter()
            .filter(|(_, places, _)| !places.is_empty())
            .map(|(candidate, _, _)| candidate.name.clone())
            .collect();
        self.ids.reserve(snapshot, &wanted, out);

        let mut active = BTreeMap::new();
        for (candidate, places, mut problems) in accepted {
            let mut present = 0;
            for place in &places {
                let Ok(network) = &candidate.network else { continue };
                let Some(numbers) = self.ids.numbers(&candidate.name) else {
                    let message = format!(
                        "no free network id or tunnel key for network {}; remove networks",
                        candidate.name
                    );
                    problems.push(message);
                    break;
                };
                let object =
                    ObjectName { namespace: place.key.namespace.clone(), name: place.key.name.clone() };
                let had = snapshot.attachments.get(&object);
                let is_in_use = users.contains_key(&object);
                match definition::decide(candidate, network, &place.key, &numbers, had, is_in_use, out) {
                    Ok(is_present) => present += usize::from(is_present),
                    Err(problem) => problems.push(problem),
                }
                if had.is_some_and(|had| numbers.are_shown_by(had) && candidate.owns(had)) {
                    let value = ActiveNetwork { network: network.clone(), key: place.key.clone() };
                    active.insert(place.namespace.clone(), value);
                }
            }
            conclude(candidate, &places, present, problems, out);
        }
        remove_unwanted(snapshot, &users, out);
        settle_finalizers(snapshot, &candidates, out);
        active
    }
}

/// The namespaces that a candidate may be in, and the problems of the others.
fn settle(
    candidate: &Candidate<'_>,
    snapshot: &Snapshot,
    primaries: &mut BTreeMap<String, String>,
    prefixes: &mut BTreeMap<String, String>,
) -> (Vec<Place>, Vec<String>) {
    let mut problems = Vec::new();
    if let Err(problem) = &candidate.network {
        problems.push(problem.clone());
    }
    if candidate.is_deleting() {
        return (Vec::new(), Vec::new());
    }
    let mut places = Vec::new();
    for namespace in &candidate.namespaces {
        let name = ObjectName { namespace: String::new(), name: namespace.clone() };
        let labelled =
            snapshot.namespaces.get(&name).is_some_and(|it| it.meta.labels.contains_key(NAMESPACE_LABEL));
        if !labelled && !matches!(candidate.source, CandidateSource::Definition(_)) {
            problems.push(format!(
                "namespace {namespace} has no label {NAMESPACE_LABEL}; create the namespace with the label"
            ));
            continue;
        }
        if candidate.network.is_err() {
            continue;
        }
        if let Some(other) = primaries.get(namespace).filter(|other| **other != candidate.label) {
            problems.push(format!(
                "namespace {namespace} has the primary network {other} already; remove one of them"
            ));
            continue;
        }
        let prefix = candidate.name.row_prefix();
        let holder = prefixes.entry(prefix).or_insert_with(|| candidate.name.to_string());
        if *holder != candidate.name.as_str() {
            problems.push(format!(
                "the name is too much like that of network {holder}: rows of both would have the same \
                 names; use another name"
            ));
            continue;
        }
        primaries.insert(namespace.clone(), candidate.label.clone());
        places.push(Place { namespace: namespace.clone(), key: candidate.key_in(namespace) });
    }
    (places, problems)
}

/// The condition of a candidate, and its problems.
fn conclude(
    candidate: &Candidate<'_>,
    places: &[Place],
    present: usize,
    problems: Vec<String>,
    out: &mut Decision,
) {
    let (kind, meta) = candidate.object();
    for problem in &problems {
        out.problem(kind, meta, "SyncError", problem.clone());
    }
    let is_cluster = match &candidate.source {
        CandidateSource::Network(object) => matches!(object.scope, NetworkScope::Selector(_)),
        CandidateSource::Definition(_) => return,
    };
    if candidate.is_deleting() {
        return;
    }
    let want = if let [_, ..] = problems.as_slice() {
        let reason = if is_cluster { "NetworkAttachmentDefinitionSyncError" } else { "SyncError" };
        let deleted = problems.iter().any(|problem| problem.starts_with(definition::BEING_DELETED));
        let reason = if deleted { "NetworkAttachmentDefinitionDeleted" } else { reason };
        ConditionWant { is_true: false, reason, message: problems.join("; ") }
    } else if present == places.len() {
        let message = match (is_cluster, places.len()) {
            (false, _) => "NetworkAttachmentDefinition has been created".to_owned(),
            (true, 0) => "no namespace matches the selector".to_owned(),
            (true, _) => {
                let names: Vec<&str> = places.iter().map(|place| place.namespace.as_str()).collect();
                format!("NetworkAttachmentDefinition has been created in {}", names.join(", "))
            }
        };
        ConditionWant { is_true: true, reason: "NetworkAttachmentDefinitionCreated", message }
    } else {
        // The definitions are on their way.
        return;
    };
    out.desired.conditions.insert(ObjectRef::new(kind, meta), want);
}

/// The pods that use a definition, by its name.
fn users_of_definitions(snapshot: &Snapshot) -> BTreeMap<ObjectName, Vec<String>> {
    let mut users: BTreeMap<ObjectName, Vec<String>> = BTreeMap::new();
    let living = |pod: &&std::sync::Arc<PodObject>| !pod.is_finished;
    for pod in snapshot.pods.values().filter(living) {
        let Ok(Some(networks)) = &pod.networks else { continue };
        for key in networks.keys() {
            if let Some((namespace, name)) = key.split_once('/') {
                let object = ObjectName { namespace: namespace.to_owned(), name: name.to_owned() };
                users.entry(object).or_default().push(pod.meta.name.clone());
            }
        }
    }
    users
}

/// Removes definitions of ours that no network wants, once no pod uses them.
fn remove_unwanted(snapshot: &Snapshot, users: &BTreeMap<ObjectName, Vec<String>>, out: &mut Decision) {
    for (object, attachment) in &snapshot.attachments {
        if !is_marked(attachment) || out.desired.attachments.contains_key(object) {
            continue;
        }
        if owner_is_undecided(attachment, snapshot) {
            continue;
        }
        match users.get(object) {
            None => drop(out.desired.attachments.insert(object.clone(), None)),
            Some(pods) => {
                let message = format!("cannot remove the network: {} still use it; delete them", list(pods));
                out.problem(Kind::Attachment, &attachment.meta, "NetworkInUse", message.clone());
                if let Some((kind, meta)) = owner_of(attachment, snapshot) {
                    let want = ConditionWant { is_true: false, reason: "SyncError", message };
                    out.desired.conditions.insert(ObjectRef::new(kind, meta), want);
                }
            }
        }
    }
}

/// The names of some pods.
fn list(pods: &[String]) -> String {
    let mut names: Vec<&str> = pods.iter().map(|name| name.as_str()).take(5).collect();
    let more = format!("and {} more", pods.len().saturating_sub(5));
    if pods.len() > 5 {
        names.push(&more);
    }
    format!("pods {}", names.join(", "))
}

/// The network that owns a definition.
fn owner_of<'s>(
    attachment: &AttachmentObject,
    snapshot: &'s Snapshot,
) -> Option<(Kind, &'s crate::cluster::snapshot::Meta)> {
    let uid = &attachment.meta.owners.iter().find(|owner| owner.is_controller)?.uid;
    let of = |objects: &'s crate::cluster::snapshot::Objects<crate::cluster::snapshot::NetworkObject>| {
        objects.values().find(|object| object.meta.uid == *uid).map(|object| &object.meta)
    };
    of(&snapshot.networks)
        .map(|meta| (Kind::UserDefinedNetwork, meta))
        .or_else(|| of(&snapshot.cluster_networks).map(|meta| (Kind::ClusterUserDefinedNetwork, meta)))
}

/// True if the owner exists, is not being deleted, and has fields that break a rule. Its network may be in use; it stays as it
/// is until somebody corrects or deletes it.
fn owner_is_undecided(attachment: &AttachmentObject, snapshot: &Snapshot) -> bool {
    let Some((kind, meta)) = owner_of(attachment, snapshot) else { return false };
    let objects =
        if kind == Kind::UserDefinedNetwork { &snapshot.networks } else { &snapshot.cluster_networks };
    !meta.is_deleting && objects.get(&meta.object_name()).is_some_and(|object| object.spec.is_err())
}

/// Networks keep the finalizer until the last of their definitions is gone.
fn settle_finalizers(snapshot: &Snapshot, candidates: &[Candidate<'_>], out: &mut Decision) {
    for candidate in candidates {
        if matches!(candidate.source, CandidateSource::Definition(_)) {
            continue;
        }
        let (kind, meta) = candidate.object();
        let is_needed =
            !meta.is_deleting || snapshot.attachments.values().any(|it| is_marked(it) && candidate.owns(it));
        // A finalizer cannot be added to an object that is being deleted.
        if is_needed != meta.finalizers.iter().any(|it| it == FINALIZER) && !(is_needed && meta.is_deleting) {
            out.desired.finalizers.insert(ObjectRef::new(kind, meta), is_needed);
        }
    }
}
