//! An OVSDB client: typed replica, change feed, transactions.
//!
//! OVSDB (RFC 7047) is the database protocol of Open vSwitch and OVN: tables with a schema, JSON-RPC over a stream,
//! transactions, and monitors that report every change. A client does not query; it keeps a copy of the tables it needs, and
//! the server keeps that copy up to date. This crate is such a client.
//!
//! ```no_run
//! use ovsdb::{Client, ClientConfig, FeedEvent, Map, Model, Str, Table, Transaction, Uuid};
//!
//! /// A table is a struct with the columns that matter; only those are monitored.
//! #[derive(Clone, Debug, Default, PartialEq, Table)]
//! #[ovsdb(database = "OVN_Northbound", table = "Logical_Switch")]
//! struct LogicalSwitch {
//!     name: Str,
//!     external_ids: Map<Str, Str>,
//!     /// Old servers do not have it; it reads as default there.
//!     #[ovsdb(optional)]
//!     copp: Option<Uuid>,
//! }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! // Open: the client connects, and reconnects, by itself.
//! let remotes = "unix:/run/ovn/ovnnb_db.sock,ssl:10.0.0.1:6641".parse()?;
//! let client = Client::open(ClientConfig::new(remotes), Model::new("OVN_Northbound").table::<LogicalSwitch>());
//!
//! // Read: a snapshot is the database at one instant, and never changes.
//! let snapshot = client.synced().await?;
//! for (row, switch) in snapshot.table::<LogicalSwitch>().iter() {
//!     println!("{row} is {}", switch.name);
//! }
//!
//! // Commit: rows have UUIDs of our choice, and only columns that differ are written.
//! let (row, switch) = (Uuid::new_v4(), LogicalSwitch { name: "net1".into(), ..Default::default() });
//! let mut labelled = switch.clone();
//! labelled.external_ids.insert("owner".into(), "us".into());
//! client.commit(Transaction::new().insert(row, &switch)).await?;
//! client.commit(Transaction::new().update(row, &switch, &labelled)).await?;
//! assert_eq!(client.snapshot().get::<LogicalSwitch>(row), Some(&labelled));
//!
//! // Watch: all later changes, with old and new values.
//! let mut feed = client.subscribe();
//! while let Some(event) = feed.next().await {
//!     if let FeedEvent::Changed { delta, .. } = event {
//!         for change in delta.table::<LogicalSwitch>() {
//!             println!("{}: {:?} -> {:?}", change.uuid, change.before, change.after);
//!         }
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! - **Snapshots are atomic.** A [`Snapshot`] lies between two transactions of the server, never within one. A copy is free,
//!   and it blocks no reader or writer.
//! - **No change is lost.** A [`Feed`] reports every change once, in order. A reader that is too slow gets the changes that it
//!   missed merged into one, never a gap. After a reconnect it gets only true differences, even if the server sent everything
//!   again.
//! - **Writers read their writes.** When [`Client::commit`] returns, [`Client::snapshot`] contains the commit.
//! - **Unknown outcomes are reported.** A connection that breaks between a commit and its reply gives [`CommitError::Unknown`];
//!   after the reconnect the snapshot shows the outcome. The client never sends a transaction twice.
//! - **Foreign data stay.** Updates contain only columns that differ, and of sets and maps only the elements that differ.
//! - **Decisions hold.** [`Client::transact`] commits only if everything that the decision read is unchanged, and decides again
//!   otherwise.
//! - **It never gives up.** Servers may restart, lose leadership, change their schema or send garbage: the replica stays
//!   readable, [`Client::status`] names the problem and the remedy, and the client tries the next server.
//! - **One struct, many versions.** The client checks a server's schema on every connection: columns marked `optional` may be
//!   missing, and all other mismatches are listed at once.
//!
//! # Modules
//!
//! [`client`] moves bytes, [`session`] makes decisions (its front page has the state machine), [`replica`] holds rows and
//! indexes, [`txn`] composes transactions and interprets their results, [`model`] has the types of tables and columns, [`wire`]
//! the wire format. With the feature `fake` there is a server for tests that misbehaves on demand. Everything but [`client`]
//! and the fake's sockets is pure: bytes and times go in, values come out.
//!
//! Nothing here is about OVN or Open vSwitch: other crates describe their tables and conventions.

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

pub use client::{Client, ClientConfig, Feed, FeedEvent, TlsConfig};
pub use model::{AnyCondition, Column, Condition, Map, Ref, Set, Str, Table, TableColumns, Weak};
pub use ovsdb_derive::Table;
pub use replica::{Model, Snapshot};
pub use txn::{Class, CommitError, Committed, ElementChange, RowFilter, Transaction};
pub use uuid::Uuid;
pub use wire::Function;

/// The example of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Items that derived code needs; not for direct use.
#[doc(hidden)]
pub mod derived {
    pub use serde_json::Error;
}
