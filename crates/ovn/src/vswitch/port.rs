//! `Port`: a port of a bridge: one interface, or several for a bond.

use ovsdb::{Map, Ref, Set, Str, Table};

use super::Interface;

/// A row of `Port`: a port of a bridge: one interface, or several for a bond.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "Open_vSwitch", table = "Port")]
pub struct Port {
    /// Unique and fixed.
    pub name: Str,
    /// Its interfaces; at least one.
    pub interfaces: Set<Ref<Interface>>,
    /// VLAN of an access port.
    pub tag: Option<i64>,
    /// Settings.
    pub other_config: Map<Str, Str>,
    /// Keys of the port's owner; `ovn-localnet-port` on OVN's patch ports.
    pub external_ids: Map<Str, Str>,
}
