//! The `_Server` database: the server's description of itself and its databases.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::Arc;

use serde_json::{Value, json};
use uuid::Uuid;

use super::execute::Txn;
use super::store::{Change, Database};
use crate::wire::atom::Atom;
use crate::wire::datum::Datum;

/// The type that the server claims to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Model {
    /// One server, one file.
    #[default]
    Standalone,
    /// A member of a RAFT cluster. Transactions are remembered, so clients can resume.
    Clustered {
        /// The cluster's id.
        cluster: Uuid,
        /// This member's id.
        server: Uuid,
    },
    /// A relay of another server. Transactions are remembered here too.
    Relay,
}

/// The row of the served database.
#[derive(Clone, Debug)]
pub(super) struct StorageState {
    pub(super) model: Model,
    pub(super) connected: bool,
    pub(super) leader: bool,
    /// The newest entry of the cluster's log, where it is a cluster.
    pub(super) index: u64,
}

/// The name of this database, which is reserved.
pub(super) const NAME: &str = "_Server";

pub(super) fn schema() -> Value {
    let optional = |kind: &str| json!({"type": {"key": kind, "min": 0}});
    json!({"name": NAME, "version": "1.2.0", "tables": {"Database": {"columns": {
        "name": {"type": "string"},
        "model": {"type": {"key": {"type": "string", "enum": ["set", ["clustered", "relay", "standalone"]]}}},
        "connected": {"type": "boolean"},
        "leader": {"type": "boolean"},
        "schema": optional("string"),
        "cid": optional("uuid"),
        "sid": optional("uuid"),
        "index": optional("integer"),
    }}}})
}

impl StorageState {
    fn columns(&self, database: &str, schema: &Value) -> [(&'static str, Datum); 8] {
        let some = |atom: Atom| Datum::from(atom);
        let (model, cid, sid, index) = match self.model {
            Model::Standalone => ("standalone", Datum::default(), Datum::default(), Datum::default()),
            Model::Relay => ("relay", Datum::default(), Datum::default(), Datum::default()),
            Model::Clustered { cluster, server } => {
                let index = i64::try_from(self.index).unwrap_or(i64::MAX);
                ("clustered", some(cluster.into()), some(server.into()), some(index.into()))
            }
        };
        // A member that has not joined yet, and a relay that has not reached its source, know no schema.
        let schema = match (self.model, self.connected) {
            (Model::Relay, false) => Datum::default(),
            _ => some(Atom::from(schema.to_string().as_str())),
        };
        [
            ("name", some(database.into())),
            ("model", some(model.into())),
            ("connected", some(self.connected.into())),
            ("leader", some(self.leader.into())),
            ("schema", schema),
            ("cid", cid),
            ("sid", sid),
            ("index", index),
        ]
    }
}

/// Updates the row of a database; returns the changes.
pub(super) fn describe(
    server: &mut Database,
    database: &str,
    schema: &Value,
    standing: &StorageState,
) -> Vec<Change> {
    server.change(|txn: &mut Txn<'_>| {
        let Some(table) = txn.db.tables.get("Database") else { return };
        let named = Datum::from(Atom::from(database));
        let found = table.rows.iter().find(|(_, row)| row.get("name") == Some(&named));
        let (uuid, mut row) = match found {
            Some((uuid, row)) => (*uuid, row.clone()),
            None => {
                let uuid = Uuid::new_v4();
                let mut row = table.blank();
                row.insert("_uuid".into(), Atom::Uuid(uuid).into());
                row.insert("_version".into(), Atom::Uuid(Uuid::new_v4()).into());
                (uuid, Arc::new(row))
            }
        };
        let columns = standing.columns(database, schema);
        Arc::make_mut(&mut row).extend(columns.map(|(name, datum)| (name.into(), datum)));
        txn.put(("Database".into(), uuid), Some(row));
    })
}
