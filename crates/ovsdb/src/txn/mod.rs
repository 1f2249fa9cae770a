//! Transactions: what is to be written, how it stands on the wire, and what became of it.
//!
//! [`Transaction`] is built from typed rows, `compose` turns it into operations without an intermediate tree,
//! [`outcome`] reads the server's answer, [`group`] merges many small transactions into one and takes them apart again
//! when one of them is refused. Sending is the session's part, deciding again on conflict the client's.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod builder;
pub(crate) mod compose;
pub mod group;
pub mod outcome;
pub mod view;

pub use builder::Transaction;
pub use outcome::{Class, CommitError, Committed, OpResult};
pub use view::View;

#[cfg(test)]
mod tests;
