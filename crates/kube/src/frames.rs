//! Ethernet frames that tell a guest about its gateway, as bytes. Pure.
//!
//! A guest learns its gateway's MAC address once and notices no change of it. After a live migration, and after its node has switched
//! to the transit router, the node sends it these frames. They go out of the guest's own port, so no other guest sees them.
//!
//! | file | holds |
//! |---|---|
//! | `ethernet` | the head of a frame, and the checksum of ICMPv6 |
//! | `arp` | IPv4: gratuitous ARP |
//! | `nd` | IPv6: router advertisements and unsolicited neighbour advertisements |
//! | `gateway` | the frames of one guest |
//! | `rounds` | when they are sent: three times, because frames get lost |
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod arp;
mod ethernet;
mod gateway;
mod nd;
mod rounds;

pub use arp::{ArpOperation, gratuitous_arp};
pub use gateway::{Guest, GuestKind, gateway_frames};
pub use nd::{GatewayStatement, neighbor_advertisement, router_advertisement};
pub use rounds::Rounds;

#[cfg(test)]
mod tests;
