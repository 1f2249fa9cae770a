//! The cluster side: one active process numbers nodes and networks, and gives pods their addresses.
//!
//! It is one loop. Watches keep a copy of the API's objects (`watch`, [`snapshot`]); the decider (`desired`) turns them into
//! what should be ([`state`]); `plan` compares, and `apply` sends requests (`write`). Only the process with the lease
//! (`lease`) decides and writes, and it reads everything again after it has got the lease.

mod apply;
mod connect;
mod decode;
mod desired;
mod lease;
mod numbers;
mod plan;
mod run;
mod settings;
pub mod snapshot;
pub mod state;
mod watch;
pub mod write;

pub use connect::{ConnectError, connect};
pub use desired::ManagerDecider;
pub use lease::{Lease, LeaseGuard, LeaseSettings, LeaseState};
pub use run::{ManagerError, ManagerParts, run};
pub use settings::{ManagerSettings, PeerSource};
