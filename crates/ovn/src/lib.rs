//! OVN's databases, conventions and write target.
//!
//! * [`text`]: the small languages inside string cells (addresses, load balancer VIPs, matches, ...).
//! * [`ident`]: which UUID and which name a row has.
//! * [`mac`]: Ethernet addresses.

pub mod ident;
pub mod mac;
pub mod text;

pub use mac::MacAddr;
