//! Values as plain JSON.
//!
//! A single value is a JSON scalar, an optional value is a scalar or `null`, a set is an array, a map is an object; UUIDs are strings. The
//! type of the column decides, not the value: a set with one element is an array, and an empty map is an object.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use ovsdb::wire::Atom;
use ovsdb::wire::ColumnKind;
use ovsdb::wire::Datum;
use serde::ser::{Serialize, SerializeMap, Serializer};

/// A datum as plain JSON.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Natural<'a> {
    pub(crate) datum: &'a Datum,
    pub(crate) kind: &'a ColumnKind,
}

impl Serialize for Natural<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.datum, &self.kind.value) {
            (Datum::Set(atoms), Some(_)) if atoms.is_empty() => serializer.serialize_map(Some(0))?.end(),
            (Datum::Map(pairs), _) => {
                let mut map = serializer.serialize_map(Some(pairs.len()))?;
                for (key, value) in pairs {
                    map.serialize_entry(&key.to_string(), &Scalar(value))?;
                }
                map.end()
            }
            (Datum::Set(atoms), None) if self.kind.max == Some(1) => match atoms.first() {
                Some(atom) => Scalar(atom).serialize(serializer),
                None => serializer.serialize_none(),
            },
            (Datum::Set(atoms), _) => serializer.collect_seq(atoms.iter().map(Scalar)),
        }
    }
}

struct Scalar<'a>(&'a Atom);

impl Serialize for Scalar<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Atom::Uuid(uuid) => serializer.collect_str(&uuid.hyphenated()),
            Atom::NamedUuid(name) => serializer.serialize_str(name),
            other => other.serialize(serializer),
        }
    }
}

/// A row as a JSON object, its columns in the given order.
#[derive(Clone, Debug)]
pub(crate) struct NaturalRow<'a>(pub(crate) Vec<(&'a str, Natural<'a>)>);

impl Serialize for NaturalRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}
