//! Keeps the report current: each changed row of a replica changes its part of the report.

use std::net::IpAddr;

use jiff::Timestamp;
use ovn::ident::name;
use ovn::nb::{self, BfdStatus};
use ovn::sb;
use ovn::text::Nexthop;
use ovn::text::neutron::{boolean, key};
use ovn::{PortType, target};
use ovsdb::model::Condition;
use ovsdb::replica::Delta;
use ovsdb::wire::Function;
use ovsdb::{Map, Model, Snapshot, Str};
use smol_str::SmolStr;
use uuid::Uuid;

use super::agent::{Judgement, agents};
use super::{BfdState, Place, Report, set};

/// The tables of the Northbound that the server writes and reports from.
pub fn northbound_model() -> Model {
    target::Tables::northbound().model(None)
}

/// The tables of the Southbound that the server reports from: chassis, probes, and bindings of ports with a place. Tables that grow with
/// traffic (MAC bindings, flows) are not monitored.
pub fn southbound_model() -> Model {
    let kind = |kind: PortType| Condition::column(sb::PortBinding::KIND, Function::Equal, &kind);
    let placed = kind(PortType::Vif)
        .or(kind(PortType::ChassisRedirect))
        .or(kind(PortType::L3Gateway))
        .or(kind(PortType::Virtual));
    Model::new("OVN_Southbound")
        .table::<sb::Chassis>()
        .table::<sb::ChassisPrivate>()
        .table::<sb::ServiceMonitor>()
        .table_where::<sb::PortBinding>(placed)
}

/// A binding that appears in the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Binding {
    Vif {
        port: Uuid,
        chassis: Uuid,
        /// Further chassis that have the port while its instance migrates.
        additional: Vec<Uuid>,
    },
    Gateway {
        port: Uuid,
        chassis: Uuid,
    },
}

impl Report {
    /// Takes in a change of the Northbound.
    pub fn northbound_changed(&mut self, delta: &Delta) {
        self.set_northbound_read();
        self.balancers_changed(delta);
        for change in delta.table::<nb::LogicalSwitchPort>() {
            let row = change.after.as_ref().or(change.before.as_ref());
            let Some(port) = row.and_then(|row| Uuid::try_parse(&row.name).ok()) else { continue };
            let up = change.after.as_ref().and_then(|row| row.up);
            self.set_up(port, up == Some(true));
            self.set_down(port, up == Some(false));
        }
        for change in delta.table::<nb::Nat>() {
            if let Some(id) = change.before.as_ref().and_then(|row| floating_ip(row)) {
                self.set_nat(id, false);
            }
            if let Some(id) = change.after.as_ref().and_then(|row| floating_ip(row)) {
                self.set_nat(id, true);
            }
        }
        for change in delta.table::<nb::Bfd>() {
            if let Some(session) = change.before.as_ref().and_then(|row| session(row)) {
                self.bfd.remove(&session);
            }
            if let Some(row) = &change.after
                && let Some(session) = session(row)
            {
                set(&mut self.bfd, session, row.status.as_ref().map(state));
            }
        }
        for change in delta.table::<nb::LogicalRouterStaticRoute>() {
            if let Some(route) = change.before.as_ref().and_then(|row| gateway_route(row)) {
                self.routes.remove(&change.uuid);
                self.installed.remove(&route);
            }
            if let Some(row) = &change.after
                && let Some(route) = gateway_route(row)
            {
                self.routes.insert(change.uuid, row.bfd.map(|bfd| bfd.uuid()));
                self.installed.insert(route);
            }
        }
        for change in delta.table::<nb::NbGlobal>() {
            match (&change.after, self.nb_global) {
                (Some(_), _) => self.nb_global = Some(change.uuid),
                (None, Some(row)) if row == change.uuid => self.nb_global = None,
                (None, _) => {}
            }
        }
    }

    /// Takes in a change of the Southbound, observed at `now`.
    pub fn southbound_changed(&mut self, delta: &Delta, now: Timestamp) {
        self.set_southbound_read();
        self.probes_changed(delta);
        let mut moved = Vec::new();
        for change in delta.table::<sb::Chassis>() {
            self.metadata_changed(change.before.as_deref(), change.after.as_deref());
            let place = change
                .after
                .as_ref()
                .map(|row| Place { chassis: SmolStr::new(&row.name), host: SmolStr::new(&row.hostname) });
            if self.places.get(&change.uuid) != place.as_ref() {
                set(&mut self.places, change.uuid, place);
                moved.push(change.uuid);
            }
        }
        for change in delta.table::<sb::PortBinding>() {
            let before = self.bindings.remove(&change.uuid);
            let binding = change.after.as_ref().and_then(|row| binding(row));
            if let Some(before) = before
                && binding.as_ref().is_none_or(|binding| !binding.is_of_same_port(&before))
            {
                self.unplace(&before, now);
            }
            if let Some(binding) = binding {
                self.place(&binding, now);
                self.bindings.insert(change.uuid, binding);
            }
            let row = change.after.as_ref().or(change.before.as_ref());
            if let Some(port) = row.and_then(|row| Uuid::try_parse(&row.logical_port).ok()) {
                let parent = change.after.as_ref().and_then(|row| row.virtual_parent.as_ref());
                set(&mut self.parents, port, parent.and_then(|name| Uuid::try_parse(name).ok()));
            }
        }
        if !moved.is_empty() {
            // Chassis rarely change, so checking all bindings then is cheap enough.
            let concerns = |binding: &&Binding| binding.chassis().any(|chassis| moved.contains(&chassis));
            let concerned: Vec<Binding> = self.bindings.values().filter(concerns).cloned().collect();
            concerned.iter().for_each(|binding| self.place(binding, now));
        }
    }

    /// Updates which agents are alive.
    pub fn judge_agents(&mut self, sb: &Snapshot, judge: Judgement) {
        let agents = agents(sb, judge, self.agents());
        self.set_agents(agents);
    }

    fn place(&mut self, binding: &Binding, now: Timestamp) {
        let place = |chassis: &Uuid| self.places.get(chassis).cloned();
        match binding {
            Binding::Vif { port, chassis, additional } => {
                let bound = place(chassis);
                let claims: Vec<Place> =
                    bound.iter().cloned().chain(additional.iter().filter_map(place)).collect();
                self.set_bound(*port, bound);
                self.set_claims(*port, claims, now);
            }
            Binding::Gateway { port, chassis } => {
                let hosted = place(chassis);
                self.set_gateway(*port, hosted);
            }
        }
    }

    fn unplace(&mut self, binding: &Binding, now: Timestamp) {
        match binding {
            Binding::Vif { port, .. } => {
                self.set_bound(*port, None);
                self.set_claims(*port, Vec::new(), now);
            }
            Binding::Gateway { port, .. } => self.set_gateway(*port, None),
        }
    }
}

impl Binding {
    fn is_of_same_port(&self, other: &Binding) -> bool {
        match (self, other) {
            (Binding::Vif { port, .. }, Binding::Vif { port: other, .. })
            | (Binding::Gateway { port, .. }, Binding::Gateway { port: other, .. }) => port == other,
            (Binding::Vif { .. }, Binding::Gateway { .. })
            | (Binding::Gateway { .. }, Binding::Vif { .. }) => false,
        }
    }

    fn chassis(&self) -> impl Iterator<Item = Uuid> + '_ {
        let (first, more) = match self {
            Binding::Vif { chassis, additional, .. } => (chassis, additional.as_slice()),
            Binding::Gateway { chassis, .. } => (chassis, &[][..]),
        };
        std::iter::once(*first).chain(more.iter().copied())
    }
}

fn binding(row: &sb::PortBinding) -> Option<Binding> {
    let chassis = row.chassis?.uuid();
    match row.kind {
        PortType::Vif | PortType::Virtual => {
            let additional = row.additional_chassis.iter().map(|chassis| chassis.uuid()).collect();
            Some(Binding::Vif { port: Uuid::try_parse(&row.logical_port).ok()?, chassis, additional })
        }
        // `cr-lrp-<port>` of a distributed router, `lrp-<port>` of one that is bound to a chassis as a whole.
        PortType::ChassisRedirect | PortType::L3Gateway => {
            let name_of = row.logical_port.strip_prefix("cr-").unwrap_or(&row.logical_port);
            Some(Binding::Gateway { port: name::router_port_id(name_of)?, chassis })
        }
        _ => None,
    }
}

fn floating_ip(row: &nb::Nat) -> Option<Uuid> {
    Uuid::try_parse(row.external_ids.get(key::FIP_ID)?).ok()
}

fn session(row: &nb::Bfd) -> Option<(SmolStr, IpAddr)> {
    Some((SmolStr::new(&row.logical_port), *row.dst_ip.value()?))
}

fn state(status: &BfdStatus) -> BfdState {
    match status {
        BfdStatus::Up => BfdState::Up,
        BfdStatus::Init => BfdState::Init,
        BfdStatus::AdminDown => BfdState::AdminDown,
        BfdStatus::Down | BfdStatus::Other(_) => BfdState::Down,
    }
}

/// The gateway port and next hop of a gateway's default route.
fn gateway_route(row: &nb::LogicalRouterStaticRoute) -> Option<(Uuid, IpAddr)> {
    let ids: &Map<Str, Str> = &row.external_ids;
    if ids.get(key::IS_EXT_GW).and_then(|text| boolean(text)) != Some(true) {
        return None;
    }
    let port = Uuid::try_parse(ids.get(key::GATEWAY_PORT)?).ok()?;
    match row.nexthop.value() {
        Some(Nexthop::Ip(ip)) => Some((port, *ip)),
        _ => None,
    }
}
