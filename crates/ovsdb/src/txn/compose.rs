//! Operations as JSON text, written directly into a buffer.
//!
//! Batches have hundreds of thousands of rows, so there is no intermediate value: each column is printed as it is read. Inserts
//! omit values that equal the protocol's default. So a column that a server lacks does no harm as long as it has no value.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::io::Write;

use smallvec::SmallVec;
use uuid::Uuid;

use crate::model::Mutation;
use crate::model::{ColumnSet, Table};
use crate::wire::atom::Atom;
use crate::wire::clause::Clause;
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

/// Inserts a row under a UUID of our choice; returns the columns that it writes.
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

fn pairs<'n, 'd>(out: &mut Vec<u8>, values: impl Iterator<Item = (&'n str, &'d Datum)>) {
    write::list(out, values, |out, (column, value)| {
        json(out, column);
        out.push(b':');
        json(out, value);
    });
}

/// Like [`insert`], by name.
pub(crate) fn insert_by_name<'n, 'd>(
    out: &mut Vec<u8>,
    table: &str,
    uuid: Uuid,
    values: impl Iterator<Item = (&'n str, &'d Datum)>,
) {
    head(out, "insert", table);
    text(out, r#","uuid":""#);
    hyphenated(out, uuid);
    text(out, r#"","row":{"#);
    pairs(out, values);
    text(out, "}}");
}

/// Like [`update`], by name.
pub(crate) fn update_by_name<'n, 'd>(
    out: &mut Vec<u8>,
    table: &str,
    uuid: Uuid,
    values: impl Iterator<Item = (&'n str, &'d Datum)>,
) {
    head(out, "update", table);
    of_row(out, uuid);
    text(out, r#","row":{"#);
    pairs(out, values);
    text(out, "}}");
}

/// Changes elements of a row's columns in exactly these steps.
pub(crate) fn mutate_steps<'n, 'd>(
    out: &mut Vec<u8>,
    table: &str,
    uuid: Uuid,
    steps: impl Iterator<Item = (&'n str, &'n str, &'d Datum)>,
) {
    head(out, "mutate", table);
    of_row(out, uuid);
    text(out, r#","mutations":["#);
    write::list(out, steps, |out, step| json(out, &step));
    text(out, "]}");
}

/// Adds a number to a column of a row.
pub(crate) fn add(out: &mut Vec<u8>, table: &str, uuid: Uuid, column: &str, amount: i64) {
    head(out, "mutate", table);
    of_row(out, uuid);
    text(out, r#","mutations":["#);
    json(out, &(column, "+=", amount));
    text(out, "]}");
}

/// Adds elements to a column of the selected rows.
pub(crate) fn put_where(out: &mut Vec<u8>, table: &str, clauses: &[Clause], column: &str, elements: Datum) {
    head(out, "mutate", table);
    selected(out, clauses);
    text(out, r#","mutations":["#);
    let steps = steps(Mutation { insert: elements, ..Mutation::default() });
    let steps = steps.iter().filter(|(_, datum)| !datum.is_empty());
    write::list(out, steps, |out, (mutator, datum)| json(out, &(column, mutator, datum)));
    text(out, "]}");
}

/// Deletes the selected rows.
pub(crate) fn delete_where(out: &mut Vec<u8>, table: &str, clauses: &[Clause]) {
    head(out, "delete", table);
    selected(out, clauses);
    out.push(b'}');
}

/// Fails the transaction unless there is a selected row.
pub(crate) fn expect_some(out: &mut Vec<u8>, table: &str, clauses: &[Clause]) {
    head(out, "wait", table);
    text(out, r#","timeout":0"#);
    selected(out, clauses);
    text(out, r#","columns":["_uuid"],"until":"!=","rows":[]}"#);
}

fn selected(out: &mut Vec<u8>, clauses: &[Clause]) {
    text(out, r#","where":"#);
    json(out, clauses);
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

/// A mutation in an order that the server accepts: it counts the elements after every step.
fn steps(mutation: Mutation) -> SmallVec<[(&'static str, Datum); 4]> {
    let Mutation { delete, insert, empties } = mutation;
    match (delete, insert) {
        // One old element stays until the first new one is inserted. So between the steps the set is neither empty nor larger than before
        // or than two elements.
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
        // `insert` does not change existing keys. So every key with a new value is deleted first, whatever value it has by then.
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
