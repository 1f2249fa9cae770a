//! The rows of a table that a replica holds.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use serde::ser::{Serialize, SerializeSeq, Serializer};

use super::column::ColumnType;
use super::columns::Column;
use super::table::Table;
use crate::wire::clause::{Clause, Function};

/// The monitored rows of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// Every row.
    #[default]
    All,
    /// No row.
    None,
    /// Rows for which at least one clause holds.
    Any(Vec<Clause>),
}

impl Condition {
    /// Rows whose column compares with the value in this way.
    pub fn column<T: Table, V: ColumnType>(column: Column<T, V>, function: Function, value: &V) -> Self {
        Self::Any(vec![Clause::new(column.name(), function, value.to_datum())])
    }

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
impl Serialize for Condition {
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
