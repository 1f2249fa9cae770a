//! From what is wanted and what is seen to changes.
//!
//! Each change gets a phase; the order within a phase does not matter. Only what [`Ours`] claims is ever removed. Where it is
//! known that all was as wanted a moment ago, [`settled`] plans for the addresses that have changed since, and for no others.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use reconcile::{Class, ObjectId, Problem};

use super::observed::{Kind, Observed, SeenLink, SeenRoute, default_metric, is_host, protocol};
use super::op::Op;
use super::own::Ours;
use super::paths::DesiredWays;
use super::state::{Address, Desired, Dev, Family, Hop, Link, Rule, Select, Table};
use super::tables::Tables;
use crate::ProblemCode;
use crate::part::Part;
use crate::part::keep::Keep;
use crate::part::kind::Kind as Counted;
use crate::part::object;
use crate::part::phase::Phase;

/// The steps from `have` to `want`.
pub fn plan(want: &Desired, keep: &Keep, have: &Observed) -> Part<Op> {
    whole(want, keep, have, &Tables::resolve(want, have))
}

/// The same with the tables that were found.
fn whole(want: &Desired, keep: &Keep, have: &Observed, tables: &Tables) -> Part<Op> {
    let mut planner = Planner::new(want, keep, have, tables, Focus::All);
    planner.tables();
    planner.links();
    planner.addresses();
    planner.sysctls();
    planner.routes();
    planner.neighbours();
    planner.proxies();
    planner.rules();
    planner.forwarding();
    planner.part
}

/// For what is planned.
#[derive(Clone, Copy)]
enum Focus<'a> {
    /// For everything.
    All,
    /// For announcements, rules and host routes of these addresses.
    Hosts(&'a BTreeSet<IpAddr>),
}

impl<'a> Focus<'a> {
    /// All of something, or what there is of it for each address.
    fn of<T, A, H>(self, all: A, of: impl Fn(IpNet) -> H) -> Vec<T>
    where
        A: IntoIterator<Item = T>,
        H: IntoIterator<Item = T>,
    {
        match self {
            Focus::All => all.into_iter().collect(),
            Focus::Hosts(hosts) => hosts.iter().flat_map(|ip| of(IpNet::from(*ip))).collect(),
        }
    }
}

struct Planner<'a> {
    focus: Focus<'a>,
    want: &'a Desired,
    keep: &'a Keep,
    have: &'a Observed,
    tables: &'a Tables,
    ours: Ours<'a>,
    /// Devices that are not there and cannot be made: what stands on them has to wait.
    unusable: BTreeSet<&'a Dev>,
    /// Devices of ours that another has to take the name of: what is announced through them is withdrawn until it has.
    replaced: BTreeSet<&'a Dev>,
    part: Part<Op>,
}

impl<'a> Planner<'a> {
    fn new(
        want: &'a Desired,
        keep: &'a Keep,
        have: &'a Observed,
        tables: &'a Tables,
        focus: Focus<'a>,
    ) -> Self {
        let ours = Ours::new(&want.own, have, tables);
        let (unusable, replaced) = Default::default();
        Planner { focus, want, keep, have, tables, ours, unusable, replaced, part: Part::default() }
    }

    fn tables(&mut self) {
        for (bridge, table) in &self.tables.unnamed {
            let op = Op::NameTable { table: *table, bridge: bridge.clone() };
            self.part.push(Phase::Device, object::table(bridge), op);
        }
        for (bridge, why) in &self.tables.refused {
            self.problem(bridge, ProblemCode::NoTable, format!("has no routing table: {why}"));
        }
    }

    fn links(&mut self) {
        for (dev, link) in &self.want.links {
            let seen = self.have.links.get(dev);
            if let Some(seen) = seen.filter(|seen| self.gives_way(dev, link, seen)) {
                self.unusable.insert(dev);
                self.replaced.insert(dev);
                self.part.count(Counted::Link, false);
                // A port goes where ports are planned.
                if !matches!(seen.kind, Kind::Port { .. }) && !self.kept_device(dev, seen) {
                    let op = Op::DelLink { dev: dev.clone() };
                    self.part.push(Phase::DropDevice, object::device(dev), op);
                }
                continue;
            }
            if let Some(why) = self.obstacle(dev, link, seen) {
                self.unusable.insert(dev);
                let (code, message) = why;
                self.problem(dev, code, message);
                self.part.count(Counted::Link, false);
                continue;
            }
            let phase = match link {
                Link::Vrf { .. } => Phase::Device,
                _ => Phase::SubDevice,
            };
            let Some(seen) = seen else {
                self.part.count(Counted::Link, false);
                if matches!(link, Link::Port { .. }) {
                    // Open vSwitch makes it, and that is when what stands on it can be made.
                    self.unusable.insert(dev);
                    continue;
                }
                let op = Op::AddLink { dev: dev.clone(), link: link.clone() };
                self.part.push(phase, object::device(dev), op);
                continue;
            };
            let elsewhere = match link {
                Link::Dummy { master: Some(master) } if seen.master.as_ref() != Some(master) => Some(master),
                _ => None,
            };
            self.part.count(Counted::Link, seen.up && elsewhere.is_none());
            if let Some(master) = elsewhere {
                let op = Op::SetMaster { dev: dev.clone(), master: master.clone() };
                self.part.push(phase, object::device(dev), op);
            }
            if !seen.up {
                self.part.push(phase, object::device(dev), Op::SetUp { dev: dev.clone() });
            }
        }
        for (dev, link) in &self.have.links {
            if !self.want.links.contains_key(dev) && self.ours.link(dev, link) && !self.kept_device(dev, link)
            {
                self.part.push(Phase::DropDevice, object::device(dev), Op::DelLink { dev: dev.clone() });
            }
        }
    }

    /// Whether what has a device's name is ours, and is not what it has to be.
    fn gives_way(&self, dev: &Dev, link: &Link, seen: &SeenLink) -> bool {
        match (link, &seen.kind) {
            (Link::Vlan { .. }, Kind::Port { .. }) => true,
            (Link::Port { bridge }, Kind::Port { bridge: other }) => bridge != other,
            (Link::Port { .. }, Kind::Vlan { .. }) => self.ours.link(dev, seen),
            _ => false,
        }
    }

    /// The problem that prevents the creation of a device, with its code.
    fn obstacle(&self, dev: &Dev, link: &Link, seen: Option<&SeenLink>) -> Option<(ProblemCode, String)> {
        let taken = |what: &str| {
            let message = format!("a device of this name is there and is not {what}; rename or remove it");
            Some((ProblemCode::DeviceInTheWay, message))
        };
        match (link, seen.map(|seen| &seen.kind)) {
            (Link::Bridge, None) => Some((
                ProblemCode::BridgeMissing,
                "the bridge mappings name this bridge and Open vSwitch has not made it; make it (ovs-vsctl add-br) or \
                 correct ovn-bridge-mappings"
                    .into(),
            )),
            (Link::Vlan { parent, .. } | Link::Port { bridge: parent }, _)
                if self.want.links.get(parent) == Some(&Link::Bridge) && !self.have.links.contains_key(parent) =>
            {
                Some((ProblemCode::BridgeMissing, format!("the bridge {parent} is not there")))
            }
            (Link::Vrf { table }, seen) => {
                let other = self.have.links.iter().find(|(name, l)| *name != dev && l.kind == Kind::Vrf(*table));
                match (other, seen) {
                    (Some((other, _)), _) => Some((
                        ProblemCode::TableInUse,
                        format!("routing table {table} belongs to VRF {other}; choose another bgp_vrf_table_id"),
                    )),
                    (None, None) => None,
                    (None, Some(kind)) if *kind == Kind::Vrf(*table) => None,
                    (None, Some(Kind::Vrf(n))) => Some((
                        ProblemCode::DeviceInTheWay,
                        format!("the VRF has table {n} and not {table}; set bgp_vrf_table_id to {n} or delete the VRF"),
                    )),
                    (None, Some(_)) => taken("a VRF"),
                }
            }
            (Link::Dummy { master }, seen) => match seen {
                _ if master.as_ref().is_some_and(|m| self.unusable_vrf(m)) => {
                    Some((ProblemCode::NoVrf, "its VRF cannot be made".into()))
                }
                None | Some(Kind::Dummy) => None,
                Some(_) => taken("a dummy device"),
            },
            (Link::Vlan { parent, tag }, Some(kind)) => match kind {
                Kind::Vlan { parent: Some(p), tag: t } if p == parent && t == tag => None,
                _ => taken(&format!("VLAN {tag} of {parent}")),
            },
            (Link::Vlan { .. }, None) if self.have.lacks_vlans => Some((
                ProblemCode::NoVlanDevices,
                "the kernel makes no VLAN devices; load its module 8021q, or set vlan_device to auto or internal to have \
                 Open vSwitch make a port instead"
                    .into(),
            )),
            (Link::Port { bridge }, Some(kind)) => match kind {
                Kind::Port { .. } => None,
                _ => taken(&format!("a port of {bridge} that the agent made")),
            },
            (Link::Vlan { .. } | Link::Port { .. }, None) | (Link::Bridge, Some(_)) => None,
        }
    }

    fn unusable_vrf(&self, vrf: &Dev) -> bool {
        let link = self.want.links.get(vrf);
        link.is_some_and(|link| self.obstacle(vrf, link, self.have.links.get(vrf)).is_some())
    }

    fn addresses(&mut self) {
        let (want, have, announce) = (self.want, self.have, &self.want.own.announce);
        let wanted = DesiredWays::new(self.want);
        let native = self.native();
        let announcement = |net| Address { dev: announce.clone(), net };
        for address in self.focus.of(&want.addresses, |net| want.addresses.get(&announcement(net))) {
            let there = self.have.addresses.contains(address);
            let announced = address.dev == *announce;
            let object = self.address_object(address.dev.as_str(), address.net);
            if announced && native.contains_key(&address.net) {
                let table = native[&address.net];
                let message =
                    format!("ovn-controller announces it from table {table}; it is not announced twice");
                self.part.problems.push(Problem::warning(
                    object,
                    Class::Refused,
                    ProblemCode::AnnouncedByOvn,
                    message,
                ));
                continue;
            }
            let kind = if announced { Counted::Announcement } else { Counted::Address };
            if self.part.count(kind, there) || self.unusable.contains(&address.dev) {
                continue;
            }
            if announced && self.loses_its_way(&wanted, address.net) {
                continue;
            }
            if announced && wanted.way(address.net.addr()).is_none() {
                let message = "no rule and route is wanted for it, so packets for it would be lost; it is not announced";
                self.part.problems.push(Problem::error(object, Class::Bug, ProblemCode::NoWay, message));
                continue;
            }
            let phase = if announced { Phase::Announce } else { Phase::Base };
            self.part.push(phase, object, Op::AddAddress(address.clone()));
        }
        for address in self.focus.of(&have.addresses, |net| have.addresses.get(&announcement(net))) {
            let object = || self.address_object(address.dev.as_str(), address.net);
            let del = || Op::DelAddress(address.clone());
            if self.want.own.announces(address) {
                let wanted = self.want.addresses.contains(address)
                    && !native.contains_key(&address.net)
                    && !self.loses_its_way(&wanted, address.net);
                if !wanted && !self.keep.address(address.net.addr()) {
                    self.part.push(Phase::Withdraw, object(), del());
                }
            } else if self.ours.address(address) && !self.want.addresses.contains(address) {
                let link = self.have.links.get(&address.dev);
                // The addresses of a device that goes, go with it: until then they tell that it is ours.
                let stays = self.want.links.contains_key(&address.dev)
                    || link.is_none_or(|link| !matches!(link.kind, Kind::Vlan { .. } | Kind::Port { .. }));
                if stays && !self.keep.device(&address.dev) && !self.carries_foreign_routes(address) {
                    self.part.push(Phase::DropBase, object(), del());
                }
            }
        }
    }

    /// Whether an operator's routes would go with an address of ours: the kernel drops all IPv4 routes through a device that loses
    /// its last IPv4 address. The address then stays. It is link-local, and nobody but the node itself uses it.
    fn carries_foreign_routes(&self, address: &Address) -> bool {
        let v4_on_device = |other: &Address| other.dev == address.dev && Family::of(other.net) == Family::V4;
        let remains = |other: &Address| v4_on_device(other) && !self.ours.address(other);
        let foreign = |route: &SeenRoute| {
            let through = route.hop.as_ref().is_some_and(|hop| hop.dev == address.dev);
            through && route.protocol != protocol::KERNEL && !self.ours.route(route)
        };
        v4_on_device(address)
            && !self.want.addresses.iter().any(v4_on_device)
            && !self.have.addresses.iter().any(remains)
            && self.have.routes.iter().any(|route| Family::of(route.dst) == Family::V4 && foreign(route))
    }

    /// Whether what carries a prefix goes for a while, as another device takes the place of the one it goes through.
    fn loses_its_way(&self, wanted: &DesiredWays<'_>, net: IpNet) -> bool {
        !self.replaced.is_empty()
            && wanted.way(net.network()).is_some_and(|(_, hop)| self.replaced.contains(&hop.dev))
    }

    /// Prefixes that ovn-controller announces by itself, with their tables.
    fn native(&self) -> BTreeMap<IpNet, u32> {
        let routes = self.focus.of(&self.have.routes, |_| None);
        let native = routes.into_iter().filter(|route| route.protocol == protocol::OVN);
        native.map(|route| (route.dst, route.table)).collect()
    }

    fn sysctls(&mut self) {
        for sysctl in &self.want.sysctls {
            let there = self.have.sysctls.contains(sysctl);
            if !self.part.count(Counted::Sysctl, there) && !self.unusable.contains(&sysctl.dev) {
                self.part.push(Phase::Base, object::sysctl(sysctl), Op::SetSysctl(sysctl.clone()));
            }
        }
    }

    fn routes(&mut self) {
        let (want, have, tables) = (self.want, self.have, self.tables);
        let ways = DesiredWays::new(want);
        let mut settled: BTreeSet<&SeenRoute> = BTreeSet::new();
        let wanted = |net| {
            let keys = want.bridges().map(move |bridge| (Table::Bridge(bridge.clone()), net));
            keys.filter_map(|key| want.routes.get_key_value(&key))
        };
        for ((table, dst), hop) in self.focus.of(&want.routes, wanted) {
            let kind = match table {
                Table::Bridge(_) => Counted::Route,
                Table::Number(_) => Counted::Announcement,
            };
            let Some(number) = self.number(table) else {
                self.part.count(kind, false);
                continue;
            };
            if matches!(table, Table::Number(_)) && self.loses_its_way(&ways, *dst) {
                self.part.count(kind, false);
                continue;
            }
            let fits = |route: &&SeenRoute| route.hop.as_ref() == Some(hop);
            let found = self.have.routes_to(number, *dst).find(fits);
            settled.extend(found);
            if self.part.count(kind, found.is_some()) || self.unusable.contains(&hop.dev) {
                continue;
            }
            // The new route takes the place of the one with the same metric.
            let metric = default_metric(Family::of(*dst));
            settled.extend(self.have.routes_to(number, *dst).filter(|route| route.metric == metric));
            let phase = match (table, hop.via) {
                (Table::Number(_), _) => Phase::AnnouncePrefix,
                (_, Some(_)) => Phase::Via,
                (_, None) => Phase::Route,
            };
            let object = self.route_object(hop, *dst);
            self.part.push(phase, object, Op::SetRoute { table: number, dst: *dst, hop: hop.clone() });
        }
        let seen = |net| tables.current.values().flat_map(move |number| have.routes_to(*number, net));
        for route in self.focus.of(&have.routes, seen) {
            let kept = || {
                let bridge = self.ours.bridge_of(route.table);
                bridge.is_some_and(|bridge| self.keep.device(bridge)) || self.keeps_prefix(route.dst)
            };
            if !self.ours.route(route) || settled.contains(route) || kept() {
                continue;
            }
            let phase = match &route.hop {
                _ if route.table == self.want.own.vrf_table => Phase::WithdrawPrefix,
                Some(Hop { via: Some(_), .. }) => Phase::DropVia,
                _ => Phase::DropRoute,
            };
            let object = match &route.hop {
                Some(hop) => self.route_object(hop, route.dst),
                None => object::prefix(route.dst),
            };
            self.part.push(phase, object, Op::DelRoute(route.clone()));
        }
    }

    fn neighbours(&mut self) {
        for ((dev, ip), mac) in &self.want.neighbours {
            let there = self.have.neighbours.get(&(dev.clone(), *ip)) == Some(mac);
            if !self.part.count(Counted::Neighbour, there) && !self.unusable.contains(dev) {
                let op = Op::SetNeighbour { dev: dev.clone(), ip: *ip, mac: *mac };
                self.part.push(Phase::Neighbour, object::address(*ip), op);
            }
        }
        for key in self.have.neighbours.keys() {
            let (dev, ip) = key;
            let stale = !self.want.neighbours.contains_key(key) && self.ours.neighbour(dev, *ip);
            if stale && !self.keep.device(dev) && !self.keep.address(*ip) {
                let op = Op::DelNeighbour { dev: dev.clone(), ip: *ip };
                self.part.push(Phase::DropNeighbour, object::address(*ip), op);
            }
        }
    }

    fn proxies(&mut self) {
        for entry in &self.want.proxies {
            let (dev, ip) = entry;
            let there = self.have.proxies.contains(entry);
            if !self.part.count(Counted::Proxy, there) && !self.unusable.contains(dev) {
                let op = Op::AddProxy { dev: dev.clone(), ip: *ip };
                self.part.push(Phase::Neighbour, object::address((*ip).into()), op);
            }
        }
        for entry in &self.have.proxies {
            let (dev, ip) = entry;
            let stale = !self.want.proxies.contains(entry) && self.ours.proxy(dev, *ip);
            if stale && !self.keep.device(dev) && !self.keep.address((*ip).into()) {
                let op = Op::DelProxy { dev: dev.clone(), ip: *ip };
                self.part.push(Phase::DropProxy, object::address((*ip).into()), op);
            }
        }
    }

    fn rules(&mut self) {
        let (want, have, priority) = (self.want, self.have, self.want.own.priority);
        let mut wanted: BTreeSet<(Select, u32)> = BTreeSet::new();
        for Rule { select, table } in self.focus.of(&want.rules, |net| want.rules_for(Select::To(net))) {
            let Some(number) = self.number(table) else {
                self.part.count(Counted::Rule, false);
                continue;
            };
            wanted.insert((*select, number));
            let same = |rule: &super::SeenRule| rule.table == number && rule.priority == priority;
            let there = self.have.rules_for(*select).any(same);
            let blocked = matches!(table, Table::Bridge(bridge) if self.unusable.contains(bridge));
            if !self.part.count(Counted::Rule, there) && !blocked {
                let object = self.rule_object(*select, table);
                self.part.push(Phase::Rule, object, Op::AddRule { select: *select, table: number, priority });
            }
        }
        for rule in self.focus.of(&have.rules, |net| have.rules_for(Select::To(net))) {
            let Some(bridge) = self.ours.bridge_of(rule.table).filter(|_| self.ours.rule(rule)) else {
                continue;
            };
            let kept = || match rule.select {
                Some(Select::To(net)) => self.keeps_prefix(net),
                Some(Select::All(_)) | None => false,
            };
            if rule.select.is_some_and(|select| wanted.contains(&(select, rule.table)))
                || self.keep.device(bridge)
                || kept()
            {
                continue;
            }
            let object = match rule.select {
                Some(select) => self.rule_object(select, &Table::Bridge(bridge.clone())),
                None => object::device(bridge),
            };
            self.part.push(Phase::DropRule, object, Op::DelRule(rule.clone()));
        }
    }

    fn forwarding(&mut self) {
        let (want, announce) = (self.want, &self.want.own.announce);
        let announcement = |net| want.addresses.get(&Address { dev: announce.clone(), net });
        let announced =
            self.focus.of(&want.addresses, announcement).into_iter().filter(|a| a.dev == *announce);
        let families: BTreeSet<Family> = announced.map(|a| Family::of(a.net)).collect();
        for family in families.difference(&self.have.forwarding) {
            let key = match family {
                Family::V4 => "net.ipv4.ip_forward",
                Family::V6 => "net.ipv6.conf.all.forwarding",
            };
            let message = format!(
                "the kernel forwards no such packets, so nothing that is announced is reached; set {key}=1"
            );
            let node = ObjectId::new("sysctl", key);
            self.part.problems.push(Problem::warning(
                node,
                Class::Refused,
                ProblemCode::NoForwarding,
                message,
            ));
        }
    }

    /// Whether an undecided address or subnet needs what carries a prefix. A default route carries no address of ours.
    fn keeps_prefix(&self, net: IpNet) -> bool {
        net.prefix_len() > 0 && self.keep.prefix(net)
    }

    fn kept_device(&self, dev: &Dev, link: &SeenLink) -> bool {
        let parent = match &link.kind {
            Kind::Vlan { parent, .. } => parent.as_ref(),
            Kind::Port { bridge } => Some(bridge),
            _ => None,
        };
        self.keep.device(dev) || parent.is_some_and(|parent| self.keep.device(parent))
    }

    fn number(&self, table: &Table) -> Option<u32> {
        match table {
            Table::Bridge(bridge) => self.tables.current.get(bridge).copied(),
            Table::Number(number) => Some(*number),
        }
    }

    fn address_object(&self, dev: &str, net: IpNet) -> ObjectId {
        if dev == self.want.own.announce {
            object::address(net.addr())
        } else {
            object::base(dev, Family::of(net))
        }
    }

    /// A default route is the base of a device; any other is for what it leads to.
    fn route_object(&self, hop: &Hop, dst: IpNet) -> ObjectId {
        match dst.prefix_len() {
            0 => object::base(&hop.dev, Family::of(dst)),
            _ => object::prefix(dst),
        }
    }

    fn rule_object(&self, select: Select, table: &Table) -> ObjectId {
        match (select, table) {
            (Select::To(net), _) if is_host(net) => object::address(net.addr()),
            (Select::To(net), _) => object::subnet(net),
            (Select::All(family), Table::Bridge(bridge)) => object::base(bridge, family),
            (Select::All(family), Table::Number(n)) => object::base(&n.to_string(), family),
        }
    }

    fn problem(&mut self, dev: &Dev, code: ProblemCode, message: String) {
        self.part.problems.push(Problem::error(object::device(dev), Class::Refused, code, message));
    }
}

pub mod settled;
#[cfg(test)]
mod tests;
