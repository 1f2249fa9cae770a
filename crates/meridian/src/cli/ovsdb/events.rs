//! Changes as lines of JSON: `watch` prints them live, `replay` from a recording.

use std::io::{self, Write};

use ovsdb::replica::{Change, Delta, DynamicRow};
use serde::Serialize;

use crate::output::{Natural, NaturalRow};

/// The description of the lines in `--help`.
pub(super) const FORMAT: &str = "\
Lines:
  {\"event\":\"insert\",\"table\":T,\"uuid\":U,\"old\":null,\"new\":ROW}
  {\"event\":\"modify\",\"table\":T,\"uuid\":U,\"old\":COLUMNS,\"new\":ROW}   old: the columns that changed
  {\"event\":\"delete\",\"table\":T,\"uuid\":U,\"old\":ROW,\"new\":null}
  {\"event\":\"synced\"}                     all that was there has been told
  {\"event\":\"disconnected\",\"reason\":TEXT} from here on changes are not seen when they happen
  {\"event\":\"reconnected\"}                all that was missed has been told, between these two lines
Values are as in the JSON of `meridian ovsdb dump`.";

/// A line about one row. All five members are always present.
#[derive(Serialize)]
struct RowLine<'a> {
    event: &'static str,
    table: &'a str,
    uuid: String,
    old: Option<NaturalRow<'a>>,
    new: Option<NaturalRow<'a>>,
}

/// A line about the connection.
#[derive(Serialize)]
struct StateLine<'a> {
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

fn row(row: &DynamicRow) -> NaturalRow<'_> {
    NaturalRow(row.typed().map(|(name, kind, datum)| (name.as_str(), Natural { datum, kind })).collect())
}

/// The old values of the columns that changed. A column that the new schema lacks counts as changed.
fn changed<'a>(before: &'a DynamicRow, after: &DynamicRow) -> NaturalRow<'a> {
    let typed = before.typed().filter(|(name, _, datum)| after.get(name) != Some(*datum));
    NaturalRow(typed.map(|(name, kind, datum)| (name.as_str(), Natural { datum, kind })).collect())
}

/// The name of a kind of change.
pub(super) fn word(change: &Change<DynamicRow>) -> Option<&'static str> {
    match (&change.before, &change.after) {
        (None, Some(_)) => Some("insert"),
        (Some(_), Some(_)) => Some("modify"),
        (Some(_), None) => Some("delete"),
        (None, None) => None,
    }
}

/// Writes the changes of some tables, sorted by table and UUID. Calls `seen` with the kind of each change.
pub(super) fn changes(
    out: &mut impl Write,
    tables: &[String],
    delta: &Delta,
    mut seen: impl FnMut(&'static str),
) -> io::Result<()> {
    for table in tables {
        let mut changes: Vec<&Change<DynamicRow>> = delta.dynamic(table).collect();
        changes.sort_by_key(|change| change.uuid);
        for change in changes {
            let Some(event) = word(change) else { continue };
            let (before, after) = (change.before.as_deref(), change.after.as_deref());
            let old = match (before, after) {
                (Some(before), Some(after)) => Some(changed(before, after)),
                (before, _) => before.map(row),
            };
            let line = RowLine { event, table, uuid: change.uuid.to_string(), old, new: after.map(row) };
            write(out, &line)?;
            seen(event);
        }
    }
    Ok(())
}

/// Writes a line about the connection.
pub(super) fn state(out: &mut impl Write, event: &'static str, reason: Option<&str>) -> io::Result<()> {
    write(out, &StateLine { event, reason })
}

fn write(out: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}
