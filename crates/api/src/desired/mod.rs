//! Compiles a snapshot to Northbound rows. Pure.
//!
//! There is one file per kind of row. The work is split into units ([`Key`]): a network, a port, a router and so on each compile to a
//! [`Part`] of the desired state (`registry.rs` names the function). A unit records the facts that it reads, so that a change compiles only
//! the units that have read it. The rows of each unit:
//!
//! | unit | rows | file |
//! |---|---|---|
//! | `Global` | `NB_Global` (shared), `neutron_pg_drop` | `nb_global`, `port_group` |
//! | `Network` | switch, localnet port, group of external ports | `switch`, `localnet`, `chassis_group` |
//! | `Names` | DNS | `dns` |
//! | `Subnet` | DHCP options | `dhcp` |
//! | `Port` | switch port, its DHCP options; router port | `port`, `dhcp`, `router_port` |
//! | `Placement` | chassis group of a gateway port | `chassis_group` |
//! | `Router` | router, routes, BFD, source NAT, metadata, group of load balancers | `router`, `route`, `bfd`, `nat`, `metadata_route`, `balancer_group` |
//! | `FloatingIp` | NAT | `nat` |
//! | `SecurityGroup`, `SecurityGroupRule` | port group, ACL | `port_group`, `acl` |
//! | `LoadBalancer` | load balancers; no rows of its parts alone | `load_balancer` |
//! | `Adopted` | none; marks an adopted row as known | `adopted` |
//!
//! Foreign references in our rows (load balancers on switches and routers, policies) are never named here.
//!
//! Identity: the row that stands for one API object has its id. Every other row's UUID is derived from the object and the role
//! ([`ovn::ident::row_uuid`]). Adopted rows keep theirs (`Look::row`).
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod acl;
mod adopted;
mod balancer_group;
pub mod bfd;
mod chassis_group;
mod dhcp;
mod dns;
mod load_balancer;
mod localnet;
mod look;
mod metadata_route;
mod naming;
mod nat;
mod nb_global;
pub mod port;
mod port_addresses;
mod port_group;
pub mod route;
mod router;
mod router_port;
mod switch;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use ovn::target::{Desired, Part};
use ovn::writer::WriterDesired;
use ovsdb::{Map, Str};
use reconcile::units::{Compiler, Delta, Tracked, Units};
use reconcile::{Desire, ObjectId, Outcome, Problem};
use uuid::Uuid;

use crate::snapshot::{Fact, Snapshot};
use crate::world::{Entity, EntityKey, Kind, World};
pub(crate) use load_balancer::OBJECT as LOAD_BALANCER_OBJECT;
pub(crate) use look::Look;
pub use naming::ownership;

/// A unit of the compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// The rows that exist once.
    Global,
    /// The names of a network's ports.
    Names(Uuid),
    /// An object: its noun and its id.
    Object(Kind, Uuid),
}

impl Key {
    /// The units of an object.
    pub(crate) fn of(kind: Kind, id: Uuid) -> impl Iterator<Item = Key> {
        let names = (kind == Kind::Network).then_some(Key::Names(id));
        let own = compiler_of(kind).map(|_| Key::Object(kind, id));
        own.into_iter().chain(names)
    }
}

/// A function that compiles the rows of an object.
type CompileObject = fn(&Look<'_, '_>, Uuid, &mut Compiled);

macro_rules! units {
    ($($noun:ident {
        table: $table:ident, key: $key:ty = $field:ident, since: $since:literal
        $(, columns: $columns:literal)? $(, unit: $unit:path)? $(, touches: $touches:ident)?
    })*) => {
        /// The function that compiles the rows of a noun's objects, if they have any.
        fn compiler_of(kind: Kind) -> Option<CompileObject> {
            match kind {
                $($(Kind::$noun => Some($unit),)?)*
                _ => None,
            }
        }

        /// The units of all objects.
        fn object_units(world: &World) -> Vec<Key> {
            let mut keys = Vec::new();
            $(
                if compiler_of(Kind::$noun).is_some() {
                    let ids = world.table::<crate::model::$noun>().iter().filter_map(|entity| entity.key().id());
                    keys.extend(ids.flat_map(|id| Key::of(Kind::$noun, id)));
                }
            )*
            keys
        }
    };
}
crate::registry::with_nouns!(units);

/// The result of a unit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Compiled {
    /// The rows.
    pub part: Part,
    /// The problems of the object.
    pub problems: Vec<Problem>,
}

/// The division of the world into units.
#[derive(Clone, Copy, Debug, Default)]
pub struct Northbound;

impl Units for Northbound {
    type View = Snapshot;
    type Fact = Fact;
    type Key = Key;
    type Value = Arc<Compiled>;

    fn keys(&self, world: &Tracked<'_, Snapshot, Fact>) -> Vec<Key> {
        world.read(Fact::Units, |snapshot| {
            let mut keys = object_units(&snapshot.world);
            keys.push(Key::Global);
            keys
        })
    }

    fn reuse(&self, before: &Arc<Compiled>, after: &mut Arc<Compiled>) {
        if let Some(after) = Arc::get_mut(after) {
            after.part.reuse(&before.part);
        }
    }

    fn compile(&self, key: &Key, world: &Tracked<'_, Snapshot, Fact>) -> Arc<Compiled> {
        let look = Look::new(world);
        let mut to = Compiled::default();
        match *key {
            Key::Global => {
                nb_global::compile(&look, &mut to.part);
                port_group::compile_drop(&look, &mut to.part);
            }
            Key::Names(id) => dns::compile(&look, id, &mut to),
            Key::Object(kind, id) => {
                if let Some(compile) = compiler_of(kind) {
                    compile(&look, id, &mut to);
                }
            }
        }
        Arc::new(to)
    }
}

/// Decides the Northbound rows and keeps the parts of previous decisions.
pub struct Decider {
    compiler: Compiler<Northbound>,
    last: Option<Snapshot>,
    parts: BTreeMap<Key, Arc<Compiled>>,
    rows: Desired,
    troubled: BTreeMap<Key, Vec<Problem>>,
    compiled: usize,
    changed: usize,
}

impl Default for Decider {
    fn default() -> Self {
        Self::new(false)
    }
}

impl Decider {
    /// A decider without previous decisions. With `verify`, each decision is compared with one from scratch.
    pub fn new(verify: bool) -> Self {
        Decider {
            compiler: Compiler::new(Northbound).verify(verify),
            last: None,
            parts: BTreeMap::new(),
            rows: Desired::new(),
            troubled: BTreeMap::new(),
            compiled: 0,
            changed: 0,
        }
    }

    /// The number of units that the last decision compiled, and the number of results that changed.
    pub fn last_work(&self) -> (usize, usize) {
        (self.compiled, self.changed)
    }

    /// The results of the last decision, unit by unit.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Compiled> + Clone {
        self.parts.values().map(|compiled| &**compiled)
    }

    fn replace(&mut self, key: Key, after: Option<Arc<Compiled>>) {
        let before = self.parts.remove(&key);
        match (before.as_deref().map(|before| &before.part), after.as_deref().map(|after| &after.part)) {
            (Some(before), Some(after)) => self.rows.exchange(before, after),
            (Some(before), None) => self.rows.remove(before),
            (None, Some(after)) => self.rows.add(after),
            (None, None) => {}
        }
        self.troubled.remove(&key);
        if let Some(after) = after {
            if !after.problems.is_empty() {
                self.troubled.insert(key, after.problems.clone());
            }
            self.parts.insert(key, after);
        }
    }
}

impl Desire for Decider {
    type Snapshot = Snapshot;
    type Desired = WriterDesired;

    fn desire(&mut self, snapshot: &Snapshot) -> Outcome<WriterDesired> {
        let changes = self.last.take().and_then(|last| snapshot.since(&last));
        let update = match changes {
            Some(changes) => self.compiler.edit(snapshot, &changes.facts, changes.came, changes.gone),
            None => self.compiler.update(snapshot, Delta::Everything),
        };
        (self.compiled, self.changed) = (update.compiled, update.changed.len());
        for key in update.removed {
            self.replace(key, None);
        }
        for key in update.changed {
            let after = self.compiler.get(&key).cloned();
            self.replace(key, after);
        }
        self.last = Some(snapshot.clone());
        let (revision, removals) = (snapshot.world.revision(), snapshot.removals);
        let mut outcome = Outcome::new(WriterDesired { rows: self.rows.clone(), revision, removals });
        outcome.problems = self.troubled.values().flatten().cloned().chain(update.problems).collect();
        outcome
    }

    fn forget(&mut self) {
        *self = Decider {
            compiler: std::mem::replace(&mut self.compiler, Compiler::new(Northbound)),
            ..Self::default()
        };
        self.compiler.forget();
    }
}

/// A map of string pairs, such as `external_ids` and `options`.
fn map<K: Into<Str>, V: Into<Str>>(pairs: impl IntoIterator<Item = (K, V)>) -> Map<Str, Str> {
    pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect()
}

/// Formats a value as a string.
fn text(value: impl fmt::Display) -> Str {
    smol_str::format_smolstr!("{value}")
}

/// A boolean in the spelling of OVN's options.
fn word(value: bool) -> Str {
    Str::new_static(if value { "true" } else { "false" })
}

/// The object that a row belongs to, for problems.
fn object(kind: &'static str, id: Uuid) -> ObjectId {
    ObjectId::new(kind, id)
}

#[cfg(test)]
pub(crate) mod tests;
