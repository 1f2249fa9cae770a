//! The tests' own schema, in two versions, and its tables as structs.

use ovsdb::{Map, Ref, Set, Str, Table, Uuid, Weak};

/// The schema's first version. Clients do not monitor `Hay`.
pub const SCHEMA: &str = r#"{
  "name": "Stable", "version": "1.0.0",
  "tables": {
    "Horse": {"isRoot": true, "indexes": [["name"]], "columns": {
      "name": {"type": "string"},
      "seq": {"type": "integer"},
      "labels": {"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}},
      "tags": {"type": {"key": "string", "min": 0, "max": "unlimited"}},
      "colour": {"type": {"key": {"type": "string", "enum": ["set", ["bay", "grey", "black"]]}, "min": 0}},
      "riders": {"type": {"key": {"type": "uuid", "refTable": "Rider"}, "min": 0, "max": "unlimited"}},
      "friend": {"type": {"key": {"type": "uuid", "refTable": "Horse", "refType": "weak"}, "min": 0}},
      "born": {"type": "integer", "mutable": false}}},
    "Rider": {"columns": {
      "name": {"type": "string"},
      "horse": {"type": {"key": "string", "min": 0}}}},
    "Hay": {"isRoot": true, "columns": {
      "bales": {"type": {"key": "integer", "min": 0, "max": "unlimited"}}}}}}"#;

/// The second version: `Horse` has a height, and nothing is lost.
pub fn newer_schema() -> String {
    SCHEMA.replace(r#""version": "1.0.0""#, r#""version": "2.0.0""#).replace(
        r#""seq": {"type": "integer"},"#,
        r#""seq": {"type": "integer"}, "height": {"type": "integer"},"#,
    )
}

#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "Stable", table = "Horse")]
pub struct Horse {
    pub name: Str,
    pub seq: i64,
    pub labels: Map<Str, Str>,
    pub tags: Set<Str>,
    pub colour: Option<Str>,
    pub riders: Set<Ref<Rider>>,
    pub friend: Option<Weak<Horse>>,
    #[ovsdb(optional)]
    pub height: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "Stable", table = "Rider")]
pub struct Rider {
    pub name: Str,
}

/// A horse of this name.
pub fn horse(name: impl Into<Str>, seq: i64) -> Horse {
    Horse { name: name.into(), seq, ..Horse::default() }
}

/// A UUID that is derived from a number. Its first bits are scattered, because ovsdb-server hashes rows by them.
pub fn id(n: u128) -> Uuid {
    Uuid::from_u64_pair((n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15), n as u64)
}
