//! Incremental compilation: units, the facts that each has read, and the units that a change affects.
//!
//! A decider that recomputes everything on each change is right but slow on a large world. So its work is split into *units*,
//! for example one per router. While a unit compiles, the compiler records everything that it reads as a *fact*: a row by its
//! id, or an index by its key, found or not. A change of the world is then a list of facts, and only the units that read one of
//! them compile again.
//!
//! A fact stands for the answer to a question, not for an object: `Fact::Port(id)` changes when the port appears, changes or
//! disappears. So a lookup that found nothing is recorded like any other. For an index, a change touches both the old and the
//! new key of a row.
//!
//! ```
//! use std::collections::BTreeMap;
//! use reconcile::units::{Compiler, Delta, Tracked, Units};
//!
//! /// Routers, and networks by name. A router's unit reads its own row and that of the network it names.
//! struct World { routers: BTreeMap<u32, String>, networks: BTreeMap<String, u32> }
//! #[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
//! enum Fact { RouterIds, Router(u32), Network(String) }
//!
//! struct Routers;
//! impl Units for Routers {
//!     type View = World;
//!     type Fact = Fact;
//!     type Key = u32;
//!     type Value = Option<u32>; // the tag of the router's network
//!     fn keys(&self, world: &Tracked<'_, World, Fact>) -> Vec<u32> {
//!         world.read(Fact::RouterIds, |w| w.routers.keys().copied().collect())
//!     }
//!     fn compile(&self, id: &u32, world: &Tracked<'_, World, Fact>) -> Option<u32> {
//!         let name = world.read(Fact::Router(*id), |w| w.routers.get(id))?;
//!         world.read(Fact::Network(name.clone()), |w| w.networks.get(name).copied())
//!     }
//! }
//!
//! let mut world = World { routers: [(1, "red".into()), (2, "blue".into())].into(), networks: BTreeMap::new() };
//! let mut compiler = Compiler::new(Routers);
//! compiler.update(&world, Delta::Everything);
//! assert_eq!(compiler.get(&2), Some(&None));
//!
//! world.networks.insert("blue".into(), 7);
//! let update = compiler.update(&world, Delta::Facts(vec![Fact::Network("blue".into())]));
//! assert_eq!((update.compiled, update.changed), (1, vec![2])); // router 1 did not look for it
//! assert_eq!(compiler.get(&2), Some(&Some(7)));
//! ```
//!
//! The result must equal that of a full compilation. A property test checks this for random edits of a small world, and
//! [`Compiler::verify`] checks it live.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use crate::loop_code::LoopCode;
use crate::problem::{Class, ObjectId, Problem};

/// How to split a world into units, and how to compile one. Pure.
pub trait Units {
    /// The world at one instant.
    type View;
    /// One question to the world.
    type Fact: Clone + Ord;
    /// Names a unit.
    type Key: Clone + Ord + Debug;
    /// The result of compiling a unit.
    type Value: PartialEq;

    /// Lists all units.
    fn keys(&self, world: &Tracked<'_, Self::View, Self::Fact>) -> Vec<Self::Key>;

    /// Compiles one unit from the world alone.
    fn compile(&self, key: &Self::Key, world: &Tracked<'_, Self::View, Self::Fact>) -> Self::Value;

    /// Called when a unit's new value differs from the old one; an implementation may share memory between both.
    fn reuse(&self, _before: &Self::Value, _after: &mut Self::Value) {}
}

/// A world that records all reads. [`read`](Self::read) is the only access, so no read goes unrecorded.
#[derive(Debug)]
pub struct Tracked<'w, V, F> {
    view: &'w V,
    reads: RefCell<Vec<F>>,
}

impl<'w, V, F: Ord> Tracked<'w, V, F> {
    fn new(view: &'w V) -> Self {
        Self { view, reads: RefCell::new(Vec::new()) }
    }

    /// Reads the answer to the question `fact`. `answer` must not read anything that can change without a change of `fact`.
    pub fn read<T>(&self, fact: F, answer: impl FnOnce(&'w V) -> T) -> T {
        self.reads.borrow_mut().push(fact);
        answer(self.view)
    }

    /// The recorded reads, in order and without duplicates.
    fn into_reads(self) -> Box<[F]> {
        let mut reads = self.reads.into_inner();
        reads.sort_unstable();
        reads.dedup();
        reads.into_boxed_slice()
    }
}

/// The change of the world since the last update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta<F> {
    /// Unknown: compile everything.
    Everything,
    /// The answers to these questions may have changed, and no others.
    Facts(Vec<F>),
}

/// The result of an update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update<K> {
    /// Units with a new value, in order.
    pub changed: Vec<K>,
    /// Units that disappeared, in order.
    pub removed: Vec<K>,
    /// The number of compiled units, whether their value changed or not.
    pub compiled: usize,
    /// The differences that the verify mode found.
    pub problems: Vec<Problem>,
}

#[derive(Debug)]
struct CompiledUnit<V, F> {
    value: V,
    reads: Box<[F]>,
}

/// Keeps the compiled units of one world up to date.
#[derive(Debug)]
pub struct Compiler<U: Units> {
    units: U,
    verify: bool,
    /// The reads of `keys`; none before the first update, and none after one that a panic cut short.
    listing: Option<Box<[U::Fact]>>,
    compiled: BTreeMap<U::Key, CompiledUnit<U::Value, U::Fact>>,
    readers: Readers<U::Fact, U::Key>,
}

/// The readers of each fact, as one set of pairs: most facts have a single reader, and a set per fact would waste memory. No
/// stored pair lacks its key; a search pair without a key sorts before all pairs of its fact, and so finds the first of them.
#[derive(Debug)]
struct Readers<F, K>(BTreeSet<(F, Option<K>)>);

impl<F: Clone + Ord, K: Clone + Ord> Readers<F, K> {
    fn of<'r>(&'r self, fact: &'r F) -> impl Iterator<Item = &'r K> {
        let pairs = self.0.range((fact.clone(), None)..);
        pairs.take_while(move |(of, _)| of == fact).filter_map(|(_, key)| key.as_ref())
    }

    fn of_any<'r>(&'r self, facts: &'r [F]) -> impl Iterator<Item = K> + 'r {
        facts.iter().flat_map(|fact| self.of(fact)).cloned()
    }
}

impl<U: Units> Compiler<U> {
    /// A compiler with nothing compiled yet.
    pub fn new(units: U) -> Self {
        Self {
            units,
            verify: false,
            listing: None,
            compiled: BTreeMap::new(),
            readers: Readers(BTreeSet::new()),
        }
    }

    /// Enables the verify mode: compares with a full compilation after each update, and adopts the full result if they differ.
    pub fn verify(mut self, on: bool) -> Self {
        self.verify = on;
        self
    }

    /// The compiled units, in order.
    pub fn values(&self) -> impl Iterator<Item = (&U::Key, &U::Value)> {
        self.compiled.iter().map(|(key, unit)| (key, &unit.value))
    }

    /// One compiled unit.
    pub fn get(&self, key: &U::Key) -> Option<&U::Value> {
        self.compiled.get(key).map(|unit| &unit.value)
    }

    /// Drops everything; the next update compiles all.
    pub fn forget(&mut self) {
        self.listing = None;
        self.compiled.clear();
        self.readers.0.clear();
    }

    /// Updates the units for `view`, which differs from the last view by `delta`.
    pub fn update(&mut self, view: &U::View, delta: Delta<U::Fact>) -> Update<U::Key> {
        let mut update =
            Update { changed: Vec::new(), removed: Vec::new(), compiled: 0, problems: Vec::new() };
        let mut stale: BTreeSet<U::Key> = BTreeSet::new();
        // The listing is put back at the end. If an update panics before that, the next one finds none and compiles everything.
        let listing = match (self.listing.take(), delta) {
            (Some(listing), Delta::Facts(facts)) => {
                stale.extend(self.readers.of_any(&facts));
                let relist = facts.iter().any(|fact| listing.contains(fact));
                (!relist).then_some(listing)
            }
            _ => {
                stale.extend(self.compiled.keys().cloned());
                None
            }
        };
        let listing = listing.unwrap_or_else(|| {
            let (keys, listing) = self.list(view);
            let gone = self.compiled.keys().filter(|key| !keys.contains(*key)).cloned().collect();
            self.replace(gone, keys, &mut stale, &mut update);
            listing
        });
        self.finish(view, stale, listing, &mut update);
        update
    }

    /// Like [`update`](Self::update) with facts, for a caller that also knows which units appeared and disappeared. The compiler then does
    /// not list all units, so the cost depends on the change and not on the number of units.
    pub fn edit(
        &mut self,
        view: &U::View,
        facts: &[U::Fact],
        came: Vec<U::Key>,
        gone: Vec<U::Key>,
    ) -> Update<U::Key> {
        let Some(listing) = self.listing.take() else { return self.update(view, Delta::Everything) };
        let mut update =
            Update { changed: Vec::new(), removed: Vec::new(), compiled: 0, problems: Vec::new() };
        let mut stale: BTreeSet<U::Key> = self.readers.of_any(facts).collect();
        let gone = gone.into_iter().filter(|key| self.compiled.contains_key(key)).collect();
        self.replace(gone, came, &mut stale, &mut update);
        self.finish(view, stale, listing, &mut update);
        update
    }

    /// Drops units that disappeared, and marks new ones for compilation.
    fn replace(
        &mut self,
        gone: BTreeSet<U::Key>,
        came: impl IntoIterator<Item = U::Key>,
        stale: &mut BTreeSet<U::Key>,
        update: &mut Update<U::Key>,
    ) {
        for key in &gone {
            stale.remove(key);
            self.remove(key);
        }
        update.removed = gone.into_iter().collect();
        stale.extend(came.into_iter().filter(|key| !self.compiled.contains_key(key)));
    }

    fn finish(
        &mut self,
        view: &U::View,
        stale: BTreeSet<U::Key>,
        listing: Box<[U::Fact]>,
        update: &mut Update<U::Key>,
    ) {
        update.compiled = stale.len();
        for key in stale {
            if self.compile(&key, view) {
                update.changed.push(key);
            }
        }
        let listing = if self.verify { self.check(view, update) } else { listing };
        self.listing = Some(listing);
    }

    fn list(&self, view: &U::View) -> (BTreeSet<U::Key>, Box<[U::Fact]>) {
        let tracked = Tracked::new(view);
        let keys = self.units.keys(&tracked).into_iter().collect();
        (keys, tracked.into_reads())
    }

    /// Compiles one unit; returns whether its value changed.
    fn compile(&mut self, key: &U::Key, view: &U::View) -> bool {
        let tracked = Tracked::new(view);
        let mut value = self.units.compile(key, &tracked);
        let reads = tracked.into_reads();
        let mut differs = true;
        if let Some(unit) = self.compiled.get_mut(key) {
            differs = unit.value != value;
            if differs {
                self.units.reuse(&unit.value, &mut value);
                unit.value = value;
            }
            // Most units read the same facts as before.
            if unit.reads == reads {
                return differs;
            }
            match self.remove(key) {
                Some(unit) => value = unit.value,
                None => return differs,
            }
        }
        self.readers.0.extend(reads.iter().map(|fact| (fact.clone(), Some(key.clone()))));
        self.compiled.insert(key.clone(), CompiledUnit { value, reads });
        differs
    }

    fn remove(&mut self, key: &U::Key) -> Option<CompiledUnit<U::Value, U::Fact>> {
        let unit = self.compiled.remove(key)?;
        for fact in &unit.reads {
            self.readers.0.remove(&(fact.clone(), Some(key.clone())));
        }
        Some(unit)
    }

    /// Compiles everything again, reports the units that differ and adopts the full result.
    fn check(&mut self, view: &U::View, update: &mut Update<U::Key>) -> Box<[U::Fact]> {
        let (keys, listing) = self.list(view);
        let missed: Vec<U::Key> = self.compiled.keys().filter(|key| !keys.contains(*key)).cloned().collect();
        for key in missed {
            self.remove(&key);
            update.problems.push(mismatch(&key, "is still there but should be gone"));
            update.changed.retain(|changed| *changed != key);
            update.removed.push(key);
        }
        for key in keys {
            let known = self.compiled.contains_key(&key);
            if self.compile(&key, view) {
                let what = if known { "has an outdated value" } else { "is missing" };
                update.problems.push(mismatch(&key, what));
                update.changed.push(key);
            }
        }
        update.removed.sort();
        update.changed.sort();
        update.changed.dedup();
        listing
    }
}

fn mismatch(key: &impl Debug, what: &str) -> Problem {
    let message = format!(
        "incremental compilation differs from a full one: the unit {what}; the full result is used. {}",
        Class::Bug.advice()
    );
    Problem::error(
        ObjectId::new("unit", format!("{key:?}")),
        Class::Bug,
        LoopCode::IncrementalMismatch,
        message,
    )
}

#[cfg(test)]
mod tests;
