//! Decodes rows: into structs in one pass, or into datums if the struct refuses or is unknown.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::Arc;

use serde::de::Error as _;
use serde_json::Error;

use crate::model::fit;
use crate::model::{ColumnSet, Misfit, Str, Table, TableFit};
use crate::wire::atom::ValueError;
use crate::wire::cursor::Cursor;
use crate::wire::datum::Datum;
use crate::wire::schema::{ColumnKind, DatabaseSchema};

/// Receives the columns of one row, one after the other.
pub(super) trait Sink {
    /// Receives one column's value, whole or as a difference. Unrequested columns are skipped.
    fn column(&mut self, name: &str, modify: bool, value: &mut Cursor<'_>) -> Result<(), Error>;

    /// Called after the last column of a new row.
    fn complete(&self) -> Result<(), Error> {
        Ok(())
    }

    /// The received columns by position; positions beyond the capacity of a column set are missing.
    fn touched(&self) -> ColumnSet;
}

/// Builds rows from columns.
pub(super) trait Reader {
    /// The type of a row.
    type Row: Clone + PartialEq + Send + Sync + 'static;
    /// Reads columns into a row.
    type Sink<'a>: Sink
    where
        Self: 'a;

    /// A row with the default values that the server omits in an insert.
    fn blank(&self) -> Arc<Self::Row>;
    /// A sink into a row.
    fn sink<'a>(&'a self, row: &'a mut Self::Row) -> Self::Sink<'a>;
    /// Whether two rows are equal. They may differ only in the given columns.
    fn same(&self, before: &Self::Row, after: &Self::Row, touched: ColumnSet) -> bool {
        let _ = touched;
        before == after
    }
}

/// Decodes the rows of one table. The same type is used before and after the comparison with a schema.
pub(super) trait Codec: Reader + Clone + Send + Sync + Sized + 'static {
    /// The codec for a schema.
    fn fit(&self, table: &str, schema: &DatabaseSchema) -> Result<(Self, TableFit), Vec<Misfit>>;
    /// The columns that are monitored, as datums.
    fn layout(&self) -> &Layout;
    /// The row as datums, by the layout.
    fn raw(&self, row: &Self::Row) -> Box<[Datum]>;
    /// Builds a row from datums. The error names the position in the layout of the value that does not fit, and the reason.
    fn cook(&self, values: &[Datum]) -> Result<Self::Row, (usize, ValueError)>;
}

/// The monitored columns of a table by name, with their schema.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Layout {
    pub(super) columns: Vec<Str>,
    pub(super) kinds: Vec<ColumnKind>,
}

impl Layout {
    /// The columns of a table in the schema. Missing ones are left out.
    pub(super) fn new<'a>(
        columns: impl Iterator<Item = &'a str>,
        schema: &DatabaseSchema,
        table: &str,
    ) -> Self {
        let mut layout = Self::default();
        let Some(found) = schema.tables.get(table) else { return layout };
        for name in columns {
            if let Some(column) = found.columns.get(name) {
                layout.columns.push(name.into());
                layout.kinds.push(column.kind.clone());
            }
        }
        layout
    }
}

impl Reader for Layout {
    type Row = Box<[Datum]>;
    type Sink<'a> = RawSink<'a>;

    fn blank(&self) -> Arc<Box<[Datum]>> {
        Arc::new(self.kinds.iter().map(ColumnKind::default_datum).collect())
    }

    fn sink<'a>(&'a self, values: &'a mut Box<[Datum]>) -> RawSink<'a> {
        RawSink { layout: self, values, touched: ColumnSet::EMPTY }
    }
}

/// Reads columns into datums.
pub(super) struct RawSink<'a> {
    layout: &'a Layout,
    values: &'a mut [Datum],
    touched: ColumnSet,
}

impl Sink for RawSink<'_> {
    fn column(&mut self, name: &str, modify: bool, value: &mut Cursor<'_>) -> Result<(), Error> {
        let Some(at) = self.layout.columns.iter().position(|column| column == name) else {
            return value.skip();
        };
        self.touched.insert(at);
        let kind = &self.layout.kinds[at];
        let datum = kind.coerce(Datum::read(value)?);
        if modify && kind.is_composite() {
            self.values[at].apply_diff(datum).map_err(Error::custom)
        } else {
            self.values[at] = datum;
            Ok(())
        }
    }

    fn touched(&self) -> ColumnSet {
        self.touched
    }
}

/// Reads rows into a struct.
#[derive(Clone)]
pub(super) struct TypedCodec<T> {
    blank: Arc<T>,
    /// Whether servers may lack the table.
    optional: bool,
    /// The columns that the model requests.
    asked: ColumnSet,
    monitored: ColumnSet,
    composite: ColumnSet,
    /// Columns whose default the struct rejects, so an insert must contain them.
    needed: ColumnSet,
    layout: Layout,
}

impl<T: Table> TypedCodec<T> {
    pub(super) fn new(optional: bool) -> Self {
        Self {
            blank: Arc::default(),
            optional,
            asked: ColumnSet::all::<T>(),
            monitored: ColumnSet::EMPTY,
            composite: ColumnSet::EMPTY,
            needed: ColumnSet::EMPTY,
            layout: Layout::default(),
        }
    }

    /// The same codec for some columns only.
    pub(super) fn only(&self, columns: ColumnSet) -> Self {
        Self { asked: columns, ..self.clone() }
    }
}

impl<T: Table> Reader for TypedCodec<T> {
    type Row = T;
    type Sink<'a> = TypedSink<'a, T>;

    fn blank(&self) -> Arc<T> {
        Arc::clone(&self.blank)
    }

    fn sink<'a>(&'a self, row: &'a mut T) -> TypedSink<'a, T> {
        TypedSink { codec: self, row, touched: ColumnSet::EMPTY }
    }

    fn same(&self, before: &T, after: &T, touched: ColumnSet) -> bool {
        touched.iter().all(|column| before.agrees(after, column))
    }
}

impl<T: Table> Codec for TypedCodec<T> {
    fn fit(&self, table: &str, schema: &DatabaseSchema) -> Result<(Self, TableFit), Vec<Misfit>> {
        let mut codec = Self::new(self.optional).only(self.asked);
        if self.optional && !schema.tables.contains_key(table) {
            let fit = TableFit { absent: ColumnSet::all::<T>(), ..TableFit::default() };
            return Ok((codec, fit));
        }
        let mut fit = fit(table, T::COLUMNS, schema)?;
        fit.absent = fit.absent.or(ColumnSet::all::<T>().without(self.asked));
        let monitored = |at: &usize| !fit.absent.contains(*at) && !T::COLUMNS[*at].write_only;
        codec.monitored = (0..T::COLUMNS.len()).filter(monitored).collect();
        codec.composite = fit.composite;
        codec.layout = Layout::new(codec.monitored.iter().map(|at| T::COLUMNS[at].name), schema, table);
        let blank = Arc::make_mut(&mut codec.blank);
        for (at, kind) in codec.monitored.iter().zip(&codec.layout.kinds) {
            // The default is the schema's, not the struct's, because the server omits values that equal the schema's default.
            if blank.set(at, &kind.default_datum()).is_err() {
                codec.needed.insert(at);
            }
        }
        Ok((codec, fit))
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn raw(&self, row: &T) -> Box<[Datum]> {
        self.monitored.iter().zip(&self.layout.kinds).map(|(at, kind)| kind.coerce(row.datum(at))).collect()
    }

    fn cook(&self, values: &[Datum]) -> Result<T, (usize, ValueError)> {
        let mut row = T::default();
        for (place, (at, datum)) in self.monitored.iter().zip(values).enumerate() {
            row.set(at, datum).map_err(|error| (place, error))?;
        }
        Ok(row)
    }
}

/// Reads columns into a struct.
pub(super) struct TypedSink<'a, T> {
    codec: &'a TypedCodec<T>,
    row: &'a mut T,
    touched: ColumnSet,
}

impl<T: Table> Sink for TypedSink<'_, T> {
    fn column(&mut self, name: &str, modify: bool, value: &mut Cursor<'_>) -> Result<(), Error> {
        match T::position(name) {
            Some(at) if self.codec.monitored.contains(at) => {
                self.touched.insert(at);
                self.row.decode(at, modify && self.codec.composite.contains(at), value)
            }
            _ => value.skip(),
        }
    }

    fn complete(&self) -> Result<(), Error> {
        match self.codec.needed.without(self.touched).iter().next() {
            None => Ok(()),
            Some(at) => Err(Error::custom(format_args!("column {} has no value", T::COLUMNS[at].name))),
        }
    }

    fn touched(&self) -> ColumnSet {
        self.touched
    }
}
