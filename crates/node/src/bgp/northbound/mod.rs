//! The Northbound database, read as if it were the Southbound: for `driver = nb_ovn_bgp_driver`.
//!
//! Decisions do not depend on the source of their rows, so there are no rules here. [`Mirror`] derives the rows that
//! ovn-northd and the ovn-controllers would write to the Southbound, as far as decisions look at them, and keeps them up to date:
//! it looks at what has changed. Of most rows nothing but the row itself matters; routers and load balancers, of which there are
//! few, are made anew when anything about them changes.
//!
//! | module | makes |
//! |---|---|
//! | [`chassis`] | `Chassis`: us and others, by the names that Northbound rows have for them |
//! | `switch_ports` | `Port_Binding` of instances, virtual ports and localnet ports |
//! | `routers`, `nat` | `Port_Binding` of both sides of a router's port and of its gateway, with the addresses it translates |
//! | `balancers` | `Load_Balancer` |
//!
//! If a row does not parse, the Southbound's would have the same string; the rule that reads it reports the problem.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod balancers;
pub mod chassis;
mod nat;
mod routers;
mod switch_ports;

use std::collections::{BTreeMap, BTreeSet};

use ovn::PortType;
use ovn::nb::{
    LoadBalancer, LoadBalancerGroup, LogicalRouter, LogicalRouterPort, LogicalRouterStaticRoute,
    LogicalSwitch, LogicalSwitchPort, Nat, NbGlobal,
};
use ovn::sb;
use ovn::text::neutron::{self, key};
use ovsdb::replica::{Change, Delta, Index, Replica};
use ovsdb::{Model, Snapshot, Str, Uuid};

use super::snapshot::southbound_model;
use chassis::{Chassis, Own};

/// The monitored part of the Northbound database: all rows, with the columns that the agent reads.
pub fn model() -> Model {
    with_tables(Model::new("OVN_Northbound"))
}

/// Adds the tables of the Northbound database that decisions are made from.
pub fn with_tables(northbound: Model) -> Model {
    northbound
        .columns(NbGlobal::EXTERNAL_IDS)
        .columns(
            LogicalSwitch::NAME
                | LogicalSwitch::PORTS
                | LogicalSwitch::LOAD_BALANCER
                | LogicalSwitch::LOAD_BALANCER_GROUP,
        )
        .columns(
            LogicalSwitchPort::NAME
                | LogicalSwitchPort::KIND
                | LogicalSwitchPort::OPTIONS
                | LogicalSwitchPort::TAG
                | LogicalSwitchPort::ADDRESSES
                | LogicalSwitchPort::UP
                | LogicalSwitchPort::EXTERNAL_IDS,
        )
        .columns(
            LogicalRouter::NAME
                | LogicalRouter::PORTS
                | LogicalRouter::ENABLED
                | LogicalRouter::STATIC_ROUTES
                | LogicalRouter::NAT
                | LogicalRouter::LOAD_BALANCER
                | LogicalRouter::LOAD_BALANCER_GROUP
                | LogicalRouter::OPTIONS,
        )
        .columns(
            LogicalRouterPort::NAME
                | LogicalRouterPort::GATEWAY_CHASSIS
                | LogicalRouterPort::HA_CHASSIS_GROUP
                | LogicalRouterPort::OPTIONS
                | LogicalRouterPort::NETWORKS
                | LogicalRouterPort::MAC
                | LogicalRouterPort::PEER
                | LogicalRouterPort::STATUS
                | LogicalRouterPort::EXTERNAL_IDS,
        )
        .columns(
            LogicalRouterStaticRoute::ROUTE_TABLE
                | LogicalRouterStaticRoute::IP_PREFIX
                | LogicalRouterStaticRoute::POLICY
                | LogicalRouterStaticRoute::NEXTHOP
                | LogicalRouterStaticRoute::OUTPUT_PORT,
        )
        .columns(
            Nat::EXTERNAL_IP
                | Nat::EXTERNAL_MAC
                | Nat::LOGICAL_IP
                | Nat::LOGICAL_PORT
                | Nat::KIND
                | Nat::GATEWAY_PORT,
        )
        .columns(LoadBalancer::NAME | LoadBalancer::VIPS | LoadBalancer::EXTERNAL_IDS)
        .columns(LoadBalancerGroup::LOAD_BALANCER)
        .index::<SwitchOf>()
        .index::<LeadingTo>()
}

/// On a router's port, a thing that the Southbound does not tell: the networks that the router translates to other addresses on
/// their way out, with blanks between them.
pub(super) const TRANSLATED: &str = "translated-networks";

/// On a router's gateway port, another: the next hops of the router's IPv6 default routes, with blanks between them.
pub(super) const NEXT_HOPS: &str = "default-next-hops";

/// Whether a Northbound database tells where gateways are: from OVN 23.09 on.
pub fn tells_gateways(nb: &Snapshot) -> bool {
    !nb.fit::<LogicalRouterPort>().absent.contains(LogicalRouterPort::STATUS.position())
}

/// Switches by their ports.
struct SwitchOf;
/// Switches' ports by the router's port that they lead to.
struct LeadingTo;

impl Index for SwitchOf {
    type Row = LogicalSwitch;
    type Key = Uuid;

    fn keys(row: &LogicalSwitch, emit: &mut dyn FnMut(Uuid)) {
        row.ports.iter().for_each(|port| emit(port.uuid()));
    }
}

impl Index for LeadingTo {
    type Row = LogicalSwitchPort;
    type Key = Str;

    fn keys(row: &LogicalSwitchPort, emit: &mut dyn FnMut(Str)) {
        if row.kind == PortType::Router {
            row.options.get("router-port").into_iter().for_each(|port| emit(port.clone()));
        }
    }
}

/// The switch that a port is of.
fn switch_of(nb: &Snapshot, port: Uuid) -> Option<Uuid> {
    nb.unique::<SwitchOf>(&port).map(|(switch, _)| switch.uuid())
}

/// Whether floating IPs that could be on their instance's chassis are.
fn is_distributed(nb: &Snapshot) -> bool {
    nb.table::<NbGlobal>().iter().all(|(_, global)| told_distributed(global))
}

fn told_distributed(global: &NbGlobal) -> bool {
    global.external_ids.get(key::FIP_DISTRIBUTED).and_then(|text| neutron::boolean(text)) != Some(false)
}

/// The rows that the Southbound would have, as this node sees them. Instances elsewhere are left out where they do not matter here,
/// as they are of the Southbound: of a large cloud nearly all.
#[derive(Debug)]
pub struct Mirror {
    own: Own,
    /// Whether nothing is left out.
    everything: bool,
    /// Their last inputs.
    seen: Snapshot,
    rows: Replica,
    /// Those of them that are made all together.
    linked: BTreeSet<Uuid>,
    /// Switches of which every port matters: those behind the gateways that are here.
    near: BTreeSet<Uuid>,
}

impl Mirror {
    /// Of an empty database.
    pub fn new(own: Own) -> Self {
        let (seen, rows) = (Replica::new(model()).snapshot(), Replica::new(southbound_model()));
        Self { own, everything: false, seen, rows, linked: BTreeSet::new(), near: BTreeSet::new() }
    }

    /// The same, with what does not matter here: for who asks about others.
    pub fn of_everything(own: Own) -> Self {
        Self { everything: true, ..Self::new(own) }
    }

    /// The rows for what is in the Northbound now.
    pub fn look(&mut self, nb: &Snapshot, own: &Own) -> Snapshot {
        if self.own != *own {
            *self = Self { everything: self.everything, ..Self::new(own.clone()) };
        }
        let delta = self.seen.diff(nb);
        if !delta.is_empty() {
            self.follow(nb, &delta);
            self.seen = nb.clone();
        }
        self.rows.snapshot()
    }

    fn follow(&mut self, nb: &Snapshot, delta: &Delta) {
        let own = self.own.clone();
        let mut chassis = Chassis::new(&own);
        let mut ports = BTreeMap::new();
        let mut touched = touched(delta);
        let linked = self.relinks(nb, delta, &touched).then(|| routers::linked(nb, &mut chassis));
        if let Some(linked) = &linked {
            ports.extend(self.linked.iter().map(|gone| (*gone, None)));
            let turned: Vec<Uuid> = self.near.symmetric_difference(&linked.near).copied().collect();
            let turned = turned.into_iter().filter_map(|switch| nb.get::<LogicalSwitch>(switch));
            touched.extend(turned.flat_map(|switch| switch.ports.iter().map(|port| port.uuid())));
            self.near = linked.near.clone();
        }
        // In this order: a port may become a router's, or stop being one.
        for port in touched {
            let row = switch_ports::row(nb, port, &mut chassis).filter(|row| self.matters(row));
            ports.insert(port, row);
        }
        if let Some(linked) = linked {
            self.linked = linked.rows.keys().copied().collect();
            ports.extend(linked.rows.into_iter().map(|(row, port)| (row, Some(port))));
            self.replace(balancers::rows(nb));
        }
        self.rows.edit(ports);
        let mut met = chassis.met();
        // A database without this row is one that nobody has set up: it knows no node, as an empty Southbound does.
        let known = !nb.table::<NbGlobal>().is_empty();
        met.insert(own.row(), known.then(|| own.chassis()));
        self.rows.edit(met);
    }

    /// Whether a port of a switch can matter here: not an instance's that is elsewhere, but behind a gateway that is here.
    fn matters(&self, port: &sb::PortBinding) -> bool {
        let elsewhere = port.chassis.is_some_and(|chassis| chassis.uuid() != self.own.row());
        self.everything
            || port.kind != PortType::Vif
            || !elsewhere
            || self.near.contains(&port.datapath.uuid())
    }

    /// Puts load balancers in the place of all that there are.
    fn replace(&mut self, balancers: BTreeMap<Uuid, sb::LoadBalancer>) {
        let before = self.rows.snapshot();
        let gone = before.table::<sb::LoadBalancer>().iter().map(|(row, _)| (row.uuid(), None));
        let rows = gone.chain(balancers.into_iter().map(|(row, balancer)| (row, Some(balancer)))).collect();
        self.rows.edit(rows);
    }

    /// Whether anything changed that routers and load balancers are made from.
    fn relinks(&self, nb: &Snapshot, delta: &Delta, touched: &BTreeSet<Uuid>) -> bool {
        let matters = |port: &LogicalSwitchPort| matches!(port.kind, PortType::Router | PortType::Localnet);
        let matters =
            |port: &Uuid| [&self.seen, nb].into_iter().filter_map(|all| all.get(*port)).any(matters);
        delta.touches::<LogicalRouter>()
            || delta.touches::<LogicalRouterPort>()
            || delta.touches::<LogicalRouterStaticRoute>()
            || delta.touches::<Nat>()
            || delta.touches::<LoadBalancer>()
            || delta.touches::<LoadBalancerGroup>()
            || is_distributed(&self.seen) != is_distributed(nb)
            || delta
                .table::<LogicalSwitch>()
                .any(|change| !change.columns().without(LogicalSwitch::PORTS).is_empty())
            || touched.iter().any(matters)
    }
}

/// Switches' ports that changed, or came to another switch.
fn touched(delta: &Delta) -> BTreeSet<Uuid> {
    let mut ports: BTreeSet<Uuid> = delta.table::<LogicalSwitchPort>().map(|change| change.uuid).collect();
    for Change { before, after, .. } in delta.table::<LogicalSwitch>() {
        let of = |switch: &Option<std::sync::Arc<LogicalSwitch>>| -> BTreeSet<Uuid> {
            switch.iter().flat_map(|switch| switch.ports.iter().map(|port| port.uuid())).collect()
        };
        ports.extend(of(before).symmetric_difference(&of(after)));
    }
    ports
}

#[cfg(test)]
pub(super) mod tests;
