//! The writes that lead from the observed to the desired state.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use reconcile::{ObjectId, Plan};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::state::{
    AttachmentWant, CONDITION, ConditionWant, Desired, FINALIZER, Notice, ObjectRef, Observed, PodWant,
};
use crate::annotation::{Annotation, PodNetworks};
use crate::cluster::kind::Kind;
use crate::cluster::snapshot::{AttachmentObject, Meta, NetworkObject, ObjectName, Objects, Snapshot};
use crate::cluster::write::{Change, PatchBuilder, PatchOp, Write, annotate, object_id, planned};
use crate::crd::{EgressIPStatus, EgressIPStatusItem};

/// Plans all writes. Numbers come before what needs them, conditions and events last.
pub(super) fn plan(want: &Desired, have: &Observed) -> Plan<Write> {
    let objects = &have.objects;
    let total = want.annotations.len()
        + want.attachments.len()
        + want.pods.len()
        + want.conditions.len()
        + want.egress.len();
    let mut writes = Vec::new();
    for (object, values) in &want.annotations {
        writes.extend(annotate(object, values, objects));
    }
    for (object, wanted) in &want.finalizers {
        writes.extend(finalizer(object, *wanted, objects));
    }
    for (name, wanted) in &want.attachments {
        writes.extend(attachment(name, wanted.as_ref(), objects));
    }
    for pod in &want.pods {
        // The claim is part of the pod's change: without it the pod must not get the addresses.
        let claim = pod.claim.as_ref().and_then(|claim| self::claim(claim, want.claims.get(claim)?, objects));
        let id = object_id(Kind::Pod, &pod.pod.name);
        writes.extend(claim.map(|(_, write)| (id, write)));
        writes.extend(self::pod(pod, objects));
    }
    for (object, addresses) in &want.claims {
        writes.extend(
            claim(object, addresses, objects).filter(|(_, write)| !writes.iter().any(|(_, it)| it == write)),
        );
    }
    for (object, wanted) in &want.conditions {
        writes.extend(condition(object, wanted, objects));
    }
    for (object, items) in &want.egress {
        writes.extend(egress(object, items, objects));
    }
    for notice in &want.notices {
        let event = event_name(notice);
        if !have.events.contains(&event) {
            let object = &notice.about;
            let change = Change::Notify { event: event.clone(), notice: notice.clone() };
            // Of its own object: an event that cannot be written holds up nothing.
            let write = Write { kind: object.kind, name: object.name.clone(), change };
            writes.push((ObjectId::new("event", event), write));
        }
    }
    let mut plan = Plan::new(total, total.saturating_sub(writes.len()));
    for (object, write) in writes {
        plan.push(object, write);
    }
    plan
}

type Planned = (ObjectId, Write);

/// The metadata of an object, if it is still the same one.
fn meta_of<'s>(object: &ObjectRef, objects: &'s Snapshot) -> Option<&'s Meta> {
    objects.meta(object.kind, &object.name).filter(|meta| meta.uid == object.uid)
}

fn finalizer(object: &ObjectRef, wanted: bool, objects: &Snapshot) -> Option<Planned> {
    let meta = meta_of(object, objects)?;
    let ops = finalizer_ops(meta, wanted)?;
    let summary = if wanted { "add the finalizer" } else { "remove the finalizer" };
    Some(planned(object, Change::Patch { ops, summary: summary.to_owned() }))
}

fn finalizer_ops(meta: &Meta, wanted: bool) -> Option<Vec<PatchOp>> {
    if meta.finalizers.iter().any(|it| it == FINALIZER) == wanted {
        return None;
    }
    let mut new: Vec<&str> =
        meta.finalizers.iter().map(|it| it.as_str()).filter(|it| *it != FINALIZER).collect();
    new.extend(wanted.then_some(FINALIZER));
    let mut patch = PatchBuilder::new(&meta.uid, true);
    patch.set("/metadata/finalizers", meta.version, json!(new));
    patch.finish()
}

fn attachment(name: &ObjectName, want: Option<&AttachmentWant>, objects: &Snapshot) -> Vec<Planned> {
    let had = objects.attachments.get(name);
    match (want, had) {
        (None, None) => Vec::new(),
        (None, Some(had)) => remove_attachment(had).into_iter().collect(),
        (Some(want), None) => {
            let write =
                Write { kind: Kind::Attachment, name: name.clone(), change: create_attachment(name, want) };
            vec![(object_id(Kind::Attachment, name), write)]
        }
        (Some(want), Some(had)) => change_attachment(want, had).into_iter().collect(),
    }
}

/// The next step of a removal: our finalizer keeps a definition until the removal is decided.
fn remove_attachment(had: &AttachmentObject) -> Option<Planned> {
    let object = ObjectRef::new(Kind::Attachment, &had.meta);
    if !had.meta.is_deleting {
        return Some(planned(&object, Change::Delete { uid: had.meta.uid.clone() }));
    }
    let ops = finalizer_ops(&had.meta, false)?;
    Some(planned(&object, Change::Patch { ops, summary: "remove the finalizer".to_owned() }))
}

fn create_attachment(name: &ObjectName, want: &AttachmentWant) -> Change {
    let owner = &want.owner;
    let object = json!({
        "apiVersion": Kind::Attachment.api_version(),
        "kind": Kind::Attachment.as_str(),
        "metadata": {
            "namespace": name.namespace,
            "name": name.name,
            "labels": want.labels,
            "annotations": want.annotations,
            "finalizers": [FINALIZER],
            "ownerReferences": [{
                "apiVersion": owner.kind.api_version(),
                "kind": owner.kind.as_str(),
                "name": owner.name.name,
                "uid": owner.uid,
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "spec": { "config": want.config },
    });
    Change::Create { object }
}

fn change_attachment(want: &AttachmentWant, had: &AttachmentObject) -> Option<Planned> {
    let meta = &had.meta;
    let mut patch = PatchBuilder::new(&meta.uid, meta.has_annotations);
    let mut parts = Vec::new();
    for (key, value) in &want.annotations {
        let old = meta.annotations.get(key).map(|old| old.as_str());
        if old != Some(value.as_str()) {
            patch.annotation(key, old, value);
            parts.push(key.as_str());
        }
    }
    if want.config != had.config {
        patch.set("/spec/config", meta.version, json!(want.config));
        parts.push("spec.config");
    }
    if want.labels.iter().any(|(key, value)| meta.labels.get(key) != Some(value)) {
        let mut labels = meta.labels.clone();
        labels.extend(want.labels.iter().map(|(key, value)| (key.clone(), value.clone())));
        patch.set("/metadata/labels", meta.version, json!(labels));
        parts.push("the labels");
    }
    let mut ops = patch.finish().unwrap_or_default();
    if let Some(more) = finalizer_ops(meta, true).filter(|_| !meta.is_deleting) {
        parts.push("the finalizer");
        ops.extend(more);
    }
    if ops.is_empty() {
        return None;
    }
    let summary = format!("set {}", parts.join(", "));
    Some(planned(&ObjectRef::new(Kind::Attachment, meta), Change::Patch { ops, summary }))
}

fn pod(want: &PodWant, objects: &Snapshot) -> Option<Planned> {
    let had = objects.pods.get(&want.pod.name).filter(|had| had.meta.uid == want.pod.uid)?;
    if want.confirmed == Some(had.meta.version) {
        return None;
    }
    let mut networks = match &had.networks {
        Ok(Some(networks)) => networks.clone(),
        // A text that nobody can read helps nobody.
        Ok(None) | Err(_) => PodNetworks::default(),
    };
    if matches!(networks.get(&want.key), Some(Ok(shown)) if shown == *want.network) {
        return None;
    }
    networks.set(&want.key, &want.network);
    let mut patch = PatchBuilder::new(&had.meta.uid, had.meta.has_annotations);
    let old = had.meta.annotations.get(PodNetworks::KEY).map(|old| old.as_str());
    patch.annotation(PodNetworks::KEY, old, &networks.format());
    let addresses: Vec<String> = want.network.addresses().map(|net| net.to_string()).collect();
    let summary = format!("set addresses {} in {}", addresses.join(" "), want.key);
    Some(planned(&want.pod, Change::Patch { ops: patch.finish()?, summary }))
}

fn claim(object: &ObjectRef, addresses: &[String], objects: &Snapshot) -> Option<Planned> {
    let had = objects.claims.get(&object.name).filter(|had| had.meta.uid == object.uid)?;
    if had.addresses == addresses {
        return None;
    }
    let test = |path: &str, value: Value| PatchOp::Test { path: path.to_owned(), value };
    let old = json!(had.addresses);
    let ops = if had.addresses.is_empty() {
        // The whole status: nobody else writes to it before it has addresses.
        vec![
            test("/metadata/uid", json!(object.uid)),
            test("/metadata/resourceVersion", json!(had.meta.version.to_string())),
            PatchOp::Add { path: "/status".to_owned(), value: json!({ "ips": addresses }) },
        ]
    } else {
        vec![
            test("/metadata/uid", json!(object.uid)),
            test("/status/ips", old),
            PatchOp::Add { path: "/status/ips".to_owned(), value: json!(addresses) },
        ]
    };
    let summary = format!("set addresses {}", addresses.join(" "));
    Some(planned(object, Change::PatchStatus { ops, summary }))
}

fn condition(object: &ObjectRef, want: &ConditionWant, objects: &Snapshot) -> Option<Planned> {
    let of = |objects: &Objects<NetworkObject>| objects.get(&object.name).cloned();
    let had = match object.kind {
        Kind::ClusterUserDefinedNetwork => of(&objects.cluster_networks),
        _ => of(&objects.networks),
    }
    .filter(|had| had.meta.uid == object.uid)?;
    let status = if want.is_true { "True" } else { "False" };
    let message: String = want.message.chars().take(8000).collect();
    let old = had.conditions.iter().find(|it| it.type_ == CONDITION);
    if old.is_some_and(|old| old.status == status && old.reason == want.reason && old.message == message) {
        return None;
    }
    let has_changed = old.is_none_or(|old| old.status != status);
    let time = old.map_or_else(|| Time(Default::default()), |old| old.last_transition_time.clone());
    let new = Condition {
        type_: CONDITION.to_owned(),
        status: status.to_owned(),
        reason: want.reason.to_owned(),
        message,
        observed_generation: Some(had.meta.generation),
        last_transition_time: time,
    };
    let others = had.conditions.iter().filter(|it| it.type_ != CONDITION).cloned();
    let change = Change::SetCondition {
        version: had.meta.version,
        conditions: others.chain([new]).collect(),
        changed: has_changed.then(|| CONDITION.to_owned()),
        summary: format!("set condition {CONDITION}={status} ({})", want.reason),
    };
    Some(planned(object, change))
}

fn egress(object: &ObjectRef, items: &[EgressIPStatusItem], objects: &Snapshot) -> Option<Planned> {
    let had = objects.egress_ips.get(&object.name).filter(|had| had.meta.uid == object.uid)?;
    if had.items == items {
        return None;
    }
    let mut patch = PatchBuilder::new(&object.uid, had.meta.has_annotations);
    patch.set("/status", had.meta.version, json!(EgressIPStatus { items: items.to_vec() }));
    let shown: Vec<String> =
        items.iter().map(|item| format!("{} on {}", item.egress_ip, item.node)).collect();
    let shown = if shown.is_empty() { "no node".to_owned() } else { shown.join(", ") };
    Some(planned(object, Change::PatchStatus { ops: patch.finish()?, summary: format!("assign {shown}") }))
}

/// The name of an event: the same event has the same name in every process.
pub(super) fn event_name(notice: &Notice) -> String {
    let mut hash = Sha256::new();
    for part in [&notice.about.uid, notice.reason, &notice.message] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    let digest: String = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let name: String = notice.about.name.name.chars().take(200).collect();
    format!("{name}.{digest}")
}
