//! The address of a column: one column of one table with its type, and sets of them.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;
use std::marker::PhantomData;
use std::ops::BitOr;

use super::column::ColumnType;
use super::table::Table;

/// A column of table `T` that holds a `V`. The derive makes one constant for each field, such as `PortBinding::CHASSIS`.
///
/// A column of one table does not fit where another table's is expected:
///
/// ```compile_fail,E0308
/// # use ovsdb::{Condition, Function, Str, Table};
/// # #[derive(Clone, Debug, Default, PartialEq, Table)]
/// # #[ovsdb(database = "D", table = "Chassis")]
/// # struct Chassis { name: Str }
/// # #[derive(Clone, Debug, Default, PartialEq, Table)]
/// # #[ovsdb(database = "D", table = "Port_Binding")]
/// # struct PortBinding { kind: Str }
/// Condition::<Chassis>::column(PortBinding::KIND, Function::Equal, &Str::from("patch"));
/// ```
///
/// Nor does a value of another type:
///
/// ```compile_fail,E0308
/// # use ovsdb::{Condition, Function, Str, Table};
/// # #[derive(Clone, Debug, Default, PartialEq, Table)]
/// # #[ovsdb(database = "D", table = "Chassis")]
/// # struct Chassis { name: Str }
/// Condition::column(Chassis::NAME, Function::Equal, &7i64);
/// ```
///
/// Nor a set that mixes the columns of two tables:
///
/// ```compile_fail,E0308
/// # use ovsdb::{Str, Table};
/// # #[derive(Clone, Debug, Default, PartialEq, Table)]
/// # #[ovsdb(database = "D", table = "Chassis")]
/// # struct Chassis { name: Str }
/// # #[derive(Clone, Debug, Default, PartialEq, Table)]
/// # #[ovsdb(database = "D", table = "Port_Binding")]
/// # struct PortBinding { kind: Str }
/// let _ = Chassis::NAME | PortBinding::KIND;
/// ```
///
/// Columns of one table form a set with `|`:
///
/// ```
/// # use ovsdb::{Condition, Function, Str, Table};
/// # #[derive(Clone, Debug, Default, PartialEq, Table)]
/// # #[ovsdb(database = "D", table = "Chassis")]
/// # struct Chassis { name: Str, hostname: Str }
/// let _ = Condition::column(Chassis::NAME, Function::Equal, &Str::from("ch1"));
/// assert!((Chassis::NAME | Chassis::HOSTNAME).contains(Chassis::NAME));
/// ```
pub struct Column<T, V> {
    position: usize,
    of: PhantomData<fn() -> (T, V)>,
}

impl<T, V> Column<T, V> {
    /// The column at this position. Only the derive knows which type that has.
    #[doc(hidden)]
    pub const fn at(position: usize) -> Self {
        Self { position, of: PhantomData }
    }

    /// The position in [`Table::COLUMNS`].
    pub const fn position(self) -> usize {
        self.position
    }
}

impl<T: Table, V: ColumnType> Column<T, V> {
    /// The column's name in the schema.
    pub const fn name(self) -> &'static str {
        T::COLUMNS[self.position].name
    }
}

impl<T, V> Clone for Column<T, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, V> Copy for Column<T, V> {}

impl<T: Table, V: ColumnType> fmt::Debug for Column<T, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", T::TABLE, self.name())
    }
}

/// A set of columns of table `T`: `Chassis::NAME | Chassis::HOSTNAME`.
pub struct TableColumns<T> {
    set: ColumnSet,
    of: PhantomData<fn() -> T>,
}

impl<T: Table> TableColumns<T> {
    /// No column.
    pub const NONE: Self = Self::from_set(ColumnSet::EMPTY);

    /// All columns of the table.
    pub const fn all() -> Self {
        Self::from_set(ColumnSet::all::<T>())
    }

    pub(crate) const fn from_set(set: ColumnSet) -> Self {
        Self { set, of: PhantomData }
    }

    /// Whether the column is in the set.
    pub const fn contains<V>(self, column: Column<T, V>) -> bool {
        self.set.contains(column.position)
    }

    /// Columns of this set that are not in the other.
    pub fn without(self, other: impl Into<Self>) -> Self {
        Self::from_set(self.set.without(other.into().set))
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.set.is_empty()
    }

    /// The positions, without the table's type.
    pub const fn positions(self) -> ColumnSet {
        self.set
    }
}

impl<T> Clone for TableColumns<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for TableColumns<T> {}

impl<T> PartialEq for TableColumns<T> {
    fn eq(&self, other: &Self) -> bool {
        self.set == other.set
    }
}

impl<T> Eq for TableColumns<T> {}

impl<T: Table> fmt::Debug for TableColumns<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.set.iter().map(|at| T::COLUMNS[at].name)).finish()
    }
}

impl<T: Table, V> From<Column<T, V>> for TableColumns<T> {
    fn from(column: Column<T, V>) -> Self {
        let mut set = ColumnSet::EMPTY;
        set.insert(column.position);
        Self::from_set(set)
    }
}

impl<T: Table, A, B> BitOr<Column<T, B>> for Column<T, A> {
    type Output = TableColumns<T>;

    fn bitor(self, other: Column<T, B>) -> TableColumns<T> {
        TableColumns::from(self) | other
    }
}

impl<T: Table, V> BitOr<Column<T, V>> for TableColumns<T> {
    type Output = Self;

    fn bitor(self, other: Column<T, V>) -> Self {
        Self::from_set(self.set.or(Self::from(other).set))
    }
}

/// A set of columns of a table that the type does not name, by position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ColumnSet(u64);

impl ColumnSet {
    /// The empty set.
    pub const EMPTY: Self = Self(0);

    /// All columns of a table.
    pub const fn all<T: Table>() -> Self {
        Self::first(T::COLUMNS.len())
    }

    /// The first `count` columns.
    pub const fn first(count: usize) -> Self {
        if count >= 64 { Self(u64::MAX) } else { Self((1 << count) - 1) }
    }

    /// Inserts a column.
    pub const fn insert(&mut self, column: usize) {
        if column < 64 {
            self.0 |= 1 << column;
        }
    }

    /// Whether the column is in the set.
    pub const fn contains(self, column: usize) -> bool {
        column < 64 && self.0 & (1 << column) != 0
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The number of columns.
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
