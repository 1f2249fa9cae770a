//! The whole content of a replica at one instant.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::any::{Any, TypeId};
use std::fmt;
use std::ops::RangeBounds;
use std::sync::Arc;

use hashbrown::HashMap;
use uuid::Uuid;

use super::codec::TypedCodec;
use super::delta::Delta;
use super::dynamic::{Dynamic, DynamicRows};
use super::index::Index;
use super::rows::Rows;
use super::table::{AnyTable, TableState};
use crate::model::{Ref, Str, Table, TableFit};
use crate::wire::atom::ValueError;
use crate::wire::datum::Datum;

/// Numbers the states of one replica: a later state has a larger one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(pub u64);

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// All tables of a replica at one instant: between two transactions of the server, never within one.
///
/// It never changes, a copy costs one reference count, and it shares memory with earlier and later snapshots.
#[derive(Clone)]
pub struct Snapshot(pub(super) Arc<State>);

/// The shared content of a snapshot.
#[derive(Clone)]
pub(super) struct State {
    pub(super) database: Str,
    pub(super) seq: Seq,
    pub(super) tables: Vec<Arc<dyn AnyTable>>,
    /// Positions in `tables` by the type of the row.
    pub(super) typed: Arc<HashMap<TypeId, usize>>,
}

impl State {
    /// A table by the type of its rows, and its position.
    ///
    /// # Panics
    /// If the model does not contain the table.
    pub(super) fn typed<T: Table>(&self) -> (usize, &TableState<TypedCodec<T>>) {
        let table = self.typed.get(&TypeId::of::<T>()).and_then(|at| {
            let table: &dyn Any = &*self.tables[*at];
            Some((*at, table.downcast_ref()?))
        });
        table.unwrap_or_else(|| panic!("the model of {} has no table {}", self.database, T::TABLE))
    }
}

/// A row that its struct rejected. It is in no table, index or delta.
#[derive(Clone, Debug)]
pub struct UnreadableRow<'a> {
    /// The table.
    pub table: &'a str,
    /// The row.
    pub uuid: Uuid,
    /// The first rejected column.
    pub column: &'a str,
    /// Why.
    pub problem: &'a ValueError,
    /// The names of the row's columns.
    pub columns: &'a [Str],
    /// Their values.
    pub values: &'a [Datum],
}

impl Snapshot {
    /// The sequence number of this state of the replica.
    pub fn seq(&self) -> Seq {
        self.0.seq
    }

    /// The database.
    pub fn database(&self) -> &str {
        &self.0.database
    }

    /// The rows of a table.
    ///
    /// # Panics
    /// If the model does not contain the table.
    pub fn table<T: Table>(&self) -> &Rows<T> {
        &self.state::<T>().rows
    }

    /// A row, by its UUID or a reference to it.
    ///
    /// # Panics
    /// If the model does not contain the table.
    pub fn get<T: Table>(&self, row: impl Into<Ref<T>>) -> Option<&T> {
        self.table().get(row).map(|row| &**row)
    }

    /// The rows of a table without a struct, decoded by the server's schema.
    pub fn dynamic(&self, table: &str) -> Option<&DynamicRows> {
        let found: &dyn Any = &**self.0.tables.iter().find(|found| found.name() == table)?;
        found.downcast_ref::<TableState<Dynamic>>().map(|state| &state.rows)
    }

    /// The rows with a key, sorted by UUID.
    ///
    /// # Panics
    /// If the model does not contain the index.
    pub fn lookup<I: Index>(&self, key: &I::Key) -> impl Iterator<Item = (Ref<I::Row>, &I::Row)> {
        let state = self.indexed::<I>();
        let entries = state.index::<I>().unwrap_or_else(|| no_index::<I>());
        entries.lookup(key).filter_map(|uuid| Some((Ref::new(uuid), &**state.rows.get(uuid)?)))
    }

    /// The row with a key. If the key is not unique, the first one by UUID.
    ///
    /// # Panics
    /// If the model does not contain the index.
    pub fn unique<I: Index>(&self, key: &I::Key) -> Option<(Ref<I::Row>, &I::Row)> {
        self.lookup::<I>(key).next()
    }

    /// The rows whose keys are within a range, sorted by key.
    ///
    /// # Panics
    /// If the model does not contain the index.
    pub fn range<I: Index>(
        &self,
        keys: impl RangeBounds<I::Key>,
    ) -> impl Iterator<Item = (&I::Key, Ref<I::Row>, &I::Row)> {
        let state = self.indexed::<I>();
        let entries = state.index::<I>().unwrap_or_else(|| no_index::<I>());
        entries.range(keys).filter_map(|(key, uuid)| Some((key, Ref::new(uuid), &**state.rows.get(uuid)?)))
    }

    /// The number of rows of each table.
    pub fn row_counts(&self) -> impl Iterator<Item = (&Str, usize)> {
        self.0.tables.iter().map(|table| (table.name(), table.len()))
    }

    /// Rows that could not be read.
    pub fn unreadable(&self) -> impl Iterator<Item = UnreadableRow<'_>> {
        self.0.tables.iter().flat_map(|table| {
            table.unreadable().iter().map(|(uuid, raw)| UnreadableRow {
                table: table.name(),
                uuid: *uuid,
                column: &raw.column,
                problem: &raw.problem,
                columns: table.columns(),
                values: &raw.values,
            })
        })
    }

    /// The result of comparing a table with the server's schema; empty before the first connection.
    ///
    /// # Panics
    /// If the model does not contain the table.
    pub fn fit<T: Table>(&self) -> &TableFit {
        &self.state::<T>().fit
    }

    /// The changes from this snapshot to a newer one of the same replica. The cost depends on the difference.
    ///
    /// # Panics
    /// If the two snapshots have different models.
    pub fn diff(&self, newer: &Snapshot) -> Delta {
        assert_eq!(
            self.0.tables.len(),
            newer.0.tables.len(),
            "snapshots of one replica have the same tables"
        );
        let pairs = self.0.tables.iter().zip(&newer.0.tables);
        Delta::new(
            newer.seq(),
            pairs.filter(|(a, b)| !Arc::ptr_eq(a, b)).filter_map(|(old, new)| old.diff(&**new)),
        )
    }

    fn state<T: Table>(&self) -> &TableState<TypedCodec<T>> {
        self.0.typed::<T>().1
    }

    fn indexed<I: Index>(&self) -> &TableState<TypedCodec<I::Row>> {
        self.state::<I::Row>()
    }
}

fn no_index<I: Index>() -> ! {
    panic!("the model has no index {} on table {}", std::any::type_name::<I>(), <I::Row as Table>::TABLE)
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Snapshot");
        shown.field("database", &self.0.database).field("seq", &self.0.seq.0);
        for table in &self.0.tables {
            shown.field(table.name(), &table.len());
        }
        shown.finish()
    }
}
