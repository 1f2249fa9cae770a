//! FRR's configuration, as far as it carries our announcements.
//!
//! | file | holds |
//! |---|---|
//! | [`state`] | what can be wanted and seen; which lines are ours |
//! | [`adrift`] | instances of bgpd that are not tied to their VRF |
//! | [`behind`] | what bgpd has of a VRF beside what the kernel has |
//! | [`config`] | a running configuration as a tree |
//! | [`plan`] | which lines to enter |
//! | [`vty`] | the language of the daemons' sockets |
//! | [`Frr`] | reads and changes it, and notices when bgpd goes and comes |

pub mod adrift;
mod apply;
mod asker;
pub mod behind;
pub mod config;
mod follow;
mod observe;
pub mod plan;
#[cfg(test)]
mod recorded;
pub mod state;
pub mod vty;

pub use asker::default_router_id;
pub use observe::{Backend, Config, Frr, FrrReplies};
pub use state::{BgpdState, Desired, Observed, Op, Redistribute, Zebra};
pub use vty::VtyError;
