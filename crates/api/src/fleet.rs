//! The chassis, as a request or the scheduler sees them: what the Southbound tells, read once and kept as plain data.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;

/// Every chassis at one instant, in order of name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fleet {
    /// In order of name.
    pub chassis: Vec<Chassis>,
}

/// One chassis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chassis {
    /// `system-id`; what groups and agents name it by.
    pub name: String,
    /// What `binding:host_id` names it by.
    pub hostname: String,
    /// Whether it says that it can carry gateways (`enable-chassis-as-gw`).
    pub gateway: bool,
    /// Whether it says that it can carry external ports (`enable-chassis-as-extport-host`).
    pub external_ports: bool,
    /// Physical networks it has a bridge for.
    pub physical_networks: BTreeSet<String>,
    /// How its switch forwards: `system`, or `netdev` in user space; empty if it does not say.
    pub datapath_type: String,
    /// Kinds of interface its switch can have.
    pub interface_types: BTreeSet<String>,
    /// Its availability zones.
    pub zones: BTreeSet<String>,
    /// Whether its controller reports in time.
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

    /// The availability zones of chassis that carry gateways.
    pub fn gateway_zones(&self) -> BTreeSet<&str> {
        let gateways = self.chassis.iter().filter(|chassis| chassis.gateway);
        gateways.flat_map(|chassis| chassis.zones.iter().map(String::as_str)).collect()
    }
}
