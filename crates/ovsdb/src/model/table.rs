//! Tables: the trait that `#[derive(Table)]` writes, and sets of columns.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::column::Shape;
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

    /// Reads one column's value where it stands in a message. With `diff`, it is a difference to the present value.
    fn decode(&mut self, column: usize, diff: bool, value: &mut Cursor<'_>) -> Result<(), serde_json::Error>;

    /// Sets one column from a datum.
    fn set(&mut self, column: usize, datum: &Datum) -> Result<(), ValueError>;

    /// One column's datum.
    fn datum(&self, column: usize) -> Datum;

    /// Appends one column's datum as JSON.
    fn write_json(&self, column: usize, out: &mut Vec<u8>);

    /// Whether a row that does not mention the column gets the value it has here.
    fn is_blank(&self, column: usize) -> bool;

    /// How to get one column from `self` to `after` element by element; `None` where only the whole can be written.
    fn mutation(&self, column: usize, after: &Self) -> Option<Mutation>;

    /// Whether two rows have the same value in a column.
    fn agrees(&self, other: &Self, column: usize) -> bool;

    /// The columns in which two rows differ.
    fn differing(&self, other: &Self) -> ColumnSet;
}

/// What a struct says about one column.
#[derive(Clone, Copy, Debug)]
pub struct ColumnSpec {
    /// The column's name in the schema.
    pub name: &'static str,
    /// What the field takes.
    pub shape: Shape,
    /// Whether servers may lack it: it then reads as default, and writing it is refused for that row.
    pub optional: bool,
    /// Whether it is written but not monitored.
    pub write_only: bool,
}

/// A set of columns of one table, by position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ColumnSet(u64);

impl ColumnSet {
    /// None.
    pub const EMPTY: Self = Self(0);

    /// All columns of a table.
    pub const fn all<T: Table>() -> Self {
        Self::first(T::COLUMNS.len())
    }

    /// The first so many columns.
    pub const fn first(count: usize) -> Self {
        if count >= 64 { Self(u64::MAX) } else { Self((1 << count) - 1) }
    }

    /// Puts a column in.
    pub const fn insert(&mut self, column: usize) {
        if column < 64 {
            self.0 |= 1 << column;
        }
    }

    /// Whether a column is in it.
    pub const fn contains(self, column: usize) -> bool {
        column < 64 && self.0 & (1 << column) != 0
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The positions, ascending.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut bits = self.0;
        std::iter::from_fn(move || {
            let next = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
            bits &= bits - 1;
            Some(next)
        })
    }

    /// Columns in both.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Columns in either.
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Columns of this one that are not in the other.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl FromIterator<usize> for ColumnSet {
    fn from_iter<I: IntoIterator<Item = usize>>(columns: I) -> Self {
        let mut set = Self::EMPTY;
        columns.into_iter().for_each(|column| set.insert(column));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn column_sets_hold_up_to_64() {
        let set: ColumnSet = [0, 5, 63, 64].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 5, 63]);
        assert_eq!((set.len(), ColumnSet::first(64).len(), ColumnSet::first(3).len()), (3, 64, 3));
        assert_eq!(set.without(ColumnSet::first(6)).iter().collect::<Vec<_>>(), [63]);
    }
}
