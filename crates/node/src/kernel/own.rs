//! The rule that makes kernel objects ours. Nothing else in this crate decides that, and no plan changes a foreign object.
//!
//! The marks are those of ovn-bgp-agent, so that a node can be taken over from it without touching a working route. An operator may
//! have things of the same kind in the same places: a rule with our priority and a selector of its own, a static or blackhole route in
//! a bridge's table, a permanent neighbour on the bridge. Only what this program or ovn-bgp-agent could have written is ours.
//! To miss one of ours leaves a stale entry behind; to take a foreign one for ours deletes somebody's network.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::observed::{Kind, Observed, SeenLink, SeenRoute, SeenRule, is_host, protocol};
use super::state::{Address, Dev, Hop};
use super::tables::{Tables, is_vlan_name, vlan_device};

/// The names and numbers that mark what is ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Own {
    /// The device whose host addresses are announced (`bgp_nic`): all /32 and /128 on it are ours.
    pub announce: Dev,
    /// The exposure VRF's table (`bgp_vrf_table_id`): routes in it through `announce` that no daemon made are ours.
    pub vrf_table: u32,
    /// The priority of our rules (`rule_priority`): rules with it that point to a bridge's table are ours.
    pub priority: u32,
    /// Whether every route in the VRF's table that was there before us is ours too, save for those of the kernel, of BGP and of OVN
    /// (`clear_vrf_routes_on_startup`).
    pub clear_vrf: bool,
}

impl Default for Own {
    fn default() -> Self {
        Own { announce: "bgp-nic".into(), vrf_table: 10, priority: 32000, clear_vrf: false }
    }
}

impl Own {
    /// An address that we announce, or that a predecessor did.
    pub fn announces(&self, address: &Address) -> bool {
        address.dev == self.announce && is_host(address.net) && !is_link_local(address.net.addr())
    }

    /// A prefix that we announce as such, or that a predecessor did: a route in the VRF's table that no daemon made.
    pub fn announces_prefix(&self, route: &SeenRoute) -> bool {
        let through = route.hop.as_ref().is_some_and(|hop| hop.dev == self.announce);
        route.table == self.vrf_table && route.protocol == protocol::BOOT && through
    }
}

/// Our objects in an observed state.
#[derive(Debug)]
pub struct Ours<'a> {
    own: &'a Own,
    have: &'a Observed,
    /// Tables of provider bridges, present and former.
    tables: BTreeMap<u32, &'a Dev>,
    /// The present and former provider bridges themselves.
    bridges: BTreeMap<&'a Dev, ()>,
}

impl<'a> Ours<'a> {
    /// Looks through the eyes of `own`.
    pub fn new(own: &'a Own, have: &'a Observed, tables: &'a Tables) -> Self {
        let current = tables.current.iter().map(|(bridge, n)| (*n, bridge));
        let former = tables.former.iter().map(|(n, bridge)| (*n, bridge));
        let tables: BTreeMap<u32, &Dev> = former.chain(current).collect();
        let bridges = tables.values().map(|bridge| (*bridge, ())).collect();
        Ours { own, have, tables, bridges }
    }

    /// The bridge a table is for.
    pub fn bridge_of(&self, table: u32) -> Option<&'a Dev> {
        self.tables.get(&table).copied()
    }

    /// A rule at our priority that points to a bridge's table, and asks for nothing but what our rules ask for.
    pub fn rule(&self, rule: &SeenRule) -> bool {
        rule.priority == self.own.priority && rule.select.is_some() && self.tables.contains_key(&rule.table)
    }

    /// A route in a bridge's table that no daemon made, and that leads to the bridge or a VLAN of it; in the VRF's table one of ours.
    pub fn route(&self, route: &SeenRoute) -> bool {
        if route.table != self.own.vrf_table {
            let bridge = self.tables.get(&route.table);
            return bridge.is_some_and(|bridge| is_plain(route, bridge));
        }
        self.own.announces_prefix(route) || (self.own.clear_vrf && self.is_left_over(route))
    }

    /// A route that somebody left in the VRF's table.
    fn is_left_over(&self, route: &SeenRoute) -> bool {
        let others = [protocol::KERNEL, protocol::BGP, protocol::OVN];
        self.have.found.contains(route) && !others.contains(&route.protocol) && !route.is_local()
    }

    /// A permanent neighbour: one that this process wrote, or of an address that has a route of ours to its device. Only the gateways
    /// of routers get neighbours, and they have such routes.
    pub fn neighbour(&self, dev: &Dev, ip: IpAddr) -> bool {
        let wrote = self.have.wrote.neighbours.contains(&(dev.clone(), ip));
        self.device(dev) && (wrote || self.leads_to(dev, ip))
    }

    /// An NDP proxy: one that this process wrote, or of an address that has a route of ours to its device, or of the first address of
    /// such an address' network, which ovn-bgp-agent answers for as well.
    pub fn proxy(&self, dev: &Dev, ip: Ipv6Addr) -> bool {
        let wrote = self.have.wrote.proxies.contains(&(dev.clone(), ip));
        let first = ip.segments()[4..] == [0; 4];
        let near = || {
            let net = IpNet::new(ip.into(), 64).unwrap_or_else(|_| IpAddr::from(ip).into());
            self.tables.keys().any(|table| {
                let mut routes = self.have.routes_in(*table);
                routes.any(|route| is_host(route.dst) && net.contains(&route.dst) && self.is_to(route, dev))
            })
        };
        self.device(dev) && (wrote || self.leads_to(dev, ip.into()) || first && near())
    }

    fn leads_to(&self, dev: &Dev, ip: IpAddr) -> bool {
        self.tables
            .keys()
            .any(|table| self.have.routes_to(*table, ip.into()).any(|route| self.is_to(route, dev)))
    }

    fn is_to(&self, route: &SeenRoute, dev: &Dev) -> bool {
        self.route(route) && route.hop.as_ref().is_some_and(|hop| hop.dev == *dev)
    }

    /// Whether a device is one on which we write addresses, neighbours and proxy entries: a provider bridge or what a VLAN of one is
    /// met on.
    pub fn device(&self, dev: &Dev) -> bool {
        self.bridges.contains_key(dev)
            || self.have.links.get(dev).is_some_and(|link| self.vlan_of(dev, link).is_some())
    }

    /// A VLAN device that we made: on a provider bridge, with our name for it, and with the address that we give it. The
    /// address tells it from an administrator's device of the same name.
    pub fn link(&self, dev: &Dev, link: &SeenLink) -> bool {
        let first = Address { dev: dev.clone(), net: super::state::Family::V4.default_net() };
        matches!(link.kind, Kind::Vlan { .. })
            && self.vlan_of(dev, link).is_some()
            && self.have.addresses.range(first..).take_while(|a| a.dev == *dev).any(is_base)
    }

    /// An address that makes a provider device speak ARP or NDP.
    pub fn address(&self, address: &Address) -> bool {
        is_base(address) && self.device(&address.dev)
    }

    /// The provider bridge that a device is a VLAN of.
    fn vlan_of(&self, dev: &Dev, link: &SeenLink) -> Option<&'a Dev> {
        let parent = match &link.kind {
            Kind::Vlan { parent: Some(parent), tag } if *dev == vlan_device(parent, *tag) => Some(parent),
            Kind::Port { bridge } => Some(bridge),
            _ => None,
        };
        self.bridges.get_key_value(parent?).map(|(bridge, ())| *bridge)
    }
}

/// Whether a route is one that we, or ovn-bgp-agent, make in the table of a bridge.
pub fn is_plain(route: &SeenRoute, bridge: &Dev) -> bool {
    let through = |hop: &Hop| hop.dev == *bridge || is_vlan_name(bridge, &hop.dev);
    route.protocol == protocol::BOOT && route.hop.as_ref().is_some_and(through)
}

/// Whether an address is of the kind that we give to provider devices.
pub fn is_base(address: &Address) -> bool {
    is_host(address.net) && base_contains(address.net.addr())
}

fn base_contains(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.segments()[..4] == [0xfd53, 0xd91e, 0x400, 0x7f17],
    }
}

/// The addresses of a provider device: of the `index`-th bridge in the mappings (from 1), or of a VLAN on it.
pub fn base_addresses(index: usize, tag: Option<u16>) -> (Ipv4Addr, Ipv6Addr) {
    let low = |n: usize| (n % 256) as u8;
    let unit = tag.map_or(index, |tag| usize::from(tag) % 256);
    let v6 = [0xfd53, 0xd91e, 0x400, 0x7f17, 0, 0, (index % 0x10000) as u16, (unit % 0x10000) as u16];
    (Ipv4Addr::new(169, 254, low(index), low(unit)), Ipv6Addr::from(v6))
}

fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

#[cfg(test)]
mod tests;
