//! `DHCP_Options`: what OVN's DHCP server tells the ports that refer to it.

use ipnet::IpNet;
use ovsdb::{Map, Str, Table};

use crate::text::Text;

/// A row of `DHCP_Options`: what OVN's DHCP server tells the ports that refer to it.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Northbound", table = "DHCP_Options")]
pub struct DhcpOptions {
    /// The subnet.
    pub cidr: Text<IpNet>,
    /// Option names and values; see [`dhcp`](crate::text::dhcp).
    pub options: Map<Str, Str>,
    /// Keys of the cloud's management.
    pub external_ids: Map<Str, Str>,
}
