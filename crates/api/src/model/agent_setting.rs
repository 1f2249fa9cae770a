//! What an administrator noted on an agent.

use serde::{Deserialize, Serialize};

/// Agents themselves are read from the Southbound; only these two can be set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSetting {
    /// The agent's id.
    pub agent: String,
    /// Shown back.
    pub admin_state_up: bool,
    /// Shown back.
    pub description: String,
}
