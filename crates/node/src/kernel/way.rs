//! The way of an address: the rule that sends packets for it to a bridge's table, and the route it meets there.
//!
//! Asked of what is wanted (has an announcement what it needs?) and of what is seen (may it be made, may the way go?), so the
//! search itself knows neither.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

use super::seen::{Observed, SeenRoute, SeenRule};
use super::state::{Desired, Dev, Family, Hop, Rule, Select, Table};

/// The prefix lengths that occur, longest first: what has to be tried.
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

/// The prefix a rule asks for; a rule for all is one for everything.
fn prefix_of(select: Select) -> IpNet {
    match select {
        Select::To(net) => net,
        Select::All(family) => family.default_net(),
    }
}

/// The selections that may catch an address.
fn selections(lengths: &Lengths, ip: IpAddr) -> impl Iterator<Item = Select> {
    lengths.around(ip).map(Select::To).chain([Select::All(Family::of_ip(ip))])
}

/// The ways that are wanted.
#[derive(Debug)]
pub struct Wanted<'a> {
    want: &'a Desired,
    rules: Lengths,
    routes: Lengths,
}

impl<'a> Wanted<'a> {
    /// Prepares the search.
    pub fn new(want: &'a Desired) -> Self {
        let rules = Lengths::of(want.rules.iter().map(|rule| prefix_of(rule.select)));
        let routes = Lengths::of(want.routes.keys().map(|(_, dst)| *dst).filter(|dst| dst.prefix_len() > 0));
        Wanted { want, rules, routes }
    }

    /// The bridge and the hop by which packets for `ip` will go.
    pub fn way(&self, ip: IpAddr) -> Option<(&'a Dev, &'a Hop)> {
        let tables = selections(&self.rules, ip).flat_map(|select| {
            let first = Rule { select, table: Table::Bridge(Dev::default()) };
            self.want.rules.range(first..).take_while(move |rule| rule.select == select)
        });
        tables.filter_map(|rule| self.hop(&rule.table, ip)).next()
    }

    fn hop(&self, table: &'a Table, ip: IpAddr) -> Option<(&'a Dev, &'a Hop)> {
        let Table::Bridge(bridge) = table else { return None };
        let hop = self
            .routes
            .around(ip)
            .find_map(|dst| self.want.routes.get(&(Table::Bridge(bridge.clone()), dst)))?;
        Some((bridge, hop))
    }
}

/// The ways that are there.
#[derive(Debug)]
pub struct There<'a> {
    have: &'a Observed,
    priority: u32,
    rules: Lengths,
    routes: Lengths,
}

impl<'a> There<'a> {
    /// Prepares the search among the rules of one priority, ours.
    pub fn new(priority: u32, have: &'a Observed) -> Self {
        let ours = have.rules.iter().filter(|rule| rule.priority == priority);
        let rules = Lengths::of(ours.filter_map(|rule| rule.select).map(prefix_of));
        let routes =
            Lengths::of(have.routes.iter().map(|route| route.dst).filter(|dst| dst.prefix_len() > 0));
        There { have, priority, rules, routes }
    }

    /// The route that packets for `ip` take, if rules and routes besides those that go lead to one.
    pub fn way(&self, ip: IpAddr, gone: &Gone) -> Option<&'a SeenRoute> {
        let rules = selections(&self.rules, ip).flat_map(|select| self.have.rules_for(select));
        let rules = rules.filter(|rule| rule.priority == self.priority && !gone.rules.contains(rule));
        rules.filter_map(|rule| self.route(rule.table, ip, gone)).next()
    }

    /// The route of a table that packets for `ip` take, other than a default route.
    pub fn route(&self, table: u32, ip: IpAddr, gone: &Gone) -> Option<&'a SeenRoute> {
        let mut routes = self.routes.around(ip).flat_map(|dst| self.have.routes_to(table, dst));
        routes.find(|route| route.hop.is_some() && !gone.routes.contains(route))
    }
}

/// What is about to go, and must not be counted on.
#[derive(Debug, Clone, Default)]
pub struct Gone {
    /// These rules.
    pub rules: BTreeSet<SeenRule>,
    /// These routes.
    pub routes: BTreeSet<SeenRoute>,
}
