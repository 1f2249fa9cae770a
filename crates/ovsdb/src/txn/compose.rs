//! Operations as JSON text, written straight into a buffer.
//!
//! Rows of a batch pass through here by the hundred thousand, so nothing is built first and printed later: each column
//! is printed as it is read. What equals the protocol's default is left out of inserts; that also keeps columns which a
//! server lacks out of the way as long as nobody gives them a value.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::io::Write;

use smallvec::SmallVec;
use uuid::Uuid;

use crate::model::column::Mutation;
use crate::model::{ColumnSet, Table};
use crate::wire::atom::Atom;
use crate::wire::datum::Datum;
use crate::wire::write::{self, hyphenated, json};

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

fn head(out: &mut Vec<u8>, op: &str, table: &str) {
    text(out, r#"{"op":""#);
    text(out, op);
    text(out, r#"","table":"#);
    json(out, table);
}

fn of_row(out: &mut Vec<u8>, uuid: Uuid) {
    text(out, r#","where":[["_uuid","==",["uuid",""#);
    hyphenated(out, uuid);
    text(out, r#""]]]"#);
}

/// `"column":value` pairs of an object that is already open.
fn members<T: Table>(out: &mut Vec<u8>, row: &T, columns: ColumnSet) {
    write::list(out, columns.iter(), |out, at| {
        json(out, T::COLUMNS[at].name);
        out.push(b':');
        row.write_json(at, out);
    });
}

/// Inserts a row under a UUID of our choice; the columns that were mentioned.
pub(crate) fn insert<T: Table>(out: &mut Vec<u8>, uuid: Uuid, row: &T) -> ColumnSet {
    head(out, "insert", T::TABLE);
    text(out, r#","uuid":""#);
    hyphenated(out, uuid);
    text(out, r#"","row":{"#);
    let written = (0..T::COLUMNS.len()).filter(|at| !row.is_blank(*at)).collect();
    members(out, row, written);
    text(out, "}}");
    written
}

/// Writes whole columns of a row.
pub(crate) fn update<T: Table>(out: &mut Vec<u8>, uuid: Uuid, row: &T, columns: ColumnSet) {
    head(out, "update", T::TABLE);
    of_row(out, uuid);
    text(out, r#","row":{"#);
    members(out, row, columns);
    text(out, "}}");
}

/// Changes elements of sets and maps of a row.
pub(crate) fn mutate<'a>(
    out: &mut Vec<u8>,
    table: &str,
    uuid: Uuid,
    mutations: impl Iterator<Item = (&'a str, Mutation)>,
) {
    head(out, "mutate", table);
    of_row(out, uuid);
    text(out, r#","mutations":["#);
    let mut first = true;
    for (column, mutation) in mutations {
        for (mutator, datum) in steps(mutation) {
            if datum.is_empty() {
                continue;
            }
            if !std::mem::take(&mut first) {
                out.push(b',');
            }
            json(out, &(column, mutator, &datum));
        }
    }
    text(out, "]}");
}

/// A mutation in the order in which the server can take it: it counts the elements after every step.
fn steps(mutation: Mutation) -> SmallVec<[(&'static str, Datum); 4]> {
    let Mutation { delete, insert, empties } = mutation;
    match (delete, insert) {
        // One old element stays until the first new one is in: the set is neither empty between the steps nor larger
        // than before, or than two.
        (Datum::Set(mut old), Datum::Set(mut new)) if empties && !old.is_empty() && !new.is_empty() => {
            let (last, first) = (old.split_off(old.len() - 1), new.drain(..1).collect());
            SmallVec::from_iter([
                ("delete", Datum::Set(old)),
                ("insert", Datum::Set(first)),
                ("delete", Datum::Set(last)),
                ("insert", Datum::Set(new)),
            ])
        }
        (delete @ Datum::Set(_), insert @ Datum::Set(_)) => {
            SmallVec::from_iter([("delete", delete), ("insert", insert)])
        }
        // An insert leaves a present key alone, so every key that gets a value is taken out first, whatever it has by
        // then: what was asked for is what the column has afterwards.
        (delete, insert) => {
            let keys = Datum::set(keys_of(&delete).chain(keys_of(&insert)));
            SmallVec::from_iter([("delete", keys), ("insert", insert)])
        }
    }
}

fn keys_of(datum: &Datum) -> impl Iterator<Item = Atom> {
    let (atoms, pairs): (&[Atom], &[(Atom, Atom)]) = match datum {
        Datum::Set(atoms) => (atoms, &[]),
        Datum::Map(pairs) => (&[], pairs),
    };
    atoms.iter().chain(pairs.iter().map(|(key, _)| key)).cloned()
}

/// Deletes a row.
pub(crate) fn delete(out: &mut Vec<u8>, table: &str, uuid: Uuid) {
    head(out, "delete", table);
    of_row(out, uuid);
    out.push(b'}');
}

/// Fails the transaction unless the row has these values; without columns, unless it exists.
pub(crate) fn expect_row<'a>(
    out: &mut Vec<u8>,
    table: &str,
    uuid: Uuid,
    columns: impl Iterator<Item = (&'a str, &'a Datum)> + Clone,
) {
    head(out, "wait", table);
    text(out, r#","timeout":0"#);
    of_row(out, uuid);
    text(out, r#","columns":["_uuid""#);
    for (name, _) in columns.clone() {
        out.push(b',');
        json(out, name);
    }
    text(out, r#"],"until":"==","rows":[{"_uuid":["uuid",""#);
    hyphenated(out, uuid);
    text(out, r#""]"#);
    for (name, datum) in columns {
        out.push(b',');
        json(out, name);
        out.push(b':');
        json(out, datum);
    }
    text(out, "}]}");
}

/// Fails the transaction if the row exists.
pub(crate) fn expect_absent(out: &mut Vec<u8>, table: &str, uuid: Uuid) {
    head(out, "wait", table);
    text(out, r#","timeout":0"#);
    of_row(out, uuid);
    text(out, r#","columns":["_uuid"],"until":"==","rows":[]}"#);
}

/// Fails the transaction unless exactly these rows have this value.
pub(crate) fn expect_rows(out: &mut Vec<u8>, table: &str, column: &str, value: &Datum, rows: &[Uuid]) {
    head(out, "wait", table);
    text(out, r#","timeout":0,"where":["#);
    json(out, &(column, "==", value));
    text(out, r#"],"columns":["_uuid"],"until":"==","rows":["#);
    for (at, uuid) in rows.iter().enumerate() {
        text(out, if at == 0 { r#"{"_uuid":["uuid",""# } else { r#",{"_uuid":["uuid",""# });
        hyphenated(out, *uuid);
        text(out, r#""]}"#);
    }
    text(out, "]}");
}

/// Fails the transaction unless we hold the lock.
pub(crate) fn assert(out: &mut Vec<u8>, lock: &str) {
    let _ = write!(out, r#"{{"op":"assert","lock":"#);
    json(out, lock);
    out.push(b'}');
}

/// A line for the server's log.
pub(crate) fn comment(out: &mut Vec<u8>, comment: &str) {
    let _ = write!(out, r#"{{"op":"comment","comment":"#);
    json(out, comment);
    out.push(b'}');
}
