//! The node's data plane as one target: kernel, ports, flows and FRR in one order.
//!
//! Objects are named so that a decider, a plan and `status` speak of the same thing (see [`object`](crate::part::object)). A decider that cannot
//! decide about an address names it in [`Outcome::keep`](reconcile::Outcome::keep), and what carries it stays as it is.
//!
//! | file | holds |
//! |---|---|
//! | [`state`] | what can be wanted, seen and done |
//! | [`vlans`] | who makes the device of a VLAN |
//! | [`plan`] | the parts' plans in that order |
//! | `drain` | what was withdrawn a moment ago, and has to be carried a while longer |
//! | [`preconditions`] | whether a step may be taken, whatever became of those before it |
//! | [`reserved`], [`surroundings`] | prefixes that are never wired, and what the node lives by |
//! | [`unclaimed`] | what was announced before, and is not to be withdrawn though nobody is known to want it |
//! | [`view`] | what the last look found |
//! | [`Plane`] | the target |

mod drain;
pub mod plan;
pub mod preconditions;
pub mod reserved;
pub mod state;
pub mod surroundings;
mod target;
pub mod unclaimed;
pub mod view;
pub mod vlans;

pub use state::{Act, Desired, Observed, Op};
pub use target::{Config, Plane};
pub use view::View;
pub use vlans::VlanDevice;
