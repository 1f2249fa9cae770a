//! Notices to Nova about plugged ports.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::world::Record;

/// What Nova was last told about a port of an instance. Kept in the store, so that neither a restart nor another writer tells
/// Nova twice, or that a port was lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlugNotice {
    /// The port.
    pub port_id: Uuid,
    /// The instance that it belonged to.
    pub instance: Uuid,
    /// The hosts on which it was reported as plugged in: two while its instance moves. Never empty.
    pub hosts: BTreeSet<String>,
}

impl Record for PlugNotice {}
