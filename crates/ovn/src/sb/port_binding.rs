//! `Port_Binding`: a logical port and where it lives.

use ovsdb::{Map, Ref, Set, Str, Table, Weak};

use super::{Chassis, DatapathBinding};
use crate::port_type::PortType;
use crate::text::{NatAddresses, PortAddresses, Text};

/// A row of `Port_Binding`: a logical port and where it lives.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Southbound", table = "Port_Binding")]
pub struct PortBinding {
    /// Unique.
    pub logical_port: Str,
    /// Empty for a VIF.
    #[ovsdb(column = "type")]
    pub kind: PortType,
    /// `peer`, `distributed-port`, `chassis-redirect-port`, `network_name`, ...
    pub options: Map<Str, Str>,
    /// The switch or router it belongs to.
    pub datapath: Ref<DatapathBinding>,
    /// Unique within the datapath.
    pub tunnel_key: i64,
    /// The port whose VLAN this nested port is.
    pub parent_port: Option<Str>,
    /// VLAN of a nested or localnet port.
    pub tag: Option<i64>,
    /// The port that has claimed a virtual port.
    pub virtual_parent: Option<Str>,
    /// Where it is bound.
    pub chassis: Option<Weak<Chassis>>,
    /// Where it is bound as well, during live migration.
    pub additional_chassis: Set<Weak<Chassis>>,
    /// Addresses; router ports have theirs with prefix lengths.
    pub mac: Set<Text<PortAddresses>>,
    /// What to announce on behalf of the peer router.
    pub nat_addresses: Set<Text<NatAddresses>>,
    /// Whether the port is ready.
    pub up: Option<bool>,
    /// The switch or router port's, and `name`.
    pub external_ids: Map<Str, Str>,
}
