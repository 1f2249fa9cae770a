//! Typed tables as data, which `check-schema` compares with the schema of any OVN.

use ovsdb::Table;
use ovsdb::model::fit;
use ovsdb::model::{ColumnSpec, Misfit, TableFit};
use ovsdb::wire::DatabaseSchema;

/// One typed table and its requirements on a schema.
#[derive(Clone, Copy, Debug)]
pub struct TableSpec {
    /// The database it is in.
    pub database: &'static str,
    /// Its name.
    pub table: &'static str,
    /// The columns it uses.
    pub columns: &'static [ColumnSpec],
    /// Whether a supported OVN version lacks the whole table.
    pub optional: bool,
}

impl TableSpec {
    /// A table that every supported OVN has.
    pub const fn of<T: Table>() -> Self {
        TableSpec { database: T::DATABASE, table: T::TABLE, columns: T::COLUMNS, optional: false }
    }

    /// A table that only newer ones have.
    pub const fn newer<T: Table>() -> Self {
        TableSpec { optional: true, ..Self::of::<T>() }
    }

    /// Compares with a schema. `None` is an optional table that the schema lacks.
    pub fn fit(&self, schema: &DatabaseSchema) -> Result<Option<TableFit>, Vec<Misfit>> {
        if self.optional && !schema.tables.contains_key(self.table) {
            return Ok(None);
        }
        fit(self.table, self.columns, schema).map(Some)
    }
}

#[cfg(test)]
mod tests;
