//! The kernel's network configuration, in the namespace the process was started in.
//!
//! | file | holds |
//! |---|---|
//! | [`state`], [`observed`] | the desired and the observed state |
//! | [`own`], [`tables`] | what of it is ours; which routing table a bridge has |
//! | [`paths`] | whether packets for an address have a path |
//! | [`plan`], [`op`] | what to change |
//! | [`Kernel`] | reads it, keeps what it read current by the kernel's notifications, and changes it |

mod apply;
mod decode;
mod observe;
pub mod observed;
pub mod op;
pub mod own;
pub mod paths;
pub mod plan;
pub mod state;
pub mod tables;

pub use crate::netlink::Refused;
pub use apply::OpError;
pub use observe::{Kernel, KernelError};
pub use observed::{Observed, SeenLink, SeenRoute, SeenRule};
pub use op::Op;
pub use own::{Own, base_addresses};
pub use state::{Address, Desired, Dev, Family, Hop, Knob, Link, Rule, Select, Sysctl, Table};
pub use tables::vlan_device;
