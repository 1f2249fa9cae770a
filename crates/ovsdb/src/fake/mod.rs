//! An OVSDB server in this process, for tests: it behaves like the real one, or as badly as it is told to.
//!
//! The server proper is pure. `store` holds tables, `op` and `execute` run operations (`condition`,
//! `mutation`, `constraint` are their parts), `commit` and `reference` end a transaction, `monitor` tells
//! what changed, `lock` and `server_db` are what they say, `host` and `request` put them behind messages,
//! `lifecycle` is what befalls the whole.
//! Around it, `connection` and `server` are tokio, and `fault` is why it exists: what a real server does only
//! once in a while, this one does on demand.
//!
//! That it agrees with the real one is a test (`tests/fake_agrees`), which sends both the same. Not here: files,
//! RAFT, role-based access, TLS. A "cluster" of fakes is several servers that claim to be its members.

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

pub use fault::{Fault, Faults, Planned, When};
pub use server::{Builder, Server, ServerError};
pub use server_db::Model;

#[cfg(test)]
mod tests;
