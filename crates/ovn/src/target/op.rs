//! One change of one row: the op of a plan.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::fmt;

use ovsdb::wire::Datum;
use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::state::{OwnedRow, RowId};

/// One change of one row.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// A new row of ours. Columns not listed have the database's default.
    Insert {
        /// Its address.
        row: RowId,
        /// Its values.
        values: Vec<(&'static str, Datum)>,
    },
    /// A whole column gets a value.
    Set {
        /// The row.
        row: RowId,
        /// The column.
        column: &'static str,
        /// The old value.
        from: Datum,
        /// The new value.
        to: Datum,
    },
    /// Members or pairs are added to a column; an existing key gets the new value.
    Put {
        /// The row.
        row: RowId,
        /// The column.
        column: &'static str,
        /// The added members or pairs.
        elements: Datum,
    },
    /// Members or keys are removed from a column.
    Take {
        /// The row.
        row: RowId,
        /// The column.
        column: &'static str,
        /// The members, or a map's keys.
        elements: Datum,
    },
    /// A row of ours is deleted.
    Delete(OwnedRow),
}

impl Op {
    /// The row it changes.
    pub fn row(&self) -> RowId {
        match self {
            Op::Insert { row, .. } | Op::Set { row, .. } | Op::Put { row, .. } | Op::Take { row, .. } => *row,
            Op::Delete(owned) => owned.row(),
        }
    }
}

/// A line of a diff: `+` for additions, `-` for removals, `~` for changes.
impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Insert { row, values } => {
                write!(f, "+ {row}")?;
                values.iter().try_for_each(|(column, value)| write!(f, " {column}={value}"))
            }
            Op::Set { row, column, from, to } => write!(f, "~ {row} {column}: {from} -> {to}"),
            Op::Put { row, column, elements } => write!(f, "~ {row} {column} + {elements}"),
            Op::Take { row, column, elements } => write!(f, "~ {row} {column} - {elements}"),
            Op::Delete(owned) => write!(f, "- {}", owned.row()),
        }
    }
}

impl Serialize for Op {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Op", 6)?;
        let row = self.row();
        let word = match self {
            Op::Insert { .. } => "insert",
            Op::Set { .. } => "set",
            Op::Put { .. } => "put",
            Op::Take { .. } => "take",
            Op::Delete(_) => "delete",
        };
        out.serialize_field("op", word)?;
        out.serialize_field("table", row.table)?;
        out.serialize_field("uuid", &row.uuid.to_string())?;
        match self {
            Op::Insert { values, .. } => {
                let values: BTreeMap<_, _> = values.iter().map(|(column, value)| (*column, value)).collect();
                out.serialize_field("values", &values)?;
            }
            Op::Set { column, from, to, .. } => {
                out.serialize_field("column", column)?;
                out.serialize_field("from", from)?;
                out.serialize_field("to", to)?;
            }
            Op::Put { column, elements, .. } | Op::Take { column, elements, .. } => {
                out.serialize_field("column", column)?;
                out.serialize_field("elements", elements)?;
            }
            Op::Delete(_) => {}
        }
        out.end()
    }
}
