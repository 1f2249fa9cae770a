//! Updates, row by row: what a notification says about each, and whether that can be.
//!
//! Version 1 sends `{"old": ..., "new": ...}` with the whole new row. Versions 2 and 3 send one of `initial`, `insert`,
//! `modify` and `delete`; an insert leaves defaults unsaid, a modify holds the differences of columns that may hold
//! several elements and the new value of others. A row that enters or leaves a condition looks like an insert or
//! delete.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, Visitor};
use uuid::Uuid;

use super::codec::{Codec, Reader, Sink};
use super::delta::Change;
use super::error::{ApplyError, Inconsistency};
use super::split::RowText;
use super::table::{RawRow, TableState};
use crate::wire::datum::Datum;

/// Which of the two forms an update has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateVersion {
    /// The reply to `monitor` and the notification `update`.
    V1,
    /// The replies to `monitor_cond` and `monitor_cond_since` and the notifications `update2` and `update3`.
    V2,
}

/// What an update says about a row.
enum Said<R> {
    Insert(R),
    Modify(R),
    /// A modification of a row that is not here.
    ModifyUnknown,
    Delete,
}

/// What a row becomes.
enum After<R> {
    Gone,
    Row(R),
    Unreadable(RawRow),
}

/// The changes of one table, not yet taken in.
pub(super) struct Staged<R> {
    /// In the order they came, each row once.
    pub(super) changes: Vec<Change<R>>,
    /// Rows that became unreadable (`Some`) or stopped to be so, likewise.
    pub(super) unreadable: Vec<(Uuid, Option<Arc<RawRow>>)>,
}

impl<R> Default for Staged<R> {
    fn default() -> Self {
        Self { changes: Vec::new(), unreadable: Vec::new() }
    }
}

impl<R: PartialEq> Staged<R> {
    /// Notes what becomes of a row; nothing where it stays what it is.
    fn note<C: Codec<Row = R>>(
        &mut self,
        table: &TableState<C>,
        uuid: Uuid,
        before: Option<&Arc<R>>,
        after: After<R>,
    ) {
        let was_unreadable = table.unreadable.get(&uuid);
        let after = match after {
            After::Row(row) if before.is_some_and(|before| **before == row) => return,
            After::Row(row) => Some(Arc::new(row)),
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
        text: &str,
        rows: &[RowText],
    ) -> Result<Staged<C::Row>, ApplyError> {
        let mut staged = Staged::default();
        for row in rows {
            let before = self.rows.get(row.uuid);
            let after = self.update(version, row.uuid, before, &text[row.at.clone()])?;
            staged.note(self, row.uuid, before, after);
        }
        Ok(staged)
    }

    /// Stages rows that are given as they are, or taken away.
    pub(super) fn stage_rows(&self, rows: BTreeMap<Uuid, Option<C::Row>>) -> Staged<C::Row> {
        let mut staged = Staged::default();
        for (uuid, row) in rows {
            staged.note(self, uuid, self.rows.get(uuid), row.map_or(After::Gone, After::Row));
        }
        staged
    }

    /// Stages rows of a reload, as if there were no others.
    pub(super) fn stage_initial(
        &self,
        version: UpdateVersion,
        text: &str,
        rows: &[RowText],
        staged: &mut Staged<C::Row>,
    ) -> Result<(), ApplyError> {
        for RowText { uuid, at } in rows {
            match self.read(version, *uuid, &text[at.clone()], None, None)? {
                Said::Insert(after) => staged.note(self, *uuid, self.rows.get(*uuid), after),
                Said::Modify(_) | Said::ModifyUnknown | Said::Delete => {
                    return Err(self.inconsistent(*uuid, Inconsistency::NotInitial));
                }
            }
        }
        Ok(())
    }

    fn update(
        &self,
        version: UpdateVersion,
        uuid: Uuid,
        row: Option<&Arc<C::Row>>,
        text: &str,
    ) -> Result<After<C::Row>, ApplyError> {
        let raw = self.unreadable.get(&uuid).map(|raw| &*raw.values);
        let known = raw.is_some() || row.is_some();
        match self.read(version, uuid, text, row.map(|row| &**row), raw)? {
            Said::Insert(_) if known => Err(self.inconsistent(uuid, Inconsistency::InsertKnown)),
            Said::Modify(_) | Said::ModifyUnknown if !known => {
                Err(self.inconsistent(uuid, Inconsistency::ModifyUnknown))
            }
            Said::Delete if !known => Err(self.inconsistent(uuid, Inconsistency::DeleteUnknown)),
            Said::Insert(after) | Said::Modify(after) => Ok(after),
            Said::ModifyUnknown | Said::Delete => Ok(After::Gone),
        }
    }

    /// Reads a row's update into a row; where the row type refuses, into datums.
    fn read(
        &self,
        version: UpdateVersion,
        uuid: Uuid,
        text: &str,
        row: Option<&C::Row>,
        raw: Option<&[Datum]>,
    ) -> Result<Said<After<C::Row>>, ApplyError> {
        if raw.is_none()
            && let Ok(said) = decode(&*self.codec, text, version, || row.cloned())
        {
            return Ok(said.map(After::Row));
        }
        let layout = self.codec.layout();
        let before = || raw.map(Box::from).or_else(|| row.map(|row| self.codec.raw(row)));
        let said = decode(layout, text, version, before).map_err(|source| ApplyError::Malformed {
            place: format!("table {}, row {uuid}", self.name),
            source,
        })?;
        Ok(said.map(|values| match self.codec.cook(&values) {
            Ok(row) => After::Row(row),
            Err((at, problem)) => {
                After::Unreadable(RawRow { values, column: layout.columns[at].clone(), problem })
            }
        }))
    }

    fn inconsistent(&self, uuid: Uuid, what: Inconsistency) -> ApplyError {
        ApplyError::Inconsistent { table: self.name.clone(), uuid, what }
    }
}

impl<R> Said<R> {
    fn map<S>(self, f: impl FnOnce(R) -> S) -> Said<S> {
        match self {
            Self::Insert(row) => Said::Insert(f(row)),
            Self::Modify(row) => Said::Modify(f(row)),
            Self::ModifyUnknown => Said::ModifyUnknown,
            Self::Delete => Said::Delete,
        }
    }
}

/// Decodes one row's update onto a blank row or onto what it was before.
fn decode<R: Reader>(
    reader: &R,
    text: &str,
    version: UpdateVersion,
    before: impl FnOnce() -> Option<R::Row>,
) -> Result<Said<R::Row>, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let said = deserializer.deserialize_map(UpdateVisitor { reader, version, before })?;
    deserializer.end()?;
    Ok(said)
}

struct UpdateVisitor<'a, R, B> {
    reader: &'a R,
    version: UpdateVersion,
    before: B,
}

impl<'de, R: Reader, B: FnOnce() -> Option<R::Row>> Visitor<'de> for UpdateVisitor<'_, R, B> {
    type Value = Said<R::Row>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.version {
            UpdateVersion::V1 => "an object with `old`, `new` or both",
            UpdateVersion::V2 => "an object with one of `initial`, `insert`, `modify`, `delete`",
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        match self.version {
            UpdateVersion::V1 => self.visit_v1(map),
            UpdateVersion::V2 => self.visit_v2(map),
        }
    }
}

impl<R: Reader, B: FnOnce() -> Option<R::Row>> UpdateVisitor<'_, R, B> {
    fn visit_v1<'de, A: MapAccess<'de>>(self, mut map: A) -> Result<Said<R::Row>, A::Error> {
        #[derive(Deserialize)]
        #[serde(field_identifier, rename_all = "lowercase")]
        enum Member {
            Old,
            New,
            #[serde(other)]
            Unknown,
        }
        let (mut before, mut old, mut new) = (Some(self.before), false, None);
        while let Some(member) = map.next_key()? {
            match member {
                Member::Old => old = map.next_value::<Option<de::IgnoredAny>>()?.is_some(),
                Member::New => {
                    let known = before.take().and_then(|before| before());
                    let mut row = known.unwrap_or_else(|| self.reader.blank());
                    let given = map.next_value_seed(Given { reader: self.reader, row: &mut row })?;
                    new = given.then_some(row);
                }
                Member::Unknown => drop(map.next_value::<de::IgnoredAny>()?),
            }
        }
        match (old, new) {
            (false, Some(row)) => Ok(Said::Insert(row)),
            (true, Some(row)) => Ok(Said::Modify(row)),
            (true, None) => Ok(Said::Delete),
            (false, None) => Err(de::Error::custom("neither `old` nor `new` is there")),
        }
    }

    fn visit_v2<'de, A: MapAccess<'de>>(self, mut map: A) -> Result<Said<R::Row>, A::Error> {
        #[derive(Deserialize)]
        #[serde(field_identifier, rename_all = "lowercase")]
        enum Member {
            #[serde(alias = "initial")]
            Insert,
            Modify,
            Delete,
        }
        let Some(member) = map.next_key()? else {
            return Err(de::Error::invalid_length(0, &self));
        };
        let reader = self.reader;
        let said = match member {
            Member::Insert => {
                let mut row = reader.blank();
                map.next_value_seed(Cells { sink: reader.sink(&mut row), modify: false })?;
                Said::Insert(row)
            }
            Member::Modify => match (self.before)() {
                Some(mut row) => {
                    map.next_value_seed(Cells { sink: reader.sink(&mut row), modify: true })?;
                    Said::Modify(row)
                }
                None => {
                    map.next_value::<de::IgnoredAny>()?;
                    Said::ModifyUnknown
                }
            },
            Member::Delete => {
                map.next_value::<de::IgnoredAny>()?;
                Said::Delete
            }
        };
        match map.next_key::<de::IgnoredAny>()? {
            None => Ok(said),
            Some(_) => Err(de::Error::custom("a row is updated in two ways at once")),
        }
    }
}

/// The columns of a row, each handed to the sink. Complete rows end with [`Sink::complete`].
struct Cells<S> {
    sink: S,
    modify: bool,
}

impl<'de, S: Sink> DeserializeSeed<'de> for Cells<S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, S: Sink> Visitor<'de> for Cells<S> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of columns")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(Name(name)) = map.next_key()? {
            map.next_value_seed(Cell { sink: &mut self.sink, name: &name, modify: self.modify })?;
        }
        if self.modify { Ok(()) } else { self.sink.complete() }
    }
}

struct Cell<'a, S> {
    sink: &'a mut S,
    name: &'a str,
    modify: bool,
}

impl<'de, S: Sink> DeserializeSeed<'de> for Cell<'_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.sink.column(self.name, self.modify, deserializer)
    }
}

/// Version 1's `new`: columns, or `null` as if it were not there. Whether it is.
struct Given<'a, R: Reader> {
    reader: &'a R,
    row: &'a mut R::Row,
}

impl<'de, R: Reader> DeserializeSeed<'de> for Given<'_, R> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de, R: Reader> Visitor<'de> for Given<'_, R> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of columns or null")
    }

    fn visit_none<E: de::Error>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        Cells { sink: self.reader.sink(self.row), modify: false }.deserialize(deserializer)?;
        Ok(true)
    }
}

/// A member's name, borrowed where it is written plainly.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);
