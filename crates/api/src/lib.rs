//! The network API: Neutron v2.0 in front, OVN's Northbound behind.
//!
//! ```text
//!  request ──▶ http ──▶ resource ──▶ world::Txn ──▶ store (SQL commit) ──▶ World ──▶ desired ──▶ Northbound rows
//!               ▲                                                           │
//!               └───────────── answers read from the World ◀────────────────┴──── report ◀── Northbound, Southbound
//! ```
//!
//! The whole state of the API is one value, the [`World`]: immutable tables that share unchanged parts, so that a copy costs nothing. A
//! request that changes something runs as a function of the present world ([`world::Txn`]): it reads, checks, and stores or removes
//! entities in its own copy. If it fails, the copy is dropped and nothing changes. If it succeeds, its changes are written to SQL in one
//! transaction, and only then does the copy become the world that all readers see. Requests that are queued at the same time share one SQL
//! transaction.
//!
//! Reading order: [`model`] (the stored types), [`world`] (tables and indexes), [`fault`] and [`dialect`] (errors, and their format in each
//! API), [`caller`] (identity and roles), [`fleet`] and [`settings`] (other inputs of a request), [`report`] (OVN's reports), [`scheduler`]
//! (the chassis of gateways), [`status`] (reports for operators).

pub mod auth;
pub mod balancer_removal;
pub mod caller;
pub mod desired;
pub mod dialect;
pub mod fault;
pub mod fleet;
pub mod http;
pub mod import;
pub mod metadata_ports;
pub mod model;
pub mod northbound;
pub mod nova;
pub mod placements;
pub mod policy;
mod registry;
pub mod report;
pub mod resource;
pub mod scheduler;
pub mod secret;
pub mod settings;
pub mod snapshot;
pub mod status;
pub mod store;
pub mod world;

pub use caller::{BalancerRoleSet, BalancerRoles, Caller};
pub use fault::Fault;
pub use report::Report;
pub use store::Store;
pub use world::{Txn, World};
