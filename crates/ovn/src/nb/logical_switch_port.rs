//! `Logical_Switch_Port`: a port of a logical switch: a VIF, a router's peer, a localnet, ...

use ovsdb::{Map, Ref, Set, Str, Table, Weak};

use super::{DhcpOptions, HaChassisGroup};
use crate::port_type::PortType;
use crate::text::{PortAddresses, PortSecurity, Text};

/// A row of `Logical_Switch_Port`: a port of a logical switch: a VIF, a router's peer, a localnet, ...
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Northbound", table = "Logical_Switch_Port")]
pub struct LogicalSwitchPort {
    /// Unique; equals `iface-id` of the VIF.
    pub name: Str,
    /// Empty for a VIF.
    #[ovsdb(column = "type")]
    pub kind: PortType,
    /// Depend on the type: `requested-chassis`, `router-port`, `network_name`, ...
    pub options: Map<Str, Str>,
    /// The port on which this nested port is a VLAN.
    pub parent_name: Option<Str>,
    /// The requested VLAN; northd fills in `tag`.
    pub tag_request: Option<i64>,
    /// VLAN in use, written by northd.
    pub tag: Option<i64>,
    /// The addresses behind the port. Empty on VIP ports, or the switch would answer ARP for them.
    pub addresses: Set<Text<PortAddresses>>,
    /// The addresses that northd allocated for `dynamic`.
    pub dynamic_addresses: Option<Text<PortAddresses>>,
    /// The allowed source addresses; empty means any.
    pub port_security: Set<Text<PortSecurity>>,
    /// Whether the port is bound and ready, written by northd.
    pub up: Option<bool>,
    /// Administrative state; absent means enabled.
    pub enabled: Option<bool>,
    /// The options that OVN's DHCPv4 server sends to the port.
    pub dhcpv4_options: Option<Weak<DhcpOptions>>,
    /// The options that OVN's DHCPv6 server sends to the port.
    pub dhcpv6_options: Option<Weak<DhcpOptions>>,
    /// The candidate chassis of a port of type `external`.
    pub ha_chassis_group: Option<Ref<HaChassisGroup>>,
    /// Keys of the cloud's management; northd copies them to the port binding.
    pub external_ids: Map<Str, Str>,
}
