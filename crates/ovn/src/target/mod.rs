//! The write target: from desired rows and the database to one ordered transaction.
//!
//! * [`desired`]: the desired rows, as a sum of parts. [`state`]: rows as the planner sees them, and the mark that makes a row
//!   ours. [`Op`]: one change.
//! * [`rules`]: the keys and members that are ours in columns that others write, too.
//! * `admit`: checks values against the server's schema before they are sent.
//! * [`mod@plan`]: the difference, as ordered ops. Pure. `memory`: the rows that may differ since the previous plan.
//! * [`RowTarget`]: the target itself. [`apply`]: commits ops as one transaction, and splits it by object if the server refuses it. [`ClientDatabase`] is the
//!   database that it writes to.
//! * [`withhold_deletions`]: removes deletions from a plan, for a writer whose knowledge is in doubt.
//! * [`observe`]: the replica's snapshot as the planner reads it; there is nothing to fetch.
//!
//! # What is never touched
//!
//! Rows without our mark; keys of maps that are neither desired nor listed as ours in the [`Rules`]; members of sets that refer
//! to rows without our mark; columns that northd, ovn-controller or ovs-vswitchd fill in. One exception is OVSDB's own: it
//! deletes foreign rows that only one of our deleted rows refers to, such as a foreign NAT rule on our router.

mod admit;
pub mod apply;
mod client;
pub mod desired;
mod element;
mod memory;
pub mod observe;
mod op;
pub mod plan;
mod row_target;
pub mod rules;
pub mod state;
mod tables;
mod withhold;

pub use client::ClientDatabase;
pub use desired::{Desired, Part};
pub use observe::{SnapshotView, Tables};
pub use op::Op;
pub use plan::plan;
pub use row_target::{Database, RowTarget};
pub use rules::{Keys, Rules};
pub use state::{OwnedRow, Ownership, Row, RowId, View, Writable};
pub use withhold::{deletions, withhold_deletions};

#[cfg(test)]
mod tests;
