//! Messages of the kernel to what is seen, one at a time: the same for a dump and for a notification.
//!
//! Messages name devices by number. A message about a number that is not known, or a device that changes its name, means
//! that something was missed, and everything is read again.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use ovn::MacAddr;
use rtnetlink::packet_core::{Emitable, NLM_F_REPLACE, ParseableParametrized};
use rtnetlink::packet_route::address::{AddressAttribute, AddressMessage};
use rtnetlink::packet_route::link::{
    InfoData, InfoKind, InfoVlan, InfoVrf, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use rtnetlink::packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use rtnetlink::packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType};
use rtnetlink::packet_route::rule::{RuleAction, RuleAttribute, RuleFlags, RuleMessage};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};

use super::netlink::{NEW_NETCONF, Raw, attributes};
use super::op::Op;
use super::seen::{Kind, Observed, SeenLink, SeenRoute, SeenRule, Wire, protocol};
use super::state::{Address, Dev, Family, Hop, Knob, Select, Sysctl};
use super::tables::RESERVED;

/// What a message did to what is seen.
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

/// What is seen, and the numbers of devices.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// What is seen. Shared with whoever looks; copied when it changes under their eyes.
    pub(super) seen: Arc<Observed>,
    names: BTreeMap<u32, Dev>,
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
        let names = std::mem::take(&mut self.seen().names);
        self.seen = Arc::new(Observed { names, ..Observed::default() });
    }

    /// Forgets the routes of a family.
    pub(super) fn forget_routes(&mut self, family: Family) {
        self.seen().routes.retain(|route| Family::of(route.dst) != family);
    }

    /// Notes what a change of our own did, where the kernel does not tell, or not before it has answered.
    pub(super) fn made(&mut self, op: &Op) {
        match op {
            // Of IPv6 addresses it tells when it has looked for others that have them, even if it is not to look.
            Op::AddAddress(address) => {
                self.seen().addresses.insert(address.clone());
            }
            Op::AddProxy { dev, ip } => {
                self.seen().proxies.insert((dev.clone(), *ip));
            }
            Op::DelProxy { dev, ip } => {
                self.seen().proxies.remove(&(dev.clone(), *ip));
            }
            _ => {}
        }
    }

    /// The number of a device.
    pub(super) fn index(&self, dev: &str) -> Option<u32> {
        self.seen.links.get(dev).map(|link| link.index)
    }

    /// Takes in one message.
    pub(super) fn apply(&mut self, raw: Raw<'_>) -> Effect {
        if raw.kind == NEW_NETCONF {
            return self.netconf(raw.body);
        }
        // What does not decode is of a kind that we do not use, or newer than the library.
        let Ok(message) = RouteNetlinkMessage::parse_with_param(raw.body, raw.kind) else {
            return Effect::None;
        };
        use RouteNetlinkMessage::*;
        match message {
            NewLink(link) => self.link(&link),
            DelLink(link) => self.unlink(&link),
            NewAddress(address) => self.address(&address, true),
            DelAddress(address) => self.address(&address, false),
            NewRoute(route) => self.route(route, raw.flags & NLM_F_REPLACE != 0),
            DelRoute(route) => self.unroute(route),
            NewRule(rule) => self.rule(rule, true),
            DelRule(rule) => self.rule(rule, false),
            NewNeighbour(neighbour) => self.neighbour(&neighbour, true),
            DelNeighbour(neighbour) => self.neighbour(&neighbour, false),
            _ => Effect::None,
        }
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
        let link = SeenLink { index, kind, up, master };
        self.names.insert(index, name.clone());
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
        let seen = self.seen();
        seen.links.remove(&name);
        seen.addresses.retain(|address| address.dev != name);
        seen.neighbours.retain(|(dev, _), _| *dev != name);
        seen.proxies.retain(|(dev, _)| *dev != name);
        seen.sysctls.retain(|sysctl| sysctl.dev != name);
        Effect::RoutesStale
    }

    fn address(&mut self, message: &AddressMessage, new: bool) -> Effect {
        let (mut local, mut peer) = (None, None);
        for attribute in &message.attributes {
            match attribute {
                AddressAttribute::Local(ip) => local = Some(*ip),
                AddressAttribute::Address(ip) => peer = Some(*ip),
                _ => {}
            }
        }
        let Some(net) = local.or(peer).and_then(|ip| IpNet::new(ip, message.header.prefix_len).ok()) else {
            return Effect::None;
        };
        // Link-local addresses are the kernel's own. It lists them before it tells of them.
        if matches!(net.addr(), IpAddr::V6(ip) if ip.is_unicast_link_local()) {
            return Effect::None;
        }
        let Some(dev) = self.names.get(&message.header.index).cloned() else {
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

    fn route(&mut self, message: RouteMessage, replaces: bool) -> Effect {
        let Some(route) = self.seen_route(message) else { return Effect::None };
        let vrf = |link: &SeenLink| link.kind == Kind::Vrf(route.table);
        let made = [protocol::BOOT, protocol::STATIC, protocol::OVN];
        if !made.contains(&route.protocol) && self.seen.links.values().any(vrf) {
            return Effect::None;
        }
        let place = |other: &&SeenRoute| replaces && other.metric == route.metric && **other != route;
        let replaced: Vec<SeenRoute> =
            self.seen.routes_to(route.table, route.dst).filter(place).cloned().collect();
        if replaced.is_empty() && self.seen.routes.contains(&route) {
            return Effect::None;
        }
        let seen = self.seen();
        for other in &replaced {
            seen.routes.remove(other);
        }
        seen.routes.insert(route);
        Effect::Changed
    }

    fn unroute(&mut self, message: RouteMessage) -> Effect {
        let Some(route) = self.seen_route(message) else { return Effect::None };
        // The kernel may tell of a route's end in other words than of its making.
        let same = |other: &&SeenRoute| other.metric == route.metric && other.hop == route.hop;
        let Some(found) = self.seen.routes_to(route.table, route.dst).find(same).cloned() else {
            return Effect::None;
        };
        self.seen().routes.remove(&found);
        Effect::Changed
    }

    fn seen_route(&self, mut message: RouteMessage) -> Option<SeenRoute> {
        let family = family(message.header.address_family)?;
        let (mut table, mut metric) = (u32::from(message.header.table), 0);
        let (mut dst, mut oif, mut via, mut odd) = (None, None, None, false);
        for attribute in &message.attributes {
            match attribute {
                RouteAttribute::Table(n) => table = *n,
                RouteAttribute::Priority(n) => metric = *n,
                RouteAttribute::Destination(ip) => dst = Some(route_ip(ip)?),
                RouteAttribute::Oif(index) => oif = Some(*index),
                RouteAttribute::Gateway(ip) => via = Some(route_ip(ip)?),
                RouteAttribute::MultiPath(_) | RouteAttribute::Via(_) | RouteAttribute::NhId(_) => odd = true,
                _ => {}
            }
        }
        if RESERVED.contains(&table) {
            return None;
        }
        let length = message.header.destination_prefix_length;
        let dst = dst.map_or(Some(family.default_net()), |ip| IpNet::new(ip, length).ok())?;
        let dev = oif.and_then(|index| self.names.get(&index)).cloned();
        let plain = !odd && message.header.kind == RouteType::Unicast;
        let hop = dev.filter(|_| plain).map(|dev| Hop { dev, via });
        let protocol = message.header.protocol.into();
        // What the kernel tells of a route and does not take back.
        message
            .attributes
            .retain(|a| !matches!(a, RouteAttribute::CacheInfo(_) | RouteAttribute::Preference(_)));
        message.header.flags = Default::default();
        let wire = wire(&message);
        Some(SeenRoute { table, dst, metric, hop, protocol, wire })
    }

    fn rule(&mut self, message: RuleMessage, new: bool) -> Effect {
        let Some(rule) = seen_rule(&message) else { return Effect::None };
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
fn seen_rule(message: &RuleMessage) -> Option<SeenRule> {
    let family = family(message.header.family)?;
    if message.header.action != RuleAction::ToTable {
        return None;
    }
    let (mut table, mut priority, mut dst) = (u32::from(message.header.table), 0, None);
    // What a rule may ask for besides its destination makes it one that is not of our making.
    let mut odd = message.header.src_len != 0
        || message.header.tos != 0
        || message.header.flags.contains(RuleFlags::Invert);
    let mut suppress = None;
    for attribute in &message.attributes {
        match attribute {
            RuleAttribute::Table(n) => table = *n,
            RuleAttribute::Priority(n) => priority = *n,
            RuleAttribute::Destination(ip) => dst = Some(*ip),
            RuleAttribute::SuppressPrefixLen(n) => suppress = Some(*n).filter(|n| *n != u32::MAX),
            RuleAttribute::SuppressIfGroup(n) => odd |= *n != u32::MAX,
            RuleAttribute::Protocol(_) => {}
            // A table that a VRF's device names.
            RuleAttribute::L3MDev(true) => return None,
            RuleAttribute::L3MDev(false) => {}
            _ => odd = true,
        }
    }
    let select = match (odd, dst, suppress) {
        (false, Some(ip), None) => IpNet::new(ip, message.header.dst_len).ok().map(Select::To),
        (false, None, Some(0)) => Some(Select::All(family)),
        _ => None,
    };
    Some(SeenRule { select, table, priority, wire: wire(message) })
}

fn wire(message: &impl Emitable) -> Wire {
    let mut bytes = vec![0; message.buffer_len()];
    message.emit(&mut bytes);
    Wire(bytes.into())
}

fn family(family: AddressFamily) -> Option<Family> {
    match family {
        AddressFamily::Inet => Some(Family::V4),
        AddressFamily::Inet6 => Some(Family::V6),
        _ => None,
    }
}

fn route_ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(ip) => Some((*ip).into()),
        RouteAddress::Inet6(ip) => Some((*ip).into()),
        _ => None,
    }
}
