//! Adopted rows: rows of an existing Northbound that keep their UUIDs.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::world::Record;

/// The record of a row that stands for an object of ours under a UUID that we did not choose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adopted {
    /// The UUID that `desired` would have chosen.
    pub ours: Uuid,
    /// The Northbound table.
    pub table: String,
    /// The UUID of the row.
    pub theirs: Uuid,
}

impl Record for Adopted {}
