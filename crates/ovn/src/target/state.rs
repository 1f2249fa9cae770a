//! The observed state of a database, and the mark that makes a row ours. [`Desired`](super::Desired) is the desired state,
//! [`Op`](super::Op) a change.
//!
//! The mark is the key `meridian:owner` in `external_ids`, with the name of the deployment that wrote the row. In tables
//! without `external_ids` the UUID itself is the mark ([`ident::marked_uuid`]). Rows adopted from another program are ours by a
//! record. [`OwnedRow`] is the proof of ownership. Only [`Ownership::claim`] gives it, and a delete needs it.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::any::Any;
use std::cmp::Ordering;
use std::fmt;

use imbl::OrdMap;
use ovsdb::model::{ColumnSet, ColumnSpec};
use ovsdb::wire::DatabaseSchema;
use ovsdb::wire::Datum;
use ovsdb::{Map, Str, Table, Uuid};
use reconcile::ObjectId;

use super::element;
use crate::ident;
use crate::text::neutron::key;

/// The key that names the object of a row, if no other column does.
pub const OBJECT: &str = "meridian:object";

/// A typed table the target can write.
pub trait Writable: Table {
    /// Columns that other programs fill in and we only read.
    const REPORTED: &'static [&'static str];

    /// The row's `external_ids`, if the table has them.
    fn external_ids(&self) -> Option<&Map<Str, Str>>;

    /// Whether a column of references contains this one.
    fn refers(&self, column: usize, to: Uuid) -> bool {
        element::uuids(&self.datum(column)).any(|uuid| uuid == to)
    }

    /// The references that one of two rows has in a column and the other has not.
    fn moved(&self, column: usize, other: &Self) -> Vec<Uuid> {
        element::differing(&self.datum(column), &other.datum(column))
    }
}

/// A row of any typed table. Implemented for every [`Writable`] table.
pub trait Row: Any + Send + Sync + fmt::Debug {
    /// The table.
    fn table(&self) -> &'static str;
    /// Its columns.
    fn columns(&self) -> &'static [ColumnSpec];
    /// The value of one column.
    fn datum(&self, column: usize) -> Datum;
    /// The columns in which two rows differ; every column if they are not of one type.
    fn differing(&self, other: &dyn Row) -> ColumnSet;
    /// The row's `external_ids`, if the table has them.
    fn external_ids(&self) -> Option<&Map<Str, Str>>;
    /// Whether a column of references contains this one.
    fn refers(&self, column: usize, to: Uuid) -> bool;
    /// The references that one of two rows has in a column and the other has not; `None` if they are not of one type.
    fn moved(&self, column: usize, other: &dyn Row) -> Option<Vec<Uuid>>;
    /// The same row, for a downcast to its type.
    fn as_any(&self) -> &dyn Any;
}

impl<T: Writable + fmt::Debug> Row for T {
    fn table(&self) -> &'static str {
        T::TABLE
    }

    fn columns(&self) -> &'static [ColumnSpec] {
        T::COLUMNS
    }

    fn datum(&self, column: usize) -> Datum {
        Table::datum(self, column)
    }

    fn differing(&self, other: &dyn Row) -> ColumnSet {
        match other.as_any().downcast_ref::<T>() {
            Some(other) => Table::differing(self, other),
            None => ColumnSet::all::<T>(),
        }
    }

    fn external_ids(&self) -> Option<&Map<Str, Str>> {
        Writable::external_ids(self)
    }

    fn refers(&self, column: usize, to: Uuid) -> bool {
        Writable::refers(self, column, to)
    }

    fn moved(&self, column: usize, other: &dyn Row) -> Option<Vec<Uuid>> {
        Some(Writable::moved(self, column, other.as_any().downcast_ref::<T>()?))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A row's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowId {
    /// The table.
    pub table: &'static str,
    /// The row.
    pub uuid: Uuid,
}

impl RowId {
    /// The row of `T` with this UUID.
    pub fn of<T: Table>(uuid: Uuid) -> Self {
        RowId { table: T::TABLE, uuid }
    }
}

impl Ord for RowId {
    fn cmp(&self, other: &Self) -> Ordering {
        // Compares the table, then the row. Most comparisons are within a table, so comparing the address of its name first is fast: large
        // clouds compare rows by the million.
        let tables = match std::ptr::eq(self.table, other.table) {
            true => Ordering::Equal,
            false => self.table.cmp(other.table),
        };
        tables.then_with(|| self.uuid.as_u128().cmp(&other.uuid.as_u128()))
    }
}

impl PartialOrd for RowId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for RowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.table, self.uuid)
    }
}

/// A database at one instant.
pub trait View: Send {
    /// The server's schema.
    fn schema(&self) -> &DatabaseSchema;
    /// One row.
    fn row(&self, id: RowId) -> Option<&dyn Row>;
    /// Every row of a table.
    fn each(&self, table: &'static str, visit: &mut dyn FnMut(Uuid, &dyn Row));
    /// The tables it shows.
    fn tables(&self) -> &[&'static str];
    /// Whether there is a row with this id that cannot be decoded.
    fn hides(&self, id: RowId) -> bool;
}

/// Derives the object of a marked row from the row's own columns.
pub type Naming = fn(Uuid, &dyn Row) -> Option<ObjectId>;

/// The rule that makes a row ours.
#[derive(Clone, Debug)]
pub struct Ownership {
    owner: Str,
    recorded: OrdMap<RowId, ObjectId>,
    naming: Option<Naming>,
}

/// Proof that a row is ours. Only [`Ownership::claim`] creates one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRow {
    row: RowId,
    object: Option<ObjectId>,
}

impl OwnedRow {
    /// The row.
    pub fn row(&self) -> RowId {
        self.row
    }

    /// The object of the row, if it is known.
    pub fn object(&self) -> Option<&ObjectId> {
        self.object.as_ref()
    }
}

impl Ownership {
    /// Rows of the deployment `owner`.
    pub fn new(owner: impl Into<Str>) -> Self {
        Ownership { owner: owner.into(), recorded: OrdMap::new(), naming: None }
    }

    /// Derives objects from rows, which then need no key for it.
    pub fn naming(mut self, naming: Naming) -> Self {
        self.naming = Some(naming);
        self
    }

    /// Adds a row that is ours although it does not carry the mark: it was adopted, and the record of it is kept elsewhere.
    pub fn record(&mut self, row: RowId, object: ObjectId) {
        self.recorded.insert(row, object);
    }

    /// Adds records. An imported cloud has one for each row, and each plan needs them, so they are shared and not copied.
    pub(super) fn with_records(&self, records: &OrdMap<RowId, ObjectId>) -> Self {
        let recorded = match self.recorded.is_empty() {
            true => records.clone(),
            false => records.clone().union(self.recorded.clone()),
        };
        Ownership { recorded, ..self.clone() }
    }

    /// Proof that this row is ours, if it is.
    pub fn claim(&self, id: RowId, row: &dyn Row) -> Option<OwnedRow> {
        if let Some(object) = self.recorded.get(&id) {
            return Some(OwnedRow { row: id, object: Some(object.clone()) });
        }
        let ours = match row.external_ids() {
            Some(ids) => ids.get(key::OWNER) == Some(&self.owner),
            None => ident::is_marked_uuid(&self.owner, id.uuid),
        };
        ours.then(|| OwnedRow { row: id, object: self.object(id, row) })
    }

    /// Whether a row carries the mark of another deployment.
    pub(super) fn is_others(&self, id: RowId, row: &dyn Row) -> bool {
        let mark = row.external_ids().and_then(|ids| ids.get(key::OWNER));
        mark.is_some_and(|owner| *owner != self.owner) && !self.recorded.contains_key(&id)
    }

    /// Whether a row that is created now would later be recognised as ours.
    pub(super) fn will_know(&self, id: RowId, row: &dyn Row) -> bool {
        row.external_ids().is_some()
            || self.recorded.contains_key(&id)
            || ident::is_marked_uuid(&self.owner, id.uuid)
    }

    fn object(&self, id: RowId, row: &dyn Row) -> Option<ObjectId> {
        let named = self.naming.and_then(|naming| naming(id.uuid, row));
        named.or_else(|| {
            let (kind, id) = row.external_ids()?.get(OBJECT)?.split_once('/')?;
            Some(ObjectId::new(kind, id))
        })
    }

    /// Whether a row carries all marks of a row of `object`.
    pub(super) fn is_marked(&self, id: RowId, want: &dyn Row, object: &ObjectId, row: &dyn Row) -> bool {
        let Some(ids) = row.external_ids() else { return true };
        let named = || self.naming.and_then(|naming| naming(id.uuid, want)).as_ref() == Some(object);
        let told = |text: &Str| {
            text.split_once('/').is_some_and(|(kind, id)| object.kind == kind && object.id == id)
        };
        ids.get(key::OWNER) == Some(&self.owner) && (ids.get(OBJECT).is_some_and(told) || named())
    }

    /// The keys in `external_ids` that identify a row of `object`.
    pub(super) fn mark(&self, id: RowId, row: &dyn Row, object: &ObjectId) -> Vec<(Str, Str)> {
        let mut mark = vec![(Str::new_static(key::OWNER), self.owner.clone())];
        if self.naming.and_then(|naming| naming(id.uuid, row)).as_ref() != Some(object) {
            mark.push((Str::new_static(OBJECT), object.to_string().into()));
        }
        mark
    }
}
