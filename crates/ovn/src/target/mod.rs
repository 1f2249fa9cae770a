//! The write target: desired rows against the database -> one ordered transaction.
//!
//! * [`desired`]: what is wanted, in parts that come and go; [`state`]: rows as the planner sees them, and what marks a row
//!   ours; [`Op`]: one change.
//! * [`rules`]: which keys and members of a column are ours where others write too.
//! * `admit`: what a server of this schema would refuse, found before it is asked.
//! * [`mod@plan`]: the difference, as ordered ops. Pure. `memory`: which rows can differ since the plan before.
//! * [`apply`]: ops as one transaction; taken apart by object when the server refuses it. [`ClientDatabase`] is where
//!   it goes.
//! * [`withhold_deletions`]: a plan without what it deletes, for a writer that is not trusted with that.
//! * [`observe`]: the replica's snapshot as the planner reads it; there is nothing to fetch.
//!
//! # What is never touched
//!
//! Rows without our mark; keys of maps that are neither wanted nor listed as ours in the [`Rules`]; members of sets that
//! refer to rows without our mark; columns that northd, ovn-controller or ovs-vswitchd fill in. A row of ours that goes
//! takes with it what only hangs on it, somebody else's NAT rule on our router for example: OVSDB keeps no such row alive.

mod admit;
pub mod apply;
mod client;
pub mod desired;
mod element;
mod memory;
pub mod observe;
mod op;
pub mod plan;
pub mod rules;
pub mod state;
mod tables;
mod withhold;

pub use apply::{Database, RowTarget};
pub use client::ClientDatabase;
pub use desired::{Desired, Part};
pub use observe::{SnapshotView, Tables};
pub use op::Op;
pub use plan::plan;
pub use rules::{Keys, Rules};
pub use state::{Owned, Ownership, Row, RowId, View};
pub use withhold::{deletions, withhold_deletions};

#[cfg(test)]
mod tests;
