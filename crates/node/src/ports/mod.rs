//! Ports that we add to provider bridges, in the local switch's database: what VLANs are met on where the kernel makes no VLAN
//! devices.
//!
//! Such a port is an internal one, so it is a device of the kernel, and it has the VLAN's tag, so it carries that VLAN alone and
//! untagged. It has the name that the kernel's VLAN device would have, and the bridge's own Ethernet address like it: rules,
//! routes and flows are the same for both.
//!
//! | file | holds |
//! |---|---|
//! | [`state`] | what can be wanted, seen and changed; what marks a port ours |
//! | [`plan`] | what to change |
//! | [`Ports`] | reads and changes them |
//!
//! `plane/vlans.rs` decides which VLANs get a port, because that depends on the kernel, too.

mod apply;
mod observe;
pub mod plan;
pub mod plugged;
pub mod state;

pub use apply::PortError;
pub use observe::{Ports, is_made};
pub use state::{Desired, Observed, Op, Port, PortMark, SeenPort};
