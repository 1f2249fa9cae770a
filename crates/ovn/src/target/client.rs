//! The OVSDB client as a target's database.

use std::sync::Arc;

use ovsdb::{Client, ClientConfig, CommitError, Committed, Model, Transaction};
use reconcile::{Class, TargetError};

use super::observe::{SnapshotView, Tables};
use super::row_target::Database;

/// A client whose replica holds a target's tables.
pub struct ClientDatabase {
    client: Client,
    tables: Arc<Tables>,
}

impl ClientDatabase {
    /// Opens a client in the current tokio runtime. `model` has the tables that deciders read in addition to `tables`.
    pub fn open(config: ClientConfig, tables: Tables, model: Option<Model>) -> Self {
        let client = Client::open(config, tables.model(model));
        ClientDatabase { client, tables: Arc::new(tables) }
    }

    /// Uses an open client, whose model must contain these tables.
    pub fn of(client: Client, tables: Arc<Tables>) -> Self {
        ClientDatabase { client, tables }
    }

    /// The client, for subscriptions, locks and reads by deciders.
    pub fn client(&self) -> &Client {
        &self.client
    }
}

impl Database for ClientDatabase {
    async fn observe(&mut self) -> Result<SnapshotView, TargetError> {
        let synced = self.client.synced().await;
        let snapshot = synced.map_err(|error| {
            let tried = format!("read {}", self.client.database());
            TargetError::new(Class::Refused, tried).because(error)
        })?;
        let schema = self.client.schema().ok_or_else(|| {
            TargetError::new(Class::Transient, format!("read the schema of {}", self.client.database()))
        })?;
        Ok(SnapshotView::new(snapshot, schema, Arc::clone(&self.tables)))
    }

    async fn commit(&mut self, txn: Transaction) -> Result<Committed, CommitError> {
        self.client.commit(&txn).await
    }
}
