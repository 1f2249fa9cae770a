//! The transactions that were written to the Northbound, read from the database's own file.
//!
//! ovsdb-server appends a record for each transaction before it answers. So the journal merges and misses nothing, unlike a monitor. It
//! leaves out the columns that ovn-northd writes back, and `NB_Global`, whose counters change by themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cloud::Cloud;

/// The start of each record of a standalone database.
const MAGIC: &[u8] = b"OVSDB JSON ";

/// A position in the file, and the rows that existed at that position.
pub(crate) struct Journal {
    path: PathBuf,
    read: usize,
    rows: BTreeSet<(String, String)>,
}

/// One transaction.
#[derive(Debug)]
pub(crate) struct Written(pub(crate) Vec<Change>);

/// The change of one row by one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) kind: Kind,
    pub(crate) table: String,
    pub(crate) uuid: String,
    /// The changed columns, or those of a new row.
    pub(crate) columns: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Insert,
    Modify,
    Delete,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Insert => "insert",
            Kind::Modify => "modify",
            Kind::Delete => "delete",
        })
    }
}

impl Journal {
    /// A journal that starts now.
    pub(crate) fn of(cloud: &Cloud) -> Journal {
        Self::within(cloud.ovn())
    }

    /// A journal that starts now, for a central whose files are in a directory.
    pub(crate) fn within(ovn: &Path) -> Journal {
        let path = ovn.join("nb.db");
        let mut journal = Journal { path, read: 0, rows: BTreeSet::new() };
        journal.next();
        journal
    }

    /// The transactions since the last call.
    pub(crate) fn next(&mut self) -> Vec<Written> {
        let bytes = fs::read(&self.path).unwrap();
        assert!(bytes.len() >= self.read, "the file was compacted");
        let mut written = Vec::new();
        while let Some((record, end)) = record(&bytes, self.read) {
            self.read = end;
            let by_northd = record["_comment"].as_str().is_some_and(|why| why.starts_with("ovn-northd"));
            let changes = self.take(&record);
            if !by_northd && !changes.is_empty() {
                written.push(Written(changes));
            }
        }
        written
    }

    /// The tally of all transactions since the last call.
    pub(crate) fn tally(&mut self) -> BTreeMap<String, usize> {
        tally(&self.next())
    }

    fn take(&mut self, record: &Value) -> Vec<Change> {
        let mut changes = Vec::new();
        // The first record is the schema, which contains no rows.
        let tables = record.as_object().filter(|record| !record.contains_key("tables"));
        let tables = tables.into_iter().flatten().filter(|(name, _)| !name.starts_with('_'));
        for (table, uuid, row) in tables.flat_map(|(table, rows)| {
            rows.as_object().into_iter().flatten().map(move |(uuid, row)| (table, uuid, row))
        }) {
            let id = (table.clone(), uuid.clone());
            let kind = match row {
                Value::Null if self.rows.remove(&id) => Kind::Delete,
                Value::Null => continue,
                _ if self.rows.insert(id) => Kind::Insert,
                _ => Kind::Modify,
            };
            let columns = row.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
            if table != "NB_Global" {
                changes.push(Change { kind, table: table.clone(), uuid: uuid.clone(), columns });
            }
        }
        changes
    }
}

impl Written {
    /// The changes of one kind to the rows of a table.
    pub(crate) fn to(&self, kind: Kind, table: &str) -> Vec<&Change> {
        self.0.iter().filter(|change| change.kind == kind && change.table == table).collect()
    }
}

/// The number of changes per kind and table, with keys such as `insert NAT`.
pub(crate) fn tally(written: &[Written]) -> BTreeMap<String, usize> {
    let mut tally = BTreeMap::new();
    for change in written.iter().flat_map(|written| &written.0) {
        *tally.entry(format!("{} {}", change.kind, change.table)).or_default() += 1;
    }
    tally
}

/// An expected tally.
pub(crate) fn counts<const N: usize>(counts: [(&str, usize); N]) -> BTreeMap<String, usize> {
    counts.into_iter().map(|(what, count)| (what.to_owned(), count)).collect()
}

/// The record at a position and its end; `None` if it is incomplete.
fn record(bytes: &[u8], at: usize) -> Option<(Value, usize)> {
    let rest = bytes.get(at..)?.strip_prefix(MAGIC)?;
    let line = rest.iter().position(|byte| *byte == b'\n')?;
    let head = std::str::from_utf8(&rest[..line]).unwrap();
    let length: usize = head.split(' ').next().unwrap().parse().unwrap();
    let begin = at + MAGIC.len() + line + 1;
    let body = bytes.get(begin..begin + length)?;
    Some((serde_json::from_slice(body).unwrap(), begin + length))
}
