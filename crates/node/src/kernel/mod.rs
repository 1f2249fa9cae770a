//! The kernel's network configuration, in the namespace the process was started in.
//!
//! What can be wanted and seen is in [`state`], what of it is ours in [`own`].

pub mod own;
pub mod state;

pub use own::Own;
pub use state::{Address, Desired, Dev, Family, Hop, Knob, Link, Rule, Select, Sysctl, Table};
