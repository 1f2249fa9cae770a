//! The errors of applying an update.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;

use thiserror::Error;
use uuid::Uuid;

use crate::model::Str;

/// An update was not applied. The replica is unchanged; a full reload repairs it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// The message is not an update of the protocol.
    #[error("cannot parse the update of {place}")]
    Malformed {
        /// The part of the message.
        place: String,
        /// The error.
        #[source]
        source: serde_json::Error,
    },
    /// The update contradicts the replica.
    #[error("table {table}, row {uuid}: {what}")]
    Inconsistent {
        /// The table.
        table: Str,
        /// The row.
        uuid: Uuid,
        /// The kind of disagreement.
        what: Inconsistency,
    },
    /// An update arrived after a change of the schema and before the next load.
    #[error("an update arrived before the rows were loaded with the present schema")]
    Stale,
}

impl From<serde_json::Error> for ApplyError {
    /// The message as a whole is not an update.
    fn from(source: serde_json::Error) -> Self {
        Self::Malformed { place: "update".into(), source }
    }
}

/// A disagreement between an update and the rows of the replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Inconsistency {
    /// An insert of an existing row.
    InsertKnown,
    /// A modification of a missing row.
    ModifyUnknown,
    /// A deletion of a missing row.
    DeleteUnknown,
    /// An update mentions a row twice.
    Repeated,
    /// A modification or deletion in a message that must list all rows.
    NotInitial,
}

impl fmt::Display for Inconsistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InsertKnown => "the server inserts a row that the replica already has",
            Self::ModifyUnknown => "the server changes a row that the replica does not have",
            Self::DeleteUnknown => "the server deletes a row that the replica does not have",
            Self::Repeated => "the server updates one row twice in one notification",
            Self::NotInitial => "the server sent a change instead of a list of all rows",
        })
    }
}
