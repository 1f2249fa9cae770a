//! The differences between two snapshots, found in their tables. The cost grows with their number only.

use std::collections::HashSet;
use std::sync::Arc;

use imbl::ordmap::DiffItem as MapDiff;
use imbl::ordset::DiffItem as SetDiff;
use imbl::{OrdMap, OrdSet};
use uuid::Uuid;

use super::{Changes, Fact, Snapshot};
use crate::desired::{Key, port};
use crate::model::{Adopted, FloatingIp, LoadBalancer, Member, Network, Placement, Port, owner};
use crate::resource::metadata_port;
use crate::world::{Entity, EntityKey, World};

impl Snapshot {
    /// The differences from an older snapshot; `None` if all units should compile again.
    pub fn since(&self, older: &Snapshot) -> Option<Changes> {
        let alike = Arc::ptr_eq(&self.settings, &older.settings) || self.settings == older.settings;
        if !alike || self.ability != older.ability {
            return None;
        }
        let mut changes = Collector::default();
        changes.world(&self.world, &older.world);
        self.report_since(older, &mut changes);
        if self.fleet != older.fleet {
            changes.facts.insert(Fact::Fleet);
        }
        let facts = &mut changes.facts;
        set_diff(&older.late.stranded, &self.late.stranded, Fact::Stranded, facts);
        for port in self.sessions.differing(&older.sessions) {
            facts.insert(Fact::Session(port));
        }
        let Collector { facts, came, gone } = changes;
        Some(Changes { facts: facts.into_iter().collect(), came, gone })
    }

    fn report_since(&self, older: &Snapshot, to: &mut Collector) {
        let (new, old, facts) = (&self.report, &older.report, &mut to.facts);
        set_diff(&old.up, &new.up, Fact::Up, facts);
        map_diff(&old.bound, &new.bound, Fact::Place, facts);
        map_diff(&old.gateways, &new.gateways, Fact::Place, facts);
        map_diff(&old.parents, &new.parents, Fact::Parent, facts);
        facts.extend(old.probes.diff(&new.probes).map(|item| match item {
            MapDiff::Add(backend, _) | MapDiff::Remove(backend, _) => Fact::Probes(backend.port_id),
            MapDiff::Update { new: (backend, _), .. } => Fact::Probes(backend.port_id),
        }));
        map_diff(&old.last_results, &new.last_results, Fact::LastResult, facts);
        if old.nb_global != new.nb_global {
            facts.insert(Fact::NbGlobal);
        }
    }
}

#[derive(Default)]
struct Collector {
    facts: HashSet<Fact>,
    came: Vec<Key>,
    gone: Vec<Key>,
}

impl Collector {
    /// The facts and units of all nouns.
    fn world(&mut self, new: &World, old: &World) {
        macro_rules! each_noun {
            ($($noun:ident {
                table: $table:ident, key: $key:ty = $field:ident, since: $since:literal
                $(, columns: $columns:literal)? $(, unit: $unit:path)? $(, touches: $touches:ident)?
            })*) => {
                $(self.table::<crate::model::$noun>(new, old, &[$($touches)?]);)*
            };
        }
        crate::registry::with_nouns!(each_noun);
        let adopted = |world: &World| world.table::<Adopted>().is_empty();
        if adopted(new) != adopted(old) {
            self.facts.insert(Fact::AnyAdopted);
        }
    }

    /// Records an object's own fact and units, and the other facts that its change touches.
    fn table<T: Entity>(&mut self, new: &World, old: &World, touches: &[Touches<T>]) {
        for (before, after) in new.table::<T>().changes_since(old.table::<T>()) {
            let Some(id) = before.or(after).and_then(|entity| entity.key().id()) else { continue };
            self.facts.insert(Fact::Object(T::KIND, id));
            for touched in touches {
                touched(before.map(|it| &**it), after.map(|it| &**it), &mut |fact| self.facts.extend([fact]));
            }
            match (before, after) {
                (None, Some(_)) => self.came.extend(Key::of(T::KIND, id)),
                (Some(_), None) => self.gone.extend(Key::of(T::KIND, id)),
                _ => {}
            }
        }
    }
}

/// Records the other facts that a change of an object touches, given the object before and after.
type Touches<T> = fn(Option<&T>, Option<&T>, &mut dyn FnMut(Fact));

/// A network's name rows exist only while the network does.
fn touched_by_network(before: Option<&Network>, after: Option<&Network>, note: &mut dyn FnMut(Fact)) {
    before.into_iter().chain(after).for_each(|network| note(Fact::Names(network.id)));
}

fn touched_by_floating_ip(
    before: Option<&FloatingIp>,
    after: Option<&FloatingIp>,
    note: &mut dyn FnMut(Fact),
) {
    let ports = before.into_iter().chain(after).filter_map(|floating_ip| floating_ip.port_id);
    ports.for_each(|port| note(Fact::FloatingIpsOf(port)));
}

fn touched_by_load_balancer(
    before: Option<&LoadBalancer>,
    after: Option<&LoadBalancer>,
    note: &mut dyn FnMut(Fact),
) {
    let concerned = |balancer: Option<&LoadBalancer>| balancer.map(|it| (it.vips.clone(), it.deleted));
    if concerned(before) != concerned(after) {
        let vips = before.into_iter().chain(after).flat_map(|balancer| &balancer.vips);
        vips.for_each(|vip| note(Fact::VipPort(vip.port_id)));
    }
}

fn touched_by_member(before: Option<&Member>, after: Option<&Member>, note: &mut dyn FnMut(Fact)) {
    before.into_iter().chain(after).for_each(|member| note(Fact::MembersAt(member.address.value)));
}

fn touched_by_placement(before: Option<&Placement>, after: Option<&Placement>, note: &mut dyn FnMut(Fact)) {
    if before.is_some() != after.is_some() {
        before.into_iter().chain(after).for_each(|placement| note(Fact::HasPlacement(placement.port_id)));
    }
}

/// Ports are many and change often. Facts about a part of a port are touched only if that part changed.
fn touched_by_port(before: Option<&Port>, after: Option<&Port>, note: &mut dyn FnMut(Fact)) {
    let both = || before.into_iter().chain(after);
    for port in both() {
        if let Some(router) = port.router_id() {
            note(Fact::PortsOfRouter(router));
            note(Fact::RoutersOn(port.network_id));
        }
        if metadata_port::is_metadata(port) {
            note(Fact::MetadataPort(port.network_id));
        }
        if port.device_owner == owner::LB_HEALTH_MONITOR {
            note_monitor_port(port, note);
        }
        if port::is_external(port) {
            note(Fact::ExternalPorts(port.network_id));
        }
        for pair in &port.allowed_address_pairs {
            note(Fact::Pair(pair.ip_address.addr()));
        }
    }
    if before.map(|port| &port.fixed_ips) != after.map(|port| &port.fixed_ips) {
        let addresses = both().flat_map(|port| &port.fixed_ips);
        addresses.for_each(|fixed| note(Fact::HolderOf(fixed.ip_address)));
    }
    if names(before) != names(after) {
        both().for_each(|port| note(Fact::Names(port.network_id)));
    }
}

fn note_monitor_port(port: &Port, note: &mut dyn FnMut(Fact)) {
    port.fixed_ips.iter().for_each(|fixed| note(Fact::MonitorPort(fixed.subnet_id)));
}

/// The inputs of a network's name rows.
fn names(port: Option<&Port>) -> Option<(Uuid, &str, &[crate::model::FixedIp])> {
    let port = port.filter(|port| !port.dns_name.is_empty())?;
    Some((port.network_id, &port.dns_name, &port.fixed_ips))
}

fn map_diff<V: Clone + PartialEq>(
    old: &OrdMap<Uuid, V>,
    new: &OrdMap<Uuid, V>,
    fact: fn(Uuid) -> Fact,
    to: &mut HashSet<Fact>,
) {
    to.extend(old.diff(new).map(|item| match item {
        MapDiff::Add(id, _) | MapDiff::Remove(id, _) | MapDiff::Update { new: (id, _), .. } => fact(*id),
    }));
}

fn set_diff(old: &OrdSet<Uuid>, new: &OrdSet<Uuid>, fact: fn(Uuid) -> Fact, to: &mut HashSet<Fact>) {
    to.extend(old.diff(new).map(|item| match item {
        SetDiff::Add(id) | SetDiff::Remove(id) => fact(*id),
    }));
}
