//! The server's errors: the tags are those of the protocol, the details are Meridian's own.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use serde_json::{Value, json};

/// An error as the protocol carries it, in operation results and in error replies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The `error` member, which clients act upon.
    pub(super) tag: &'static str,
    /// The `details` member, for people.
    pub(super) details: String,
}

impl Refusal {
    pub(super) fn new(tag: &'static str, details: impl Into<String>) -> Self {
        Self { tag, details: details.into() }
    }

    pub(super) fn syntax(details: impl Into<String>) -> Self {
        Self::new("syntax error", details)
    }

    pub(super) fn constraint(details: impl Into<String>) -> Self {
        Self::new("constraint violation", details)
    }

    pub(super) fn unknown_column(column: &str, table: &str) -> Self {
        Self::new("unknown column", format!("No column {column} in table {table}."))
    }

    pub(super) fn to_json(&self) -> Value {
        json!({"error": self.tag, "details": self.details})
    }
}
