//! What differs between two snapshots, found in their tables: it costs as much as there is difference.

use std::collections::HashSet;
use std::sync::Arc;

use imbl::ordmap::DiffItem as MapDiff;
use imbl::ordset::DiffItem as SetDiff;
use imbl::{OrdMap, OrdSet};
use ovn::ident::name;
use uuid::Uuid;

use super::{Changes, Fact, Snapshot};
use crate::desired::{Key, port};
use crate::model::{
    Adopted, FloatingIp, Network, Placement, Port, Router, SecurityGroup, SecurityGroupRule, Subnet,
    SubnetPool, owner,
};
use crate::world::Entity;

impl Snapshot {
    /// What differs from an older snapshot; `None` if it is so much that everything should be decided anew.
    pub fn since(&self, older: &Snapshot) -> Option<Changes> {
        let alike = Arc::ptr_eq(&self.settings, &older.settings) || self.settings == older.settings;
        if !alike || self.ability != older.ability {
            return None;
        }
        let mut changes = Collector::default();
        self.world_since(older, &mut changes);
        self.report_since(older, &mut changes);
        if self.fleet != older.fleet {
            changes.facts.insert(Fact::Fleet);
        }
        let facts = &mut changes.facts;
        set_diff(&older.late.stranded, &self.late.stranded, Fact::Stranded, facts);
        for port in self.sessions.differing(&older.sessions) {
            facts.insert(Fact::Session(port));
        }
        let Collector { mut facts, mut came, mut gone } = changes;
        for keys in [&mut came, &mut gone] {
            facts.extend(keys.iter().filter_map(|key| match key {
                Key::Placement(port) => Some(Fact::HasPlacement(*port)),
                _ => None,
            }));
            let names = keys.iter().filter_map(|key| match key {
                Key::Network(id) => Some(Key::Names(*id)),
                _ => None,
            });
            let names: Vec<Key> = names.collect();
            keys.extend(names);
        }
        Some(Changes { facts: facts.into_iter().collect(), came, gone })
    }

    fn world_since(&self, older: &Snapshot, to: &mut Collector) {
        to.table::<Network>(
            self,
            older,
            |n| (Fact::Network(n.id), Some(Key::Network(n.id))),
            |n, note| {
                // Whether there is anything to name depends on the network being there.
                note(Fact::Names(n.id));
            },
        );
        to.table::<Subnet>(self, older, |s| (Fact::Subnet(s.id), Some(Key::Subnet(s.id))), |_, _| {});
        to.table::<SubnetPool>(self, older, |p| (Fact::Pool(p.id), None), |_, _| {});
        to.ports(self, older);
        to.table::<Router>(self, older, |r| (Fact::Router(r.id), Some(Key::Router(r.id))), |_, _| {});
        to.table::<FloatingIp>(
            self,
            older,
            |f| (Fact::FloatingIp(f.id), Some(Key::FloatingIp(f.id))),
            |f, note| f.port_id.into_iter().for_each(|port| note(Fact::FloatingIpsOf(port))),
        );
        to.table::<SecurityGroup>(self, older, |g| (Fact::Group(g.id), Some(Key::Group(g.id))), |_, _| {});
        to.table::<SecurityGroupRule>(self, older, |r| (Fact::Rule(r.id), Some(Key::Rule(r.id))), |_, _| {});
        to.table::<Placement>(
            self,
            older,
            |p| (Fact::Placement(p.port_id), Some(Key::Placement(p.port_id))),
            |_, _| {},
        );
        to.table::<Adopted>(self, older, |a| (Fact::Adopted(a.ours), Some(Key::Adopted(a.ours))), |_, _| {});
        let adopted = |snapshot: &Snapshot| snapshot.world.table::<Adopted>().is_empty();
        if adopted(self) != adopted(older) {
            to.facts.insert(Fact::AnyAdopted);
        }
    }

    fn report_since(&self, older: &Snapshot, to: &mut Collector) {
        let (new, old, facts) = (&self.report, &older.report, &mut to.facts);
        set_diff(&old.up, &new.up, Fact::Up, facts);
        map_diff(&old.bound, &new.bound, Fact::Place, facts);
        map_diff(&old.gateways, &new.gateways, Fact::Place, facts);
        map_diff(&old.parents, &new.parents, Fact::Parent, facts);
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
    /// An entity's own fact and unit, and what else its coming, going and changing touches.
    fn table<T: Entity>(
        &mut self,
        new: &Snapshot,
        old: &Snapshot,
        own: impl Fn(&T) -> (Fact, Option<Key>),
        touched: impl Fn(&T, &mut dyn FnMut(Fact)),
    ) {
        for (before, after) in new.world.table::<T>().changes_since(old.world.table::<T>()) {
            for entity in before.into_iter().chain(after) {
                let (fact, _) = own(entity);
                self.facts.insert(fact);
                touched(entity, &mut |fact| self.facts.extend([fact]));
            }
            match (before, after) {
                (None, Some(entity)) => self.came.extend(own(entity).1),
                (Some(entity), None) => self.gone.extend(own(entity).1),
                _ => {}
            }
        }
    }

    /// Ports are many and change for many reasons; what others read of them is touched only if that part changed.
    fn ports(&mut self, new: &Snapshot, old: &Snapshot) {
        for (before, after) in new.world.table::<Port>().changes_since(old.world.table::<Port>()) {
            let Some(id) = before.or(after).map(|port| port.id) else { continue };
            self.facts.insert(Fact::Port(id));
            for port in before.into_iter().chain(after) {
                self.port_facts(port);
            }
            if names(before.map(|p| &**p)) != names(after.map(|p| &**p)) {
                let networks = before.into_iter().chain(after).map(|port| port.network_id);
                self.facts.extend(networks.map(Fact::Names));
            }
            match (before, after) {
                (None, Some(_)) => self.came.push(Key::Port(id)),
                (Some(_), None) => self.gone.push(Key::Port(id)),
                _ => {}
            }
        }
    }

    fn port_facts(&mut self, port: &Port) {
        if let Some(router) = port.router_id() {
            self.facts.extend([Fact::PortsOfRouter(router), Fact::RoutersOn(port.network_id)]);
        }
        if port.device_owner == owner::DISTRIBUTED && port.device_id == name::metadata(port.network_id) {
            self.facts.insert(Fact::MetadataPort(port.network_id));
        }
        if port::is_external(port) {
            self.facts.insert(Fact::ExternalPorts(port.network_id));
        }
        self.facts.extend(port.allowed_address_pairs.iter().map(|pair| Fact::Pair(pair.ip_address.addr())));
    }
}

/// What a network's names are made of.
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
