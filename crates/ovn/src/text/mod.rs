//! OVN's small languages: what stands inside the string cells of its tables.
//!
//! One module per language, each with a parser that takes any text without panicking and says precisely what is wrong, and
//! a `Display` that gives the text back. Columns hold them as [`Text`], so a malformed cell costs its own meaning and
//! nothing else. What is here knows no tables; which column speaks which language is said by the table's struct.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod addresses;
pub mod bridge_mappings;
pub mod cell;
pub mod chassis;
pub mod dhcp;
pub mod domain_name;
pub mod host_addr;
pub mod match_expr;
pub mod nat_addresses;
pub mod neutron;
pub mod nexthop;
pub mod octavia;
pub mod quoted;
pub mod vips;
pub(crate) mod word;

pub use addresses::{PortAddresses, PortSecurity};
pub use cell::Text;
pub use domain_name::DomainName;
pub use host_addr::HostAddr;
pub use nat_addresses::NatAddresses;
pub use nexthop::Nexthop;
pub use vips::{BackendIp, Backends, Endpoint, PortMapping};

#[cfg(test)]
pub(crate) mod strategy;
