//! The desired and the observed ports of provider bridges, and the mark of ours.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use ovn::text::neutron::key;
use ovn::{MacAddr, vswitch};
use ovsdb::{Ref, Str};
use serde::Serialize;

use crate::kernel::Dev;

/// The type of an interface that is a device of the kernel.
pub(super) const INTERNAL: &str = "internal";

/// The mark of one role's ports, in `external_ids` under [`key::OWNER`]: what they were made for. Each role on a node has its own, so
/// that none deletes the ports of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortMark(pub &'static str);

impl PortMark {
    /// Whether a port bears it. The port's name says nothing: an administrator may have made one of that name.
    pub fn is_on(self, port: &vswitch::Port) -> bool {
        port.external_ids.get(key::OWNER).map(Str::as_str) == Some(self.0)
    }
}

/// A port that must be there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Port {
    /// The bridge.
    pub bridge: Dev,
    /// The VLAN that it carries.
    pub tag: u16,
    /// Its Ethernet address, which is the bridge's; while nobody knows that, none is made and the one that is there stays.
    pub mac: Option<MacAddr>,
}

/// The ports wanted, by the name of port and device. Those of ours that are not in it go.
pub type Desired = BTreeMap<Dev, Port>;

/// A port of ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SeenPort {
    /// The bridge it is in.
    pub bridge: Dev,
    /// The VLAN that it carries.
    pub tag: Option<u16>,
    /// The Ethernet address that it was given.
    pub mac: Option<MacAddr>,
    /// Whether its interface is an internal one.
    pub internal: bool,
    /// The reason why Open vSwitch could not create the device.
    pub error: Option<Str>,
    /// Its rows.
    #[serde(skip)]
    pub rows: Rows,
}

/// The rows of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows {
    /// The bridge.
    pub bridge: Ref<vswitch::Bridge>,
    /// The port.
    pub port: Ref<vswitch::Port>,
    /// Its interface.
    pub interface: Ref<vswitch::Interface>,
}

/// The observed ports.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Observed {
    /// Ours.
    pub ours: BTreeMap<Dev, SeenPort>,
    /// The names of others that may stand in the way: those with the name of some VLAN device.
    pub others: BTreeSet<Dev>,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Make a port.
    Add {
        /// Its name.
        dev: Dev,
        /// Its bridge.
        bridge: Dev,
        /// The VLAN that it carries.
        tag: u16,
        /// Its Ethernet address.
        mac: MacAddr,
    },
    /// Correct what a port of ours carries, and its Ethernet address.
    Correct {
        /// Its name.
        dev: Dev,
        /// The required kind.
        port: Port,
        /// Its kind.
        seen: SeenPort,
    },
    /// Delete a port of ours.
    Delete {
        /// Its name.
        dev: Dev,
        /// Its kind.
        seen: SeenPort,
    },
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Add { dev, bridge, tag, .. } => {
                write!(f, "add internal port {dev} with VLAN {tag} to {bridge} in Open vSwitch")
            }
            Op::Correct { dev, port, .. } => {
                write!(f, "set internal port {dev} to VLAN {} of {} in Open vSwitch", port.tag, port.bridge)
            }
            Op::Delete { dev, seen } => write!(f, "delete port {dev} of {} in Open vSwitch", seen.bridge),
        }
    }
}
