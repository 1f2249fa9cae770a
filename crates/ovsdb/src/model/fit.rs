//! The comparison of a struct with a server's table.
//!
//! One binary serves many versions of a schema: a missing optional column is left out, a missing required column or a wrong
//! type is refused, and all mismatches are listed at once.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use smol_str::SmolStr;
use thiserror::Error;

use super::column::{Arity, Shape};
use super::columns::ColumnSet;
use super::table::ColumnSpec;
use crate::wire::schema::{ColumnKind, DatabaseSchema};

/// The result of comparing a struct with a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableFit {
    /// Optional columns that the server lacks, and columns that the model does not request.
    pub absent: ColumnSet,
    /// Columns for which `update2` sends differences.
    pub composite: ColumnSet,
    /// Columns of the server that the struct does not have.
    pub extra: Vec<SmolStr>,
}

impl TableFit {
    /// Whether the server has every column of the struct.
    pub fn is_exact(&self) -> bool {
        self.absent.is_empty()
    }
}

/// One mismatch.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Misfit {
    /// The schema has no such table.
    #[error("table {table} does not exist")]
    NoTable {
        /// The table.
        table: SmolStr,
    },
    /// The table has no such column.
    #[error("table {table} has no column {column}")]
    NoColumn {
        /// The table.
        table: SmolStr,
        /// The column.
        column: SmolStr,
    },
    /// The column holds something else.
    #[error("table {table}, column {column}: expected {expected}, the schema says {found}")]
    Type {
        /// The table.
        table: SmolStr,
        /// The column.
        column: SmolStr,
        /// The struct's type.
        expected: String,
        /// The schema's type.
        found: String,
    },
}

/// Compares a table's columns with a schema; every misfit is listed.
pub fn fit(table: &str, columns: &[ColumnSpec], schema: &DatabaseSchema) -> Result<TableFit, Vec<Misfit>> {
    let Some(found) = schema.tables.get(table) else {
        return Err(vec![Misfit::NoTable { table: table.into() }]);
    };
    let mut fit = TableFit::default();
    let mut misfits = Vec::new();
    for (at, spec) in columns.iter().enumerate() {
        match found.columns.get(spec.name) {
            None if spec.optional => fit.absent.insert(at),
            None => misfits.push(Misfit::NoColumn { table: table.into(), column: spec.name.into() }),
            Some(column) if !fits(&spec.shape, &column.kind) => misfits.push(Misfit::Type {
                table: table.into(),
                column: spec.name.into(),
                expected: describe(&spec.shape),
                found: column.kind.to_string(),
            }),
            Some(column) if column.kind.is_composite() => fit.composite.insert(at),
            Some(_) => {}
        }
    }
    if !misfits.is_empty() {
        return Err(misfits);
    }
    let asked = |name: &SmolStr| columns.iter().any(|spec| spec.name == *name);
    fit.extra = found.columns.keys().filter(|name| !asked(name)).cloned().collect();
    Ok(fit)
}

fn describe(shape: &Shape) -> String {
    match shape.refers {
        Some((table, strong)) => {
            format!("{shape} ({} reference to {table})", if strong { "strong" } else { "weak" })
        }
        None => shape.to_string(),
    }
}

fn fits(shape: &Shape, kind: &ColumnKind) -> bool {
    let arity = match shape.arity {
        Arity::One => (kind.min, kind.max) == (1, Some(1)) && kind.value.is_none(),
        // A scalar that another version made optional, or the reverse, still decodes.
        Arity::Optional => kind.max == Some(1) && kind.value.is_none(),
        Arity::Set => kind.value.is_none(),
        Arity::Map => kind.value.is_some(),
    };
    let value = shape.value == kind.value.as_ref().map(|value| value.atom);
    // A typed reference must refer to the declared table. Its strength is compared too, because it decides about the deletion of rows.
    let refers = match shape.refers {
        None => true,
        Some((table, strong)) => [Some(&kind.key), kind.value.as_ref()]
            .into_iter()
            .flatten()
            .filter_map(|base| base.refers.as_ref())
            .any(|found| found.table == table && found.strong == strong),
    };
    arity && shape.key == kind.key.atom && value && refers
}
