//! The attributes that every object of the API has.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Revision, times, description and tags.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standard {
    /// The revision. Grows with each change of the object or of its children.
    pub revision: u64,
    /// The creation time, in whole seconds.
    pub created_at: Timestamp,
    /// The time of the last change, in whole seconds.
    pub updated_at: Timestamp,
    /// The owner's description.
    pub description: String,
    /// The owner's tags.
    pub tags: BTreeSet<String>,
}

impl Standard {
    /// For a new object, created at `now`.
    pub fn new(now: Timestamp, description: impl Into<String>) -> Self {
        Standard {
            revision: 0,
            created_at: now,
            updated_at: now,
            description: description.into(),
            tags: BTreeSet::new(),
        }
    }

    /// Increments the revision for a change at `now`.
    pub fn bump(&mut self, now: Timestamp) {
        self.revision += 1;
        self.updated_at = now;
    }
}
