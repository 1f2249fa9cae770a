//! The destination of an import: the server's store, and the Northbound whose rows it adopts.

use std::sync::Arc;
use std::time::Duration;

use api::store::Store;
use api::world::Outside;
use central::Database;
use ovn::target::{SnapshotView, Tables};
use ovsdb::Client;
use tokio::sync::watch;

use crate::cli::given;
use crate::cli::server::{client_config, create_data_dir, store_failure, store_url};
use crate::config::{Config, Override};
use crate::failure::{Exit, Failure, Outcome};

/// The store and the Northbound, as the server names them.
#[derive(Debug, clap::Args)]
pub(super) struct DestinationArgs {
    /// Ignore the Northbound: it is empty, and will be written anew
    #[arg(long, conflicts_with = "nb")]
    without_nb: bool,
    /// Directory of the server's files [default: /var/lib/meridian]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Database of the state: sqlite:///file or postgres://user@host/database [default: api.db in the data directory]
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// The OVN Northbound servers of the cloud: unix:PATH, tcp:IP:PORT, ssl:IP:PORT, with commas between
    #[arg(long, value_name = "REMOTES")]
    nb: Option<String>,
}

/// Time limit for reading the Northbound. Large ones take seconds.
const PATIENCE: Duration = Duration::from_secs(120);

impl DestinationArgs {
    pub(super) fn overrides(&self) -> Vec<Override> {
        let flags = [
            given("server.data_dir", "--data-dir", self.data_dir.clone()),
            given("server.database", "--database", self.database.clone()),
            given("server.nb", "--nb", self.nb.clone()),
        ];
        flags.into_iter().flatten().collect()
    }

    /// Reads the Northbound, unless it is to be ignored.
    pub(super) async fn northbound(&self, config: &Config) -> Outcome<Option<SnapshotView>> {
        if self.without_nb {
            return Ok(None);
        }
        if config.server.nb.value.is_empty() {
            let text = "neither --nb nor --without-nb is given";
            return Err(Failure::told(Exit::Usage, text).try_(
                "--nb with the servers of the Northbound, or --without-nb to write its rows from scratch",
            ));
        }
        let client = client_config(config, Database::Northbound, &config.server.nb, None)?;
        let tables = Tables::northbound();
        let client = Client::open(client, tables.model(None));
        let failed = |error: anyhow::Error| {
            Failure::new(Exit::Connect, error)
                .while_(format!("cannot read the Northbound at {}", config.server.nb.value.join(",")))
                .try_(
                    "check that it is running and that --nb has its address; of a cluster, name all members",
                )
        };
        let snapshot = client.synced_within(PATIENCE).await.map_err(|error| failed(error.into()))?;
        let schema = client.schema().ok_or_else(|| failed(anyhow::anyhow!("it reports no schema")))?;
        Ok(Some(SnapshotView::new(snapshot, schema, Arc::new(tables))))
    }
}

/// The server's store, and its URL for messages.
pub(super) struct Destination {
    pub(super) store: Store,
    pub(super) url: String,
}

impl Destination {
    pub(super) async fn open(config: &Config) -> Outcome<Self> {
        let dir = config.server.data_dir.value.clone();
        let url = store_url(&config.server, &dir)?;
        if config.server.database.value.is_none() {
            create_data_dir(&dir)?;
        }
        let (_outside, seen) = watch::channel(Arc::new(Outside::default()));
        let store = Store::open(&url, seen).await.map_err(|error| store_failure(&url, error))?;
        Ok(Destination { store, url: url.to_string() })
    }

    /// Closes it, and gives its URL. The file is whole when this command ends, and so may be copied to the server's host.
    pub(super) async fn close(self) -> Outcome<String> {
        task::stopping();
        self.store.close().await.map_err(|fault| {
            Failure::told(Exit::Local, fault).while_(format!("cannot close {}", self.url))
        })?;
        Ok(self.url)
    }
}
