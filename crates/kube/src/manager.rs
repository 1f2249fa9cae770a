//! The cluster side: one active process numbers nodes and networks, and gives pods their addresses.
//!
//! It is one loop. The decider (`desired`) turns a copy of the API's objects ([`cluster`](crate::cluster)) into what should be
//! ([`state`]); `plan` compares, and `target` sends the requests. Only the process with the lease (`lease`) decides and writes,
//! and it reads everything again after it has got the lease.

mod desired;
mod lease;
mod numbers;
mod plan;
mod run;
mod settings;
pub mod state;
mod target;

pub use desired::ManagerDecider;
pub use lease::{Lease, LeaseGuard, LeaseSettings, LeaseState};
pub use run::{ManagerError, ManagerParts, run};
pub use settings::{EgressAssigner, ManagerSettings, PeerSource};
