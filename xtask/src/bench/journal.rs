//! The transactions of a database, read from its own file: a log with one record for each.
//!
//! A client may receive several transactions as one update; the file keeps them apart. Those of ovn-northd are left out: it writes back
//! what it has seen, whoever asked for it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// How many rows of each table a transaction touched.
pub(in crate::bench) type Rows = BTreeMap<String, usize>;

/// How long nothing must be written until it counts as the end.
const QUIET: Duration = Duration::from_millis(700);
/// How long to wait for the first record.
const PATIENCE: Duration = Duration::from_secs(60);

/// A place in a database's file; what is written after it is read once.
pub(in crate::bench) struct Journal {
    file: PathBuf,
    at: u64,
}

impl Journal {
    /// From the present end on.
    pub(in crate::bench) fn from_here(file: &Path) -> Result<Journal> {
        let at = std::fs::metadata(file).with_context(|| format!("cannot see {}", file.display()))?.len();
        Ok(Journal { file: file.to_owned(), at })
    }

    /// The transactions since the last call.
    pub(in crate::bench) fn read(&mut self) -> Result<Vec<Rows>> {
        let mut file = File::open(&self.file)?;
        file.seek(SeekFrom::Start(self.at))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        self.at += text.len() as u64;
        records(&text)
    }

    /// Waits until the file has grown and is quiet again; returns the time from the call to the last record.
    pub(in crate::bench) fn wait(&self) -> Result<Duration> {
        let begin = Instant::now();
        let (mut length, mut last) = (self.at, None);
        loop {
            let now = std::fs::metadata(&self.file)?.len();
            if now != length {
                (length, last) = (now, Some(begin.elapsed()));
            }
            match last {
                Some(last) if begin.elapsed() > last + QUIET => return Ok(last),
                None if begin.elapsed() > PATIENCE => bail!("nothing is written to {}", self.file.display()),
                _ => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }
}

/// A record is a line `OVSDB JSON LENGTH HASH` and so many bytes of JSON: `{TABLE: {UUID: ROW or null}, "_date": ...}`.
fn records(mut text: &[u8]) -> Result<Vec<Rows>> {
    let mut all = Vec::new();
    while !text.is_empty() {
        let end = text.iter().position(|byte| *byte == b'\n').context("a record without a head")?;
        let head = std::str::from_utf8(&text[..end])?;
        let length: usize = head
            .split(' ')
            .nth(2)
            .and_then(|length| length.parse().ok())
            .with_context(|| format!("no record: {head}"))?;
        let body = text.get(end + 1..end + 1 + length).context("a record that is cut off")?;
        let tables: BTreeMap<String, Value> = serde_json::from_slice(body)?;
        let by_northd =
            tables.get("_comment").and_then(Value::as_str).is_some_and(|it| it.starts_with("ovn-northd"));
        let rows = tables.into_iter().filter_map(|(table, rows)| Some((table, rows.as_object()?.len())));
        if !by_northd {
            all.push(rows.collect());
        }
        text = &text[end + 1 + length..];
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(body: &str) -> String {
        format!("OVSDB JSON {} 0123\n{body}", body.len())
    }

    #[test]
    fn transactions_and_their_rows() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("nb.db");
        std::fs::write(&file, record("{\"name\":\"schema\"}\n")).unwrap();
        let mut journal = Journal::from_here(&file).unwrap();
        assert!(journal.read().unwrap().is_empty());
        let first =
            record("{\"_date\":1,\"NAT\":{\"a\":null,\"b\":{\"type\":\"snat\"}},\"_comment\":\"x\"}\n");
        let second = record("{\"Logical_Router\":{\"r\":{}}}\n")
            + &record("{\"_comment\":\"ovn-northd\",\"Logical_Switch_Port\":{\"p\":{\"up\":false}}}\n");
        let mut text = std::fs::read_to_string(&file).unwrap();
        text.push_str(&first);
        text.push_str(&second);
        std::fs::write(&file, &text).unwrap();
        assert!(journal.wait().is_ok());
        let rows = |table: &str, n| Rows::from([(table.to_owned(), n)]);
        assert_eq!(journal.read().unwrap(), [rows("NAT", 2), rows("Logical_Router", 1)]);
        assert!(journal.read().unwrap().is_empty());
    }

    #[test]
    fn what_is_no_journal_is_told() {
        assert!(records(b"hello").is_err());
        assert!(records(b"OVSDB JSON 99 0123\n{}").is_err());
        assert!(records(b"OVSDB CLUSTER x\n{}").is_err());
    }
}
