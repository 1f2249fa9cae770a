//! A problem of one object, with the action that an operator can take.
//!
//! A [`Problem`] is a value, not an error that propagates: the loop collects problems, publishes them and continues with the other objects.
//! Its [`Class`] is shared with [`TargetError`](crate::TargetError) and names the remedy.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::error::Error;
use std::fmt;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::text_id::TextId;

/// Names one object of a component: a port, a router, a route. Printed as `kind/id`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectId {
    /// The kind, named as in its domain (`port`, `router`).
    pub kind: SmolStr,
    /// The id: a UUID, a name, an address.
    pub id: TextId,
}

impl ObjectId {
    /// Names the object `id` of `kind`.
    pub fn new(kind: impl Into<SmolStr>, id: impl Into<TextId>) -> Self {
        Self { kind: kind.into(), id: id.into() }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.id)
    }
}

/// The remedy for a failure. Every error of a target and every problem has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Time helps: a connection is down, a device is busy. The loop retries with back-off.
    Transient,
    /// Observing again helps: the world differs from the plan's basis, or the outcome of a write is unknown.
    Conflict,
    /// A change of the request, or of the target, helps; the same request would be refused again.
    Refused,
    /// A fix of this program helps.
    Bug,
}

impl Class {
    /// Every class, in the order of the enum.
    pub const ALL: [Class; 4] = [Class::Transient, Class::Conflict, Class::Refused, Class::Bug];

    /// The lower-case name used in metrics and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Class::Transient => "transient",
            Class::Conflict => "conflict",
            Class::Refused => "refused",
            Class::Bug => "bug",
        }
    }

    /// Advice to the operator about a failure of this class.
    pub fn advice(self) -> &'static str {
        match self {
            Class::Transient => "Meridian retries; act only if it lasts",
            Class::Conflict => {
                "Meridian reads it again and retries; if it lasts, look for another program that changes it"
            }
            Class::Refused => {
                "correct the object or the program that refuses it; Meridian retries at once when the object changes"
            }
            Class::Bug => "this is a bug in Meridian; please report it with the log",
        }
    }

    /// Whether waiting alone can cure the failure. The other classes need an operator.
    pub fn heals(self) -> bool {
        matches!(self, Class::Transient | Class::Conflict)
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The effect on the object. Errors sort before warnings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The object is not as requested.
    Error,
    /// The object works, but less well than requested.
    Warning,
}

/// One problem of one object.
///
/// The derived order (severity, object, class, code, message) is the order in which problems are listed everywhere.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Problem {
    /// The effect on the object.
    pub severity: Severity,
    /// The affected object.
    pub object: ObjectId,
    /// The remedy.
    pub class: Class,
    /// A short stable code for searches and alerts (`no-such-network`).
    pub code: SmolStr,
    /// The problem and what to do about it, in one or two sentences.
    pub message: String,
}

impl Problem {
    /// Creates an error: an object that is not as requested.
    pub fn error(
        object: ObjectId,
        class: Class,
        code: impl Into<SmolStr>,
        message: impl Into<String>,
    ) -> Self {
        Self { severity: Severity::Error, object, class, code: code.into(), message: message.into() }
    }

    /// Creates a warning: an object that works, but less well than requested.
    pub fn warning(
        object: ObjectId,
        class: Class,
        code: impl Into<SmolStr>,
        message: impl Into<String>,
    ) -> Self {
        Self { severity: Severity::Warning, ..Self::error(object, class, code, message) }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.severity {
            Severity::Error => write!(f, "{}: {} ({}, {})", self.object, self.message, self.code, self.class),
            // The class describes why a change fails. The change behind a warning succeeds, so a warning has none.
            Severity::Warning => write!(f, "{}: {} ({})", self.object, self.message, self.code),
        }
    }
}

/// An error with all its causes on one line. `Display` of an error does not include its source, so this function adds the
/// sources.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_come_before_warnings_then_by_object() {
        let at = |id: &str| ObjectId::new("port", id);
        let a = Problem::warning(at("a"), Class::Refused, "x", "m");
        let b = Problem::error(at("b"), Class::Bug, "x", "m");
        let c = Problem::error(at("c"), Class::Transient, "x", "m");
        let mut all = vec![a.clone(), c.clone(), b.clone()];
        all.sort();
        assert_eq!(all, [b, c, a]);
    }

    #[test]
    fn json_round_trip_keeps_a_problem() {
        let p = Problem::error(ObjectId::new("port", "p1"), Class::Refused, "bad-mac", "the MAC is not one");
        let text = serde_json::to_string(&p).unwrap();
        assert!(text.contains(r#""class":"refused""#), "{text}");
        assert_eq!(serde_json::from_str::<Problem>(&text).unwrap(), p);
    }

    #[test]
    fn every_class_names_itself_as_serde_does() {
        for class in Class::ALL {
            assert_eq!(serde_json::to_string(&class).unwrap(), format!("\"{class}\""));
        }
    }
}
