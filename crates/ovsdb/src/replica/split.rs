//! Cutting the body of an update into tables and rows, undecoded.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::apply::RowText;

/// A table's name and its rows.
pub(super) type TableText<'a> = (Cow<'a, str>, Vec<RowText<'a>>);

/// The tables in an update's body.
pub(super) fn tables(body: &RawValue) -> Result<Vec<TableText<'_>>, serde_json::Error> {
    serde_json::Deserializer::from_str(body.get()).deserialize_map(Tables)
}

struct Tables;

impl<'de> Visitor<'de> for Tables {
    type Value = Vec<TableText<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tables")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut tables: Vec<TableText<'de>> = Vec::new();
        while let Some((Name(name), Rows(rows))) = map.next_entry()? {
            match tables.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) => known.extend(rows),
                None => tables.push((name, rows)),
            }
        }
        tables.iter_mut().for_each(|(_, rows)| last_counts(rows));
        Ok(tables)
    }
}

/// Of members with the same name the last one counts, as for the C client. Servers do not send any.
fn last_counts(rows: &mut Vec<RowText<'_>>) {
    let mut uuids: Vec<Uuid> = rows.iter().map(|(uuid, _)| *uuid).collect();
    uuids.sort_unstable();
    if !uuids.is_sorted_by(|a, b| a < b) {
        rows.reverse();
        rows.sort_by_key(|(uuid, _)| *uuid);
        rows.dedup_by_key(|(uuid, _)| *uuid);
    }
}

#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

struct Rows<'a>(Vec<RowText<'a>>);

impl<'de> Deserialize<'de> for Rows<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(RowsVisitor)
    }
}

struct RowsVisitor;

impl<'de> Visitor<'de> for RowsVisitor {
    type Value = Rows<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of rows by their UUIDs")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut rows = Vec::new();
        while let Some((Name(uuid), text)) = map.next_entry::<Name<'_>, &RawValue>()? {
            let uuid = Uuid::try_parse(&uuid)
                .map_err(|_| serde::de::Error::custom(format_args!("{uuid:?} is no UUID of a row")))?;
            rows.push((uuid, text.get()));
        }
        Ok(Rows(rows))
    }
}
