//! Desired and observed namespaces, the ops between them, and the mark of our devices.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv4Addr;

use ipnet::{IpNet, Ipv4Net};
use ovn::MacAddr;
use ovsdb::Uuid;
use serde::Serialize;

use super::names;
use crate::kernel::Dev;

/// A kernel parameter of a namespace, and its value.
pub type Switch = (&'static str, &'static str);

/// The parameters of every namespace, by their path in `/proc/sys/net`. The kernel copies some of the host's values into a new
/// namespace, so a host that forwards would otherwise make every namespace forward as well, and a VM could use it as a router.
pub const SWITCHES: [Switch; 11] = [
    ("ipv4/conf/all/promote_secondaries", "1"),
    ("ipv4/ip_forward", "0"),
    ("ipv4/conf/all/accept_redirects", "0"),
    // Clients in the queue of a listening socket that a haproxy closes go over to the one that takes its place. Linux 5.14.
    ("ipv4/tcp_migrate_req", "1"),
    ("ipv6/conf/all/forwarding", "0"),
    ("ipv6/conf/all/accept_ra", "0"),
    ("ipv6/conf/default/accept_ra", "0"),
    ("ipv6/conf/default/autoconf", "0"),
    ("ipv6/conf/all/accept_redirects", "0"),
    ("ipv6/conf/default/accept_redirects", "0"),
    // Without it the kernel adds a link-local address by itself and spends a second on detecting duplicates of it.
    ("ipv6/conf/default/addr_gen_mode", "1"),
];

/// The two ends of a veth pair.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct VethPair {
    /// The end on the host, which is a port of the integration bridge.
    pub host: Dev,
    /// The end in the namespace.
    pub inner: Dev,
}

/// A desired namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    /// The Ethernet address of the inner end, which is the metadata port's.
    pub mac: MacAddr,
    /// The MTU of both ends; without one, the kernel's.
    pub mtu: Option<u32>,
    /// All addresses of the inner end.
    pub addresses: BTreeSet<IpNet>,
    /// Subnets that the inner end has no address of. They are on its link nevertheless, and the service's own address answers them:
    /// without a route the kernel would have no way to their VMs.
    pub on_link: BTreeSet<Ipv4Net>,
}

/// The source address of routes to subnets on the link: that of the metadata service.
pub const SERVICE: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);

/// The desired namespaces by network. Ours that are not in it go.
pub type Desired = BTreeMap<Uuid, Namespace>;

/// A device of the host's own namespace that bears one of our names or our alias.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostDevice {
    /// Its index.
    pub index: u32,
    /// The index of its peer, in the peer's namespace.
    pub peer: Option<u32>,
    /// Its MTU.
    pub mtu: u32,
    /// Whether it is up.
    pub up: bool,
    /// The network in its alias.
    pub marked: Option<Uuid>,
}

/// A device in a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InnerDevice {
    /// Its index.
    pub index: u32,
    /// The index of its peer on the host.
    pub peer: Option<u32>,
    /// Its Ethernet address.
    pub mac: Option<MacAddr>,
    /// Its MTU.
    pub mtu: u32,
    /// Whether it is up.
    pub up: bool,
    /// Its addresses.
    pub addresses: BTreeSet<IpNet>,
    /// The subnets that a route of ours has on its link.
    pub on_link: BTreeSet<Ipv4Net>,
    /// Whether it leaves TCP checksums to a device that a veth does not have. Userspace Open vSwitch then drops its packets.
    pub offloads_checksums: bool,
}

/// An observed namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SeenNamespace {
    /// Its inode: another namespace has another one.
    pub inode: u64,
    /// Whether `lo` is up.
    pub loopback: bool,
    /// The parameters that have another value than they should.
    pub wrong: Vec<Switch>,
    /// Its devices, without `lo`.
    pub devices: BTreeMap<Dev, InnerDevice>,
}

/// The observed namespaces and devices.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Observed {
    /// Namespaces of ours, by network.
    pub namespaces: BTreeMap<Uuid, SeenNamespace>,
    /// Networks whose file is no namespace: after a restart of a container without shared mounts, for example.
    pub broken: BTreeSet<Uuid>,
    /// Devices of the host.
    pub devices: BTreeMap<Dev, HostDevice>,
}

impl Observed {
    /// Whether a host device serves a network: it has our alias, or its other end is in the network's namespace. A device of
    /// the same name alone may be anybody's, for example a VM's.
    pub fn is_ours(&self, network: Uuid, dev: &Dev) -> bool {
        self.devices.get(dev).is_some_and(|device| {
            device.marked == Some(network)
                || device.marked.is_none() && self.inner_of(network, device).is_some()
        })
    }

    /// The end in the namespace whose peer a host device is.
    fn inner_of(&self, network: Uuid, device: &HostDevice) -> Option<(&Dev, &InnerDevice)> {
        let namespace = self.namespaces.get(&network)?;
        namespace
            .devices
            .iter()
            .find(|(_, inner)| inner.peer == Some(device.index) && device.peer == Some(inner.index))
    }

    /// The pair of a network, if both ends are there and belong together.
    pub fn pair(&self, network: Uuid) -> Option<(VethPair, &HostDevice, &InnerDevice)> {
        names::pairs(network).into_iter().find_map(|pair| {
            let host = self.devices.get(&pair.host)?;
            let (inner, device) = self.inner_of(network, host)?;
            (*inner == pair.inner && self.is_ours(network, &pair.host)).then_some((pair, host, device))
        })
    }
}

/// One change of a network's namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Remove a file that is no namespace.
    RemoveFile,
    /// Create the namespace with its parameters.
    CreateNamespace,
    /// Set the parameters and bring `lo` up.
    Correct,
    /// Create the veth pair, both ends up.
    CreatePair {
        /// Its names.
        pair: VethPair,
        /// The inner end's Ethernet address.
        mac: MacAddr,
        /// The MTU.
        mtu: Option<u32>,
    },
    /// Mark the host end ours.
    Mark {
        /// The host end.
        host: Dev,
    },
    /// Set the inner end's Ethernet address.
    SetMac {
        /// The inner end.
        inner: Dev,
        /// The address.
        mac: MacAddr,
    },
    /// Set the MTU of both ends.
    SetMtu {
        /// The pair.
        pair: VethPair,
        /// The MTU.
        mtu: u32,
    },
    /// Have the inner end fill in checksums itself.
    FillChecksums {
        /// The inner end.
        inner: Dev,
    },
    /// Bring both ends up.
    SetUp {
        /// The pair.
        pair: VethPair,
    },
    /// Add an address to the inner end.
    AddAddress {
        /// The inner end.
        inner: Dev,
        /// The address.
        address: IpNet,
    },
    /// Remove an address from the inner end.
    DeleteAddress {
        /// The inner end.
        inner: Dev,
        /// The address.
        address: IpNet,
    },
    /// Add a route to a subnet on the inner end's link.
    AddRoute {
        /// The inner end.
        inner: Dev,
        /// The subnet.
        subnet: Ipv4Net,
    },
    /// Remove one.
    DeleteRoute {
        /// The inner end.
        inner: Dev,
        /// The subnet.
        subnet: Ipv4Net,
    },
    /// Delete a host device, and its peer with it.
    DeleteDevice {
        /// The device.
        host: Dev,
    },
    /// Delete a device of the namespace.
    DeleteInner {
        /// The device.
        inner: Dev,
    },
    /// Delete the namespace.
    DeleteNamespace,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::RemoveFile => f.write_str("remove the namespace's file, which is no namespace"),
            Op::CreateNamespace => f.write_str("create the namespace"),
            Op::Correct => f.write_str("set the namespace's kernel parameters"),
            Op::CreatePair { pair, mac, .. } => {
                write!(f, "create the veth pair {} and {} with {mac}", pair.host, pair.inner)
            }
            Op::Mark { host } => write!(f, "mark {host}"),
            Op::SetMac { inner, mac } => write!(f, "set the Ethernet address of {inner} to {mac}"),
            Op::SetMtu { pair, mtu } => write!(f, "set the MTU of {} and {} to {mtu}", pair.host, pair.inner),
            Op::FillChecksums { inner } => write!(f, "turn checksum offload of {inner} off"),
            Op::SetUp { pair } => write!(f, "set {} and {} up", pair.host, pair.inner),
            Op::AddAddress { inner, address } => write!(f, "add {address} to {inner}"),
            Op::DeleteAddress { inner, address } => write!(f, "delete {address} from {inner}"),
            Op::AddRoute { inner, subnet } => write!(f, "add a route to {subnet} on the link of {inner}"),
            Op::DeleteRoute { inner, subnet } => {
                write!(f, "delete the route to {subnet} on the link of {inner}")
            }
            Op::DeleteDevice { host } => write!(f, "delete the veth pair of {host}"),
            Op::DeleteInner { inner } => write!(f, "delete {inner} in the namespace"),
            Op::DeleteNamespace => f.write_str("delete the namespace"),
        }
    }
}
