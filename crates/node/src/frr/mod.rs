//! FRR's configuration, as far as it carries our announcements.
//!
//! | file | holds |
//! |---|---|
//! | [`state`] | what can be wanted and seen; which lines are ours |
//! | [`adrift`] | instances of bgpd that are not tied to their VRF |
//! | [`config`] | a running configuration as a tree |
//! | [`plan`] | which lines to enter |
//! | [`vty`] | the language of the daemons' sockets |
//! | [`Frr`] | reads and changes it, and notices when bgpd goes and comes |

pub mod adrift;
mod apply;
pub mod config;
mod observe;
pub mod plan;
#[cfg(test)]
mod recorded;
pub mod state;
pub mod vty;

pub use observe::{Backend, Config, Frr, default_router_id};
pub use state::{Desired, Observed, Op, Redistribute};
pub use vty::VtyError;
