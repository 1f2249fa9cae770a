//! The end of a transaction: the deferred checks, and the rollback if one fails.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use uuid::Uuid;

use super::execute::Txn;
use super::refusal::Refusal;
use super::store::{Change, Key, Row, Table};
use crate::model::Str;
use crate::wire::atom::Atom;

impl Txn<'_> {
    /// Rolls back all changes.
    pub(super) fn undo(self) {
        for ((table, uuid), before) in self.undo {
            let Some(table) = self.db.tables.get_mut(&table) else { continue };
            match before {
                Some(row) => table.rows.insert(uuid, row),
                None => table.rows.remove(&uuid),
            };
        }
    }

    /// Commits; returns all changes of the transaction.
    pub(super) fn commit(mut self) -> Result<Vec<Change>, Refusal> {
        // A written row counts as changed, even if the removal of weak references restores its old value.
        let touched: BTreeSet<Key> =
            self.changes().into_iter().map(|change| (change.table, change.uuid)).collect();
        let settled = self
            .settle_strong()
            .and_then(|()| self.check_row_counts())
            .and_then(|()| self.settle_weak())
            .and_then(|()| self.check_indexes());
        if let Err(refusal) = settled {
            self.undo();
            return Err(refusal);
        }
        let mut changes = self.changed(|key| touched.contains(key));
        for change in &mut changes {
            let (Some(_), Some(row)) = (&change.before, &mut change.after) else { continue };
            Arc::make_mut(row).insert("_version".into(), Atom::Uuid(Uuid::new_v4()).into());
            if let Some(table) = self.db.tables.get_mut(&change.table) {
                table.rows.insert(change.uuid, row.clone());
            }
        }
        self.update_indexes(&changes);
        let mut references = std::mem::take(&mut self.db.references);
        references.update(self.db, &changes);
        self.db.references = references;
        self.db.remember(&changes);
        Ok(changes)
    }

    fn check_row_counts(&self) -> Result<(), Refusal> {
        let touched: BTreeSet<&Str> = self.undo.keys().map(|(table, _)| table).collect();
        for table in touched.into_iter().filter_map(|name| self.db.tables.get(name)) {
            if table.schema.max_rows.is_some_and(|max| table.rows.len() as u64 > max) {
                let problem = format!("transaction leaves {} rows in table {}", table.rows.len(), table.name);
                return Err(Refusal::constraint(problem));
            }
        }
        Ok(())
    }

    fn check_indexes(&self) -> Result<(), Refusal> {
        let mut gone: HashSet<(Str, usize, String)> = HashSet::new();
        let mut new: HashMap<(Str, usize, String), Uuid> = HashMap::new();
        let changes = self.changes();
        let keys = |change: &Change, row: &Option<Row>| -> Vec<(Str, usize, String)> {
            let (Some(row), Some(table)) = (row, self.db.tables.get(&change.table)) else {
                return Vec::new();
            };
            let keys = (0..table.indexes.len()).map(|index| table.index_key(index, row));
            keys.enumerate().map(|(index, key)| (change.table.clone(), index, key)).collect()
        };
        for change in &changes {
            gone.extend(keys(change, &change.before));
        }
        for change in &changes {
            for key in keys(change, &change.after) {
                let taken =
                    |table: &Table| table.indexes.get(key.1).is_some_and(|index| index.contains_key(&key.2));
                let kept = !gone.contains(&key) && self.db.tables.get(&change.table).is_some_and(taken);
                if kept || new.contains_key(&key) {
                    return Err(Refusal::constraint(format!(
                        "Transaction causes multiple rows in \"{}\" table to have identical values {} for an index.",
                        change.table, key.2
                    )));
                }
                new.insert(key, change.uuid);
            }
        }
        Ok(())
    }

    fn update_indexes(&mut self, changes: &[Change]) {
        // All old keys are removed before any new one is added, because rows may swap them.
        for put in [false, true] {
            for change in changes {
                let Some(table) = self.db.tables.get_mut(&change.table) else { continue };
                let Some(row) = (if put { &change.after } else { &change.before }) else { continue };
                for index in 0..table.indexes.len() {
                    let key = table.index_key(index, row);
                    match put {
                        true => table.indexes[index].insert(key, change.uuid),
                        false => table.indexes[index].remove(&key),
                    };
                }
            }
        }
    }
}
