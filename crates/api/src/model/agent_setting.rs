//! The settings that an administrator made on an agent.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::world::Record;

/// The stored part of an agent; the rest is read from the Southbound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSetting {
    /// The agent's id.
    pub agent: String,
    /// Shown in responses, without effect.
    pub admin_state_up: bool,
    /// Shown in responses.
    pub description: String,
    /// The time of its deletion. Lists omit the agent unless it reports again.
    #[serde(default)]
    pub removed_at: Option<Timestamp>,
}

impl Record for AgentSetting {}
