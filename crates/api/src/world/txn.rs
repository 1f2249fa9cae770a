//! A change of the world in the making.

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

/// A private copy of the world, what was changed in it, and what a request may ask of the outside: the time, chance, the
/// chassis and the operator's choices.
///
/// Reads go through [`Deref`] and see the transaction's own writes. Dropping it undoes everything.
#[derive(Debug)]
pub struct Txn {
    world: World,
    changes: BTreeMap<(Kind, String), Change>,
    now: Timestamp,
    chance: fastrand::Rng,
    outside: Arc<Outside>,
    report: Report,
}

/// What a request sees besides the world.
#[derive(Clone, Debug, Default)]
pub struct Outside {
    /// The operator's choices.
    pub settings: Settings,
    /// The chassis.
    pub fleet: Fleet,
    /// What this OVN can do; nothing as long as no Northbound was read.
    pub ability: Option<Ability>,
}

impl Txn {
    /// Begins at `now`; `seed` decides all that is random.
    pub fn new(world: World, now: Timestamp, seed: u64, outside: Arc<Outside>) -> Self {
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        let chance = fastrand::Rng::with_seed(seed);
        Txn { world, changes: BTreeMap::new(), now, chance, outside, report: Report::default() }
    }

    /// The operator's choices and the chassis. Shared, so that it can be held while the transaction is written to.
    pub fn outside(&self) -> Arc<Outside> {
        Arc::clone(&self.outside)
    }

    /// What OVN reports back, as the request saw it. Nothing, until the engine says otherwise.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Lets the request see what OVN reports back.
    pub(crate) fn see(&mut self, report: &Report) {
        self.report = report.clone();
    }

    /// When it happens, in whole seconds.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// What is random in it.
    pub fn chance(&mut self) -> &mut fastrand::Rng {
        &mut self.chance
    }

    /// A new random id.
    pub fn new_id(&mut self) -> Uuid {
        uuid::Builder::from_random_bytes(self.chance.u128(..).to_be_bytes()).into_uuid()
    }

    /// Stores an entity as it is given, and gives back what was there.
    pub fn put<T: Entity>(&mut self, entity: T) -> Option<Arc<T>> {
        let entity = Arc::new(entity);
        let slot = (T::KIND, entity.key().to_string());
        self.changes.insert(slot, Change::Put(T::row(Arc::clone(&entity))));
        self.world.insert(entity)
    }

    /// Stores an entity of any noun as it is given.
    pub fn put_row(&mut self, row: Row) {
        self.changes.insert((row.kind(), row.key()), Change::Put(row.clone()));
        row.put_into(&mut self.world);
    }

    /// Removes an entity, and gives back what was there.
    pub fn remove<T: Entity>(&mut self, key: &T::Key) -> Option<Arc<T>> {
        let before = self.world.delete::<T>(key)?;
        let key = key.to_string();
        self.changes.insert((T::KIND, key.clone()), Change::Remove(T::KIND, key));
        Some(before)
    }

    /// Changes an entity in place; nothing is written if it comes out the same. `None` if there is none.
    pub fn edit<T: Entity>(&mut self, key: &T::Key, change: impl FnOnce(&mut T)) -> Option<Arc<T>> {
        let before = Arc::clone(self.world.get::<T>(key)?);
        let mut entity = T::clone(&before);
        change(&mut entity);
        if entity != *before {
            self.put(entity);
        }
        self.world.get::<T>(key).cloned()
    }

    /// The world with the changes, and the changes: at most one for each entity, parents first.
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
