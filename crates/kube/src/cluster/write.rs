//! One request that changes an object of the API.
//!
//! Every request names the identity and the old value of what it changes, so that it changes nothing that somebody else has
//! written since, and never a successor of the same name. The API refuses it otherwise, and the loop observes again.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use reconcile::ObjectId;
use serde::Serialize;
use serde_json::Value;

use super::kind::Kind;
use super::snapshot::{Meta, ObjectName, Snapshot};

/// An object that a program writes to. The identity keeps it from writing to a successor of the same name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectRef {
    /// The kind.
    pub kind: Kind,
    /// The name.
    pub name: ObjectName,
    /// The identity.
    pub uid: String,
}

impl ObjectRef {
    /// A reference to an object of a snapshot.
    pub fn new(kind: Kind, meta: &Meta) -> ObjectRef {
        ObjectRef { kind, name: meta.object_name(), uid: meta.uid.clone() }
    }
}

/// An event for the users of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Notice {
    /// The object.
    pub about: ObjectRef,
    /// The reason, one word.
    pub reason: &'static str,
    /// The cause, and what to do.
    pub message: String,
}

/// One operation of a JSON patch.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum PatchOp {
    /// Fails unless the value is there. `null` stands for an absent one.
    Test {
        /// The path.
        path: String,
        /// The value.
        value: Value,
    },
    /// Sets a value.
    Add {
        /// The path.
        path: String,
        /// The value.
        value: Value,
    },
    /// Removes a value.
    Remove {
        /// The path.
        path: String,
    },
}

/// The change of an object.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Creates it.
    Create {
        /// The object.
        object: Value,
    },
    /// Changes values.
    Patch {
        /// The operations.
        ops: Vec<PatchOp>,
        /// A summary for people.
        summary: String,
    },
    /// Changes values of the status.
    PatchStatus {
        /// The operations.
        ops: Vec<PatchOp>,
        /// A summary for people.
        summary: String,
    },
    /// Sets a condition of the status; the time is added when the change is written.
    SetCondition {
        /// The version of the object with the old conditions.
        version: u64,
        /// The new conditions. That of the changed one has no meaningful time.
        conditions: Vec<Condition>,
        /// The type of the condition whose status has changed, if it has.
        changed: Option<String>,
        /// A summary for people.
        summary: String,
    },
    /// Deletes it.
    Delete {
        /// The identity.
        uid: String,
    },
    /// Writes an event about it.
    Notify {
        /// The event's name, which follows from its content: the same event is written once.
        event: String,
        /// The event.
        #[serde(skip)]
        notice: Notice,
    },
}

/// One request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Write {
    /// The kind of the object.
    #[serde(serialize_with = "as_text")]
    pub kind: Kind,
    /// The object.
    #[serde(serialize_with = "as_text")]
    pub name: ObjectName,
    /// The change.
    pub change: Change,
}

fn as_text<S: serde::Serializer>(value: &impl fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, name) = (self.kind, &self.name);
        match &self.change {
            Change::Create { .. } => write!(f, "create {kind} {name}"),
            Change::Patch { summary, .. }
            | Change::PatchStatus { summary, .. }
            | Change::SetCondition { summary, .. } => write!(f, "{summary} of {kind} {name}"),
            Change::Delete { .. } => write!(f, "delete {kind} {name}"),
            Change::Notify { notice, .. } => {
                write!(f, "write event {} of {kind} {name}: {}", notice.reason, notice.message)
            }
        }
    }
}

/// Builds a JSON patch that first tests everything it replaces.
#[derive(Clone, Debug)]
pub(crate) struct PatchBuilder {
    tests: Vec<PatchOp>,
    changes: Vec<PatchOp>,
    has_annotations: bool,
    /// Whether the patch itself adds the map of annotations.
    adds_map: bool,
}

impl PatchBuilder {
    /// A patch of the object with this identity.
    pub(crate) fn new(uid: &str, has_annotations: bool) -> PatchBuilder {
        let test = PatchOp::Test { path: "/metadata/uid".to_owned(), value: uid.into() };
        PatchBuilder { tests: vec![test], changes: Vec::new(), has_annotations, adds_map: false }
    }

    /// Sets an annotation whose value was `old`.
    pub(crate) fn annotation(&mut self, key: &str, old: Option<&str>, new: &str) {
        if self.adds_map {
            // The test of the map covers all its keys.
        } else if !self.has_annotations {
            self.adds_map = true;
            self.tests.push(PatchOp::Test { path: "/metadata/annotations".to_owned(), value: Value::Null });
            let empty = Value::Object(serde_json::Map::new());
            self.changes.push(PatchOp::Add { path: "/metadata/annotations".to_owned(), value: empty });
        } else {
            let path = format!("/metadata/annotations/{}", escaped(key));
            self.tests.push(PatchOp::Test { path, value: old.map_or(Value::Null, |old| old.into()) });
        }
        let path = format!("/metadata/annotations/{}", escaped(key));
        self.changes.push(PatchOp::Add { path, value: new.into() });
    }

    /// Sets a value of this version of the object.
    pub(crate) fn set(&mut self, path: &str, version: u64, new: Value) {
        let test =
            PatchOp::Test { path: "/metadata/resourceVersion".to_owned(), value: version.to_string().into() };
        if !self.tests.contains(&test) {
            self.tests.push(test);
        }
        self.changes.push(PatchOp::Add { path: path.to_owned(), value: new });
    }

    /// The operations, if they change anything.
    pub(crate) fn finish(self) -> Option<Vec<PatchOp>> {
        let is_empty = self.changes.is_empty();
        (!is_empty).then(|| self.tests.into_iter().chain(self.changes).collect())
    }
}

/// A key as part of a JSON pointer.
pub(crate) fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// The object of reports.
pub(crate) fn object_id(kind: Kind, name: &ObjectName) -> ObjectId {
    ObjectId::new(kind.as_str().to_lowercase(), name.to_string())
}

/// A change of an object, as a step of its plan.
pub(crate) fn planned(object: &ObjectRef, change: Change) -> (ObjectId, Write) {
    (object_id(object.kind, &object.name), Write { kind: object.kind, name: object.name.clone(), change })
}

/// Sets annotations of an object that differ.
pub(crate) fn annotate(
    object: &ObjectRef,
    values: &BTreeMap<&'static str, String>,
    objects: &Snapshot,
) -> Option<(ObjectId, Write)> {
    let meta = objects.meta(object.kind, &object.name).filter(|meta| meta.uid == object.uid)?;
    let mut patch = PatchBuilder::new(&meta.uid, meta.has_annotations);
    let mut keys = Vec::new();
    for (key, value) in values {
        let old = meta.annotations.get(*key).map(|old| old.as_str());
        if old != Some(value.as_str()) {
            patch.annotation(key, old, value);
            keys.push(*key);
        }
    }
    let summary = format!("set {}", keys.join(", "));
    Some(planned(object, Change::Patch { ops: patch.finish()?, summary }))
}
