//! Tables: the trait that `#[derive(Table)]` implements.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::column::Shape;
use super::columns::ColumnSet;
use crate::wire::atom::ValueError;
use crate::wire::cursor::Cursor;
use crate::wire::datum::Datum;

use super::column::Mutation;

/// A table as a struct: one row is one value, one field one column.
///
/// Write `#[derive(Table)]`, do not implement it by hand.
pub trait Table: Clone + PartialEq + Default + Send + Sync + 'static {
    /// The database the table is in.
    const DATABASE: &'static str;
    /// The table's name in the schema.
    const TABLE: &'static str;
    /// The columns, in the order of the fields. At most 64.
    const COLUMNS: &'static [ColumnSpec];

    /// The position of a column in [`Table::COLUMNS`].
    fn position(column: &str) -> Option<usize>;

    /// Reads one column's value in place from a message. With `diff`, it is a difference to the current value.
    fn decode(&mut self, column: usize, diff: bool, value: &mut Cursor<'_>) -> Result<(), serde_json::Error>;

    /// Sets one column from a datum.
    fn set(&mut self, column: usize, datum: &Datum) -> Result<(), ValueError>;

    /// One column's datum.
    fn datum(&self, column: usize) -> Datum;

    /// Appends one column's datum as JSON.
    fn write_json(&self, column: usize, out: &mut Vec<u8>);

    /// Whether a row that omits the column gets the value that the column has here.
    fn is_blank(&self, column: usize) -> bool;

    /// The mutation of one column from `self` to `after` element by element; `None` if only the whole value can be written.
    fn mutation(&self, column: usize, after: &Self) -> Option<Mutation>;

    /// Whether two rows have the same value in a column.
    fn agrees(&self, other: &Self, column: usize) -> bool;

    /// The columns in which two rows differ.
    fn differing(&self, other: &Self) -> ColumnSet;
}

/// The declaration of one column.
#[derive(Clone, Copy, Debug)]
pub struct ColumnSpec {
    /// The column's name in the schema.
    pub name: &'static str,
    /// The field's type.
    pub shape: Shape,
    /// Whether servers may lack the column. It then reads as its default, and a row that would write another value is rejected.
    pub optional: bool,
    /// Whether the column is written but not monitored.
    pub write_only: bool,
}
