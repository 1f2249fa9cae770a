//! What an administrator noted on an agent.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::world::Record;

/// Agents themselves are read from the Southbound; only this is kept of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSetting {
    /// The agent's id.
    pub agent: String,
    /// Shown back.
    pub admin_state_up: bool,
    /// Shown back.
    pub description: String,
    /// When it was deleted. It is not shown any more unless it reports again.
    #[serde(default)]
    pub removed_at: Option<Timestamp>,
}

impl Record for AgentSetting {}
