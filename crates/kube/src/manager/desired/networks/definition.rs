//! The attachment definition of a network in one namespace.

use std::collections::BTreeMap;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::super::super::state::{AttachmentWant, DEFINITION_LABEL, MARK, ObjectRef};
use super::super::Decision;
use super::candidate::{Candidate, CandidateSource};
use super::ids::NetworkNumbers;
use crate::cluster::kind::Kind;
use crate::cluster::snapshot::{AttachmentObject, NetworkObject, ObjectName};
use crate::network::{AttachmentKey, Layer2Network, render_config};

/// The start of the message about a definition that somebody else deletes.
pub(super) const BEING_DELETED: &str = "NetworkAttachmentDefinition is being deleted";

/// Decides a definition. Returns whether the API shows it as it should be, or the problem of its network.
pub(super) fn decide(
    candidate: &Candidate<'_>,
    network: &Layer2Network,
    key: &AttachmentKey,
    numbers: &NetworkNumbers,
    had: Option<&Arc<AttachmentObject>>,
    is_in_use: bool,
    out: &mut Decision,
) -> Result<bool, String> {
    let object = match &candidate.source {
        CandidateSource::Network(object) => *object,
        CandidateSource::Definition(object) => {
            let target = ObjectRef::new(Kind::Attachment, &object.meta);
            out.desired.annotations.insert(target, numbers.annotations().into_iter().collect());
            return Ok(true);
        }
    };
    let name = ObjectName::from(key);
    let digest = digest(object);
    if let Some(had) = had {
        if !candidate.owns(had) {
            return Err(format!(
                "NetworkAttachmentDefinition {key} exists and belongs to somebody else; delete it or rename the network"
            ));
        }
        // Our own network in any state is none that `remove_unwanted` may take.
        if had.meta.is_deleting {
            if !is_in_use {
                out.desired.attachments.insert(name, None);
                return Err(format!("{BEING_DELETED}; the manager creates it again"));
            }
            out.desired.attachments.insert(name, Some(unchanged(object, candidate, had)));
            return Err(format!(
                "{BEING_DELETED} while pods use the network; delete the network or the pods"
            ));
        }
        if had.meta.annotations.get(MARK).is_some_and(|mark| *mark != digest) {
            out.desired.attachments.insert(name, Some(unchanged(object, candidate, had)));
            return Err(
                "the network cannot be changed; restore its fields, or delete it and create another one"
                    .to_owned(),
            );
        }
    }
    let want = want(object, candidate, render_config(network, key), digest, numbers);
    let is_present = had.is_some_and(|had| {
        had.config == want.config
            && want.annotations.iter().all(|(key, value)| had.meta.annotations.get(key) == Some(value))
    });
    out.desired.attachments.insert(name, Some(want));
    Ok(is_present)
}

fn want(
    object: &NetworkObject,
    candidate: &Candidate<'_>,
    config: String,
    digest: String,
    numbers: &NetworkNumbers,
) -> AttachmentWant {
    let (kind, meta) = candidate.object();
    let mut labels = object.meta.labels.clone();
    labels.insert(DEFINITION_LABEL.to_owned(), String::new());
    let is_copied = |key: &str| {
        !key.starts_with("k8s.ovn.org") && !key.starts_with("kubectl.kubernetes.io/") && key != MARK
    };
    let copied = object.meta.annotations.iter().filter(|(key, _)| is_copied(key));
    let mut annotations: BTreeMap<String, String> =
        copied.map(|(key, value)| (key.clone(), value.clone())).collect();
    annotations.extend(numbers.annotations().map(|(key, value)| (key.to_owned(), value)));
    annotations.insert(MARK.to_owned(), digest);
    AttachmentWant { owner: ObjectRef::new(kind, meta), config, labels, annotations }
}

/// A definition that stays as it is.
fn unchanged(object: &NetworkObject, candidate: &Candidate<'_>, had: &AttachmentObject) -> AttachmentWant {
    let (kind, meta) = candidate.object();
    debug_assert_eq!(meta.uid, object.meta.uid);
    AttachmentWant {
        owner: ObjectRef::new(kind, meta),
        config: had.config.clone(),
        labels: had.meta.labels.clone(),
        annotations: had.meta.annotations.clone(),
    }
}

/// A digest of the fields that nobody may change.
fn digest(object: &NetworkObject) -> String {
    let text =
        object.spec.as_ref().map(|spec| serde_json::to_string(spec).unwrap_or_default()).unwrap_or_default();
    Sha256::digest(text.as_bytes()).iter().take(12).map(|byte| format!("{byte:02x}")).collect()
}
