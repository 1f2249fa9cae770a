//! `Static_MAC_Binding`: a neighbour of a router port that needs no ARP or NDP.

use std::net::IpAddr;

use ovsdb::{Str, Table};

use crate::mac::MacAddr;
use crate::text::Text;

/// A row of `Static_MAC_Binding`: a neighbour of a router port that OVN need not resolve.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Northbound", table = "Static_MAC_Binding")]
pub struct StaticMacBinding {
    /// The router port.
    pub logical_port: Str,
    /// The neighbour's address.
    pub ip: Text<IpAddr>,
    /// Its Ethernet address.
    pub mac: Text<MacAddr>,
    /// Whether the binding overrides a learned one.
    pub override_dynamic_mac: bool,
}
