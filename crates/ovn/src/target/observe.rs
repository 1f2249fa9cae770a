//! The replica's snapshot as the planner reads it.
//!
//! [`Tables`] lists the typed tables that a target reads and writes. The replica's model is built from it, so that both agree.
//! The replica must hold the target's tables whole: a row hidden by a monitor condition looks missing, and the target would
//! create it again.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use ovsdb::Uuid;
use ovsdb::replica::{Delta, Model, Snapshot};
use ovsdb::wire::DatabaseSchema;

use super::memory::{Comparable, Compare};
use super::state::{Row, RowId, View, Writable};
use crate::{nb, sb};

/// The typed tables of one database that a target reads and writes.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    entries: Vec<Entry>,
}

/// The operations on a table whose type is erased.
#[derive(Clone)]
struct Entry {
    table: &'static str,
    database: &'static str,
    row: for<'s> fn(&'s Snapshot, Uuid) -> Option<&'s dyn Row>,
    each: fn(&Snapshot, &mut Visit<'_>),
    changes: fn(&Delta, &mut Compare<'_>),
    add: fn(Model) -> Model,
}

type Visit<'v> = dyn FnMut(Uuid, &dyn Row) + 'v;

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.table)
    }
}

impl Tables {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// With a table.
    pub fn with<T: Writable + fmt::Debug>(mut self) -> Self {
        self.entries.push(Entry {
            table: T::TABLE,
            database: T::DATABASE,
            row: |snapshot, uuid| snapshot.get::<T>(uuid).map(|row| row as &dyn Row),
            each: |snapshot, visit| snapshot.table::<T>().iter().for_each(|(id, row)| visit(id.uuid(), row)),
            changes: |delta, visit| {
                for change in delta.table::<T>() {
                    let before = change.before.as_deref().map(|row| row as &dyn Row);
                    let after = change.after.as_deref().map(|row| row as &dyn Row);
                    visit(RowId::of::<T>(change.uuid), before, after);
                }
            },
            add: Model::table::<T>,
        });
        self
    }

    /// Every table of the Northbound that we write.
    pub fn northbound() -> Self {
        Tables::new()
            .with::<nb::NbGlobal>()
            .with::<nb::LogicalSwitch>()
            .with::<nb::LogicalSwitchPort>()
            .with::<nb::AddressSet>()
            .with::<nb::PortGroup>()
            .with::<nb::Acl>()
            .with::<nb::Qos>()
            .with::<nb::Copp>()
            .with::<nb::Meter>()
            .with::<nb::MeterBand>()
            .with::<nb::LoadBalancer>()
            .with::<nb::LoadBalancerGroup>()
            .with::<nb::LoadBalancerHealthCheck>()
            .with::<nb::LogicalRouter>()
            .with::<nb::LogicalRouterPort>()
            .with::<nb::LogicalRouterStaticRoute>()
            .with::<nb::LogicalRouterPolicy>()
            .with::<nb::Nat>()
            .with::<nb::DhcpOptions>()
            .with::<nb::Dns>()
            .with::<nb::GatewayChassis>()
            .with::<nb::HaChassis>()
            .with::<nb::HaChassisGroup>()
            .with::<nb::Bfd>()
            .with::<nb::StaticMacBinding>()
    }

    /// The tables of the Southbound that describe the chassis of other zones. All other tables of it are northd's.
    pub fn southbound_remote() -> Self {
        Tables::new().with::<sb::Chassis>().with::<sb::Encap>()
    }

    /// Adds the tables to a replica's model; to a new one where there is none.
    pub fn model(&self, model: Option<Model>) -> Model {
        let database = self.entries.first().map_or("", |entry| entry.database);
        let model = model.unwrap_or_else(|| Model::new(database));
        self.entries.iter().fold(model, |model, entry| (entry.add)(model))
    }

    /// The tables' names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.entries.iter().map(|entry| entry.table)
    }

    /// Every row of these tables in a snapshot, table by table.
    pub fn each(&self, snapshot: &Snapshot, visit: &mut dyn FnMut(Uuid, &dyn Row)) {
        self.entries.iter().for_each(|entry| (entry.each)(snapshot, visit));
    }

    fn entry(&self, table: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.table == table)
    }
}

/// A snapshot of a replica, with the schema of the server it follows.
#[derive(Clone, Debug)]
pub struct SnapshotView {
    snapshot: Snapshot,
    schema: Arc<DatabaseSchema>,
    tables: Arc<Tables>,
    names: Vec<&'static str>,
    unreadable: BTreeSet<(Uuid, String)>,
}

impl SnapshotView {
    /// The rows of these tables in a snapshot.
    pub fn new(snapshot: Snapshot, schema: Arc<DatabaseSchema>, tables: Arc<Tables>) -> Self {
        let unreadable = snapshot.unreadable().map(|row| (row.uuid, row.table.to_string())).collect();
        let names = tables.names().collect();
        SnapshotView { snapshot, schema, tables, names, unreadable }
    }

    /// The snapshot itself.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }
}

impl Comparable for SnapshotView {
    fn copied(&self) -> Self {
        self.clone()
    }

    fn changes_since(&self, older: &Self, visit: &mut Compare<'_>) -> bool {
        let alike = Arc::ptr_eq(&self.schema, &older.schema) && Arc::ptr_eq(&self.tables, &older.tables);
        // Rows that cannot be read are in no comparison.
        if !alike || !self.unreadable.is_empty() || !older.unreadable.is_empty() {
            return false;
        }
        let delta = older.snapshot.diff(&self.snapshot);
        self.tables.entries.iter().for_each(|entry| (entry.changes)(&delta, visit));
        true
    }
}

impl View for SnapshotView {
    fn schema(&self) -> &DatabaseSchema {
        &self.schema
    }

    fn row(&self, id: RowId) -> Option<&dyn Row> {
        (self.tables.entry(id.table)?.row)(&self.snapshot, id.uuid)
    }

    fn each(&self, table: &'static str, visit: &mut dyn FnMut(Uuid, &dyn Row)) {
        if let Some(entry) = self.tables.entry(table) {
            (entry.each)(&self.snapshot, visit);
        }
    }

    fn tables(&self) -> &[&'static str] {
        &self.names
    }

    fn hides(&self, id: RowId) -> bool {
        let from = self.unreadable.range((id.uuid, String::new())..);
        from.take_while(|(uuid, _)| *uuid == id.uuid).any(|(_, table)| table == id.table)
    }
}
