//! OVN's small languages: the syntax inside the string cells of its tables.
//!
//! One module per language. Each has a parser that accepts any string without a panic and reports precise errors, and a
//! `Display` that restores the string. Columns hold them as [`Text`], so a malformed cell loses its own meaning and nothing
//! else. This module knows no tables; the struct of a table says which column has which language.

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
