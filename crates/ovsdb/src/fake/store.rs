//! Tables and their rows. `execute` and `commit` change them; this module only stores them.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use serde_json::{Map as Object, Value};
use uuid::Uuid;

use super::reference::References;
use crate::model::Str;
use crate::wire::atom::{Atom, AtomKind};
use crate::wire::datum::Datum;
use crate::wire::schema::{BaseKind, ColumnKind, ColumnSchema, DatabaseSchema, SchemaError, TableSchema};

/// A row: its columns by name, `_uuid` and `_version` among them.
pub(super) type Row = Arc<BTreeMap<Str, Datum>>;

/// A row's table and UUID.
pub(super) type Key = (Str, Uuid);

/// The change of one row by a transaction.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) table: Str,
    pub(super) uuid: Uuid,
    pub(super) before: Option<Row>,
    pub(super) after: Option<Row>,
}

/// One table.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) name: Str,
    pub(super) schema: TableSchema,
    /// All columns, including `_uuid` and `_version`.
    pub(super) columns: BTreeMap<Str, ColumnSchema>,
    pub(super) rows: BTreeMap<Uuid, Row>,
    /// For each index of the schema, the row that has a key.
    pub(super) indexes: Vec<HashMap<String, Uuid>>,
}

/// The number of transactions that a clustered database remembers for `monitor_cond_since`, as in the real server.
const HISTORY: usize = 100;

/// One database.
#[derive(Clone, Debug)]
pub(super) struct Database {
    pub(super) name: Str,
    /// The schema as given.
    pub(super) schema: Value,
    pub(super) tables: BTreeMap<Str, Table>,
    pub(super) references: References,
    /// The newest transactions by id, oldest first; only where they are remembered.
    pub(super) history: VecDeque<(Uuid, Arc<[Change]>)>,
    /// Whether the database remembers transactions.
    pub(super) remembers: bool,
}

impl Table {
    fn new(name: Str, schema: TableSchema) -> Self {
        let uuid = BaseKind::any(AtomKind::Uuid);
        let fixed = ColumnSchema {
            kind: ColumnKind { key: uuid, value: None, min: 1, max: Some(1) },
            ephemeral: false,
            mutable: false,
        };
        let mut columns = schema.columns.clone();
        columns.insert("_uuid".into(), fixed.clone());
        columns.insert("_version".into(), fixed);
        let indexes = vec![HashMap::new(); schema.indexes.len()];
        Self { name, schema, columns, rows: BTreeMap::new(), indexes }
    }

    /// A row with default values only.
    pub(super) fn blank(&self) -> BTreeMap<Str, Datum> {
        self.columns.iter().map(|(name, column)| (name.clone(), column.kind.default_datum())).collect()
    }

    /// The value of a row in an index, as a string that is equal for equal values.
    pub(super) fn index_key(&self, index: usize, row: &Row) -> String {
        let columns = self.schema.indexes.get(index).into_iter().flatten();
        let values: Vec<_> = columns.map(|column| row.get(column).map(json)).collect();
        Value::from_iter(values.into_iter().flatten()).to_string()
    }
}

impl Database {
    /// An empty database.
    pub(super) fn new(schema: Value, remembers: bool) -> Result<Self, SchemaError> {
        let mut parsed = DatabaseSchema::from_json(&schema)?;
        // If the schema marks no table as root, all tables are root.
        if !parsed.tables.values().any(|table| table.is_root) {
            parsed.tables.values_mut().for_each(|table| table.is_root = true);
        }
        let tables =
            parsed.tables.into_iter().map(|(name, table)| (name.clone(), Table::new(name, table))).collect();
        Ok(Self {
            name: parsed.name,
            schema,
            tables,
            references: References::default(),
            history: VecDeque::new(),
            remembers,
        })
    }

    /// The row, if it exists.
    pub(super) fn row(&self, key: &Key) -> Option<&Row> {
        self.tables.get(&key.0)?.rows.get(&key.1)
    }

    /// The id of the newest transaction; zero if they are not remembered.
    pub(super) fn last_id(&self) -> Uuid {
        self.history.back().map_or(Uuid::nil(), |(id, _)| *id)
    }

    /// Remembers a transaction.
    pub(super) fn remember(&mut self, changes: &[Change]) {
        if self.remembers && !changes.is_empty() {
            self.history.push_back((Uuid::new_v4(), changes.into()));
            if self.history.len() > HISTORY {
                self.history.pop_front();
            }
        }
    }

    /// The changes after the transaction with this id, one per row; `None` if the id is not remembered.
    pub(super) fn since(&self, id: Uuid) -> Option<Vec<Change>> {
        let at = self.history.iter().position(|(known, _)| *known == id)?;
        let mut merged: BTreeMap<Key, Change> = BTreeMap::new();
        for change in self.history.iter().skip(at + 1).flat_map(|(_, changes)| changes.iter()) {
            merged
                .entry((change.table.clone(), change.uuid))
                .and_modify(|earlier| earlier.after = change.after.clone())
                .or_insert_with(|| change.clone());
        }
        Some(merged.into_values().filter(|c| c.before.is_some() || c.after.is_some()).collect())
    }

    /// A restart: columns marked ephemeral lose their values.
    pub(super) fn forget_ephemeral(&mut self) {
        for table in self.tables.values_mut() {
            for (name, column) in table.schema.columns.iter().filter(|(_, column)| column.ephemeral) {
                let blank = column.kind.default_datum();
                for row in table.rows.values_mut() {
                    Arc::make_mut(row).insert(name.clone(), blank.clone());
                }
            }
        }
    }
}

/// A column's value as the server prints it: reals without a fraction look like integers.
pub(super) fn json(datum: &Datum) -> Value {
    match datum {
        Datum::Set(atoms) if atoms.len() == 1 => atoms.first().map_or(Value::Null, atom_json),
        Datum::Set(atoms) => Value::from(vec!["set".into(), atoms.iter().map(atom_json).collect::<Value>()]),
        Datum::Map(pairs) => {
            let pairs: Value =
                pairs.iter().map(|(k, v)| Value::from(vec![atom_json(k), atom_json(v)])).collect();
            Value::from(vec!["map".into(), pairs])
        }
    }
}

fn atom_json(atom: &Atom) -> Value {
    /// Up to this bound every whole double is exactly the integer that it prints as.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match atom {
        Atom::Integer(v) => Value::from(*v),
        Atom::Real(v) if v.fract() == 0.0 && v.abs() < EXACT => Value::from(*v as i64),
        Atom::Real(v) => Value::from(*v),
        Atom::Boolean(v) => Value::from(*v),
        Atom::String(v) => Value::from(v.as_str()),
        Atom::Uuid(v) => Value::from(vec!["uuid".to_owned(), v.to_string()]),
        Atom::NamedUuid(v) => Value::from(vec!["named-uuid", v.as_str()]),
    }
}

/// Some columns of a row as a JSON object.
pub(super) fn row_json<'a>(row: &Row, columns: impl IntoIterator<Item = &'a Str>) -> Value {
    let members = columns.into_iter().filter_map(|name| Some((name.to_string(), json(row.get(name)?))));
    Value::Object(members.collect::<Object<_, _>>())
}
