//! The entities of one noun.

use std::sync::Arc;

use imbl::OrdMap;
use imbl::ordmap::DiffItem;

use super::Entity;

/// Entities by key, in order.
#[derive(Clone, Debug)]
pub struct Table<T: Entity>(OrdMap<T::Key, Arc<T>>);

impl<T: Entity> Default for Table<T> {
    fn default() -> Self {
        Table(OrdMap::new())
    }
}

impl<T: Entity> Table<T> {
    /// The entity with a key.
    pub fn get(&self, key: &T::Key) -> Option<&Arc<T>> {
        self.0.get(key)
    }

    /// Whether an entity has this key.
    pub fn contains(&self, key: &T::Key) -> bool {
        self.0.contains_key(key)
    }

    /// All entities, in order of key.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<T>> {
        self.0.values()
    }

    /// The number of entities.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The differences from an older copy of the same table, as (before, after). The cost grows with their number only.
    pub fn changes_since<'t>(
        &'t self,
        older: &'t Self,
    ) -> impl Iterator<Item = (Option<&'t Arc<T>>, Option<&'t Arc<T>>)> {
        older.0.diff(&self.0).filter_map(|item| match item {
            DiffItem::Add(_, after) => Some((None, Some(after))),
            DiffItem::Remove(_, before) => Some((Some(before), None)),
            DiffItem::Update { old: (_, before), new: (_, after) } => {
                (!Arc::ptr_eq(before, after)).then_some((Some(before), Some(after)))
            }
        })
    }

    pub(super) fn insert(&mut self, key: T::Key, entity: Arc<T>) {
        self.0.insert(key, entity);
    }

    pub(super) fn remove(&mut self, key: &T::Key) -> Option<Arc<T>> {
        self.0.remove(key)
    }
}
