//! The desired state of the kernel.
//!
//! Tables are named by the bridge they are for, not by number: which number a bridge has is written in `rt_tables`, which
//! is part of what is observed, and a plan gives a number to a bridge that has none.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use imbl::{OrdMap, OrdSet};
use ipnet::IpNet;
use ovn::MacAddr;
use serde::Serialize;
use smol_str::SmolStr;

use super::own::Own;
use crate::part::kind::Kind;

/// A device's name.
pub type Dev = SmolStr;

/// A device that must be there. All of them must be up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Link {
    /// A VRF, with the table its routes are in. Made by us.
    Vrf {
        /// The VRF's table.
        table: u32,
    },
    /// A device that leads nowhere, to hold addresses. Made by us.
    Dummy {
        /// The VRF it belongs to.
        master: Option<Dev>,
    },
    /// A VLAN of another device. Made by us.
    Vlan {
        /// The device below, a provider bridge.
        parent: Dev,
        /// The VLAN.
        tag: u16,
    },
    /// The device of an internal port for a VLAN, which Open vSwitch makes and which is one of `ports`. It is only set up.
    Port {
        /// The provider bridge.
        bridge: Dev,
    },
    /// The device of a bridge that Open vSwitch makes. It is only set up; where it is missing that is reported.
    Bridge,
}

/// An address on a device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Address {
    /// The device.
    pub dev: Dev,
    /// The address with its prefix length.
    pub net: IpNet,
}

/// A routing table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Table {
    /// The table of a provider bridge; its number is in `rt_tables` under the bridge's name.
    Bridge(Dev),
    /// A table by number: the exposure VRF's.
    Number(u32),
}

/// An address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both.
    pub const BOTH: [Family; 2] = [Family::V4, Family::V6];

    /// The family of a prefix.
    pub fn of(net: IpNet) -> Self {
        Self::of_ip(net.addr())
    }

    /// The family of an address.
    pub fn of_ip(ip: IpAddr) -> Self {
        if ip.is_ipv4() { Family::V4 } else { Family::V6 }
    }

    /// `0.0.0.0/0` or `::/0`.
    pub fn default_net(self) -> IpNet {
        match self {
            Family::V4 => IpNet::V4(ipnet::Ipv4Net::default()),
            Family::V6 => IpNet::V6(ipnet::Ipv6Net::default()),
        }
    }
}

/// The packets that a rule selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Select {
    /// Those to a prefix.
    To(IpNet),
    /// All of a family, as far as the table has more than its default route for them (`suppress_prefixlength 0`).
    All(Family),
}

impl Select {
    /// The family of the packets.
    pub fn family(self) -> Family {
        match self {
            Select::To(net) => Family::of(net),
            Select::All(family) => family,
        }
    }
}

/// A rule that sends packets to a table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Rule {
    /// The selected packets.
    pub select: Select,
    /// The routing table. The priority is [`Own::priority`].
    pub table: Table,
}

/// The next hop of a route. Without `via` its scope is link, with it universe; its protocol is boot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Hop {
    /// The device.
    pub dev: Dev,
    /// The next hop, which a route of the same table must cover.
    pub via: Option<IpAddr>,
}

/// A switch of a device, to be on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Sysctl {
    /// The device.
    pub dev: Dev,
    /// The sysctl.
    pub knob: Knob,
}

/// The switches of a device that we use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Knob {
    /// `net.ipv4.conf.DEV.proxy_arp`: answer ARP for what is routed elsewhere.
    ProxyArp,
    /// `net.ipv6.conf.DEV.proxy_ndp`: answer neighbour solicitations for the entries of the device.
    ProxyNdp,
}

impl Sysctl {
    /// Its place below `/proc/sys`.
    pub fn path(&self) -> String {
        match self.knob {
            Knob::ProxyArp => format!("net/ipv4/conf/{}/proxy_arp", self.dev),
            Knob::ProxyNdp => format!("net/ipv6/conf/{}/proxy_ndp", self.dev),
        }
    }
}

/// The desired state of the kernel. A copy costs nothing, and the cost of comparing two depends on their differences only.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Desired {
    /// The names and numbers that mark our objects.
    pub own: Own,
    /// Devices. Those of kind [`Link::Bridge`] are the provider bridges; their tables are ours.
    pub links: OrdMap<Dev, Link>,
    /// Addresses: those on [`Own::announce`] are announced, those on bridges and VLAN devices make them speak ARP and NDP.
    pub addresses: OrdSet<Address>,
    /// Rules, all at [`Own::priority`].
    pub rules: OrdSet<Rule>,
    /// Routes. A bridge's table holds its base (a default route through the bridge for each family) and what is exposed;
    /// the exposure VRF's table holds subnets that are announced as such.
    pub routes: OrdMap<(Table, IpNet), Hop>,
    /// Permanent neighbours.
    pub neighbours: OrdMap<(Dev, IpAddr), MacAddr>,
    /// Addresses for which neighbour solicitations are answered on a device.
    pub proxies: OrdSet<(Dev, Ipv6Addr)>,
    /// Switches that must be on.
    pub sysctls: OrdSet<Sysctl>,
}

impl Desired {
    /// The provider bridges.
    pub fn bridges(&self) -> impl Iterator<Item = &Dev> {
        self.links.iter().filter(|(_, link)| **link == Link::Bridge).map(|(dev, _)| dev)
    }

    /// The rules with exactly this selection.
    pub fn rules_for(&self, select: Select) -> impl Iterator<Item = &Rule> {
        let first = Rule { select, table: Table::Bridge(Dev::default()) };
        self.rules.range(first..).take_while(move |rule| rule.select == select)
    }

    /// The number of desired objects of a kind. Announcements, the most numerous kind, are counted without visiting each.
    pub fn count(&self, kind: Kind) -> usize {
        let announce = &self.own.announce;
        let before = || self.addresses.iter().take_while(|address| address.dev < *announce).count();
        let after = || self.addresses.iter().rev().take_while(|address| address.dev > *announce).count();
        let others = || before() + after();
        let numbered = |table: &Table| matches!(table, Table::Number(_));
        let prefixes = || self.routes.keys().rev().take_while(|(table, _)| numbered(table)).count();
        match kind {
            Kind::Link => self.links.len(),
            Kind::Address => others(),
            Kind::Sysctl => self.sysctls.len(),
            Kind::Route => self.routes.len() - prefixes(),
            Kind::Rule => self.rules.len(),
            Kind::Neighbour => self.neighbours.len(),
            Kind::Proxy => self.proxies.len(),
            Kind::Announcement => self.addresses.len() - others() + prefixes(),
            Kind::Port | Kind::Flow | Kind::Stanza => 0,
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Table::Bridge(bridge) => f.write_str(bridge),
            Table::Number(number) => write!(f, "{number}"),
        }
    }
}

impl fmt::Display for Select {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Select::To(net) => write!(f, "to {net}"),
            Select::All(Family::V4) => f.write_str("all IPv4 suppress_prefixlength 0"),
            Select::All(Family::V6) => f.write_str("all IPv6 suppress_prefixlength 0"),
        }
    }
}

impl fmt::Display for Hop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.via {
            Some(via) => write!(f, "via {via} dev {}", self.dev),
            None => write!(f, "dev {}", self.dev),
        }
    }
}
