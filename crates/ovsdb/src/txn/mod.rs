//! Transactions: their content, their wire format, and their outcome.
//!
//! [`Transaction`] is built from typed rows, `compose` turns it into operations without an intermediate tree, `outcome`
//! parses the server's reply, [`Group`] merges many small transactions into one and splits them again if one of them is
//! refused. The session sends them; the client decides again after a conflict.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub(crate) mod builder;
mod by_name;
pub(crate) mod compose;
mod filter;
pub(crate) mod group;
pub(crate) mod outcome;
mod select;
pub(crate) mod view;

pub use builder::{ComposedTransaction, Label, OpKind, Transaction};
pub use by_name::ElementChange;
pub use filter::RowFilter;
pub use group::{Group, GroupLimits, Settled};
pub use outcome::{Answer, Class, CommitError, Committed, OpResult};
pub use select::Select;
pub use view::View;

#[cfg(test)]
mod tests;
