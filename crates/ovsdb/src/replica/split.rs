//! Cutting the body of an update into tables and rows, undecoded.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use uuid::Uuid;

/// Where a row's update stands in the text of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RowText {
    pub(super) uuid: Uuid,
    pub(super) at: Range<usize>,
}

/// A table's name and its rows.
pub(super) type TableText<'a> = (Cow<'a, str>, Vec<RowText>);

/// The tables in an update's body, which stands at some place in the text of a message.
pub(super) fn tables(body: &str, at: usize) -> Result<Vec<TableText<'_>>, serde_json::Error> {
    // How far a part is into the body is a matter of addresses; it need not be contiguous with anything else.
    let origin = (body.as_ptr() as usize).wrapping_sub(at);
    let mut deserializer = serde_json::Deserializer::from_str(body);
    let tables = deserializer.deserialize_map(Tables { origin })?;
    deserializer.end()?;
    Ok(tables)
}

struct Tables {
    origin: usize,
}

impl<'de> Visitor<'de> for Tables {
    type Value = Vec<TableText<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tables")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut tables: Vec<TableText<'de>> = Vec::new();
        while let Some(Name(name)) = map.next_key()? {
            let rows = map.next_value_seed(Rows { origin: self.origin })?;
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
fn last_counts(rows: &mut Vec<RowText>) {
    let mut uuids: Vec<Uuid> = rows.iter().map(|row| row.uuid).collect();
    uuids.sort_unstable();
    if !uuids.is_sorted_by(|a, b| a < b) {
        rows.reverse();
        rows.sort_by_key(|row| row.uuid);
        rows.dedup_by_key(|row| row.uuid);
    }
}

#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

struct Rows {
    origin: usize,
}

impl<'de> DeserializeSeed<'de> for Rows {
    type Value = Vec<RowText>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Rows {
    type Value = Vec<RowText>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of rows by their UUIDs")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut rows = Vec::new();
        while let Some((Name(uuid), text)) = map.next_entry::<Name<'_>, &RawValue>()? {
            let uuid = Uuid::try_parse(&uuid)
                .map_err(|_| serde::de::Error::custom(format_args!("{uuid:?} is no UUID of a row")))?;
            let start = (text.get().as_ptr() as usize).wrapping_sub(self.origin);
            rows.push(RowText { uuid, at: start..start + text.get().len() });
        }
        Ok(rows)
    }
}
