//! One table: its rows, its indexes, the undecodable rows, and its fit with the schema.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use super::apply::{StagedRows, UpdateVersion};
use super::codec::{Codec, TypedCodec};
use super::delta::{AnyChanges, Changes};
use super::error::ApplyError;
use super::index::{AnyIndex, Entries, Index};
use super::rows::Rows;
use super::split::RowText;
use super::unreadable;
use crate::model::{Misfit, Str, Table, TableFit};
use crate::wire::atom::ValueError;
use crate::wire::cursor::Cursor;
use crate::wire::datum::Datum;
use crate::wire::schema::DatabaseSchema;

/// A row that its struct rejected, as received.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RawRow {
    /// The values, in the order of the table's layout.
    pub(super) values: Box<[Datum]>,
    /// The first rejected column.
    pub(super) column: Str,
    pub(super) problem: ValueError,
}

/// One table at one instant.
pub(super) struct TableState<C: Codec> {
    pub(super) name: Str,
    pub(super) codec: Arc<C>,
    pub(super) fit: Arc<TableFit>,
    pub(super) rows: Rows<C::Row>,
    pub(super) unreadable: Arc<BTreeMap<Uuid, Arc<RawRow>>>,
    indexes: Vec<Arc<dyn AnyIndex<C::Row>>>,
}

impl<C: Codec> Clone for TableState<C> {
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            codec: Arc::clone(&self.codec),
            fit: Arc::clone(&self.fit),
            rows: self.rows.clone(),
            unreadable: Arc::clone(&self.unreadable),
            indexes: self.indexes.clone(),
        }
    }
}

impl<C: Codec> TableState<C> {
    pub(super) fn new(name: Str, codec: C) -> Self {
        Self {
            name,
            codec: Arc::new(codec),
            fit: Arc::default(),
            rows: Rows::default(),
            unreadable: Arc::default(),
            indexes: Vec::new(),
        }
    }

    /// Applies staged changes.
    fn commit(&mut self, mut staged: StagedRows<C::Row>) -> Option<Arc<dyn AnyChanges>> {
        if !staged.unreadable.is_empty() {
            unreadable::take(&self.name, Arc::make_mut(&mut self.unreadable), staged.unreadable);
        }
        let changes = &mut staged.changes;
        changes.sort_unstable_by_key(|change| change.uuid);
        self.rows.commit(changes);
        for index in &mut self.indexes {
            if Arc::get_mut(index).is_none() {
                *index = index.copy();
            }
            Arc::get_mut(index).expect("just copied").commit(changes);
        }
        Changes::listed(&self.name, staged.changes)
    }
}

impl<T: Table> TableState<TypedCodec<T>> {
    pub(super) fn add_index<I: Index<Row = T>>(&mut self) {
        if self.index::<I>().is_none() {
            self.indexes.push(Arc::new(Entries::<I>::default()));
        }
    }

    pub(super) fn index<I: Index<Row = T>>(&self) -> Option<&Entries<I>> {
        self.indexes.iter().find_map(|index| (&**index as &dyn Any).downcast_ref())
    }
}

/// The staged changes of a table, with the type erased.
pub(super) type AnyStaged = Box<dyn Any + Send>;

/// A table with the row type erased.
pub(super) trait AnyTable: Any + Send + Sync {
    fn name(&self) -> &Str;
    fn len(&self) -> usize;
    fn copy(&self) -> Arc<dyn AnyTable>;
    /// The table for a schema, with its rows; and whether they were read by the same layout.
    fn refit(&self, schema: &DatabaseSchema) -> Result<(Arc<dyn AnyTable>, bool), Vec<Misfit>>;
    fn fit(&self) -> &TableFit;
    /// The columns to monitor; `None` if the server lacks the table.
    fn monitored(&self, schema: &DatabaseSchema) -> Option<Vec<Str>>;
    /// Stages one notification's rows.
    fn stage(&self, version: UpdateVersion, cursor: &mut Cursor<'_>) -> Result<AnyStaged, ApplyError>;
    /// Stages the deletion of all rows that a reload does not list.
    fn stage_gone(&self, listed: &[RowText]) -> AnyStaged;
    /// Stages rows of a reload.
    fn stage_initial(
        &self,
        version: UpdateVersion,
        text: &str,
        rows: &[RowText],
        staged: &mut AnyStaged,
    ) -> Result<(), ApplyError>;
    /// Applies the staged changes of this table.
    fn commit(&mut self, staged: AnyStaged) -> Option<Arc<dyn AnyChanges>>;
    fn diff(&self, newer: &dyn AnyTable) -> Option<Arc<dyn AnyChanges>>;
    fn unreadable(&self) -> &BTreeMap<Uuid, Arc<RawRow>>;
    fn columns(&self) -> &[Str];
}

impl<C: Codec> AnyTable for TableState<C> {
    fn name(&self) -> &Str {
        &self.name
    }

    fn len(&self) -> usize {
        self.rows.len()
    }

    fn copy(&self) -> Arc<dyn AnyTable> {
        Arc::new(self.clone())
    }

    fn refit(&self, schema: &DatabaseSchema) -> Result<(Arc<dyn AnyTable>, bool), Vec<Misfit>> {
        let (codec, fit) = self.codec.fit(&self.name, schema)?;
        let same = codec.layout() == self.codec.layout();
        let mut table = self.clone();
        table.codec = Arc::new(codec);
        table.fit = Arc::new(fit);
        Ok((Arc::new(table), same))
    }

    fn fit(&self) -> &TableFit {
        &self.fit
    }

    fn monitored(&self, schema: &DatabaseSchema) -> Option<Vec<Str>> {
        schema.tables.contains_key(&self.name).then(|| self.codec.layout().columns.clone())
    }

    fn stage(&self, version: UpdateVersion, cursor: &mut Cursor<'_>) -> Result<AnyStaged, ApplyError> {
        Ok(Box::new(self.stage(version, cursor)?))
    }

    fn stage_gone(&self, listed: &[RowText]) -> AnyStaged {
        Box::new(self.stage_gone(listed))
    }

    fn stage_initial(
        &self,
        version: UpdateVersion,
        text: &str,
        rows: &[RowText],
        staged: &mut AnyStaged,
    ) -> Result<(), ApplyError> {
        let staged: &mut StagedRows<C::Row> = staged.downcast_mut().expect("staged by this table");
        self.stage_initial(version, text, rows, staged)
    }

    fn commit(&mut self, staged: AnyStaged) -> Option<Arc<dyn AnyChanges>> {
        let staged: Box<StagedRows<C::Row>> = staged.downcast().expect("staged by this table");
        self.commit(*staged)
    }

    fn diff(&self, newer: &dyn AnyTable) -> Option<Arc<dyn AnyChanges>> {
        let newer: &dyn Any = newer;
        let newer: &Self = newer.downcast_ref().expect("snapshots of one replica have the same tables");
        Changes::listed(&self.name, self.rows.diff(&newer.rows))
    }

    fn unreadable(&self) -> &BTreeMap<Uuid, Arc<RawRow>> {
        &self.unreadable
    }

    fn columns(&self) -> &[Str] {
        &self.codec.layout().columns
    }
}
