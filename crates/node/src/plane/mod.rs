//! The node's data plane as one target: kernel, flows and FRR in one order.
//!
//! Objects are named so that a decider, a plan and `status` speak of the same thing (see [`object`]). A decider that cannot
//! decide about an address names it in [`Outcome::keep`](reconcile::Outcome::keep), and what carries it stays as it is.

pub mod object;
pub mod state;

pub use state::Desired;
