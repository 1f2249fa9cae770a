//! Messages of the kernel to what is seen, one at a time: the same for a dump and for a notification.
//!
//! Messages name devices by number. A message about a number that is not known, or a device that changes its name, means
//! that something was missed, and everything is read again.

mod defaults;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use ipnet::IpNet;
use ovn::MacAddr;
use rtnetlink::packet_core::{NLM_F_REPLACE, ParseableParametrized};
use rtnetlink::packet_route::link::{
    InfoData, InfoKind, InfoVlan, InfoVrf, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use rtnetlink::packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use rtnetlink::packet_route::route::{RouteProtocol, RouteType};
use rtnetlink::packet_route::rule::{RuleAction, RuleFlags};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};

use super::observed::{Kind, Observed, SeenLink, SeenRoute, SeenRule, Wire, protocol, retain};
use super::op::Op;
use super::state::{Address, Dev, Family, Hop, Knob, Select, Sysctl};
use super::tables::RESERVED;
use crate::netlink::{NEW_NETCONF, Raw, attributes};

/// The messages that come by the thousand and are decoded here, by their numbers in `rtnetlink.h`. The others are few, and are
/// decoded by the library.
mod kind {
    pub(super) const NEW_ADDRESS: u16 = 20;
    pub(super) const DEL_ADDRESS: u16 = 21;
    pub(super) const NEW_ROUTE: u16 = 24;
    pub(super) const DEL_ROUTE: u16 = 25;
    pub(super) const NEW_RULE: u16 = 32;
    pub(super) const DEL_RULE: u16 = 33;
}

/// Their attributes, by their numbers in `if_addr.h`, `rtnetlink.h` and `fib_rules.h`.
mod attribute {
    pub(super) const ADDRESS: u16 = 1;
    pub(super) const LOCAL: u16 = 2;

    pub(super) const ROUTE_DST: u16 = 1;
    pub(super) const ROUTE_OIF: u16 = 4;
    pub(super) const ROUTE_GATEWAY: u16 = 5;
    pub(super) const ROUTE_METRIC: u16 = 6;
    pub(super) const ROUTE_MULTIPATH: u16 = 9;
    pub(super) const ROUTE_CACHE_INFO: u16 = 12;
    pub(super) const ROUTE_TABLE: u16 = 15;
    pub(super) const ROUTE_VIA: u16 = 18;
    pub(super) const ROUTE_PREFERENCE: u16 = 20;
    pub(super) const ROUTE_NEXT_HOP: u16 = 30;

    pub(super) const RULE_DST: u16 = 1;
    pub(super) const RULE_PRIORITY: u16 = 6;
    pub(super) const RULE_SUPPRESS_GROUP: u16 = 13;
    pub(super) const RULE_SUPPRESS_LENGTH: u16 = 14;
    pub(super) const RULE_TABLE: u16 = 15;
    pub(super) const RULE_L3MDEV: u16 = 19;
    pub(super) const RULE_PROTOCOL: u16 = 21;
}

/// The effect of a message on the observed state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Effect {
    /// Nothing that matters here.
    None,
    /// Something changed.
    Changed,
    /// Something changed, and with it routes of which the kernel does not tell: those through a device that went down or
    /// lost its last address.
    RoutesStale,
    /// It does not fit: everything has to be read again.
    Lost,
}

/// The observed state, and the numbers of devices.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// The observed state. Readers share it; a change copies it while a reader holds it.
    pub(super) seen: Arc<Observed>,
    names: BTreeMap<u32, Dev>,
    /// The tables of VRFs, by the numbers of their devices.
    vrfs: BTreeMap<u32, u32>,
    /// Whether all routes were read at least once.
    read: bool,
}

impl Memory {
    fn seen(&mut self) -> &mut Observed {
        Arc::make_mut(&mut self.seen)
    }

    /// Takes over what devices are called.
    pub(super) fn adopt_names(&mut self, other: &Memory) {
        self.names.clone_from(&other.names);
    }

    /// Forgets links and all that stands on them.
    pub(super) fn forget(&mut self) {
        self.names.clear();
        self.vrfs.clear();
        let seen = self.seen();
        let (names, found) = (std::mem::take(&mut seen.names), std::mem::take(&mut seen.found));
        let wrote = std::mem::take(&mut seen.wrote);
        self.seen = Arc::new(Observed { names, found, wrote, ..Observed::default() });
    }

    /// Forgets the routes of a family.
    pub(super) fn forget_routes(&mut self, family: Family) {
        let seen = self.seen();
        retain(&mut seen.routes, |route: &SeenRoute| Family::of(route.dst) != family);
        retain(&mut seen.defaults, |((of, ..), _): &((Family, u32, u8), BTreeSet<IpAddr>)| *of != family);
    }

    /// Notes that all routes were read. What is there at the first time was there before us, as long as it stays.
    pub(super) fn routes_read(&mut self) {
        let first = !std::mem::replace(&mut self.read, true);
        let routes = self.seen.routes.clone();
        match first {
            true => self.seen().found = routes,
            false if self.seen.found.iter().all(|route| routes.contains(route)) => {}
            false => retain(&mut self.seen().found, |route: &SeenRoute| routes.contains(route)),
        }
    }

    /// Notes what a change of our own did, where the kernel does not tell, or not before it has answered.
    pub(super) fn made(&mut self, op: &Op) {
        match op {
            // Of IPv6 addresses it tells when it has looked for others that have them, even if it is not to look.
            Op::AddAddress(address) => {
                self.seen().addresses.insert(address.clone());
            }
            Op::AddProxy { dev, ip } => {
                let seen = self.seen();
                seen.proxies.insert((dev.clone(), *ip));
                seen.wrote.proxies.insert((dev.clone(), *ip));
            }
            Op::DelProxy { dev, ip } => {
                let seen = self.seen();
                seen.proxies.remove(&(dev.clone(), *ip));
                seen.wrote.proxies.remove(&(dev.clone(), *ip));
            }
            Op::SetNeighbour { dev, ip, .. } => _ = self.seen().wrote.neighbours.insert((dev.clone(), *ip)),
            Op::DelNeighbour { dev, ip } => _ = self.seen().wrote.neighbours.remove(&(dev.clone(), *ip)),
            _ => {}
        }
    }

    /// The number of a device.
    pub(super) fn index(&self, dev: &str) -> Option<u32> {
        self.seen.links.get(dev).map(|link| link.index)
    }

    /// Takes in one message.
    pub(super) fn apply(&mut self, raw: Raw<'_>) -> Effect {
        match raw.kind {
            NEW_NETCONF => return self.netconf(raw.body),
            kind::NEW_ADDRESS => return self.address(raw.body, true),
            kind::DEL_ADDRESS => return self.address(raw.body, false),
            kind::NEW_ROUTE => return self.route(raw.body, raw.flags & NLM_F_REPLACE != 0),
            kind::DEL_ROUTE => return self.unroute(raw.body),
            kind::NEW_RULE => return self.rule(raw.body, true),
            kind::DEL_RULE => return self.rule(raw.body, false),
            _ => {}
        }
        // What does not decode is of a kind that we do not use, or newer than the library.
        let Ok(message) = RouteNetlinkMessage::parse_with_param(raw.body, raw.kind) else {
            return Effect::None;
        };
        use RouteNetlinkMessage::*;
        match message {
            NewLink(link) => self.link(&link),
            DelLink(link) => self.unlink(&link),
            NewNeighbour(neighbour) => self.neighbour(&neighbour, true),
            DelNeighbour(neighbour) => self.neighbour(&neighbour, false),
            _ => Effect::None,
        }
    }

    /// Whether a route is of no interest, by its table and by who made it.
    fn is_others(&self, table: u32, by: u8) -> bool {
        let kept = [protocol::KERNEL, protocol::BGP];
        RESERVED.contains(&table) || kept.contains(&by) && self.vrfs.values().any(|vrf| *vrf == table)
    }

    fn link(&mut self, message: &LinkMessage) -> Effect {
        // A bridge's own view of its ports comes under other families.
        if message.header.interface_family != AddressFamily::Unspec {
            return Effect::None;
        }
        let index = message.header.index;
        let (mut name, mut master, mut parent) = (None, None, None);
        let (mut kind, mut table, mut tag) = (None, None, None);
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::IfName(text) => name = Some(Dev::new(text)),
                LinkAttribute::Controller(index) => master = Some(*index),
                LinkAttribute::Link(index) => parent = Some(*index),
                LinkAttribute::LinkInfo(infos) => {
                    for info in infos {
                        match info {
                            LinkInfo::Kind(k) => kind = Some(k),
                            LinkInfo::Data(InfoData::Vrf(data)) => {
                                table = data.iter().find_map(|d| match d {
                                    InfoVrf::TableId(n) => Some(*n),
                                    _ => None,
                                });
                            }
                            LinkInfo::Data(InfoData::Vlan(data)) => {
                                tag = data.iter().find_map(|d| match d {
                                    InfoVlan::Id(n) => Some(*n),
                                    _ => None,
                                });
                            }
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        let Some(name) = name else { return Effect::None };
        if self.names.get(&index).is_some_and(|known| *known != name) {
            return Effect::Lost;
        }
        // In a dump a device may come before the one it stands on.
        let named = |index: u32| self.names.get(&index).cloned();
        let mut dangling = false;
        let mut find = |index: Option<u32>| {
            let found = index.filter(|index| *index != 0).map(named);
            dangling |= found == Some(None);
            found.flatten()
        };
        let master = find(master);
        let kind = match (kind, table, tag) {
            (Some(InfoKind::Vrf), Some(table), _) => Kind::Vrf(table),
            (Some(InfoKind::Dummy), ..) => Kind::Dummy,
            (Some(InfoKind::Vlan), _, Some(tag)) => Kind::Vlan { parent: find(parent), tag },
            _ => Kind::Other,
        };
        let up = message.header.flags.contains(LinkFlags::Up);
        self.names.insert(index, name.clone());
        let _ = match kind {
            Kind::Vrf(table) => self.vrfs.insert(index, table),
            _ => self.vrfs.remove(&index),
        };
        let link = SeenLink { index, kind, up, master };
        let before = self.seen.links.get(&name);
        if before == Some(&link) {
            return Effect::None;
        }
        let fell = before.is_some_and(|before| before.up && !up || before.master != link.master);
        let moved = before.is_some_and(|before| before.index != index);
        self.seen().links.insert(name, link);
        match () {
            () if dangling || moved => Effect::Lost,
            () if fell => Effect::RoutesStale,
            () => Effect::Changed,
        }
    }

    fn unlink(&mut self, message: &LinkMessage) -> Effect {
        if message.header.interface_family != AddressFamily::Unspec {
            return Effect::None;
        }
        let index = message.header.index;
        let Some(name) = self.names.remove(&index) else { return Effect::None };
        self.vrfs.remove(&index);
        let seen = self.seen();
        seen.links.remove(&name);
        retain(&mut seen.addresses, |address: &Address| address.dev != name);
        retain(&mut seen.neighbours, |((dev, _), _): &((Dev, IpAddr), MacAddr)| *dev != name);
        retain(&mut seen.proxies, |(dev, _): &(Dev, Ipv6Addr)| *dev != name);
        retain(&mut seen.sysctls, |sysctl: &Sysctl| sysctl.dev != name);
        Effect::RoutesStale
    }

    fn address(&mut self, body: &[u8], new: bool) -> Effect {
        let [_, length, _, _, index @ ..] = body else { return Effect::None };
        let Some(index) = index.get(..4).and_then(word) else { return Effect::None };
        let (mut local, mut peer) = (None, None);
        for (kind, value) in attributes(body.get(8..).unwrap_or_default()) {
            match kind {
                attribute::ADDRESS => peer = ip(value),
                attribute::LOCAL => local = ip(value),
                _ => {}
            }
        }
        let Some(net) = local.or(peer).and_then(|ip| IpNet::new(ip, *length).ok()) else {
            return Effect::None;
        };
        // Link-local addresses are the kernel's own. It lists them before it tells of them.
        if matches!(net.addr(), IpAddr::V6(ip) if ip.is_unicast_link_local()) {
            return Effect::None;
        }
        let Some(dev) = self.names.get(&index).cloned() else {
            return if new { Effect::Lost } else { Effect::None };
        };
        let address = Address { dev, net };
        match (new, self.seen.addresses.contains(&address)) {
            (true, false) => {
                self.seen().addresses.insert(address);
                Effect::Changed
            }
            (false, true) => {
                self.seen().addresses.remove(&address);
                // IPv4 sorts before IPv6.
                let first = Address { dev: address.dev.clone(), net: Family::V4.default_net() };
                let next = self.seen.addresses.range(first..).next();
                let left = next.is_some_and(|a| a.dev == address.dev && a.net.addr().is_ipv4());
                match address.net.addr().is_ipv4() && !left {
                    true => Effect::RoutesStale,
                    false => Effect::Changed,
                }
            }
            _ => Effect::None,
        }
    }

    fn route(&mut self, body: &[u8], replaces: bool) -> Effect {
        if let Some(effect) = self.default_route(body, true, replaces) {
            return effect;
        }
        let Some(route) = self.seen_route(body) else { return Effect::None };
        let place = |other: &&SeenRoute| replaces && other.metric == route.metric && **other != route;
        let replaced: Vec<SeenRoute> =
            self.seen.routes_to(route.table, route.dst).filter(place).cloned().collect();
        if replaced.is_empty() && self.seen.routes.contains(&route) {
            return Effect::None;
        }
        let seen = self.seen();
        for other in &replaced {
            seen.routes.remove(other);
            seen.found.remove(other);
        }
        seen.routes.insert(route);
        Effect::Changed
    }

    fn unroute(&mut self, body: &[u8]) -> Effect {
        if let Some(effect) = self.default_route(body, false, false) {
            return effect;
        }
        let Some(route) = self.seen_route(body) else { return Effect::None };
        // The kernel may tell of a route's end in other words than of its making.
        let same = |other: &&SeenRoute| other.metric == route.metric && other.hop == route.hop;
        let Some(found) = self.seen.routes_to(route.table, route.dst).find(same).cloned() else {
            return Effect::None;
        };
        let seen = self.seen();
        seen.routes.remove(&found);
        seen.found.remove(&found);
        Effect::Changed
    }

    fn seen_route(&self, body: &[u8]) -> Option<SeenRoute> {
        let [family_number, length, _, _, table, by, _, kind, _, _, _, _, rest @ ..] = body else {
            return None;
        };
        // There may be a million of others, so they are left out by the first bytes of their messages, where these tell the table.
        if *table != 0 && self.is_others(u32::from(*table), *by) {
            return None;
        }
        let family = family((*family_number).into())?;
        let (mut table, mut metric) = (u32::from(*table), 0);
        let (mut dst, mut oif, mut via, mut odd) = (None, None, None, false);
        for (kind, value) in attributes(rest) {
            match kind {
                attribute::ROUTE_DST => dst = Some(ip(value)?),
                attribute::ROUTE_OIF => oif = word(value),
                attribute::ROUTE_GATEWAY => via = Some(ip(value)?),
                attribute::ROUTE_METRIC => metric = word(value)?,
                attribute::ROUTE_TABLE => table = word(value)?,
                attribute::ROUTE_MULTIPATH | attribute::ROUTE_VIA | attribute::ROUTE_NEXT_HOP => odd = true,
                _ => {}
            }
        }
        if self.is_others(table, *by) {
            return None;
        }
        let dst = dst.map_or(Some(family.default_net()), |ip| IpNet::new(ip, *length).ok())?;
        let dev = oif.and_then(|index| self.names.get(&index)).cloned();
        let plain = !odd && RouteType::from(*kind) == RouteType::Unicast;
        let hop = dev.filter(|_| plain).map(|dev| Hop { dev, via });
        // What the kernel tells of a route and does not take back: flags, age, preference.
        let told = [attribute::ROUTE_CACHE_INFO, attribute::ROUTE_PREFERENCE];
        let mut wire = Vec::with_capacity(body.len());
        wire.extend_from_slice(body.get(..8)?);
        wire.extend([0; 4]);
        for (kind, value) in attributes(rest).filter(|(kind, _)| !told.contains(kind)) {
            wire.extend(u16::try_from(value.len() + 4).ok()?.to_ne_bytes());
            wire.extend(kind.to_ne_bytes());
            wire.extend_from_slice(value);
            wire.resize(wire.len().next_multiple_of(4), 0);
        }
        Some(SeenRoute { table, dst, metric, hop, protocol: *by, wire: Wire(wire.into()) })
    }

    fn rule(&mut self, body: &[u8], new: bool) -> Effect {
        let Some(rule) = seen_rule(body) else { return Effect::None };
        if self.seen.rules.contains(&rule) == new {
            return Effect::None;
        }
        let _ = if new { self.seen().rules.insert(rule) } else { self.seen().rules.remove(&rule) };
        Effect::Changed
    }

    fn neighbour(&mut self, message: &NeighbourMessage, new: bool) -> Effect {
        let (mut ip, mut mac) = (None, None);
        for attribute in &message.attributes {
            match attribute {
                NeighbourAttribute::Destination(NeighbourAddress::Inet(v4)) => ip = Some(IpAddr::V4(*v4)),
                NeighbourAttribute::Destination(NeighbourAddress::Inet6(v6)) => ip = Some(IpAddr::V6(*v6)),
                NeighbourAttribute::LinkLayerAddress(bytes) => {
                    mac = bytes.as_slice().try_into().ok().map(MacAddr)
                }
                _ => {}
            }
        }
        let Some(ip) = ip else { return Effect::None };
        let Some(dev) = self.names.get(&message.header.ifindex).cloned() else { return Effect::None };
        if message.header.flags.contains(NeighbourFlags::Proxy) {
            let IpAddr::V6(ip) = ip else { return Effect::None };
            let entry = (dev, ip);
            if self.seen.proxies.contains(&entry) == new {
                return Effect::None;
            }
            let _ = if new { self.seen().proxies.insert(entry) } else { self.seen().proxies.remove(&entry) };
            return Effect::Changed;
        }
        let key = (dev, ip);
        let now = mac.filter(|_| new && message.header.state == NeighbourState::Permanent);
        if self.seen.neighbours.get(&key).copied() == now {
            return Effect::None;
        }
        let _ = match now {
            Some(mac) => self.seen().neighbours.insert(key, mac),
            None => self.seen().neighbours.remove(&key),
        };
        Effect::Changed
    }

    /// Takes in the switches of one device, or of all (number -1).
    fn netconf(&mut self, body: &[u8]) -> Effect {
        let family = match body.first().copied().map(AddressFamily::from) {
            Some(AddressFamily::Inet) => Family::V4,
            Some(AddressFamily::Inet6) => Family::V6,
            _ => return Effect::None,
        };
        let (mut index, mut forwarding, mut proxy) = (None, None, None);
        for (kind, value) in attributes(body.get(4..).unwrap_or_default()) {
            let Some(value) = value.try_into().ok().map(i32::from_ne_bytes) else { continue };
            match kind {
                1 => index = Some(value),
                2 => forwarding = Some(value != 0),
                5 => proxy = Some(value != 0),
                _ => {}
            }
        }
        let mut changed = false;
        if let (Some(-1), Some(on)) = (index, forwarding) {
            changed |= self.seen.forwarding.contains(&family) != on;
            let _ = match on {
                true => self.seen().forwarding.insert(family),
                false => self.seen().forwarding.remove(&family),
            };
        }
        let dev = index
            .and_then(|index| u32::try_from(index).ok())
            .and_then(|index| self.names.get(&index))
            .cloned();
        if let (Some(dev), Some(on)) = (dev, proxy) {
            let knob = match family {
                Family::V4 => Knob::ProxyArp,
                Family::V6 => Knob::ProxyNdp,
            };
            let sysctl = Sysctl { dev, knob };
            changed |= self.seen.sysctls.contains(&sysctl) != on;
            let _ = match on {
                true => self.seen().sysctls.insert(sysctl),
                false => self.seen().sysctls.remove(&sysctl),
            };
        }
        if changed { Effect::Changed } else { Effect::None }
    }
}

/// A rule that sends packets to a table; nothing for any other.
fn seen_rule(body: &[u8]) -> Option<SeenRule> {
    let [family_number, dst_len, src_len, tos, table, _, _, action, a, b, c, d, rest @ ..] = body else {
        return None;
    };
    let family = family((*family_number).into())?;
    if RuleAction::from(*action) != RuleAction::ToTable {
        return None;
    }
    let (mut table, mut priority, mut dst, mut suppress) = (u32::from(*table), 0, None, None);
    // What a rule may ask for besides its destination makes it one that is not of our making.
    let flags = RuleFlags::from_bits_retain(u32::from_ne_bytes([*a, *b, *c, *d]));
    let mut odd = *src_len != 0 || *tos != 0 || flags.contains(RuleFlags::Invert);
    for (kind, value) in attributes(rest) {
        match kind {
            attribute::RULE_TABLE => table = word(value)?,
            attribute::RULE_PRIORITY => priority = word(value)?,
            attribute::RULE_DST => dst = Some(ip(value)?),
            attribute::RULE_SUPPRESS_LENGTH => suppress = word(value).filter(|n| *n != u32::MAX),
            attribute::RULE_SUPPRESS_GROUP => odd |= word(value) != Some(u32::MAX),
            // Nobody in particular, or an administrator by hand; any other number is a routing daemon's.
            attribute::RULE_PROTOCOL => {
                odd |= !value.first().is_some_and(|protocol| {
                    [RouteProtocol::Unspec, RouteProtocol::Boot].contains(&RouteProtocol::from(*protocol))
                });
            }
            // A table that a VRF's device names.
            attribute::RULE_L3MDEV if value.first().is_some_and(|on| *on != 0) => return None,
            attribute::RULE_L3MDEV => {}
            _ => odd = true,
        }
    }
    let select = match (odd, dst, suppress) {
        (false, Some(ip), None) => IpNet::new(ip, *dst_len).ok().map(Select::To),
        (false, None, Some(0)) => Some(Select::All(family)),
        _ => None,
    };
    Some(SeenRule { select, table, priority, wire: Wire(body.into()) })
}

fn word(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_ne_bytes)
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from);
    v4.or_else(|| <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from))
}

fn family(family: AddressFamily) -> Option<Family> {
    match family {
        AddressFamily::Inet => Some(Family::V4),
        AddressFamily::Inet6 => Some(Family::V6),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
