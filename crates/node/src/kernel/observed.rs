//! The observed state of the kernel: objects that are ours, and foreign ones that a plan must know.
//!
//! Sets are ordered so that a plan finds what it looks for: rules by what they select, routes by table and destination.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use ipnet::IpNet;
use ovn::MacAddr;
use serde::Serialize;

use super::state::{Address, Dev, Family, Hop, Select, Sysctl};
use super::tables::RtTables;

/// The program that created a route, by the kernel's numbers.
pub mod protocol {
    /// The kernel itself.
    pub const KERNEL: u8 = 2;
    /// A tool that did not say, and ovn-bgp-agent, and we.
    pub const BOOT: u8 = 3;
    /// An administrator.
    pub const STATIC: u8 = 4;
    /// ovn-controller.
    pub const OVN: u8 = 84;
    /// A BGP daemon.
    pub const BGP: u8 = 186;
}

/// A device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenLink {
    /// Its number.
    pub index: u32,
    /// Its kind.
    pub kind: Kind,
    /// Whether it is set up.
    pub up: bool,
    /// The VRF or bridge it belongs to.
    pub master: Option<Dev>,
}

/// The kind of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A VRF with its table.
    Vrf(u32),
    /// A device that leads nowhere.
    Dummy,
    /// A VLAN.
    Vlan {
        /// The device below, unless that is in another namespace.
        parent: Option<Dev>,
        /// The VLAN.
        tag: u16,
    },
    /// An internal port of ours. The kernel does not tell; the local switch's database does.
    Port {
        /// The provider bridge.
        bridge: Dev,
    },
    /// Anything else.
    Other,
}

/// An object in the kernel's own encoding, by which exactly this one is deleted, whatever else it says. Empty in models.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Wire(pub Arc<[u8]>);

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// A rule that sends packets to a table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SeenRule {
    /// The selected packets; `None` for a rule with selectors that this program does not know.
    pub select: Option<Select>,
    /// The table.
    pub table: u32,
    /// Its place among the rules.
    pub priority: u32,
    /// The rule itself.
    #[serde(skip)]
    pub wire: Wire,
}

impl SeenRule {
    /// The rule that we make.
    pub fn plain(select: Select, table: u32, priority: u32) -> Self {
        SeenRule { select: Some(select), table, priority, wire: Wire::default() }
    }
}

/// A route of a table that may be a bridge's or the exposure VRF's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SeenRoute {
    /// The table.
    pub table: u32,
    /// The routing table.
    pub dst: IpNet,
    /// Its metric.
    pub metric: u32,
    /// The next hop; `None` for a route with more than a device and a next hop.
    pub hop: Option<Hop>,
    /// The program that created it, see [`protocol`].
    pub protocol: u8,
    /// The route itself.
    #[serde(skip)]
    pub wire: Wire,
}

impl SeenRoute {
    /// The route that we make.
    pub fn plain(table: u32, dst: IpNet, hop: Hop) -> Self {
        let metric = default_metric(Family::of(dst));
        SeenRoute { table, dst, metric, hop: Some(hop), protocol: protocol::BOOT, wire: Wire::default() }
    }

    /// Whether it leads to the node itself.
    pub fn is_local(&self) -> bool {
        const HOST_SCOPE: u8 = 254;
        self.wire.0.get(6) == Some(&HOST_SCOPE)
    }
}

/// The metric of a route for which none is asked.
pub fn default_metric(family: Family) -> u32 {
    match family {
        Family::V4 => 0,
        Family::V6 => 1024,
    }
}

/// Entries of devices that this process wrote and that bear no mark of their own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wrote {
    /// Permanent neighbours.
    pub neighbours: OrdSet<(Dev, IpAddr)>,
    /// IPv6 proxy entries.
    pub proxies: OrdSet<(Dev, Ipv6Addr)>,
}

/// The kernel at one instant. A copy costs nothing, and what two of them differ in is found without looking at the rest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Observed {
    /// Every device.
    pub links: OrdMap<Dev, SeenLink>,
    /// Every address.
    pub addresses: OrdSet<Address>,
    /// Every rule that sends packets to a table.
    pub rules: OrdSet<SeenRule>,
    /// The default routes of the main table: their family, metric and maker, with their next hops.
    pub defaults: OrdMap<(Family, u32, u8), BTreeSet<IpAddr>>,
    /// Routes, without those of the main, local and default tables, and in a VRF's table without those of the kernel and of BGP.
    pub routes: OrdSet<SeenRoute>,
    /// Those of them that were there before us: when routes were first read, and ever since.
    pub found: OrdSet<SeenRoute>,
    /// Permanent neighbours.
    pub neighbours: OrdMap<(Dev, IpAddr), MacAddr>,
    /// IPv6 proxy entries.
    pub proxies: OrdSet<(Dev, Ipv6Addr)>,
    /// The file descriptors that this process wrote.
    pub wrote: Wrote,
    /// Switches that are on.
    pub sysctls: OrdSet<Sysctl>,
    /// Whether the kernel said, since all was read, that it makes no VLAN devices (it has no 8021q).
    pub lacks_vlans: bool,
    /// The families whose packets are forwarded.
    pub forwarding: BTreeSet<Family>,
    /// The names of tables.
    pub names: RtTables,
}

impl Observed {
    /// The rules with exactly this selection.
    pub fn rules_for(&self, select: Select) -> impl Iterator<Item = &SeenRule> {
        let first = SeenRule { select: Some(select), table: 0, priority: 0, wire: Wire::default() };
        self.rules.range(first..).take_while(move |rule| rule.select == Some(select))
    }

    /// The routes of a table to exactly this prefix.
    pub fn routes_to(&self, table: u32, dst: IpNet) -> impl Iterator<Item = &SeenRoute> {
        let first = SeenRoute { table, dst, metric: 0, hop: None, protocol: 0, wire: Wire::default() };
        self.routes.range(first..).take_while(move |route| route.table == table && route.dst == dst)
    }

    /// The routes of a table.
    pub fn routes_in(&self, table: u32) -> impl Iterator<Item = &SeenRoute> {
        self.routes.range(before_all_of(table)..).take_while(move |route| route.table == table)
    }

    /// The tables that have routes, found without looking at the routes.
    pub fn tables(&self) -> impl Iterator<Item = u32> {
        let next =
            move |table: u32| self.routes.range(before_all_of(table)..).next().map(|route| route.table);
        std::iter::successors(next(0), move |table| next(table.checked_add(1)?))
    }

    /// The host addresses on a device within a prefix.
    pub fn hosts_on(&self, dev: &Dev, net: IpNet) -> impl Iterator<Item = IpAddr> {
        let first = Address { dev: dev.clone(), net: net.trunc() };
        let dev = dev.clone();
        self.addresses
            .range(first..)
            .take_while(move |a| a.dev == dev && net.contains(&a.net.addr()))
            .filter(|a| is_host(a.net))
            .map(|a| a.net.addr())
    }

    /// The next hops of the main table's default routes.
    pub fn gateways(&self) -> BTreeSet<IpAddr> {
        self.defaults.values().flatten().copied().collect()
    }

    /// The VRFs.
    pub fn vrfs(&self) -> BTreeSet<Dev> {
        let vrfs = self.links.iter().filter(|(_, link)| matches!(link.kind, Kind::Vrf(_)));
        vrfs.map(|(name, _)| name.clone()).collect()
    }

    /// The tables in use: by routes, by rules, by VRFs.
    pub fn used_tables(&self) -> BTreeSet<u32> {
        let vrfs = self.links.values().filter_map(|link| match link.kind {
            Kind::Vrf(table) => Some(table),
            _ => None,
        });
        let rules = self.rules.iter().map(|rule| rule.table);
        self.routes.iter().map(|route| route.table).chain(rules).chain(vrfs).collect()
    }
}

/// Whether a prefix is one address.
pub fn is_host(net: IpNet) -> bool {
    net.prefix_len() == net.max_prefix_len()
}

/// Keeps what fits of a set or map that can be shared.
pub(crate) fn retain<C, T>(all: &mut C, fits: impl FnMut(&T) -> bool)
where
    C: Default + IntoIterator<Item = T> + FromIterator<T>,
{
    *all = std::mem::take(all).into_iter().filter(fits).collect();
}

/// A value that sorts before every route of a table.
fn before_all_of(table: u32) -> SeenRoute {
    let dst = Family::V4.default_net();
    SeenRoute { table, dst, metric: 0, hop: None, protocol: 0, wire: Wire::default() }
}
