//! What of the kernel's state is ours. Nothing else in this crate decides that, and nothing that is not ours is changed.
//!
//! The marks are those of ovn-bgp-agent, so that a node can be taken over from it without touching a working route.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::state::Dev;

/// The names and numbers that mark what is ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Own {
    /// The device whose host addresses are announced (`bgp_nic`): all /32 and /128 on it are ours.
    pub announce: Dev,
    /// The exposure VRF's table (`bgp_vrf_table_id`): routes in it through `announce` that no daemon made are ours.
    pub vrf_table: u32,
    /// The priority of our rules (`rule_priority`): rules with it that point to a bridge's table are ours.
    pub priority: u32,
    /// Whether every route in the VRF's table that the kernel and BGP did not make is ours too
    /// (`clear_vrf_routes_on_startup`, for the first run).
    pub clear_vrf: bool,
}

impl Default for Own {
    fn default() -> Self {
        Own { announce: "bgp-nic".into(), vrf_table: 10, priority: 32000, clear_vrf: false }
    }
}
