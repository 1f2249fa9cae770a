//! An OVSDB client: typed replica, change feed, transactions.

// The derive names this crate by its public path, also inside it.
#[allow(unused_extern_crates)]
extern crate self as ovsdb;

pub mod client;
#[cfg(feature = "fake")]
pub mod fake;
pub mod model;
pub mod replica;
pub mod session;
pub mod txn;
pub mod wire;

pub use client::{Client, ClientConfig, Feed, FeedEvent};
pub use model::{Map, Ref, Set, Str, Table, Weak};
pub use ovsdb_derive::Table;
pub use replica::{Model, Snapshot};
pub use txn::{Class, CommitError, Committed, Transaction};
pub use uuid::Uuid;

/// What derived code needs; not for use by hand.
#[doc(hidden)]
pub mod derived {
    pub use serde::Deserializer;
}
