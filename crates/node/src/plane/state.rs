//! What can be wanted of a node's data plane.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::Duration;

use crate::{flows, frr, kernel};

/// What the data plane should be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Desired {
    /// Devices, addresses, rules, routes, neighbours.
    pub kernel: kernel::Desired,
    /// Flows of the provider bridges.
    pub flows: flows::Desired,
    /// FRR's stanzas; without them FRR is left alone.
    pub frr: Option<frr::Desired>,
    /// How long the way of an address stays after its announcement is gone (`withdraw_drain_ms`).
    pub drain: Duration,
    /// Whether a plan that withdraws more than half of what is announced, and more than [`MASS`] addresses, is to wait: its
    /// withdrawals are left out and reported. A decider sets it for a while after its inputs came back
    /// (`mass_withdraw_hold`).
    pub guard: bool,
}

/// So many addresses are withdrawn without a second thought.
pub const MASS: usize = 20;
