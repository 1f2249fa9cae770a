//! Splits the body of a reload into tables and rows, undecoded.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::borrow::Cow;
use std::ops::Range;

use serde::de::Error as _;
use smallvec::SmallVec;
use uuid::Uuid;

use crate::wire::cursor::Cursor;

/// The position of a row's update in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RowText {
    pub(super) uuid: Uuid,
    pub(super) at: Range<usize>,
}

/// Rows of a table. Most updates are about one row of one table.
pub(super) type RowTexts = SmallVec<[RowText; 1]>;

/// A table's name and its rows.
pub(super) type TableText<'a> = (Cow<'a, str>, RowTexts);

/// The tables in the body of a reload, which begins at a position of the message. Rows are not parsed.
pub(super) fn tables(body: &str, at: usize) -> Result<SmallVec<[TableText<'_>; 1]>, serde_json::Error> {
    let mut cursor = Cursor::new(body);
    let mut tables: SmallVec<[TableText<'_>; 1]> = SmallVec::new();
    cursor.members(|cursor, name| {
        let position = tables.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
            tables.push((name, RowTexts::new()));
            tables.len() - 1
        });
        let rows = &mut tables[position].1;
        cursor.members(|cursor, uuid| {
            let (uuid, row) = (row_uuid(&uuid)?, cursor.value()?);
            rows.push(RowText { uuid, at: at + row.start..at + row.end });
            Ok::<_, serde_json::Error>(())
        })
    })?;
    cursor.end()?;
    tables.iter_mut().for_each(|(_, rows)| last_counts(rows));
    Ok(tables)
}

/// The name of a row's member.
pub(super) fn row_uuid(name: &str) -> Result<Uuid, serde_json::Error> {
    Uuid::try_parse(name).map_err(|_| serde_json::Error::custom(format_args!("{name:?} is no UUID of a row")))
}

/// Of members with the same name the last one wins, as in the C client. Servers do not send duplicates.
fn last_counts(rows: &mut RowTexts) {
    if rows.len() < 2 {
        return;
    }
    let mut uuids: Vec<Uuid> = rows.iter().map(|row| row.uuid).collect();
    uuids.sort_unstable();
    if !uuids.is_sorted_by(|a, b| a < b) {
        rows.reverse();
        rows.sort_by_key(|row| row.uuid);
        rows.dedup_by_key(|row| row.uuid);
    }
}
