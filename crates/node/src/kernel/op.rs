//! The changes that can be made to the kernel. Each is idempotent: what is already there, or already gone, is success.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;
use ovn::MacAddr;
use serde::Serialize;

use super::observed::{SeenRoute, SeenRule};
use super::state::{Address, Dev, Hop, Knob, Link, Select, Sysctl};

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Reserve a table's number for a bridge in `rt_tables`.
    NameTable {
        /// The number.
        table: u32,
        /// The bridge.
        bridge: Dev,
    },
    /// Make a device and set it up.
    AddLink {
        /// Its name.
        dev: Dev,
        /// Its kind.
        link: Link,
    },
    /// Set a device up.
    SetUp {
        /// Its name.
        dev: Dev,
    },
    /// Move a device into a VRF.
    SetMaster {
        /// Its name.
        dev: Dev,
        /// The VRF.
        master: Dev,
    },
    /// Delete a device.
    DelLink {
        /// Its name.
        dev: Dev,
    },
    /// Put an address on a device.
    AddAddress(Address),
    /// Take an address from a device.
    DelAddress(Address),
    /// Turn a switch on.
    SetSysctl(Sysctl),
    /// Make a route, or lead the one that is there elsewhere.
    SetRoute {
        /// The table.
        table: u32,
        /// The destination.
        dst: IpNet,
        /// The next hop.
        hop: Hop,
    },
    /// Delete a route.
    DelRoute(SeenRoute),
    /// Make a rule.
    AddRule {
        /// The selected packets.
        select: Select,
        /// The routing table.
        table: u32,
        /// The rule's place.
        priority: u32,
    },
    /// Delete a rule.
    DelRule(SeenRule),
    /// Make a permanent neighbour, or correct it.
    SetNeighbour {
        /// The device.
        dev: Dev,
        /// The neighbour.
        ip: IpAddr,
        /// Its Ethernet address.
        mac: MacAddr,
    },
    /// Delete a permanent neighbour.
    DelNeighbour {
        /// The device.
        dev: Dev,
        /// The neighbour.
        ip: IpAddr,
    },
    /// Answer for an address on a device.
    AddProxy {
        /// The device.
        dev: Dev,
        /// The address.
        ip: Ipv6Addr,
    },
    /// Answer no more.
    DelProxy {
        /// The device.
        dev: Dev,
        /// The address.
        ip: Ipv6Addr,
    },
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::NameTable { table, bridge } => write!(f, "reserve table {table} for {bridge} in rt_tables"),
            Op::AddLink { dev, link: Link::Vrf { table } } => write!(f, "add VRF {dev} with table {table}"),
            Op::AddLink { dev, link: Link::Dummy { master: Some(vrf) } } => {
                write!(f, "add dummy {dev} in VRF {vrf}")
            }
            Op::AddLink { dev, link: Link::Dummy { master: None } } => write!(f, "add dummy {dev}"),
            Op::AddLink { dev, link: Link::Vlan { parent, tag } } => {
                write!(f, "add {dev} as VLAN {tag} of {parent}")
            }
            Op::AddLink { dev, link: Link::Bridge | Link::Port { .. } } | Op::SetUp { dev } => {
                write!(f, "set {dev} up")
            }
            Op::SetMaster { dev, master } => write!(f, "move {dev} into VRF {master}"),
            Op::DelLink { dev } => write!(f, "delete {dev}"),
            Op::AddAddress(a) => write!(f, "add address {} to {}", a.net, a.dev),
            Op::DelAddress(a) => write!(f, "delete address {} from {}", a.net, a.dev),
            Op::SetSysctl(sysctl) => {
                let knob = match sysctl.knob {
                    Knob::ProxyArp => "proxy ARP",
                    Knob::ProxyNdp => "proxy NDP",
                };
                write!(f, "turn on {knob} on {}", sysctl.dev)
            }
            Op::SetRoute { table, dst, hop } => write!(f, "set route {dst} {hop} in table {table}"),
            Op::DelRoute(r) => match &r.hop {
                Some(hop) => write!(f, "delete route {} {hop} from table {}", r.dst, r.table),
                None => write!(f, "delete route {} from table {}", r.dst, r.table),
            },
            Op::AddRule { select, table, priority } => {
                write!(f, "add rule {priority}: {select} lookup {table}")
            }
            Op::DelRule(SeenRule { select: Some(select), table, priority, .. }) => {
                write!(f, "delete rule {priority}: {select} lookup {table}")
            }
            Op::DelRule(r) => write!(f, "delete a rule {} to table {}", r.priority, r.table),
            Op::SetNeighbour { dev, ip, mac } => write!(f, "set neighbour {ip} at {mac} on {dev}"),
            Op::DelNeighbour { dev, ip } => write!(f, "delete neighbour {ip} from {dev}"),
            Op::AddProxy { dev, ip } => write!(f, "answer for {ip} on {dev}"),
            Op::DelProxy { dev, ip } => write!(f, "answer no more for {ip} on {dev}"),
        }
    }
}
