//! The network API: Neutron v2.0 in front, OVN's Northbound behind.
//!
//! ```text
//!  request ──▶ http ──▶ resource ──▶ world::Txn ──▶ store (SQL commit) ──▶ World ──▶ desired ──▶ Northbound rows
//!               ▲                                                           │
//!               └───────────── answers read from the World ◀────────────────┴──── report ◀── Northbound, Southbound
//! ```
//!
//! The whole state of the API is one value, the [`World`]: immutable tables that share what did not change, so that a copy
//! costs nothing. A request that changes something runs as a function of the present world ([`world::Txn`]): it looks,
//! checks, and puts or removes entities in its own copy. If it fails, the copy is dropped and nothing happened. If it
//! succeeds, what it changed is written to SQL in one transaction, and only then does the copy become the world that
//! everybody sees. Requests that wait at the same time share one SQL transaction.
//!
//! Reading order: [`model`] (what is stored), [`world`] (how it hangs together), [`fault`] and [`dialect`] (how a request
//! fails, and in whose words), [`caller`] (who asks), [`fleet`] and [`settings`] (what else a request depends on), [`report`]
//! (what OVN reports back), [`scheduler`] (where gateways are), [`status`] (what operators are shown).

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
pub mod placing;
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
