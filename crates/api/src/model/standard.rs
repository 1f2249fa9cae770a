//! What every object of the API carries.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Revision, times, description and tags.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standard {
    /// Grows with each change of the object or of its children.
    pub revision: u64,
    /// When it was made; whole seconds.
    pub created_at: Timestamp,
    /// When it was changed last; whole seconds.
    pub updated_at: Timestamp,
    /// The owner's words.
    pub description: String,
    /// The owner's labels.
    pub tags: BTreeSet<String>,
}

impl Standard {
    /// A new object's, made at `now`.
    pub fn new(now: Timestamp, description: impl Into<String>) -> Self {
        Standard {
            revision: 0,
            created_at: now,
            updated_at: now,
            description: description.into(),
            tags: BTreeSet::new(),
        }
    }

    /// Counts one change, made at `now`.
    pub fn bump(&mut self, now: Timestamp) {
        self.revision += 1;
        self.updated_at = now;
    }
}
