//! The rows of a table that an operation selects.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;
use std::marker::PhantomData;

use crate::model::{Column, ColumnSet, ColumnType, Ref, Table, TableColumns};
use crate::wire::clause::{Clause, Function};

/// A selection of rows of table `T`: those for which every clause holds.
///
/// An operation selects on the server. So a filter also reaches rows that the replica does not hold.
#[must_use]
pub struct RowFilter<T> {
    clauses: Vec<Clause>,
    columns: ColumnSet,
    of: PhantomData<fn() -> T>,
}

impl<T: Table> RowFilter<T> {
    /// The row with this UUID.
    pub fn row(row: impl Into<Ref<T>>) -> Self {
        Self { clauses: vec![Clause::row(row.into().uuid())], columns: ColumnSet::EMPTY, of: PhantomData }
    }

    /// Rows whose column compares with the value in this way.
    pub fn column<V: ColumnType>(column: Column<T, V>, function: Function, value: &V) -> Self {
        let clause = Clause::new(column.name(), function, value.to_datum());
        Self { clauses: vec![clause], columns: TableColumns::from(column).positions(), of: PhantomData }
    }

    /// Rows that both filters select.
    pub fn and(mut self, other: Self) -> Self {
        self.clauses.extend(other.clauses);
        self.columns = self.columns.or(other.columns);
        self
    }

    pub(super) fn clauses(&self) -> &[Clause] {
        &self.clauses
    }

    /// The columns that the server must have.
    pub(super) fn columns(&self) -> ColumnSet {
        self.columns
    }
}

impl<T: Table> fmt::Debug for RowFilter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} where ", T::TABLE)?;
        f.debug_list().entries(self.clauses.iter().map(ToString::to_string)).finish()
    }
}
