//! References between rows: counting strong ones, collecting rows that nothing refers to, removing weak ones.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeSet, HashMap};

use uuid::Uuid;

use super::execute::Txn;
use super::refusal::Refusal;
use super::store::{Change, Database, Key, Row, Table};
use crate::model::Str;
use crate::wire::atom::Atom;
use crate::wire::datum::Datum;
use crate::wire::schema::{BaseKind, ColumnSchema};

/// The references between rows, updated at each commit, so that no transaction has to visit every row.
#[derive(Clone, Debug, Default)]
pub(super) struct References {
    /// The number of strong references to each row.
    strong: HashMap<Key, i64>,
    /// The rows that refer weakly to each row, with their number of references.
    weak: HashMap<Key, HashMap<Key, i64>>,
}

impl References {
    /// Applies the changes of a transaction.
    pub(super) fn update(&mut self, tables: &Database, changes: &[Change]) {
        for change in changes {
            let Some(table) = tables.tables.get(&change.table) else { continue };
            for (row, step) in [(&change.before, -1), (&change.after, 1)] {
                let Some(row) = row else { continue };
                for target in references(table, change.uuid, row, true) {
                    bump(&mut self.strong, target, step);
                }
                for target in references(table, change.uuid, row, false) {
                    let sources = self.weak.entry(target.clone()).or_default();
                    bump(sources, (change.table.clone(), change.uuid), step);
                    if sources.is_empty() {
                        self.weak.remove(&target);
                    }
                }
            }
        }
    }
}

fn bump(counts: &mut HashMap<Key, i64>, key: Key, step: i64) {
    let count = counts.entry(key.clone()).or_default();
    *count += step;
    if *count == 0 {
        counts.remove(&key);
    }
}

fn base(base: Option<&BaseKind>, strong: bool) -> Option<&Str> {
    base?.refers.as_ref().filter(|refers| refers.strong == strong).map(|refers| &refers.table)
}

/// The tables that a column's keys and values refer to, strongly or weakly.
fn targets(column: &ColumnSchema, strong: bool) -> (Option<&Str>, Option<&Str>) {
    (base(Some(&column.kind.key), strong), base(column.kind.value.as_ref(), strong))
}

/// The rows that a row refers to; itself does not count.
fn references(table: &Table, uuid: Uuid, row: &Row, strong: bool) -> Vec<Key> {
    let mut found = Vec::new();
    let mut add = |target: Option<&Str>, atom: &Atom| {
        if let (Some(target), Atom::Uuid(to)) = (target, atom)
            && (*to != uuid || *target != table.name)
        {
            found.push((target.clone(), *to));
        }
    };
    for (name, column) in &table.schema.columns {
        let (keys, values) = targets(column, strong);
        if keys.is_none() && values.is_none() {
            continue;
        }
        match row.get(name) {
            Some(Datum::Set(atoms)) => atoms.iter().for_each(|atom| add(keys, atom)),
            Some(Datum::Map(pairs)) => pairs.iter().for_each(|(k, v)| {
                add(keys, k);
                add(values, v);
            }),
            None => {}
        }
    }
    found
}

impl Txn<'_> {
    /// Refuses strong references to missing rows, and deletes rows of non-root tables without strong references.
    pub(super) fn settle_strong(&mut self) -> Result<(), Refusal> {
        let mut steps: HashMap<Key, i64> = HashMap::new();
        let mut lost = BTreeSet::new();
        for change in self.changes() {
            let Some(table) = self.db.tables.get(&change.table) else { continue };
            if let Some(row) = &change.before {
                for target in references(table, change.uuid, row, true) {
                    bump(&mut steps, target.clone(), -1);
                    lost.insert(target);
                }
            }
            if let Some(row) = &change.after {
                for target in references(table, change.uuid, row, true) {
                    if self.db.row(&target).is_none() {
                        return Err(Refusal::new(
                            "referential integrity violation",
                            format!(
                                "Table {} row {} references nonexistent row {} in table {}.",
                                change.table, change.uuid, target.1, target.0
                            ),
                        ));
                    }
                    bump(&mut steps, target, 1);
                }
            }
            lost.insert((change.table, change.uuid));
        }
        let count = |db: &Database, steps: &HashMap<Key, i64>, key: &Key| {
            db.references.strong.get(key).copied().unwrap_or(0) + steps.get(key).copied().unwrap_or(0)
        };
        for key in &lost {
            let left = count(self.db, &steps, key);
            if self.db.row(key).is_none() && left > 0 {
                let problem =
                    format!("cannot delete {} row {} because of {left} remaining reference(s)", key.0, key.1);
                return Err(Refusal::new("referential integrity violation", problem));
            }
        }
        while let Some(key) = lost.pop_first() {
            let Some(table) = self.db.tables.get(&key.0).filter(|table| !table.schema.is_root) else {
                continue;
            };
            let Some(row) = table.rows.get(&key.1).filter(|_| count(self.db, &steps, &key) == 0) else {
                continue;
            };
            for target in references(table, key.1, row, true) {
                bump(&mut steps, target.clone(), -1);
                lost.insert(target);
            }
            self.put(key, None);
        }
        Ok(())
    }

    /// Removes weak references to missing rows.
    pub(super) fn settle_weak(&mut self) -> Result<(), Refusal> {
        let mut affected = BTreeSet::new();
        for change in self.changes() {
            let key = (change.table, change.uuid);
            if change.after.is_none() {
                let sources =
                    self.db.references.weak.get(&key).into_iter().flat_map(|sources| sources.keys());
                affected.extend(sources.cloned());
            }
            affected.insert(key);
        }
        for key in affected {
            let Some(table) = self.db.tables.get(&key.0) else { continue };
            let Some(row) = table.rows.get(&key.1) else { continue };
            let mut shrunk = Vec::new();
            for (name, column) in &table.schema.columns {
                let (keys, values) = targets(column, false);
                if keys.is_none() && values.is_none() {
                    continue;
                }
                let alive = |target: Option<&Str>, atom: &Atom| match (target, atom) {
                    (Some(target), Atom::Uuid(to)) => self.db.row(&(target.clone(), *to)).is_some(),
                    _ => true,
                };
                let Some(have) = row.get(name) else { continue };
                let mut kept = have.clone();
                match &mut kept {
                    Datum::Set(atoms) => atoms.retain(|atom| alive(keys, atom)),
                    Datum::Map(pairs) => pairs.retain(|(k, v)| alive(keys, k) && alive(values, v)),
                }
                if kept.len() == have.len() {
                    continue;
                }
                if (kept.len() as u64) < column.kind.min {
                    return Err(Refusal::constraint(format!(
                        "Removing weak references empties column {name} of {} row {}.",
                        key.0, key.1
                    )));
                }
                shrunk.push((name.clone(), kept));
            }
            if !shrunk.is_empty() {
                let mut row = row.clone();
                std::sync::Arc::make_mut(&mut row).extend(shrunk);
                self.put(key, Some(row));
            }
        }
        Ok(())
    }
}
