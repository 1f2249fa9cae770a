//! Updates, row by row: parsing and validating the update of each row.
//!
//! Version 1 sends `{"old": ..., "new": ...}` with the whole new row. Versions 2 and 3 send one of `initial`, `insert`,
//! `modify` and `delete`. An insert omits default values. A modify has the difference for columns that may hold several
//! elements, and the new value for others. A row that enters or leaves a condition looks like an insert or delete.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::Error as _;
use serde_json::Error;
use smallvec::SmallVec;
use uuid::Uuid;

use super::codec::{Codec, Reader, Sink};
use super::delta::Change;
use super::error::{ApplyError, Inconsistency};
use super::split::{self, RowText};
use super::table::{RawRow, TableState};
use crate::model::ColumnSet;
use crate::wire::cursor::Cursor;
use crate::wire::datum::Datum;

/// The form of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateVersion {
    /// The reply to `monitor` and the notification `update`.
    V1,
    /// The replies to `monitor_cond` and `monitor_cond_since` and the notifications `update2` and `update3`.
    V2,
}

/// The update of a row.
enum RowUpdate<R> {
    Insert(R),
    Modify(R),
    /// A modification that changes nothing.
    Repeat,
    /// A modification of a row that is not here.
    ModifyUnknown,
    Delete,
}

/// The new state of a row.
enum After<R> {
    /// Unchanged.
    Same,
    Gone,
    Row(Arc<R>),
    Unreadable(RawRow),
}

impl<R: PartialEq> After<R> {
    /// The changed row, or `Same` if it equals the previous one.
    fn row(row: Arc<R>, before: Option<&Arc<R>>) -> Self {
        if before.is_some_and(|before| **before == *row) { Self::Same } else { Self::Row(row) }
    }
}

/// The changes of one table that are not applied yet.
pub(super) struct StagedRows<R> {
    /// In the order of arrival, each row once.
    pub(super) changes: Vec<Change<R>>,
    /// Rows that became undecodable (`Some`) or decodable again, in the same order.
    pub(super) unreadable: Vec<(Uuid, Option<Arc<RawRow>>)>,
}

impl<R> Default for StagedRows<R> {
    fn default() -> Self {
        Self { changes: Vec::new(), unreadable: Vec::new() }
    }
}

impl<R: PartialEq> StagedRows<R> {
    /// Records the change of a row, unless the row stays equal.
    fn note<C: Codec<Row = R>>(
        &mut self,
        table: &TableState<C>,
        uuid: Uuid,
        before: Option<&Arc<R>>,
        after: After<R>,
    ) {
        let was_unreadable = table.unreadable.get(&uuid);
        let after = match after {
            After::Same => return,
            After::Row(row) => Some(row),
            After::Gone => None,
            After::Unreadable(raw) => {
                if was_unreadable.is_none_or(|before| **before != raw) {
                    self.unreadable.push((uuid, Some(Arc::new(raw))));
                }
                if before.is_some() {
                    self.changes.push(Change { uuid, before: before.cloned(), after: None });
                }
                return;
            }
        };
        if was_unreadable.is_some() {
            self.unreadable.push((uuid, None));
        }
        if before.is_some() || after.is_some() {
            self.changes.push(Change { uuid, before: before.cloned(), after });
        }
    }
}

impl<C: Codec> TableState<C> {
    /// Stages one notification's rows.
    pub(super) fn stage(
        &self,
        version: UpdateVersion,
        cursor: &mut Cursor<'_>,
    ) -> Result<StagedRows<C::Row>, ApplyError> {
        let (mut staged, mut seen) = (StagedRows::default(), SmallVec::<[Uuid; 1]>::new());
        cursor.members(|cursor, uuid| {
            let uuid = split::row_uuid(&uuid)?;
            let before = self.rows.get(uuid);
            let after = self.update(version, uuid, before, cursor)?;
            staged.note(self, uuid, before, after);
            seen.push(uuid);
            Ok::<_, ApplyError>(())
        })?;
        // A valid update mentions each row once. Otherwise it is unclear which part is right, so the caller reloads.
        seen.sort_unstable();
        match seen.array_windows().find(|[a, b]| a == b) {
            None => Ok(staged),
            Some([uuid, _]) => Err(self.inconsistent(*uuid, Inconsistency::Repeated)),
        }
    }

    /// Stages rows as given (`Some`) or removes them (`None`).
    pub(super) fn stage_rows(&self, rows: BTreeMap<Uuid, Option<C::Row>>) -> StagedRows<C::Row> {
        let mut staged = StagedRows::default();
        for (uuid, row) in rows {
            let before = self.rows.get(uuid);
            let after = row.map_or(After::Gone, |row| After::row(Arc::new(row), before));
            staged.note(self, uuid, before, after);
        }
        staged
    }

    /// Stages rows of a reload, as if there were no others.
    pub(super) fn stage_initial(
        &self,
        version: UpdateVersion,
        text: &str,
        rows: &[RowText],
        staged: &mut StagedRows<C::Row>,
    ) -> Result<(), ApplyError> {
        for RowText { uuid, at } in rows {
            let (before, mut cursor) = (self.rows.get(*uuid), Cursor::new(&text[at.clone()]));
            let after = match self.read(version, *uuid, &mut cursor, None, None)? {
                RowUpdate::Insert(After::Row(row)) => After::row(row, before),
                RowUpdate::Insert(after) => after,
                RowUpdate::Modify(_) | RowUpdate::Repeat | RowUpdate::ModifyUnknown | RowUpdate::Delete => {
                    return Err(self.inconsistent(*uuid, Inconsistency::NotInitial));
                }
            };
            staged.note(self, *uuid, before, after);
        }
        Ok(())
    }

    fn update(
        &self,
        version: UpdateVersion,
        uuid: Uuid,
        row: Option<&Arc<C::Row>>,
        cursor: &mut Cursor<'_>,
    ) -> Result<After<C::Row>, ApplyError> {
        let raw = self.unreadable.get(&uuid).map(|raw| &*raw.values);
        let known = raw.is_some() || row.is_some();
        match self.read(version, uuid, cursor, row, raw)? {
            RowUpdate::Insert(_) if known => Err(self.inconsistent(uuid, Inconsistency::InsertKnown)),
            RowUpdate::Modify(_) | RowUpdate::ModifyUnknown if !known => {
                Err(self.inconsistent(uuid, Inconsistency::ModifyUnknown))
            }
            RowUpdate::Delete if !known => Err(self.inconsistent(uuid, Inconsistency::DeleteUnknown)),
            RowUpdate::Insert(after) | RowUpdate::Modify(after) => Ok(after),
            RowUpdate::Repeat => Ok(After::Same),
            RowUpdate::ModifyUnknown | RowUpdate::Delete => Ok(After::Gone),
        }
    }

    /// Reads a row's update into a row; if the row type rejects it, into datums.
    fn read(
        &self,
        version: UpdateVersion,
        uuid: Uuid,
        cursor: &mut Cursor<'_>,
        row: Option<&Arc<C::Row>>,
        raw: Option<&[Datum]>,
    ) -> Result<RowUpdate<After<C::Row>>, ApplyError> {
        let begin = cursor.clone();
        if raw.is_none()
            && let Ok(said) = decode(&*self.codec, cursor, version, row)
        {
            return Ok(said.map(After::Row));
        }
        *cursor = begin;
        let layout = self.codec.layout();
        let before = raw.map(Box::from).or_else(|| row.map(|row| self.codec.raw(row))).map(Arc::new);
        let said = decode(layout, cursor, version, before.as_ref()).map_err(|source| {
            ApplyError::Malformed { place: format!("table {}, row {uuid}", self.name), source }
        })?;
        Ok(said.map(|values| match self.codec.cook(&values) {
            Ok(fresh) => After::row(Arc::new(fresh), row),
            Err((at, problem)) => {
                let values = Arc::unwrap_or_clone(values);
                After::Unreadable(RawRow { values, column: layout.columns[at].clone(), problem })
            }
        }))
    }

    fn inconsistent(&self, uuid: Uuid, what: Inconsistency) -> ApplyError {
        ApplyError::Inconsistent { table: self.name.clone(), uuid, what }
    }
}

impl<R> RowUpdate<R> {
    fn map<S>(self, f: impl FnOnce(R) -> S) -> RowUpdate<S> {
        match self {
            Self::Insert(row) => RowUpdate::Insert(f(row)),
            Self::Modify(row) => RowUpdate::Modify(f(row)),
            Self::Repeat => RowUpdate::Repeat,
            Self::ModifyUnknown => RowUpdate::ModifyUnknown,
            Self::Delete => RowUpdate::Delete,
        }
    }
}

/// Decodes the update of one row onto a blank row or onto the previous one.
fn decode<R: Reader>(
    reader: &R,
    cursor: &mut Cursor<'_>,
    version: UpdateVersion,
    before: Option<&Arc<R::Row>>,
) -> Result<RowUpdate<Arc<R::Row>>, Error> {
    // The row is copied once, to its final memory, and changed there.
    let onto = |cursor: &mut Cursor<'_>, start: &Arc<R::Row>, modify: bool| {
        let mut row = Arc::clone(start);
        let touched = read_columns(cursor, &mut reader.sink(Arc::make_mut(&mut row)), modify)?;
        Ok::<_, Error>((row, touched))
    };
    let mut said = None;
    match version {
        UpdateVersion::V1 => {
            let (mut old, mut new) = (false, None);
            cursor.members(|cursor, member| {
                let given = cursor.peek() != Some(b'n');
                match &*member {
                    "new" if given => {
                        let blank = || reader.blank();
                        new = Some(onto(cursor, &before.cloned().unwrap_or_else(blank), false)?.0);
                        return Ok(());
                    }
                    "new" => new = None,
                    "old" => old = given,
                    _ => {}
                }
                cursor.skip()
            })?;
            said = match (old, new) {
                (false, Some(row)) => Some(RowUpdate::Insert(row)),
                (true, Some(row)) if before.is_some_and(|before| **before == *row) => Some(RowUpdate::Repeat),
                (true, Some(row)) => Some(RowUpdate::Modify(row)),
                (true, None) => Some(RowUpdate::Delete),
                (false, None) => None,
            };
        }
        UpdateVersion::V2 => cursor.members(|cursor, member| {
            let next = match (&*member, before) {
                ("insert" | "initial", _) => RowUpdate::Insert(onto(cursor, &reader.blank(), false)?.0),
                ("modify", Some(before)) => match onto(cursor, before, true)? {
                    (row, touched) if reader.same(before, &row, touched) => RowUpdate::Repeat,
                    (row, _) => RowUpdate::Modify(row),
                },
                ("modify", None) => {
                    cursor.skip()?;
                    RowUpdate::ModifyUnknown
                }
                ("delete", _) => {
                    cursor.skip()?;
                    RowUpdate::Delete
                }
                (other, _) => {
                    return Err(Error::custom(format_args!("a row is neither inserted nor {other}")));
                }
            };
            match said.replace(next) {
                None => Ok(()),
                Some(_) => Err(Error::custom("a row is updated in two ways at once")),
            }
        })?,
    }
    said.ok_or_else(|| {
        Error::custom(match version {
            UpdateVersion::V1 => "neither `old` nor `new` is there",
            UpdateVersion::V2 => "none of `initial`, `insert`, `modify`, `delete` is there",
        })
    })
}

/// Reads the columns of a row and passes each to the sink; returns their positions. Complete rows end with [`Sink::complete`].
fn read_columns(cursor: &mut Cursor<'_>, sink: &mut dyn Sink, modify: bool) -> Result<ColumnSet, Error> {
    cursor.members(|cursor, name| sink.column(&name, modify, cursor))?;
    if !modify {
        sink.complete()?;
    }
    Ok(sink.touched())
}
