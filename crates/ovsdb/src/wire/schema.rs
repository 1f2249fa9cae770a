//! The schema of a database: its tables, columns and their types (RFC 7047 section 3.2).

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map as Object, Value};
use smol_str::SmolStr;
use thiserror::Error;

use super::atom::{Atom, AtomKind};
use super::datum::Datum;

/// A schema could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}: {problem}")]
pub struct SchemaError {
    /// The position in the schema, e.g. `table Bridge, column ports`.
    pub place: String,
    /// The error.
    pub problem: String,
}

/// The schema of one database.
#[derive(Clone, Debug, PartialEq)]
pub struct DatabaseSchema {
    /// The database's name.
    pub name: SmolStr,
    /// Its version, `x.y.z`.
    pub version: SmolStr,
    /// Its tables by name.
    pub tables: BTreeMap<SmolStr, TableSchema>,
}

/// The schema of one table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableSchema {
    /// Its columns by name, without `_uuid` and `_version`.
    pub columns: BTreeMap<SmolStr, ColumnSchema>,
    /// Whether rows stay without a reference to them.
    pub is_root: bool,
    /// The maximum number of rows.
    pub max_rows: Option<u64>,
    /// Sets of columns whose values together are unique.
    pub indexes: Vec<Vec<SmolStr>>,
}

/// The schema of one column.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnSchema {
    /// The type of its values.
    pub kind: ColumnKind,
    /// Whether the column loses its value at a restart of the server.
    pub ephemeral: bool,
    /// Whether it may change after the row was inserted.
    pub mutable: bool,
}

/// The type of a column.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnKind {
    /// Type of the atoms, or of a map's keys.
    pub key: BaseKind,
    /// Type of a map's values.
    pub value: Option<BaseKind>,
    /// Fewest elements: 0 or 1.
    pub min: u64,
    /// Most elements; `None` is unlimited.
    pub max: Option<u64>,
}

/// The type of an atom with its constraints.
#[derive(Clone, Debug, PartialEq)]
pub struct BaseKind {
    /// The kind of atom.
    pub atom: AtomKind,
    /// The table that a UUID refers to.
    pub refers: Option<Reference>,
    /// Nearly no column has limits, and a client keeps the schema for its whole life, so they are boxed.
    limits: Option<Box<Limits>>,
}

/// The constraints on the values of an atom.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// The only values allowed.
    pub choices: Option<Datum>,
    /// Smallest integer or real.
    pub min: Option<Atom>,
    /// Largest integer or real.
    pub max: Option<Atom>,
    /// Shortest string, in characters.
    pub min_length: Option<u64>,
    /// Longest string, in characters.
    pub max_length: Option<u64>,
}

static UNLIMITED: Limits = Limits { choices: None, min: None, max: None, min_length: None, max_length: None };

impl BaseKind {
    /// Any atom of a kind.
    pub fn any(atom: AtomKind) -> Self {
        Self { atom, refers: None, limits: None }
    }

    /// The constraints on the value.
    pub fn limits(&self) -> &Limits {
        self.limits.as_deref().unwrap_or(&UNLIMITED)
    }

    /// Allows these values only.
    pub fn limit(&mut self, limits: Limits) {
        self.limits = (limits != UNLIMITED).then(|| Box::new(limits));
    }
}

/// A reference to rows of another table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The table.
    pub table: SmolStr,
    /// A strong reference keeps the row alive; a weak one vanishes with it.
    pub strong: bool,
}

impl ColumnKind {
    /// Whether `update2` sends differences for it rather than the new value: it may hold more than one element.
    pub fn is_composite(&self) -> bool {
        self.max != Some(1)
    }

    /// The default value for an insert: the empty set or map, or the atom's zero.
    pub fn default_datum(&self) -> Datum {
        match (self.value.is_some(), self.min) {
            (true, 0) => Datum::Map(Vec::new()),
            (true, _) => {
                let value = self.value.as_ref().map_or(AtomKind::String, |v| v.atom);
                Datum::Map(vec![(zero(self.key.atom), zero(value))])
            }
            (false, 0) => Datum::default(),
            (false, _) => Datum::from(zero(self.key.atom)),
        }
    }

    /// Converts a decoded datum to this type: integers to reals, or an empty set to an empty map, if the type requires it.
    pub fn coerce(&self, datum: Datum) -> Datum {
        let as_kind = |atom: Atom, base: &BaseKind| match atom {
            Atom::Integer(v) if base.atom == AtomKind::Real => Atom::Real(v as f64),
            other => other,
        };
        match (datum, &self.value) {
            (Datum::Set(atoms), Some(_)) if atoms.is_empty() => Datum::Map(Vec::new()),
            (Datum::Set(atoms), _) => Datum::Set(atoms.into_iter().map(|a| as_kind(a, &self.key)).collect()),
            (Datum::Map(pairs), Some(value)) => Datum::Map(
                pairs.into_iter().map(|(k, v)| (as_kind(k, &self.key), as_kind(v, value))).collect(),
            ),
            (map, None) => map,
        }
    }
}

fn zero(kind: AtomKind) -> Atom {
    match kind {
        AtomKind::Integer => Atom::Integer(0),
        AtomKind::Real => Atom::Real(0.0),
        AtomKind::Boolean => Atom::Boolean(false),
        AtomKind::String => Atom::String(SmolStr::default()),
        AtomKind::Uuid => Atom::Uuid(uuid::Uuid::nil()),
    }
}

/// Printed as in the documentation: `set of 0 or more strings`, `map of string-integer pairs`.
impl fmt::Display for ColumnKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = match self.max {
            None => " or more".to_owned(),
            Some(max) if max == self.min => String::new(),
            Some(max) => format!(" to {max}"),
        };
        match (&self.value, self.min, self.max) {
            (Some(value), ..) => {
                write!(f, "map of {}{most} {}-{} pairs", self.min, self.key.atom, value.atom)
            }
            (None, 1, Some(1)) => self.key.atom.fmt(f),
            (None, 0, Some(1)) => write!(f, "optional {}", self.key.atom),
            (None, ..) => write!(f, "set of {}{most} {}s", self.min, self.key.atom),
        }?;
        match &self.key.refers {
            Some(Reference { table, strong }) => {
                write!(f, " ({} reference to {table})", if *strong { "strong" } else { "weak" })
            }
            None => Ok(()),
        }
    }
}

impl DatabaseSchema {
    /// Reads a schema, as `get_schema` returns it and `.ovsschema` files hold it.
    pub fn parse(text: &str) -> Result<Self, SchemaError> {
        let value: Value = serde_json::from_str(text)
            .map_err(|error| SchemaError { place: "schema".into(), problem: format!("no JSON: {error}") })?;
        Self::from_json(&value)
    }

    /// Reads a schema from parsed JSON.
    pub fn from_json(value: &Value) -> Result<Self, SchemaError> {
        let at = Place("schema".into());
        let object = at.object(value)?;
        let name = at.text(object, "name")?.ok_or_else(|| at.error("`name` is missing"))?;
        let at = Place(format!("schema {name}"));
        let version = at.text(object, "version")?.unwrap_or_default();
        let mut tables = BTreeMap::new();
        let listed = object.get("tables").ok_or_else(|| at.error("`tables` is missing"))?;
        for (table, value) in at.object(listed)? {
            tables.insert(table.into(), parse_table(&Place(format!("table {table}")), value)?);
        }
        Ok(Self { name, version, tables })
    }
}

fn parse_table(at: &Place, value: &Value) -> Result<TableSchema, SchemaError> {
    let object = at.object(value)?;
    let mut table = TableSchema {
        is_root: at.boolean(object, "isRoot")?.unwrap_or(false),
        max_rows: at.unsigned(object, "maxRows")?,
        ..TableSchema::default()
    };
    let columns = object.get("columns").ok_or_else(|| at.error("`columns` is missing"))?;
    for (name, value) in at.object(columns)? {
        let at = Place(format!("{}, column {name}", at.0));
        let object = at.object(value)?;
        let kind = object.get("type").ok_or_else(|| at.error("`type` is missing"))?;
        let column = ColumnSchema {
            kind: parse_kind(&at, kind)?,
            ephemeral: at.boolean(object, "ephemeral")?.unwrap_or(false),
            mutable: at.boolean(object, "mutable")?.unwrap_or(true),
        };
        table.columns.insert(name.into(), column);
    }
    for index in at.array(object, "indexes")? {
        let columns = index.as_array().ok_or_else(|| at.error("an index is no array"))?;
        let names = columns.iter().map(|c| c.as_str().map(SmolStr::from));
        table.indexes.push(names.collect::<Option<_>>().ok_or_else(|| at.error("an index names no column"))?);
    }
    Ok(table)
}

fn parse_kind(at: &Place, value: &Value) -> Result<ColumnKind, SchemaError> {
    if value.is_string() {
        return Ok(ColumnKind { key: parse_base(at, value)?, value: None, min: 1, max: Some(1) });
    }
    let object = at.object(value)?;
    let key = object.get("key").ok_or_else(|| at.error("`key` is missing in `type`"))?;
    let min = at.unsigned(object, "min")?.unwrap_or(1);
    let max = match object.get("max") {
        Some(Value::String(word)) if word == "unlimited" => None,
        _ => Some(at.unsigned(object, "max")?.unwrap_or(1)),
    };
    if min > 1 || max.is_some_and(|max| max < min.max(1)) {
        return Err(at.error("`min` is 0 or 1 and `max` is not below it"));
    }
    let value = object.get("value").map(|value| parse_base(at, value)).transpose()?;
    Ok(ColumnKind { key: parse_base(at, key)?, value, min, max })
}

fn parse_base(at: &Place, value: &Value) -> Result<BaseKind, SchemaError> {
    let kind = |word: &str| {
        AtomKind::from_name(word)
            .ok_or_else(|| at.error(format!("`{word}` is none of integer, real, boolean, string, uuid")))
    };
    if let Some(word) = value.as_str() {
        return Ok(BaseKind::any(kind(word)?));
    }
    let object = at.object(value)?;
    let word = at.text(object, "type")?.ok_or_else(|| at.error("an atomic type is missing"))?;
    let mut base = BaseKind::any(kind(&word)?);
    let choices = match object.get("enum") {
        None => None,
        Some(value) => {
            let datum: Datum = serde::Deserialize::deserialize(value)
                .map_err(|error| at.error(format!("`enum` is no set: {error}")))?;
            Some(datum)
        }
    };
    let bound = |short: &str| -> Result<Option<Atom>, SchemaError> {
        match (base.atom, object.get(&format!("{short}Integer")), object.get(&format!("{short}Real"))) {
            (AtomKind::Integer, Some(value), _) => value
                .as_i64()
                .map(|v| Some(Atom::Integer(v)))
                .ok_or_else(|| at.error("a bound is no integer")),
            (AtomKind::Real, _, Some(value)) => {
                value.as_f64().map(|v| Some(Atom::Real(v))).ok_or_else(|| at.error("a bound is no number"))
            }
            _ => Ok(None),
        }
    };
    let (min, max) = (bound("min")?, bound("max")?);
    let (min_length, max_length) = (at.unsigned(object, "minLength")?, at.unsigned(object, "maxLength")?);
    base.limit(Limits { choices, min, max, min_length, max_length });
    base.refers = match at.text(object, "refTable")? {
        None => None,
        Some(table) => {
            let strong = match at.text(object, "refType")?.as_deref() {
                None | Some("strong") => true,
                Some("weak") => false,
                Some(other) => return Err(at.error(format!("`refType` is `{other}`, not strong or weak"))),
            };
            Some(Reference { table, strong })
        }
    };
    Ok(base)
}

/// A place in the schema, for errors.
struct Place(String);

impl Place {
    fn error(&self, problem: impl Into<String>) -> SchemaError {
        SchemaError { place: self.0.clone(), problem: problem.into() }
    }

    fn object<'a>(&self, value: &'a Value) -> Result<&'a Object<String, Value>, SchemaError> {
        value.as_object().ok_or_else(|| self.error("expected a JSON object"))
    }

    fn text(&self, object: &Object<String, Value>, key: &str) -> Result<Option<SmolStr>, SchemaError> {
        match object.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.into())),
            Some(_) => Err(self.error(format!("`{key}` is no string"))),
        }
    }

    fn boolean(&self, object: &Object<String, Value>, key: &str) -> Result<Option<bool>, SchemaError> {
        match object.get(key) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => Err(self.error(format!("`{key}` is no boolean"))),
        }
    }

    fn unsigned(&self, object: &Object<String, Value>, key: &str) -> Result<Option<u64>, SchemaError> {
        match object.get(key) {
            None => Ok(None),
            Some(value) => {
                value.as_u64().map(Some).ok_or_else(|| self.error(format!("`{key}` is no whole number")))
            }
        }
    }

    fn array<'a>(&self, object: &'a Object<String, Value>, key: &str) -> Result<&'a [Value], SchemaError> {
        match object.get(key) {
            None => Ok(&[]),
            Some(Value::Array(items)) => Ok(items),
            Some(_) => Err(self.error(format!("`{key}` is no array"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_read_and_print() {
        let schema = DatabaseSchema::parse(
            r#"{"name":"d","version":"1.2.3","tables":{"T":{"isRoot":true,"indexes":[["a"]],"columns":{
                "a":{"type":"string"},
                "b":{"type":{"key":{"type":"integer","minInteger":1,"maxInteger":4095},"min":0}},
                "c":{"type":{"key":{"type":"uuid","refTable":"T","refType":"weak"},"min":0,"max":"unlimited"}},
                "d":{"type":{"key":"string","value":"string","min":0,"max":"unlimited"},"ephemeral":true},
                "e":{"type":{"key":{"type":"string","enum":["set",["x","y"]]}},"mutable":false},
                "f":{"type":{"key":"real","min":0,"max":3}}}}}}"#,
        )
        .unwrap();
        let table = &schema.tables["T"];
        let shown: Vec<_> = table.columns.values().map(|c| c.kind.to_string()).collect();
        assert_eq!(
            shown,
            [
                "string",
                "optional integer",
                "set of 0 or more uuids (weak reference to T)",
                "map of 0 or more string-string pairs",
                "string",
                "set of 0 to 3 reals"
            ]
        );
        assert!(table.is_root && table.columns["d"].ephemeral && !table.columns["e"].mutable);
        assert!(table.columns["c"].kind.is_composite() && !table.columns["b"].kind.is_composite());
        assert_eq!(table.columns["a"].kind.default_datum(), Datum::from(Atom::from("")));
        let reals: Datum = serde_json::from_str(r#"["set",[1,2.5]]"#).unwrap();
        let exact = Datum::set([Atom::Real(1.0), Atom::Real(2.5)]);
        assert_eq!(table.columns["f"].kind.coerce(reals), exact);
    }

    #[test]
    fn errors_name_the_place() {
        let problem = |text: &str| DatabaseSchema::parse(text).unwrap_err().to_string();
        assert_eq!(problem("[]"), "schema: expected a JSON object");
        assert_eq!(problem(r#"{"name":"d"}"#), "schema d: `tables` is missing");
        assert_eq!(
            problem(r#"{"name":"d","tables":{"T":{"columns":{"c":{"type":"text"}}}}}"#),
            "table T, column c: `text` is none of integer, real, boolean, string, uuid"
        );
        assert_eq!(
            problem(r#"{"name":"d","tables":{"T":{"columns":{"c":{"type":{"key":"string","min":2}}}}}}"#),
            "table T, column c: `min` is 0 or 1 and `max` is not below it"
        );
    }
}
