//! Indexes: rows by computed keys.
//!
//! An index is part of the snapshot, so it always agrees with the rows. Every index is ordered, allows any number of keys per
//! row and any number of rows per key. Unique, multi, map-key, ordered and back-reference indexes differ only in their
//! [`Index::keys`].

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::any::Any;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use uuid::Uuid;

use super::delta::Change;
use super::sorted::SortedMap;
use crate::model::Table;
use crate::wire::atom::Atom;
use crate::wire::datum::Datum;

/// Finds rows of one table by computed keys.
///
/// ```
/// # use ovsdb::{Str, Table, Map, replica::Index};
/// # #[derive(Clone, Default, PartialEq, Table)]
/// # #[ovsdb(database = "D", table = "Port")]
/// # struct Port { external_ids: Map<Str, Str> }
/// /// Ports by the id that the cloud knows them by.
/// struct ByCloudId;
///
/// impl Index for ByCloudId {
///     type Row = Port;
///     type Key = Str;
///     fn keys(row: &Port, emit: &mut dyn FnMut(Str)) {
///         row.external_ids.get("cloud-id").cloned().into_iter().for_each(emit);
///     }
/// }
/// ```
pub trait Index: 'static {
    /// The indexed rows.
    type Row: Table;
    /// The type of the keys.
    type Key: Ord + Clone + Send + Sync + 'static;

    /// Calls `emit` with every key of a row: none, one or many. Depends on the row alone.
    fn keys(row: &Self::Row, emit: &mut dyn FnMut(Self::Key));
}

/// The back-references to a row: rows of `T` by the UUIDs in their column at `COLUMN`.
///
/// `References<PortBinding, { PortBinding::DATAPATH.position() }>` finds the ports of a datapath.
pub struct References<T, const COLUMN: usize>(PhantomData<fn() -> T>);

impl<T: Table, const COLUMN: usize> Index for References<T, COLUMN> {
    type Row = T;
    type Key = Uuid;

    fn keys(row: &T, emit: &mut dyn FnMut(Uuid)) {
        let mut atom = |atom: &Atom| {
            if let Atom::Uuid(uuid) = atom {
                emit(*uuid);
            }
        };
        match &row.datum(COLUMN) {
            Datum::Set(atoms) => atoms.iter().for_each(atom),
            Datum::Map(pairs) => pairs.iter().for_each(|(key, value)| {
                atom(key);
                atom(value);
            }),
        }
    }
}

/// The entries of one index.
pub(super) struct Entries<I: Index> {
    sorted: SortedMap<(I::Key, Uuid), ()>,
}

impl<I: Index> Clone for Entries<I> {
    fn clone(&self) -> Self {
        Self { sorted: self.sorted.clone() }
    }
}

impl<I: Index> Default for Entries<I> {
    fn default() -> Self {
        Self { sorted: SortedMap::default() }
    }
}

impl<I: Index> Entries<I> {
    pub(super) fn lookup(&self, key: &I::Key) -> impl Iterator<Item = Uuid> {
        self.sorted
            .from(|(have, _)| have < key)
            .take_while(move |((have, _), ())| have == key)
            .map(|((_, uuid), ())| *uuid)
    }

    pub(super) fn range<R: RangeBounds<I::Key>>(&self, range: R) -> impl Iterator<Item = (&I::Key, Uuid)> {
        let below = |(have, _): &(I::Key, Uuid)| match range.start_bound() {
            Bound::Included(start) => have < start,
            Bound::Excluded(start) => have <= start,
            Bound::Unbounded => false,
        };
        self.sorted
            .from(below)
            .take_while(move |((have, _), ())| match range.end_bound() {
                Bound::Included(end) => have <= end,
                Bound::Excluded(end) => have < end,
                Bound::Unbounded => true,
            })
            .map(|((key, uuid), ())| (key, *uuid))
    }
}

/// An index of rows of one type with the key type erased.
pub(super) trait AnyIndex<R>: Any + Send + Sync {
    fn commit(&mut self, changes: &[Change<R>]);
    fn copy(&self) -> Arc<dyn AnyIndex<R>>;
}

impl<I: Index> AnyIndex<I::Row> for Entries<I> {
    fn commit(&mut self, changes: &[Change<I::Row>]) {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let mut edits = Vec::new();
        for change in changes {
            keys::<I>(change.before.as_deref(), &mut before);
            keys::<I>(change.after.as_deref(), &mut after);
            let put = after.iter().filter(|key| before.binary_search(key).is_err());
            edits.extend(put.map(|key| ((key.clone(), change.uuid), Some(()))));
            let gone = before.drain(..).filter(|key| after.binary_search(key).is_err());
            edits.extend(gone.map(|key| ((key, change.uuid), None)));
        }
        if !edits.is_empty() {
            edits.sort_unstable();
            self.sorted.edit(edits.into_iter());
        }
    }

    fn copy(&self) -> Arc<dyn AnyIndex<I::Row>> {
        Arc::new(self.clone())
    }
}

/// A row's keys, sorted, each once.
fn keys<I: Index>(row: Option<&I::Row>, keys: &mut Vec<I::Key>) {
    keys.clear();
    if let Some(row) = row {
        I::keys(row, &mut |key| keys.push(key));
        keys.sort_unstable();
        keys.dedup();
    }
}
