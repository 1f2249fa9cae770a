//! The rolling upgrade of a cluster from the topology without transit routers.
//!
//! Nodes switch one by one. In between, old and new nodes reach each other through the rows that [`crate::zone::desired`] has for
//! that time. This module decides when a node may switch.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod claim;
mod refusal;
mod switch;

pub use claim::{LastingRows, claim, topology_of_rows};
pub use refusal::{JoinConflict, join_conflict};
pub use switch::{Stay, SwitchState, UpgradeMode, decide_topology};
