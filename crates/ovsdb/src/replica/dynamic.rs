//! Tables decoded by the server's own schema, for users without a struct: the command line.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::Arc;

use super::codec::{Codec, Layout, RawSink, Reader};
use super::rows::Rows;
use crate::model::{Misfit, Str, TableFit};
use crate::wire::atom::ValueError;
use crate::wire::datum::Datum;
use crate::wire::schema::{ColumnKind, DatabaseSchema};

/// The columns of a table to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Columns {
    /// All columns of the server's schema.
    All,
    /// These; the schema must have them.
    Named(Vec<Str>),
}

/// A row as datums, in the order of its columns.
#[derive(Clone, Debug)]
pub struct DynamicRow {
    /// The names of the columns.
    pub columns: Arc<[Str]>,
    /// Their types in the schema by which the row was read. They are needed because a set of one and a scalar are the same datum.
    pub kinds: Arc<[ColumnKind]>,
    /// Their values.
    pub values: Box<[Datum]>,
}

/// Rows decoded by the server's schema.
pub type DynamicRows = Rows<DynamicRow>;

impl DynamicRow {
    /// A column's value.
    pub fn get(&self, column: &str) -> Option<&Datum> {
        let at = self.columns.iter().position(|name| name == column)?;
        self.values.get(at)
    }

    /// Columns and values.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Str, &Datum)> {
        self.columns.iter().zip(&self.values)
    }

    /// Columns with their types and values.
    pub fn typed(&self) -> impl ExactSizeIterator<Item = (&Str, &ColumnKind, &Datum)> {
        self.columns
            .iter()
            .zip(self.kinds.iter())
            .zip(&self.values)
            .map(|((name, kind), value)| (name, kind, value))
    }

    /// Columns in which it differs from another, with the other's value where it has the column.
    pub fn differing<'a>(
        &'a self,
        other: &'a DynamicRow,
    ) -> impl Iterator<Item = (&'a Str, &'a Datum, Option<&'a Datum>)> {
        self.iter()
            .map(|(name, value)| (name, value, other.get(name)))
            .filter(|(_, value, theirs)| *theirs != Some(*value))
    }
}

impl PartialEq for DynamicRow {
    fn eq(&self, other: &Self) -> bool {
        (Arc::ptr_eq(&self.columns, &other.columns) || self.columns == other.columns)
            && self.values == other.values
    }
}

/// Reads rows into datums.
#[derive(Clone)]
pub(super) struct Dynamic {
    asked: Columns,
    layout: Layout,
    columns: Arc<[Str]>,
    kinds: Arc<[ColumnKind]>,
}

impl Dynamic {
    pub(super) fn new(asked: Columns) -> Self {
        Self { asked, layout: Layout::default(), columns: Arc::default(), kinds: Arc::default() }
    }
}

impl Reader for Dynamic {
    type Row = DynamicRow;
    type Sink<'a> = RawSink<'a>;

    fn blank(&self) -> Arc<DynamicRow> {
        let (columns, kinds) = (Arc::clone(&self.columns), Arc::clone(&self.kinds));
        Arc::new(DynamicRow { columns, kinds, values: Arc::unwrap_or_clone(self.layout.blank()) })
    }

    fn sink<'a>(&'a self, row: &'a mut DynamicRow) -> RawSink<'a> {
        self.layout.sink(&mut row.values)
    }
}

impl Codec for Dynamic {
    fn fit(&self, table: &str, schema: &DatabaseSchema) -> Result<(Self, TableFit), Vec<Misfit>> {
        let Some(found) = schema.tables.get(table) else {
            return Err(vec![Misfit::NoTable { table: table.into() }]);
        };
        let names: Vec<&str> = match &self.asked {
            Columns::All => found.columns.keys().map(Str::as_str).collect(),
            // Every row has its UUID, so `_uuid` may be requested but is not a column.
            Columns::Named(names) => names.iter().map(Str::as_str).filter(|name| *name != "_uuid").collect(),
        };
        let unknown: Vec<Misfit> = names
            .iter()
            .filter(|name| !found.columns.contains_key(**name))
            .map(|name| Misfit::NoColumn { table: table.into(), column: (*name).into() })
            .collect();
        if !unknown.is_empty() {
            return Err(unknown);
        }
        let layout = Layout::new(names.iter().copied(), schema, table);
        let mut fit = TableFit::default();
        for (at, kind) in layout.kinds.iter().enumerate() {
            if kind.is_composite() {
                fit.composite.insert(at);
            }
        }
        let asked = |name: &Str| names.contains(&name.as_str());
        fit.extra = found.columns.keys().filter(|name| !asked(name)).cloned().collect();
        // Equal names keep the same allocation, so that the row before a change and the row after it compare fast.
        let columns = if *self.columns == *layout.columns {
            Arc::clone(&self.columns)
        } else {
            layout.columns.iter().cloned().collect()
        };
        let kinds = layout.kinds.iter().cloned().collect();
        Ok((Self { asked: self.asked.clone(), layout, columns, kinds }, fit))
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn raw(&self, row: &DynamicRow) -> Box<[Datum]> {
        row.values.clone()
    }

    fn cook(&self, values: &[Datum]) -> Result<DynamicRow, (usize, ValueError)> {
        let (columns, kinds) = (Arc::clone(&self.columns), Arc::clone(&self.kinds));
        Ok(DynamicRow { columns, kinds, values: values.into() })
    }
}
