//! Events of a whole server: a schema conversion, a restart, the data of another member of its cluster.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use uuid::Uuid;

use super::constraint::{self, Symbols};
use super::host::Host;
use super::refusal::Refusal;
use super::server_db;
use super::store::{self, Change, Database, Row};
use crate::model::Str;
use crate::wire::schema::SchemaError;

impl Host {
    /// Converts a database to another schema, and keeps the rows that fit.
    pub(super) fn convert(&mut self, database: &str, schema: Value) -> Result<(), Refusal> {
        let unknown = || Refusal::new("unknown database", format!("no database {database}"));
        let old = self.databases.get(database).ok_or_else(unknown)?;
        let mut new =
            Database::new(schema, old.remembers).map_err(|error| Refusal::syntax(error.to_string()))?;
        if new.name != database {
            let problem = format!("the schema is of {}, not of {database}", new.name);
            return Err(Refusal::new("invalid parameters", problem));
        }
        let mut rows = Vec::new();
        for table in new.tables.values() {
            for (uuid, row) in old.tables.get(&table.name).into_iter().flat_map(|table| &table.rows) {
                let mut full = table.blank();
                for (name, column) in &table.columns {
                    if let Some(datum) = row.get(name) {
                        let value = store::json(datum);
                        full.insert(
                            name.clone(),
                            constraint::datum(&column.kind, &value, &mut Symbols::default())?,
                        );
                    }
                }
                rows.push(((table.name.clone(), *uuid), Row::new(full)));
            }
        }
        new.load(rows)?;
        self.databases.insert(database.into(), new);
        let mut canceled = Vec::new();
        for (peer, session) in &mut self.sessions {
            let (gone, kept) = std::mem::take(&mut session.monitors)
                .into_iter()
                .partition::<Vec<_>, _>(|monitor| monitor.database == database);
            session.monitors = kept;
            canceled.push((*peer, session.change_aware, gone));
        }
        for (peer, aware, monitors) in canceled {
            match aware {
                true => monitors.iter().for_each(|m| self.notify(peer, "monitor_canceled", &json!([m.id]))),
                // A client that did not send `set_db_change_aware` is disconnected, so that it starts anew.
                false => self.closing.push(peer),
            }
        }
        self.outdated = true;
        Ok(())
    }

    /// Restarts the process, which loses its volatile state.
    pub(super) fn restart(&mut self, wipe: bool) -> Result<(), SchemaError> {
        let schemas =
            self.databases.values().filter(|db| db.name != server_db::NAME).map(|db| db.schema.clone());
        let old = !self.databases.contains_key(server_db::NAME);
        let mut fresh = Self::new(schemas.collect(), self.standing.model, old)?;
        fresh.last_peer = self.last_peer;
        fresh.standing = self.standing.clone();
        if !wipe {
            for (name, mut db) in std::mem::take(&mut self.databases) {
                if name != server_db::NAME {
                    db.forget_ephemeral();
                    fresh.databases.insert(name, db);
                }
            }
        }
        fresh.describe();
        fresh.out.clear();
        *self = fresh;
        Ok(())
    }

    /// Adopts the data and the history of another member, and notifies monitors of the changes.
    pub(super) fn follow(&mut self, leader: BTreeMap<Str, Database>, index: u64) {
        for (name, mut db) in leader.into_iter().filter(|(name, _)| name != server_db::NAME) {
            let Some(old) = self.databases.get(&name) else { continue };
            db.remembers = old.remembers;
            let changes = differences(old, &db);
            self.databases.insert(name.clone(), db);
            self.tell(&name, &changes);
        }
        self.standing.index = index;
        self.outdated = true;
    }
}

/// The changes that lead from one state of a database to another.
fn differences(old: &Database, new: &Database) -> Vec<Change> {
    let mut changes = Vec::new();
    for (name, table) in &new.tables {
        let none = BTreeMap::new();
        let before = old.tables.get(name).map_or(&none, |table| &table.rows);
        let uuids: BTreeSet<&Uuid> = before.keys().chain(table.rows.keys()).collect();
        for uuid in uuids {
            let (before, after) = (before.get(uuid), table.rows.get(uuid));
            if before != after {
                let (before, after) = (before.cloned(), after.cloned());
                changes.push(Change { table: name.clone(), uuid: *uuid, before, after });
            }
        }
    }
    changes
}
