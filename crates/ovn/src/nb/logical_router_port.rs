//! `Logical_Router_Port`: a port of a router.

use ipnet::IpNet;
use ovsdb::{Map, Ref, Set, Str, Table};

use super::{GatewayChassis, HaChassisGroup};
use crate::mac::MacAddr;
use crate::text::Text;

/// A row of `Logical_Router_Port`: a port of a router.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Northbound", table = "Logical_Router_Port")]
pub struct LogicalRouterPort {
    /// Unique.
    pub name: Str,
    /// The candidate chassis of a distributed gateway port in the older form; never together with `ha_chassis_group`.
    pub gateway_chassis: Set<Ref<GatewayChassis>>,
    /// The candidate chassis of a distributed gateway port.
    pub ha_chassis_group: Option<Ref<HaChassisGroup>>,
    /// `gateway_mtu`, `requested-chassis`, `redirect-type`, ...
    pub options: Map<Str, Str>,
    /// Addresses with prefix lengths. OVN 23.03 demands at least one.
    pub networks: Set<Text<IpNet>>,
    /// Ethernet address.
    pub mac: Text<MacAddr>,
    /// Another router's port, for a link without a switch.
    pub peer: Option<Str>,
    /// Administrative state; absent means enabled.
    pub enabled: Option<bool>,
    /// The content of router advertisements.
    pub ipv6_ra_configs: Map<Str, Str>,
    /// Delegated prefixes, written by northd.
    pub ipv6_prefix: Set<Text<IpNet>>,
    /// `hosting-chassis` of a gateway port, written by northd (OVN 23.09).
    #[ovsdb(optional)]
    pub status: Map<Str, Str>,
    /// Keys of the cloud's management.
    pub external_ids: Map<Str, Str>,
}
