//! The OVSDB client as a target's database.

use std::sync::Arc;
use std::time::Duration;

use ovsdb::client::{Dialer, Rpc};
use ovsdb::replica::Fit;
use ovsdb::session::Remotes;
use ovsdb::wire::schema::DatabaseSchema;
use ovsdb::{Client, ClientConfig, CommitError, Committed, Model, Transaction};
use reconcile::{Class, TargetError};

use super::apply::Database;
use super::observe::{SnapshotView, Tables};

/// How long the server may take to tell its schema.
const PATIENCE: Duration = Duration::from_secs(10);

/// A client whose replica holds a target's tables.
pub struct ClientDatabase {
    client: Client,
    tables: Arc<Tables>,
    remotes: Remotes,
    dialer: Dialer,
    /// The schema, and how the model fitted it: another fit means another connection, and maybe another schema.
    schema: Option<(Arc<Fit>, Arc<DatabaseSchema>)>,
}

impl ClientDatabase {
    /// Opens a client in the present tokio runtime. `model` has what the deciders want to see beside `tables`.
    pub fn open(config: ClientConfig, tables: Tables, model: Option<Model>) -> Self {
        let remotes = Remotes { list: config.session.remotes.clone(), cluster_id: config.session.cluster_id };
        let dialer = config.dialer.clone();
        let client = Client::open(config, tables.model(model));
        ClientDatabase { client, tables: Arc::new(tables), remotes, dialer, schema: None }
    }

    /// The client, to subscribe to, to take locks with, and for deciders to read.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The replica keeps what of the schema it needs to read; to write, ranges and words are needed as well.
    async fn schema(&mut self) -> Result<Arc<DatabaseSchema>, TargetError> {
        let fit = self.client.fit();
        if let Some((known, schema)) = &self.schema
            && Arc::ptr_eq(known, &fit)
        {
            return Ok(Arc::clone(schema));
        }
        let database = self.client.database();
        let tried = || TargetError::new(Class::Transient, format!("ask for the schema of {database}"));
        let mut rpc = Rpc::connect(&self.remotes, &self.dialer, PATIENCE)
            .await
            .map_err(|error| tried().because(error))?;
        let schema = rpc.schema(database).await.map_err(|error| tried().because(error))?;
        let schema = Arc::new(schema);
        self.schema = Some((fit, Arc::clone(&schema)));
        Ok(schema)
    }
}

impl Database for ClientDatabase {
    async fn observe(&mut self) -> Result<SnapshotView, TargetError> {
        let synced = self.client.synced().await;
        let snapshot = synced.map_err(|error| {
            let tried = format!("read {}", self.client.database());
            TargetError::new(Class::Refused, tried).because(error)
        })?;
        let schema = self.schema().await?;
        Ok(SnapshotView::new(snapshot, schema, Arc::clone(&self.tables)))
    }

    async fn commit(&mut self, txn: Transaction) -> Result<Committed, CommitError> {
        self.client.commit(&txn).await
    }
}
