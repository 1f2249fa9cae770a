//! The chassis as plain data, read once from the Southbound for requests and the scheduler.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;

/// All chassis at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fleet {
    /// Sorted by name.
    pub chassis: Vec<Chassis>,
}

/// One chassis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chassis {
    /// The `system-id`, by which groups and agents refer to it.
    pub name: String,
    /// The host name, by which `binding:host_id` refers to it.
    pub hostname: String,
    /// Whether it is gateway-capable (`enable-chassis-as-gw`).
    pub gateway: bool,
    /// Whether it can host external ports (`enable-chassis-as-extport-host`).
    pub external_ports: bool,
    /// The physical networks with a bridge on it.
    pub physical_networks: BTreeSet<String>,
    /// The datapath of its switch: `system`, or `netdev` in user space; empty if unknown.
    pub datapath_type: String,
    /// The kinds of interface that its switch supports.
    pub interface_types: BTreeSet<String>,
    /// Its availability zones.
    pub zones: BTreeSet<String>,
    /// Whether its controller has reported recently.
    pub alive: bool,
}

impl Fleet {
    /// The chassis with this name.
    pub fn named(&self, name: &str) -> Option<&Chassis> {
        self.chassis.iter().find(|chassis| chassis.name == name)
    }

    /// The chassis on this host.
    pub fn on_host(&self, host: &str) -> Option<&Chassis> {
        self.chassis.iter().find(|chassis| chassis.hostname == host)
    }

    /// The availability zones of gateway-capable chassis.
    pub fn gateway_zones(&self) -> BTreeSet<&str> {
        let gateways = self.chassis.iter().filter(|chassis| chassis.gateway);
        gateways.flat_map(|chassis| chassis.zones.iter().map(String::as_str)).collect()
    }
}
