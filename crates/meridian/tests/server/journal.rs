//! What was written to the Northbound, transaction by transaction, from the database's own file.
//!
//! ovsdb-server appends a record for each transaction before it answers, so nothing is merged and nothing is missed, as may
//! happen to one who watches over the wire. Left out is what ovn-northd writes back, and `NB_Global`, which holds numbers that
//! move by themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cloud::Cloud;

/// What begins each record of a standalone database.
const MAGIC: &[u8] = b"OVSDB JSON ";

/// A place in the file, and the rows there are at that place.
pub(crate) struct Journal {
    path: PathBuf,
    read: usize,
    rows: BTreeSet<(String, String)>,
}

/// One transaction.
#[derive(Debug)]
pub(crate) struct Written(pub(crate) Vec<Change>);

/// What one transaction did to one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) kind: Kind,
    pub(crate) table: String,
    pub(crate) uuid: String,
    /// The columns that changed, or that a new row has.
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
    /// From now on.
    pub(crate) fn of(cloud: &Cloud) -> Journal {
        Self::within(cloud.ovn())
    }

    /// From now on, of a central whose files are in a directory.
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

    /// What was done since the last call, all transactions together.
    pub(crate) fn tally(&mut self) -> BTreeMap<String, usize> {
        tally(&self.next())
    }

    fn take(&mut self, record: &Value) -> Vec<Change> {
        let mut changes = Vec::new();
        // The first record is the schema, whose members are no tables.
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
    /// What happened to the rows of a table.
    pub(crate) fn to(&self, kind: Kind, table: &str) -> Vec<&Change> {
        self.0.iter().filter(|change| change.kind == kind && change.table == table).collect()
    }
}

/// How often each thing was done to each table, as `insert NAT`.
pub(crate) fn tally(written: &[Written]) -> BTreeMap<String, usize> {
    let mut tally = BTreeMap::new();
    for change in written.iter().flat_map(|written| &written.0) {
        *tally.entry(format!("{} {}", change.kind, change.table)).or_default() += 1;
    }
    tally
}

/// A tally to compare with.
pub(crate) fn counts<const N: usize>(counts: [(&str, usize); N]) -> BTreeMap<String, usize> {
    counts.into_iter().map(|(what, count)| (what.to_owned(), count)).collect()
}

/// The record at a place and where it ends; none if it is not whole.
fn record(bytes: &[u8], at: usize) -> Option<(Value, usize)> {
    let rest = bytes.get(at..)?.strip_prefix(MAGIC)?;
    let line = rest.iter().position(|byte| *byte == b'\n')?;
    let head = std::str::from_utf8(&rest[..line]).unwrap();
    let length: usize = head.split(' ').next().unwrap().parse().unwrap();
    let begin = at + MAGIC.len() + line + 1;
    let body = bytes.get(begin..begin + length)?;
    Some((serde_json::from_slice(body).unwrap(), begin + length))
}
