//! Monitors: the requested tables of a client, and their updates in the three versions of the protocol.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;

use serde_json::{Map as Object, Value, json};
use uuid::Uuid;

use super::condition::Condition;
use super::constraint::{self, Symbols};
use super::op::Members;
use super::refusal::Refusal;
use super::store::{self, Change, Database, Row, Table};
use crate::model::Str;

/// The method of a monitor: `monitor`, `monitor_cond`, `monitor_cond_since`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    V1,
    V2,
    V3,
}

impl Version {
    /// The notification that carries its updates.
    fn method(self) -> &'static str {
        match self {
            Self::V1 => "update",
            Self::V2 => "update2",
            Self::V3 => "update3",
        }
    }
}

/// Kinds of change, as bits, because a column can be requested for several of them.
type Kinds = u8;
const INITIAL: Kinds = 1;
const INSERT: Kinds = 2;
const DELETE: Kinds = 4;
const MODIFY: Kinds = 8;

/// A client's view of one table.
#[derive(Clone, Debug, Default)]
struct ReportedRow {
    kinds: Kinds,
    /// The columns, each with the kinds of change it is sent for. Columns that only a condition uses have none:
    /// the real server lets a change of such a column through as an empty modification.
    columns: BTreeMap<Str, Kinds>,
    condition: Condition,
}

/// One monitor of one connection.
#[derive(Clone, Debug)]
pub(super) struct Monitor {
    pub(super) id: Value,
    pub(super) database: Str,
    version: Version,
    tables: BTreeMap<Str, ReportedRow>,
}

impl Monitor {
    /// Reads the parameters of a monitor request.
    pub(super) fn parse(db: &Database, params: &[Value], version: Version) -> Result<Self, Refusal> {
        let (id, requests) = match (version, params) {
            (Version::V1 | Version::V2, [_, id, requests]) | (Version::V3, [_, id, requests, _]) => {
                (id, requests)
            }
            _ => return Err(Refusal::syntax("invalid parameters")),
        };
        let requests =
            requests.as_object().ok_or_else(|| Refusal::syntax("monitor-requests must be object"))?;
        let mut tables = BTreeMap::new();
        for (name, value) in requests {
            let table = table(db, name)?;
            let mut seen = ReportedRow::default();
            let requests = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
            for (at, request) in requests.iter().enumerate() {
                let condition = seen.read(table, request, version)?;
                // Of several conditions for a table, the real server uses an arbitrary one; the fake uses the first.
                if at == 0 {
                    seen.condition = condition;
                }
            }
            seen.track();
            tables.insert(table.name.clone(), seen);
        }
        Ok(Self { id: id.clone(), database: db.name.clone(), version, tables })
    }

    /// The reply to the monitor request.
    pub(super) fn reply(&self, db: &Database, params: &[Value]) -> Result<Value, Refusal> {
        let all = || {
            self.body(
                db.tables.values().flat_map(|table| {
                    let row = |(uuid, row): (&Uuid, &Row)| Change {
                        table: table.name.clone(),
                        uuid: *uuid,
                        before: None,
                        after: Some(row.clone()),
                    };
                    table.rows.iter().map(row)
                }),
                db,
                INITIAL,
            )
        };
        if self.version != Version::V3 {
            return Ok(Value::Object(all()));
        }
        let id = params.get(3).and_then(Value::as_str).and_then(constraint::uuid);
        let id = id.ok_or_else(|| Refusal::syntax("the last transaction is no UUID"))?;
        let last = db.last_id().to_string();
        Ok(match db.since(id) {
            Some(changes) => json!([true, last, self.body(changes, db, INSERT)]),
            None => json!([false, last, all()]),
        })
    }

    /// The notification of some changes, if they concern the monitored rows and columns.
    pub(super) fn update(&self, db: &Database, changes: &[Change]) -> Option<(&'static str, Value)> {
        self.notification(db, self.body(changes.iter().cloned(), db, INSERT))
    }

    fn notification(&self, db: &Database, body: Object<String, Value>) -> Option<(&'static str, Value)> {
        if body.is_empty() {
            return None;
        }
        let params = match self.version {
            Version::V1 | Version::V2 => json!([self.id, body]),
            Version::V3 => json!([self.id, db.last_id().to_string(), body]),
        };
        Some((self.version.method(), params))
    }

    /// Sets new conditions and a new id; sends the rows that enter or leave because of them.
    pub(super) fn change(
        &mut self,
        db: &Database,
        id: &Value,
        requests: &Value,
    ) -> Result<Option<(&'static str, Value)>, Refusal> {
        let requests = requests
            .as_object()
            .ok_or_else(|| Refusal::syntax("monitor-cond-change-requests must be object"))?;
        let mut next = self.clone();
        for (name, value) in requests {
            let table = table(db, name)?;
            let seen = next
                .tables
                .get_mut(&table.name)
                .ok_or_else(|| Refusal::syntax(format!("no table named {name} in monitor session")))?;
            let requests = value
                .as_array()
                .ok_or_else(|| Refusal::syntax(format!("table {name} no monitor-cond-change JSON array")))?;
            for request in requests {
                let members = Members::new(request)?;
                let columns = members.optional_array("columns")?;
                let filter = members.optional_array("where")?;
                members.finish()?;
                if columns.is_some() {
                    return Err(Refusal::syntax("changing columns is unsupported"));
                }
                if self.version != Version::V1 {
                    seen.condition =
                        Condition::parse(table, filter.unwrap_or_default(), &mut Symbols::default())?;
                }
            }
            seen.track();
        }
        next.id = id.clone();
        let mut body = Object::new();
        for (name, seen) in &next.tables {
            let (Some(table), Some(old)) = (db.tables.get(name), self.tables.get(name)) else { continue };
            let mut rows = Object::new();
            for (uuid, row) in &table.rows {
                let (before, after) = (old.condition.any(row), seen.condition.any(row));
                let kind = match (before, after) {
                    (false, true) => INSERT,
                    (true, false) => DELETE,
                    _ => continue,
                };
                if let Some(update) = seen.differences(table, kind, None, Some(row)) {
                    rows.insert(uuid.to_string(), update);
                }
            }
            if !rows.is_empty() {
                body.insert(name.to_string(), rows.into());
            }
        }
        *self = next;
        Ok(self.notification(db, body))
    }

    /// Table updates for some changes; insertions have the keyword `insert` (or `initial`).
    fn body(
        &self,
        changes: impl IntoIterator<Item = Change>,
        db: &Database,
        insert: Kinds,
    ) -> Object<String, Value> {
        let mut body = Object::new();
        for change in changes {
            let (Some(seen), Some(table)) = (self.tables.get(&change.table), db.tables.get(&change.table))
            else {
                continue;
            };
            let (before, after) = (change.before.as_ref(), change.after.as_ref());
            let update = match self.version {
                Version::V1 => seen.old_and_new(insert, before, after),
                Version::V2 | Version::V3 => {
                    let was = before.is_some_and(|row| seen.condition.any(row));
                    let is = after.is_some_and(|row| seen.condition.any(row));
                    match (was, is) {
                        (false, true) => seen.differences(table, insert, None, after),
                        (true, true) => seen.differences(table, MODIFY, before, after),
                        (true, false) => seen.differences(table, DELETE, before, None),
                        (false, false) => None,
                    }
                }
            };
            if let Some(update) = update {
                let rows = body.entry(change.table.as_str()).or_insert_with(|| Object::new().into());
                rows[change.uuid.to_string()] = update;
            }
        }
        body
    }
}

fn table<'a>(db: &'a Database, name: &str) -> Result<&'a Table, Refusal> {
    db.tables.get(name).ok_or_else(|| Refusal::syntax(format!("no table named {name}")))
}

impl ReportedRow {
    /// Adds one request for the table; returns its condition.
    fn read(&mut self, table: &Table, request: &Value, version: Version) -> Result<Condition, Refusal> {
        let members = Members::new(request)?;
        let filter = match version {
            Version::V1 => None,
            Version::V2 | Version::V3 => members.optional_array("where")?,
        };
        let columns = members.optional_array("columns")?;
        let select = members.optional("select", |value| value.as_object().map(|_| value))?;
        members.finish()?;
        let mut kinds = INITIAL | INSERT | DELETE | MODIFY;
        if let Some(select) = select {
            let members = Members::new(select)?;
            for (name, kind) in
                [("initial", INITIAL), ("insert", INSERT), ("delete", DELETE), ("modify", MODIFY)]
            {
                if members.optional(name, Value::as_bool)? == Some(false) {
                    kinds &= !kind;
                }
            }
            members.finish()?;
        }
        self.kinds |= kinds;
        match columns {
            None => {
                for column in table.columns.keys().filter(|column| *column != "_uuid") {
                    self.add(column, kinds)?;
                }
            }
            Some(columns) => {
                for column in columns {
                    let name =
                        column.as_str().ok_or_else(|| Refusal::syntax("array of column names expected"))?;
                    let (name, _) = table
                        .columns
                        .get_key_value(name)
                        .ok_or_else(|| Refusal::syntax(format!("{name} is not a valid column name")))?;
                    self.add(name, kinds)?;
                }
            }
        }
        Condition::parse(table, filter.unwrap_or_default(), &mut Symbols::default())
    }

    fn add(&mut self, column: &Str, kinds: Kinds) -> Result<(), Refusal> {
        match self.columns.insert(column.clone(), kinds) {
            None => Ok(()),
            Some(_) => Err(Refusal::syntax(format!("column {column} mentioned more than once"))),
        }
    }

    /// Monitors the columns that the condition uses.
    fn track(&mut self) {
        let columns: Vec<Str> = self.condition.columns().cloned().collect();
        for column in columns {
            self.columns.entry(column).or_insert(0);
        }
    }

    /// The columns that differ; `None` if no monitored column does, so there is nothing to report.
    fn changed(&self, before: &Row, after: &Row) -> Option<Vec<(&Str, Kinds)>> {
        let changed = self.columns.iter().filter(|(name, _)| before.get(*name) != after.get(*name));
        let changed: Vec<_> = changed.map(|(name, kinds)| (name, *kinds)).collect();
        (!changed.is_empty()).then_some(changed)
    }

    /// The row update of version 1.
    fn old_and_new(&self, insert: Kinds, before: Option<&Row>, after: Option<&Row>) -> Option<Value> {
        let sent = |kind: Kinds| {
            self.columns.iter().filter(move |(_, kinds)| **kinds & kind != 0).map(|(name, _)| name)
        };
        match (before, after) {
            (None, Some(new)) if self.kinds & insert != 0 => {
                Some(json!({"new": store::row_json(new, sent(insert))}))
            }
            (Some(old), None) if self.kinds & DELETE != 0 => {
                Some(json!({"old": store::row_json(old, sent(DELETE))}))
            }
            (Some(old), Some(new)) if self.kinds & MODIFY != 0 => {
                let changed = self.changed(old, new)?;
                let changed = changed.iter().filter(|(_, kinds)| kinds & MODIFY != 0).map(|(name, _)| *name);
                Some(json!({"old": store::row_json(old, changed), "new": store::row_json(new, sent(MODIFY))}))
            }
            _ => None,
        }
    }

    /// The row update of versions 2 and 3.
    fn differences(
        &self,
        table: &Table,
        kind: Kinds,
        before: Option<&Row>,
        after: Option<&Row>,
    ) -> Option<Value> {
        if self.kinds & kind == 0 {
            return None;
        }
        let mut body = Object::new();
        match (kind, before, after) {
            (DELETE, ..) => return Some(json!({"delete": null})),
            (MODIFY, Some(old), Some(new)) => {
                for (name, kinds) in self.changed(old, new)? {
                    let (Some(column), Some(from), Some(to)) =
                        (table.columns.get(name), old.get(name), new.get(name))
                    else {
                        continue;
                    };
                    if kinds & MODIFY != 0 {
                        let sent = if column.kind.is_composite() { from.diff(to) } else { to.clone() };
                        body.insert(name.to_string(), store::json(&sent));
                    }
                }
            }
            (_, _, Some(new)) => {
                for (name, _) in self.columns.iter().filter(|(_, kinds)| *kinds & kind != 0) {
                    let (Some(column), Some(datum)) = (table.columns.get(name), new.get(name)) else {
                        continue;
                    };
                    if *datum != column.kind.default_datum() {
                        body.insert(name.to_string(), store::json(datum));
                    }
                }
            }
            _ => return None,
        }
        let word = match kind {
            INITIAL => "initial",
            MODIFY => "modify",
            _ => "insert",
        };
        Some(json!({word: body}))
    }
}
