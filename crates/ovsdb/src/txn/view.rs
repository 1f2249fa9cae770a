//! A snapshot that records reads, so that a decision is committed only if everything that it read is unchanged.
//!
//! Reads become expectations of the transaction: unchanged columns of a row, a row that is still missing, an unchanged set of
//! rows with a value. Fewer reads cause fewer conflicts: [`View::read`] names columns, [`View::get`] takes all.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::any::TypeId;
use std::collections::HashMap;
use std::time::Duration;

use uuid::Uuid;

use super::builder::Transaction;
use crate::model::{Column, ColumnSet, ColumnType, Ref, Table, TableColumns};
use crate::replica::Snapshot;

/// The access of a decision to the database, for reads and writes.
#[derive(Debug)]
pub struct View {
    snapshot: Snapshot,
    expectations: Transaction,
    writes: Transaction,
    /// The columns of each row that are already expected.
    read: HashMap<(TypeId, Uuid), ColumnSet>,
}

impl View {
    pub(crate) fn new(snapshot: Snapshot) -> Self {
        Self { snapshot, expectations: Transaction::new(), writes: Transaction::new(), read: HashMap::new() }
    }

    /// The transaction of a decision on this snapshot, for tests of conflicts with later changes.
    #[cfg(any(test, feature = "fake"))]
    pub fn decide(snapshot: Snapshot, decide: impl FnOnce(&mut View)) -> Transaction {
        let mut view = View::new(snapshot);
        decide(&mut view);
        view.into_transaction()
    }

    /// Reads a row and expects all of its columns to stay unchanged. A missing row is expected to stay missing.
    pub fn get<T: Table>(&mut self, row: impl Into<Ref<T>>) -> Option<T> {
        self.read(row, TableColumns::all())
    }

    /// Reads a row, and expects these columns to stay unchanged; the caller must use no others. A missing row is expected to
    /// stay missing.
    pub fn read<T: Table>(
        &mut self,
        row: impl Into<Ref<T>>,
        columns: impl Into<TableColumns<T>>,
    ) -> Option<T> {
        let (row, columns) = (row.into(), columns.into().positions());
        let known = self.read.get(&(TypeId::of::<T>(), row.uuid())).copied();
        let all = columns.or(known.unwrap_or_default());
        self.read.insert((TypeId::of::<T>(), row.uuid()), all);
        let fresh = columns.without(known.unwrap_or_default());
        let found = self.snapshot.get(row);
        match (found, known) {
            (None, None) => {
                self.expectations.expect_absent(row);
            }
            (Some(value), _) if known.is_none() || !fresh.is_empty() => {
                self.expectations.expect(row, value, TableColumns::from_set(fresh));
            }
            _ => {}
        }
        found.cloned()
    }

    /// The rows that have this value in a column. The expectation covers the set of rows, not their other columns, unless those are read
    /// too. The server must have the column.
    ///
    /// The expected rows are those of the replica, and the server compares them with all of its rows. So under a monitor condition that
    /// excludes rows with this value, every attempt is a conflict.
    pub fn matching<T: Table, V: ColumnType>(&mut self, column: Column<T, V>, value: &V) -> Vec<Ref<T>> {
        let wanted = value.to_datum();
        let rows =
            self.snapshot.table::<T>().iter().filter(|(_, row)| row.datum(column.position()) == wanted);
        let rows: Vec<Ref<T>> = rows.map(|(row, _)| row).collect();
        self.expectations.expect_rows(column, value, &rows);
        rows
    }

    /// The snapshot itself; direct reads from it are not recorded.
    ///
    /// The same holds for indexes: their keys are computed, and the protocol has no condition "the rows with this key are
    /// these". Read rows that matter again through the view. If it matters that there are no others, [`View::matching`] selects
    /// by a column.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Inserts a row.
    pub fn insert<T: Table>(&mut self, row: impl Into<Ref<T>>, value: &T) {
        self.writes.insert(row, value);
    }

    /// Reads a row, changes it, and writes the columns that differ. Returns whether the row exists.
    pub fn update<T: Table>(&mut self, row: impl Into<Ref<T>>, change: impl FnOnce(&mut T)) -> bool {
        let row = row.into();
        let Some(before) = self.get(row) else { return false };
        let mut after = before.clone();
        change(&mut after);
        self.writes.update(row, &before, &after);
        true
    }

    /// Deletes a row.
    pub fn delete<T: Table>(&mut self, row: impl Into<Ref<T>>) {
        self.writes.delete(row);
    }

    /// The transaction, for everything else.
    pub fn transaction(&mut self) -> &mut Transaction {
        &mut self.writes
    }

    /// The expectations, followed by the writes. Without writes there is nothing to commit.
    pub(crate) fn into_transaction(self) -> Transaction {
        if self.writes.is_empty() {
            return self.writes;
        }
        let mut all = self.expectations;
        all.append(&self.writes);
        all
    }
}

/// The time to wait for news after a conflict.
pub(crate) fn patience(tried: u32) -> Duration {
    Duration::from_millis(10) * (1 << tried.min(6))
}

#[cfg(test)]
mod tests;
