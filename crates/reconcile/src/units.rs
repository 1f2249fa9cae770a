//! Incremental compilation: units, what each has read, and which of them a change concerns.
//!
//! A decider that recomputes everything on each change is right but slow on a large world. Here its work is cut into
//! *units* (one per router, say). While a unit compiles, everything it looks at is recorded as a *fact*: a row by its id, an
//! index by the key asked for, found or not. A change to the world is then a list of facts, and only the units that read one
//! of them compile again.
//!
//! A fact stands for "the answer to this question", not for a thing: `Fact::Port(id)` is touched when the port appears,
//! changes or goes, so a lookup that found nothing is recorded like any other. For an index, both the key a row had and the
//! key it has now are touched.
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
//! The result must be that of a full compilation. The property test beside this file says so for random edits of a small
//! world, and [`Compiler::verify`] checks it live.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use crate::problem::{Class, ObjectId, Problem};

/// How a world is cut into units, and how one is compiled. Pure.
pub trait Units {
    /// The world at one instant.
    type View;
    /// One question that can be put to the world.
    type Fact: Clone + Ord;
    /// Names a unit.
    type Key: Clone + Ord + Debug;
    /// What a unit compiles to.
    type Value: PartialEq;

    /// Which units there are.
    fn keys(&self, world: &Tracked<'_, Self::View, Self::Fact>) -> Vec<Self::Key>;

    /// Compiles one unit from the world alone.
    fn compile(&self, key: &Self::Key, world: &Tracked<'_, Self::View, Self::Fact>) -> Self::Value;

    /// A value differs from the one before it; what both have in common may be kept in memory once.
    fn reuse(&self, _before: &Self::Value, _after: &mut Self::Value) {}
}

/// A world that notes what is read of it. The only way in is [`read`](Self::read), so nothing is read unnoted.
#[derive(Debug)]
pub struct Tracked<'w, V, F> {
    view: &'w V,
    reads: RefCell<Vec<F>>,
}

impl<'w, V, F: Ord> Tracked<'w, V, F> {
    fn new(view: &'w V) -> Self {
        Self { view, reads: RefCell::new(Vec::new()) }
    }

    /// Puts the question `fact` to the world. `answer` must look at nothing that can change without touching `fact`.
    pub fn read<T>(&self, fact: F, answer: impl FnOnce(&'w V) -> T) -> T {
        self.reads.borrow_mut().push(fact);
        answer(self.view)
    }

    /// What was read, in order and each once.
    fn into_reads(self) -> Box<[F]> {
        let mut reads = self.reads.into_inner();
        reads.sort_unstable();
        reads.dedup();
        reads.into_boxed_slice()
    }
}

/// What changed in the world since the last update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta<F> {
    /// It is not known: compile everything.
    Everything,
    /// The answers to these questions may have changed, and no others.
    Facts(Vec<F>),
}

/// What an update did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update<K> {
    /// Units with a new value, in order.
    pub changed: Vec<K>,
    /// Units that are gone, in order.
    pub removed: Vec<K>,
    /// Units that were compiled, changed or not.
    pub compiled: usize,
    /// What the verify mode found.
    pub problems: Vec<Problem>,
}

#[derive(Debug)]
struct Compiled<V, F> {
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
    compiled: BTreeMap<U::Key, Compiled<U::Value, U::Fact>>,
    readers: Readers<U::Fact, U::Key>,
}

/// Who has read what. One set of pairs: most facts have a single reader, and a set for each would be mostly room. No pair is
/// without a key; one that is comes before all pairs of its fact, and so tells where they begin.
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

    /// Compare with a full compilation after each update, and take the full result when they differ.
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

    /// Brings the units up to date with `view`, which differs from the last one by `delta`.
    pub fn update(&mut self, view: &U::View, delta: Delta<U::Fact>) -> Update<U::Key> {
        let mut update =
            Update { changed: Vec::new(), removed: Vec::new(), compiled: 0, problems: Vec::new() };
        let mut stale: BTreeSet<U::Key> = BTreeSet::new();
        // Put back at the end: an update that panics half-way leaves none, and the next one compiles everything.
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

    /// As [`update`](Self::update) with facts, where it is also known which units came and which are gone: the world is not
    /// asked for all of them, so that a change costs what it changes, however many units there are.
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

    /// Drops units that are gone, and has those that came compiled.
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

    /// Compiles one unit; says whether its value is another than before.
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
            // Most units look at the same again.
            if unit.reads == reads {
                return differs;
            }
            match self.remove(key) {
                Some(unit) => value = unit.value,
                None => return differs,
            }
        }
        self.readers.0.extend(reads.iter().map(|fact| (fact.clone(), Some(key.clone()))));
        self.compiled.insert(key.clone(), Compiled { value, reads });
        differs
    }

    fn remove(&mut self, key: &U::Key) -> Option<Compiled<U::Value, U::Fact>> {
        let unit = self.compiled.remove(key)?;
        for fact in &unit.reads {
            self.readers.0.remove(&(fact.clone(), Some(key.clone())));
        }
        Some(unit)
    }

    /// Compiles everything beside what is there, reports the units that differ and takes the full result.
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
    Problem::error(ObjectId::new("unit", format!("{key:?}")), Class::Bug, "incremental-mismatch", message)
}

#[cfg(test)]
mod tests;
