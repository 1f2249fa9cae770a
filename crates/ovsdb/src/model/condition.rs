//! The rows of a table that a replica holds.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;
use std::marker::PhantomData;

use serde::ser::{Serialize, SerializeSeq, Serializer};

use super::column::ColumnType;
use super::columns::Column;
use super::table::Table;
use crate::wire::clause::{Clause, Function};

/// The monitored rows of table `T`.
///
/// A condition on one table does not fit another one:
///
/// ```compile_fail,E0308
/// # use ovsdb::{Client, Condition, Function, Model, Str, Table};
/// # #[derive(Clone, Debug, Default, PartialEq, Table)]
/// # #[ovsdb(database = "D", table = "Chassis")]
/// # struct Chassis { name: Str }
/// # #[derive(Clone, Debug, Default, PartialEq, Table)]
/// # #[ovsdb(database = "D", table = "Port_Binding")]
/// # struct PortBinding { kind: Str }
/// let patch = Condition::column(PortBinding::KIND, Function::Equal, &Str::from("patch"));
/// Model::new("D").table_where::<Chassis>(patch);
/// ```
///
/// Nor does it combine with a condition on another one:
///
/// ```compile_fail,E0308
/// # use ovsdb::{Condition, Function, Str, Table};
/// # #[derive(Clone, Debug, Default, PartialEq, Table)]
/// # #[ovsdb(database = "D", table = "Chassis")]
/// # struct Chassis { name: Str }
/// # #[derive(Clone, Debug, Default, PartialEq, Table)]
/// # #[ovsdb(database = "D", table = "Port_Binding")]
/// # struct PortBinding { kind: Str }
/// let patch = Condition::column(PortBinding::KIND, Function::Equal, &Str::from("patch"));
/// let _ = Condition::<Chassis>::none().or(patch);
/// ```
#[must_use]
pub struct Condition<T> {
    rows: AnyCondition,
    of: PhantomData<fn() -> T>,
}

impl<T: Table> Condition<T> {
    fn new(rows: AnyCondition) -> Self {
        Self { rows, of: PhantomData }
    }

    /// Every row.
    pub fn all() -> Self {
        Self::new(AnyCondition::All)
    }

    /// No row.
    pub fn none() -> Self {
        Self::new(AnyCondition::None)
    }

    /// Rows whose column compares with the value in this way.
    pub fn column<V: ColumnType>(column: Column<T, V>, function: Function, value: &V) -> Self {
        Self::new(AnyCondition::Any(vec![Clause::new(column.name(), function, value.to_datum())]))
    }

    /// Rows that match either condition.
    pub fn or(self, other: Self) -> Self {
        Self::new(self.rows.or(other.rows))
    }
}

impl<T> Clone for Condition<T> {
    fn clone(&self) -> Self {
        Self { rows: self.rows.clone(), of: PhantomData }
    }
}

impl<T> PartialEq for Condition<T> {
    fn eq(&self, other: &Self) -> bool {
        self.rows == other.rows
    }
}

impl<T> Eq for Condition<T> {}

impl<T: Table> fmt::Debug for Condition<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", T::TABLE, self.rows)
    }
}

impl<T> From<Condition<T>> for AnyCondition {
    fn from(condition: Condition<T>) -> Self {
        condition.rows
    }
}

/// The monitored rows of a table that is known by name. [`Condition`] is the same for a table with a struct.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub enum AnyCondition {
    /// Every row.
    #[default]
    All,
    /// No row.
    None,
    /// Rows for which at least one clause holds.
    Any(Vec<Clause>),
}

impl AnyCondition {
    /// Rows that match either condition.
    pub fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::All, _) | (_, Self::All) => Self::All,
            (Self::None, other) | (other, Self::None) => other,
            (Self::Any(mut clauses), Self::Any(more)) => {
                clauses
                    .extend(more.into_iter().filter(|clause| !clauses.contains(clause)).collect::<Vec<_>>());
                Self::Any(clauses)
            }
        }
    }
}

/// The form of monitor requests: clauses, any of which may hold, or a bare boolean.
impl Serialize for AnyCondition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Any(clauses) if !clauses.is_empty() => clauses.serialize(serializer),
            // A server takes an empty list of clauses for "every row", so "no row" needs an explicit `false`.
            Self::All | Self::None | Self::Any(_) => {
                let mut seq = serializer.serialize_seq(Some(1))?;
                seq.serialize_element(&(*self == Self::All))?;
                seq.end()
            }
        }
    }
}
