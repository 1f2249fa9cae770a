//! The changes from one snapshot to a later one.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;
use uuid::Uuid;

use super::dynamic::DynamicRow;
use super::snapshot::Seq;
use crate::model::{Ref, Str, Table, TableColumns};

/// The change of one row. At least one side is present, and the two sides differ.
pub struct Change<T> {
    /// The row.
    pub uuid: Uuid,
    /// The old row; `None` if the row is new.
    pub before: Option<Arc<T>>,
    /// The new row; `None` if the row was deleted.
    pub after: Option<Arc<T>>,
}

impl<T> Change<T> {
    /// The row, typed.
    pub fn row(&self) -> Ref<T> {
        Ref::new(self.uuid)
    }
}

impl<T: Table> Change<T> {
    /// The columns that differ; all columns if the row is new or deleted.
    pub fn columns(&self) -> TableColumns<T> {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => TableColumns::from_set(before.differing(after)),
            _ => TableColumns::all(),
        }
    }
}

impl<T> Clone for Change<T> {
    fn clone(&self) -> Self {
        Self { uuid: self.uuid, before: self.before.clone(), after: self.after.clone() }
    }
}

impl<T: PartialEq> PartialEq for Change<T> {
    fn eq(&self, other: &Self) -> bool {
        self.uuid == other.uuid && self.before == other.before && self.after == other.after
    }
}

impl<T: fmt::Debug> fmt::Debug for Change<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?} -> {:?}", self.uuid, self.before, self.after)
    }
}

/// All changes from one snapshot to a later one: true changes only, each row once, sorted by UUID.
#[derive(Clone)]
pub struct Delta {
    seq: Seq,
    /// Most deltas concern a single table.
    tables: SmallVec<[Arc<dyn AnyChanges>; 1]>,
}

impl Delta {
    pub(super) fn new(seq: Seq, tables: impl IntoIterator<Item = Arc<dyn AnyChanges>>) -> Self {
        Self { seq, tables: tables.into_iter().collect() }
    }

    /// No change at all.
    pub(crate) fn none(seq: Seq) -> Self {
        Self { seq, tables: SmallVec::new() }
    }

    /// Adds the changes of another table.
    pub(super) fn add(&mut self, changes: Option<Arc<dyn AnyChanges>>) {
        self.tables.extend(changes);
    }

    /// Sets the snapshot to which the delta leads.
    pub(super) fn lead_to(&mut self, seq: Seq) {
        self.seq = seq;
    }

    /// Merges consecutive deltas, each of which begins where the previous one ends; `None` if there are none.
    pub(crate) fn sum(deltas: &[Arc<Delta>]) -> Option<Delta> {
        match deltas {
            [] => None,
            [one] => Some(Delta::clone(one)),
            // Merging by halves copies less than merging one after the other, which would copy the whole sum each time.
            many => {
                let (early, late) = many.split_at(many.len() / 2);
                let mut sum = Self::sum(early)?;
                sum.merge(&Self::sum(late)?);
                Some(sum)
            }
        }
    }

    /// The snapshot to which the delta leads.
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// Whether the delta is empty.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// The number of changed rows.
    pub fn len(&self) -> usize {
        self.tables.iter().map(|changes| changes.len()).sum()
    }

    /// The tables in which rows changed.
    pub fn tables(&self) -> impl Iterator<Item = &str> {
        self.tables.iter().map(|changes| changes.table())
    }

    /// Whether rows of a table changed.
    pub fn touches<T: Table>(&self) -> bool {
        self.changes::<T>().is_some()
    }

    /// The changed rows of a table.
    pub fn table<T: Table>(&self) -> std::slice::Iter<'_, Change<T>> {
        self.changes::<T>().map_or(&[][..], |changes| &changes.list).iter()
    }

    /// The changed rows of a table without a struct, decoded by the server's schema.
    pub fn dynamic(&self, table: &str) -> std::slice::Iter<'_, Change<DynamicRow>> {
        let found = self.tables.iter().find(|changes| changes.table() == table);
        let found = found.and_then(|changes| downcast::<DynamicRow>(&**changes));
        found.map_or(&[][..], |changes| &changes.list).iter()
    }

    /// Merges a delta that begins where this one ends. Changes that cancel each other out disappear.
    pub fn merge(&mut self, later: &Delta) {
        self.seq = later.seq;
        for changes in &later.tables {
            match self.tables.iter().position(|mine| mine.table() == changes.table()) {
                None => self.tables.push(Arc::clone(changes)),
                Some(at) => match self.tables[at].merged(&**changes) {
                    Some(merged) => self.tables[at] = merged,
                    None => drop(self.tables.remove(at)),
                },
            }
        }
    }

    fn changes<T: Send + Sync + PartialEq + 'static>(&self) -> Option<&Changes<T>> {
        self.tables.iter().find_map(|changes| downcast(&**changes))
    }
}

impl fmt::Debug for Delta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Delta");
        shown.field("seq", &self.seq.0);
        for changes in &self.tables {
            shown.field(changes.table(), &changes.len());
        }
        shown.finish()
    }
}

/// The changes of one table with the row type erased. Never empty.
pub(super) trait AnyChanges: Any + Send + Sync {
    fn table(&self) -> &str;
    fn len(&self) -> usize;
    fn merged(&self, later: &dyn AnyChanges) -> Option<Arc<dyn AnyChanges>>;
}

fn downcast<T: 'static>(changes: &dyn AnyChanges) -> Option<&Changes<T>> {
    let changes: &dyn Any = changes;
    changes.downcast_ref()
}

/// The changes of one table.
pub(super) struct Changes<T> {
    table: Str,
    list: Vec<Change<T>>,
}

impl<T: Send + Sync + PartialEq + 'static> Changes<T> {
    /// Changes sorted by UUID; `None` if there are none.
    pub(super) fn listed(table: &Str, list: Vec<Change<T>>) -> Option<Arc<dyn AnyChanges>> {
        (!list.is_empty()).then(|| Arc::new(Self { table: table.clone(), list }) as Arc<dyn AnyChanges>)
    }
}

impl<T: Send + Sync + PartialEq + 'static> AnyChanges for Changes<T> {
    fn table(&self) -> &str {
        &self.table
    }

    fn len(&self) -> usize {
        self.list.len()
    }

    fn merged(&self, later: &dyn AnyChanges) -> Option<Arc<dyn AnyChanges>> {
        let later = downcast::<T>(later).expect("changes of one table have one type");
        let mut list = Vec::with_capacity(self.list.len() + later.list.len());
        let mut mine = self.list.iter().cloned().peekable();
        for change in &later.list {
            while let Some(earlier) = mine.next_if(|earlier| earlier.uuid < change.uuid) {
                list.push(earlier);
            }
            let before = match mine.next_if(|earlier| earlier.uuid == change.uuid) {
                Some(earlier) => earlier.before,
                None => change.before.clone(),
            };
            if before != change.after {
                list.push(Change { uuid: change.uuid, before, after: change.after.clone() });
            }
        }
        list.extend(mine);
        Self::listed(&self.table, list)
    }
}
