//! The rows of one table.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

use super::delta::Change;
use super::sorted::SortedMap;
use crate::model::Ref;

/// The rows of one table at one instant, sorted by UUID. Copies share equal parts.
pub struct Rows<T> {
    rows: SortedMap<Uuid, Arc<T>>,
}

impl<T> Rows<T> {
    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A row by its UUID or a reference to it.
    pub fn get(&self, row: impl Into<Ref<T>>) -> Option<&Arc<T>> {
        let uuid = row.into().uuid();
        self.rows.get(|key| key.cmp(&uuid))
    }

    /// Whether the row exists.
    pub fn contains(&self, row: impl Into<Ref<T>>) -> bool {
        self.get(row).is_some()
    }

    /// All rows.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Ref<T>, &T)> {
        self.rows.iter().map(|(uuid, row)| (Ref::new(*uuid), &**row))
    }

    /// All rows, shared: for callers that keep them longer than the snapshot.
    pub fn shared(&self) -> impl ExactSizeIterator<Item = (Ref<T>, &Arc<T>)> {
        self.rows.iter().map(|(uuid, row)| (Ref::new(*uuid), row))
    }

    /// Applies changes, sorted by UUID.
    pub(super) fn commit(&mut self, changes: &[Change<T>]) {
        // Most changes concern existing rows that no snapshot holds.
        let in_place = |change: &&Change<T>| {
            change.after.as_ref().is_some_and(|after| self.rows.replace(&change.uuid, after))
        };
        let done = changes.iter().take_while(in_place).count();
        self.rows.edit(changes[done..].iter().map(|change| (change.uuid, change.after.clone())));
    }

    /// The changes from these rows to newer ones.
    pub(super) fn diff(&self, newer: &Self) -> Vec<Change<T>>
    where
        T: PartialEq,
    {
        let mut changes = Vec::new();
        let same = |a: &Arc<T>, b: &Arc<T>| Arc::ptr_eq(a, b) || a == b;
        self.rows.diff(&newer.rows, same, |uuid, before, after| {
            changes.push(Change { uuid: *uuid, before: before.cloned(), after: after.cloned() });
        });
        changes
    }
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self { rows: SortedMap::default() }
    }
}

impl<T> Clone for Rows<T> {
    fn clone(&self) -> Self {
        Self { rows: self.rows.clone() }
    }
}

impl<T: fmt::Debug> fmt::Debug for Rows<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
