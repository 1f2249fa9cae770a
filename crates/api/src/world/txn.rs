//! One request's private, changeable copy of the world.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use jiff::Timestamp;
use uuid::Uuid;

use super::{Change, Entity, Kind, Row, World};
use crate::fleet::Fleet;
use crate::report::Report;
use crate::settings::Settings;
use crate::snapshot::Ability;

/// A private copy of the world with the changes made so far, and a request's other inputs: the time, randomness, the chassis and the
/// settings.
///
/// Reads go through [`Deref`] and see the transaction's own writes. Dropping it discards all changes.
#[derive(Debug)]
pub struct Txn {
    world: World,
    changes: BTreeMap<(Kind, String), Change>,
    now: Timestamp,
    chance: fastrand::Rng,
    outside: Arc<Outside>,
    report: Report,
}

/// The inputs of a request besides the world.
#[derive(Clone, Debug, Default)]
pub struct Outside {
    /// The operator's settings.
    pub settings: Settings,
    /// The known chassis.
    pub fleet: Fleet,
    /// The features of the connected OVN; none until the server has read a Northbound.
    pub ability: Option<Ability>,
}

impl Txn {
    /// Begins a transaction at `now`; `seed` determines all random choices.
    pub fn new(world: World, now: Timestamp, seed: u64, outside: Arc<Outside>) -> Self {
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        let chance = fastrand::Rng::with_seed(seed);
        Txn { world, changes: BTreeMap::new(), now, chance, outside, report: Report::default() }
    }

    /// The settings and the chassis. Shared, so that the caller can hold it while writing to the transaction.
    pub fn outside(&self) -> Arc<Outside> {
        Arc::clone(&self.outside)
    }

    /// OVN's reports at the time of the request; empty until the engine sets them.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Sets OVN's reports for this request.
    pub(crate) fn see(&mut self, report: &Report) {
        self.report = report.clone();
    }

    /// The time of the request, in whole seconds.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The source of randomness.
    pub fn chance(&mut self) -> &mut fastrand::Rng {
        &mut self.chance
    }

    /// A new random id.
    pub fn new_id(&mut self) -> Uuid {
        uuid::Builder::from_random_bytes(self.chance.u128(..).to_be_bytes()).into_uuid()
    }

    /// Stores an entity and returns the previous one.
    pub fn put<T: Entity>(&mut self, entity: T) -> Option<Arc<T>> {
        let entity = Arc::new(entity);
        let slot = (T::KIND, entity.key().to_string());
        self.changes.insert(slot, Change::Put(T::row(Arc::clone(&entity))));
        self.world.insert(entity)
    }

    /// Stores an entity of any noun.
    pub fn put_row(&mut self, row: Row) {
        self.changes.insert((row.kind(), row.key()), Change::Put(row.clone()));
        row.put_into(&mut self.world);
    }

    /// Removes an entity and returns it.
    pub fn remove<T: Entity>(&mut self, key: &T::Key) -> Option<Arc<T>> {
        let before = self.world.delete::<T>(key)?;
        let key = key.to_string();
        self.changes.insert((T::KIND, key.clone()), Change::Remove(T::KIND, key));
        Some(before)
    }

    /// Changes an entity in place and returns the result, or `None` if there is no such entity. Writes nothing if it stays equal.
    pub fn edit<T: Entity>(&mut self, key: &T::Key, change: impl FnOnce(&mut T)) -> Option<Arc<T>> {
        let before = Arc::clone(self.world.get::<T>(key)?);
        let mut entity = T::clone(&before);
        change(&mut entity);
        if entity != *before {
            self.put(entity);
        }
        self.world.get::<T>(key).cloned()
    }

    /// The changed world, and the changes: at most one per entity, ordered so that parents come first.
    pub fn finish(self) -> (World, Vec<Change>) {
        (self.world, self.changes.into_values().collect())
    }
}

impl Deref for Txn {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}
