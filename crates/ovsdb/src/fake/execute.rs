//! Runs the operations of one transaction, and commits or rolls back.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use serde_json::{Map as Object, Value, json};
use uuid::Uuid;

use super::condition::Condition;
use super::constraint::{self, Symbols};
use super::mutation::Mutation;
use super::op::Op;
use super::refusal::Refusal;
use super::store::{self, Change, Database, Key, Row, Table};
use crate::model::Str;
use crate::wire::atom::Atom;
use crate::wire::datum::Datum;

/// The outcome of a transaction.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Success: one result per operation, and the changes.
    Done { results: Value, changes: Vec<Change> },
    /// A `wait` does not hold yet. It may later; the milliseconds count from the arrival of the transaction.
    Blocked { until_ms: Option<u64> },
}

/// The circumstances that a transaction depends on besides the database.
#[derive(Debug, Default)]
pub(super) struct Setting {
    /// The locks that the client owns.
    pub(super) locks: BTreeSet<String>,
    /// Milliseconds since the arrival of the transaction.
    pub(super) elapsed_ms: u64,
}

/// A transaction in progress. Changes happen in place; the replaced rows are kept for a rollback.
#[derive(Debug)]
pub(super) struct Txn<'a> {
    pub(super) db: &'a mut Database,
    pub(super) undo: BTreeMap<Key, Option<Row>>,
    symbols: Symbols,
}

/// Why an operation did not succeed.
enum Stop {
    Refused(Refusal),
    Blocked(Option<u64>),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl Database {
    /// Runs a transaction: all of its operations or none.
    pub(super) fn transact(&mut self, ops: &[Value], setting: &Setting) -> Outcome {
        let reserved = self.name.starts_with('_');
        let mut txn = Txn { db: self, undo: BTreeMap::new(), symbols: Symbols::default() };
        let mut results = Vec::with_capacity(ops.len());
        for value in ops {
            let result = Op::parse(txn.db, value).map_err(Stop::from).and_then(|op| {
                let result = txn.execute(&op, setting)?;
                if reserved && !op.reads_only() {
                    return Err(Refusal::new("not allowed", "This database is reserved.").into());
                }
                Ok(result)
            });
            match result {
                Ok(result) => results.push(result),
                Err(Stop::Blocked(until_ms)) => {
                    txn.undo();
                    return Outcome::Blocked { until_ms };
                }
                Err(Stop::Refused(refusal)) => {
                    txn.undo();
                    results.push(refusal.to_json());
                    results.resize(ops.len(), Value::Null);
                    return Outcome::Done { results: results.into(), changes: Vec::new() };
                }
            }
        }
        let changes = match txn.commit() {
            Ok(changes) => changes,
            Err(refusal) => {
                results.push(refusal.to_json());
                Vec::new()
            }
        };
        Outcome::Done { results: results.into(), changes }
    }

    /// Runs a change of the server itself, which no reservation stops.
    pub(super) fn change(&mut self, apply: impl FnOnce(&mut Txn<'_>)) -> Vec<Change> {
        let mut txn = Txn { db: self, undo: BTreeMap::new(), symbols: Symbols::default() };
        apply(&mut txn);
        txn.commit().unwrap_or_default()
    }

    /// Fills an empty database with rows without notifying any client.
    pub(super) fn load(&mut self, rows: Vec<(Key, Row)>) -> Result<(), Refusal> {
        let remembers = std::mem::replace(&mut self.remembers, false);
        let mut txn = Txn { db: self, undo: BTreeMap::new(), symbols: Symbols::default() };
        for (key, row) in rows {
            txn.put(key, Some(row));
        }
        txn.commit()?;
        self.remembers = remembers;
        Ok(())
    }
}

impl Txn<'_> {
    /// Sets or removes a row, and keeps the old one for a rollback.
    pub(super) fn put(&mut self, key: Key, row: Option<Row>) {
        let Some(table) = self.db.tables.get_mut(&key.0) else { return };
        let before = match row {
            Some(row) => table.rows.insert(key.1, row),
            None => table.rows.remove(&key.1),
        };
        self.undo.entry(key).or_insert(before);
    }

    /// The changes of the transaction.
    pub(super) fn changes(&self) -> Vec<Change> {
        self.changed(|_| false)
    }

    /// The changes of the transaction, and rows that count as changed though they are equal.
    pub(super) fn changed(&self, counts: impl Fn(&Key) -> bool) -> Vec<Change> {
        let mut changes = Vec::new();
        for (key, before) in &self.undo {
            let after = self.db.row(key);
            if before.as_ref() != after || (after.is_some() && counts(key)) {
                let (before, after) = (before.clone(), after.cloned());
                changes.push(Change { table: key.0.clone(), uuid: key.1, before, after });
            }
        }
        changes
    }

    fn table(&self, name: &str) -> Result<&Table, Refusal> {
        self.db.tables.get(name).ok_or_else(|| Refusal::syntax(format!("No table named {name}.")))
    }

    fn execute(&mut self, op: &Op<'_>, setting: &Setting) -> Result<Value, Stop> {
        match op {
            Op::Insert { table, uuid, name, row } => Ok(self.insert(table, *uuid, *name, row)?),
            Op::Select { table, filter, columns, sort } => Ok(self.select(table, filter, *columns, *sort)?),
            Op::Update { table, filter, row } => Ok(self.update(table, filter, row)?),
            Op::Mutate { table, filter, mutations } => Ok(self.mutate(table, filter, mutations)?),
            Op::Delete { table, filter } => Ok(self.delete(table, filter)?),
            Op::Wait { table, timeout, filter, columns, until, rows } => {
                let wanted = match *until {
                    "==" => Some(true),
                    "!=" => Some(false),
                    _ => None,
                };
                if timeout.is_some_and(|timeout| timeout < 0) {
                    return Err(Refusal::syntax("timeout must be nonnegative").into());
                }
                let wanted = wanted.ok_or_else(|| Refusal::syntax("\"until\" must be \"==\" or \"!=\""));
                let equal = self.equal(table, filter, *columns, wanted, rows)?;
                let until_ms = timeout.and_then(|timeout| u64::try_from(timeout).ok());
                if equal {
                    Ok(json!({}))
                } else if until_ms.is_some_and(|until| until <= setting.elapsed_ms) {
                    Err(Refusal::new("timed out", "\"where\" clause test failed").into())
                } else {
                    Err(Stop::Blocked(until_ms))
                }
            }
            Op::Commit | Op::Comment => Ok(json!({})),
            Op::Abort => Err(Refusal::new("aborted", "aborted by request").into()),
            Op::Assert { lock } if setting.locks.contains(*lock) => Ok(json!({})),
            Op::Assert { lock } => {
                Err(Refusal::new("not owner", format!("Asserted lock {lock} not held.")).into())
            }
        }
    }

    /// The columns in a row's JSON, by the table's schema.
    fn row(&mut self, name: &str, row: &Object<String, Value>) -> Result<BTreeMap<Str, Datum>, Refusal> {
        let mut symbols = std::mem::take(&mut self.symbols);
        let table = self.table(name)?;
        let columns = row.iter().map(|(column, value)| {
            let (column, schema) = table
                .columns
                .get_key_value(column.as_str())
                .ok_or_else(|| Refusal::unknown_column(column, &table.name))?;
            Ok((column.clone(), constraint::datum(&schema.kind, value, &mut symbols)?))
        });
        let columns = columns.collect();
        self.symbols = symbols;
        columns
    }

    fn condition(&mut self, table: &str, filter: &[Value]) -> Result<Condition, Refusal> {
        let mut symbols = std::mem::take(&mut self.symbols);
        let condition = Condition::parse(self.table(table)?, filter, &mut symbols);
        self.symbols = symbols;
        condition
    }

    /// The named columns, or all.
    fn columns(&self, table: &str, names: Option<&[Value]>) -> Result<Vec<Str>, Refusal> {
        let table = self.table(table)?;
        let Some(names) = names else { return Ok(table.columns.keys().cloned().collect()) };
        let mut columns = Vec::new();
        for name in names {
            let name =
                name.as_str().ok_or_else(|| Refusal::syntax("array of distinct column names expected"))?;
            let (name, _) = table
                .columns
                .get_key_value(name)
                .ok_or_else(|| Refusal::syntax(format!("{name} is not a valid column name")))?;
            if columns.contains(name) {
                return Err(Refusal::syntax("array of distinct column names expected"));
            }
            columns.push(name.clone());
        }
        Ok(columns)
    }

    fn insert(
        &mut self,
        name: &str,
        chosen: Option<&str>,
        symbol: Option<&str>,
        row: &Object<String, Value>,
    ) -> Result<Value, Refusal> {
        let chosen = match chosen {
            None => None,
            Some(text) => Some(constraint::uuid(text).ok_or_else(|| Refusal::syntax("bad uuid"))?),
        };
        let table = self.table(name)?;
        let table_name = table.name.clone();
        if let Some(uuid) = chosen {
            let deleted = self.undo.get(&(table_name.clone(), uuid)).is_some_and(Option::is_some);
            if deleted || table.rows.contains_key(&uuid) {
                return Err(Refusal::new("duplicate uuid", "This UUID is or was a row of this table."));
            }
        }
        let mut full = table.blank();
        let uuid = match symbol {
            Some(symbol) => self.symbols.create(symbol, chosen)?,
            None => chosen.unwrap_or_else(Uuid::new_v4),
        };
        full.extend(self.row(name, row)?);
        for (column, schema) in &self.table(name)?.columns {
            if let Some(datum) = full.get(column).filter(|datum| datum.len() == 1) {
                constraint::check_all(&schema.kind, datum)?;
            }
        }
        full.insert("_uuid".into(), Atom::Uuid(uuid).into());
        full.insert("_version".into(), Atom::Uuid(Uuid::new_v4()).into());
        self.put((table_name, uuid), Some(Arc::new(full)));
        Ok(json!({"uuid": ["uuid", uuid.to_string()]}))
    }

    fn select(
        &mut self,
        name: &str,
        filter: &[Value],
        columns: Option<&[Value]>,
        sort: Option<&[Value]>,
    ) -> Result<Value, Refusal> {
        let condition = self.condition(name, filter)?;
        let columns = self.columns(name, columns)?;
        if sort.is_some() {
            self.columns(name, sort)?;
        }
        let mut rows: Vec<Value> = Vec::new();
        let mut seen = HashSet::new();
        for (_, row) in condition.query(self.table(name)?) {
            let row = store::row_json(row, &columns);
            if seen.insert(row.to_string()) {
                rows.push(row);
            }
        }
        Ok(json!({"rows": rows}))
    }

    fn matching(&mut self, name: &str, filter: &[Value]) -> Result<Vec<(Key, Row)>, Refusal> {
        let condition = self.condition(name, filter)?;
        let table = self.table(name)?;
        let rows = condition.query(table).into_iter();
        Ok(rows.map(|(uuid, row)| ((table.name.clone(), uuid), row.clone())).collect())
    }

    fn update(
        &mut self,
        name: &str,
        filter: &[Value],
        row: &Object<String, Value>,
    ) -> Result<Value, Refusal> {
        let columns = self.row(name, row)?;
        let table = self.table(name)?;
        let fixed = |column: &&Str| table.columns.get(*column).is_some_and(|schema| !schema.mutable);
        if let Some(column) = columns.keys().find(fixed) {
            let problem = format!("Cannot update immutable column {column} in table {name}.");
            return Err(Refusal::constraint(problem));
        }
        let rows = self.matching(name, filter)?;
        let count = rows.len();
        for (key, mut row) in rows {
            if columns.iter().any(|(column, datum)| row.get(column) != Some(datum)) {
                Arc::make_mut(&mut row).extend(columns.iter().map(|(c, d)| (c.clone(), d.clone())));
                self.put(key, Some(row));
            }
        }
        Ok(json!({"count": count}))
    }

    fn mutate(&mut self, name: &str, filter: &[Value], mutations: &[Value]) -> Result<Value, Refusal> {
        let mut symbols = std::mem::take(&mut self.symbols);
        let table = self.table(name)?;
        let mutations: Result<Vec<_>, _> =
            mutations.iter().map(|value| Mutation::parse(table, value, &mut symbols)).collect();
        self.symbols = symbols;
        let mutations = mutations?;
        let rows = self.matching(name, filter)?;
        let count = rows.len();
        for (key, mut row) in rows {
            let columns = Arc::make_mut(&mut row);
            for mutation in &mutations {
                if let Some(datum) = columns.get_mut(&mutation.column) {
                    mutation.apply(datum)?;
                }
            }
            self.put(key, Some(row));
        }
        Ok(json!({"count": count}))
    }

    fn delete(&mut self, name: &str, filter: &[Value]) -> Result<Value, Refusal> {
        let rows = self.matching(name, filter)?;
        let count = rows.len();
        for (key, _) in rows {
            self.put(key, None);
        }
        Ok(json!({"count": count}))
    }

    /// Whether the condition of a `wait` holds.
    fn equal(
        &mut self,
        name: &str,
        filter: &[Value],
        columns: Option<&[Value]>,
        wanted: Result<bool, Refusal>,
        rows: &[Value],
    ) -> Result<bool, Refusal> {
        let condition = self.condition(name, filter)?;
        let columns = self.columns(name, columns)?;
        let wanted = wanted?;
        let mut expected = HashSet::new();
        for row in rows {
            let object = row.as_object().ok_or_else(|| Refusal::syntax("row must be JSON object"))?;
            let mut full = self.table(name)?.blank();
            full.extend(self.row(name, object)?);
            expected.insert(store::row_json(&Arc::new(full), &columns).to_string());
        }
        let found = condition.query(self.table(name)?);
        let actual: HashSet<_> =
            found.into_iter().map(|(_, row)| store::row_json(row, &columns).to_string()).collect();
        Ok((actual == expected) == wanted)
    }
}
