//! `DHCP_Options`: the options that OVN's DHCP server sends to the ports that refer to the row.

use ipnet::IpNet;
use ovsdb::{Map, Str, Table};

use crate::text::Text;

/// A row of `DHCP_Options`: the options that OVN's DHCP server sends to the ports that refer to the row.
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
