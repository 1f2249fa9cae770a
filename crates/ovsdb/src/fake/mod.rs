//! An OVSDB server in this process, for tests: it behaves like the real one, or misbehaves on demand.
//!
//! The server itself is pure. `store` holds tables, `op` and `execute` run operations (`condition`, `mutation`, `constraint`
//! are their parts), `commit` and `reference` end a transaction, `monitor` sends changes, `lock` implements locks and
//! `server_db` the `_Server` database, `host` and `request` handle messages, and `lifecycle` handles events of the whole
//! server. Around it, `connection` and `server` use tokio. `fault` is the purpose of it all: faults that a real server shows
//! only once in a while happen here on demand.
//!
//! A test (`tests/fake_agrees`) sends the same to the fake and to the real server, and compares. The fake has no files, RAFT,
//! role-based access or TLS. A "cluster" of fakes is several servers that claim to be its members.

mod commit;
mod condition;
mod connection;
mod constraint;
mod execute;
mod fault;
mod host;
mod lifecycle;
mod lock;
mod monitor;
mod mutation;
mod op;
mod reference;
mod refusal;
mod request;
mod server;
mod server_db;
mod store;

pub use fault::{Fault, Faults, PlannedFault, When};
pub use server::{Builder, Server, ServerError};
pub use server_db::Model;

#[cfg(test)]
mod tests;
