//! Notices to Nova about plugged ports.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::world::Record;

/// The last notice to Nova about a port of an instance. Stored, so that neither a restart nor a change of the writer repeats a notice or
/// loses one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlugNotice {
    /// The port.
    pub port_id: Uuid,
    /// The instance that it belonged to.
    pub instance: Uuid,
    /// The hosts on which it was reported as plugged in. There are two while its instance migrates. Never empty.
    pub hosts: BTreeSet<String>,
}

impl Record for PlugNotice {}
