//! The way of an address: the rule that sends packets for it to a bridge's table, and the route it meets there.
//!
//! Asked of what is wanted (has an announcement what it needs?) and of what is seen (may it be made, may the way go?), so the
//! search itself knows neither.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use super::observed::{Observed, SeenRoute, SeenRule};
use super::state::{Desired, Dev, Family, Hop, Select, Table};
use super::tables::Tables;

/// The prefix lengths that occur, longest first: what has to be tried. They are looked for when an address has nothing of its
/// own, which is rare.
#[derive(Debug, Default)]
struct Lengths {
    v4: BTreeSet<u8>,
    v6: BTreeSet<u8>,
}

impl Lengths {
    fn of(nets: impl Iterator<Item = IpNet>) -> Self {
        let mut out = Lengths::default();
        for net in nets {
            match Family::of(net) {
                Family::V4 => out.v4.insert(net.prefix_len()),
                Family::V6 => out.v6.insert(net.prefix_len()),
            };
        }
        out
    }

    /// The prefixes around an address.
    fn around(&self, ip: IpAddr) -> impl Iterator<Item = IpNet> {
        let lengths = match Family::of_ip(ip) {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        };
        lengths.iter().rev().filter_map(move |len| IpNet::new(ip, *len).ok()).map(|net| net.trunc())
    }
}

/// The prefixes to be tried for an address: its own, then those that `others` finds to occur.
fn around<'a>(ip: IpAddr, others: impl FnOnce() -> &'a Lengths + 'a) -> impl Iterator<Item = IpNet> + 'a {
    let own = IpNet::from(ip);
    let others = std::iter::once_with(others).flat_map(move |lengths| lengths.around(ip));
    std::iter::once(own).chain(others.filter(move |net| *net != own))
}

/// The prefix a rule asks for; a rule for all is one for everything.
fn prefix_of(select: Select) -> IpNet {
    match select {
        Select::To(net) => net,
        Select::All(family) => family.default_net(),
    }
}

/// The ways that are wanted.
#[derive(Debug)]
pub struct DesiredWays<'a> {
    want: &'a Desired,
    rules: OnceCell<Lengths>,
    routes: OnceCell<Lengths>,
}

impl<'a> DesiredWays<'a> {
    /// Prepares the search.
    pub fn new(want: &'a Desired) -> Self {
        DesiredWays { want, rules: OnceCell::new(), routes: OnceCell::new() }
    }

    /// The bridge and the hop by which packets for `ip` will go.
    pub fn way(&self, ip: IpAddr) -> Option<(&'a Dev, &'a Hop)> {
        let rules = &self.want.rules;
        let lengths =
            || self.rules.get_or_init(|| Lengths::of(rules.iter().map(|rule| prefix_of(rule.select))));
        let selections = around(ip, lengths).map(Select::To).chain([Select::All(Family::of_ip(ip))]);
        let mut tables = selections.flat_map(|select| self.want.rules_for(select));
        tables.find_map(|rule| self.hop(&rule.table, ip))
    }

    fn hop(&self, table: &'a Table, ip: IpAddr) -> Option<(&'a Dev, &'a Hop)> {
        let Table::Bridge(bridge) = table else { return None };
        let routes = &self.want.routes;
        let lengths =
            || self.routes.get_or_init(|| Lengths::of(prefixes(routes.keys().map(|(_, dst)| *dst))));
        let hop = around(ip, lengths).find_map(|dst| routes.get(&(Table::Bridge(bridge.clone()), dst)))?;
        Some((bridge, hop))
    }
}

/// Those that are more than a default route's.
fn prefixes(nets: impl Iterator<Item = IpNet>) -> impl Iterator<Item = IpNet> {
    nets.filter(|net| net.prefix_len() > 0)
}

/// Our rules. Other programs may have rules of the same priority, and routes of their own for one of our addresses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OurRules {
    priority: u32,
    /// The tables of provider bridges, present and former.
    tables: Arc<BTreeSet<u32>>,
}

impl OurRules {
    /// Those of what is wanted, and of what was.
    pub fn new(want: &Desired, have: &Observed) -> Self {
        let tables = Tables::resolve(want, have);
        let all = tables.current.values().chain(tables.former.keys()).copied();
        OurRules { priority: want.own.priority, tables: Arc::new(all.collect()) }
    }

    fn has(&self, rule: &SeenRule) -> bool {
        rule.priority == self.priority && self.tables.contains(&rule.table)
    }
}

/// The ways that are there.
#[derive(Debug)]
pub struct ObservedWays<'a> {
    have: &'a Observed,
    ours: OurRules,
    rules: OnceCell<Lengths>,
    routes: OnceCell<Lengths>,
}

impl<'a> ObservedWays<'a> {
    /// Prepares the search among our rules.
    pub fn new(ours: OurRules, have: &'a Observed) -> Self {
        ObservedWays { have, ours, rules: OnceCell::new(), routes: OnceCell::new() }
    }

    /// Whether rules and routes besides those that go lead packets for `ip` anywhere.
    pub fn has_way(&self, ip: IpAddr, gone: &RemovedWays) -> bool {
        self.ways(ip, gone).next().is_some()
    }

    /// Whether they lead them there.
    pub fn leads(&self, ip: IpAddr, hop: &Hop, gone: &RemovedWays) -> bool {
        self.ways(ip, gone).any(|route| route.hop.as_ref() == Some(hop))
    }

    /// The routes that packets for `ip` may take, one for each rule that they meet.
    fn ways(&self, ip: IpAddr, gone: &RemovedWays) -> impl Iterator<Item = &'a SeenRoute> {
        let ours = move |rule: &&SeenRule| self.ours.has(rule);
        let lengths = move || {
            let all = self.have.rules.iter().filter(ours).filter_map(|rule| rule.select);
            self.rules.get_or_init(|| Lengths::of(all.map(prefix_of)))
        };
        let selections = around(ip, lengths).map(Select::To).chain([Select::All(Family::of_ip(ip))]);
        let rules = selections.flat_map(|select| self.have.rules_for(select));
        let rules = rules.filter(move |rule| ours(rule) && !gone.rules.contains(rule));
        rules.filter_map(move |rule| self.route(rule.table, ip, gone))
    }

    /// The route of a table that packets for `ip` take, other than a default route.
    pub fn route(&self, table: u32, ip: IpAddr, gone: &RemovedWays) -> Option<&'a SeenRoute> {
        let have = self.have;
        let lengths =
            || self.routes.get_or_init(|| Lengths::of(prefixes(have.routes.iter().map(|route| route.dst))));
        let mut routes = around(ip, lengths).flat_map(|dst| have.routes_to(table, dst));
        routes.find(|route| route.hop.is_some() && !gone.routes.contains(route))
    }
}

/// Objects that are about to be removed, so that no path may use them.
#[derive(Debug, Clone, Default)]
pub struct RemovedWays {
    /// These rules.
    pub rules: BTreeSet<SeenRule>,
    /// These routes.
    pub routes: BTreeSet<SeenRoute>,
}
