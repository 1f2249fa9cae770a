//! The connections of a node's process to OVSDB servers: the local switch's database, and OVN's Southbound and Northbound.
//!
//! A process has one of each, however many roles run in it. A role subscribes to a database and asks for rows; the connection
//! holds the rows that any role asks for. A server so serves one session per node, and a role that ends leaves the connection to
//! the others. The process that opened the connections closes them.
//!
//! | file | holds |
//! |---|---|
//! | [`settings`] | the servers and the keys that open them, joined from the settings of all roles |
//! | [`switch`] | settings in the local switch's database: the node's name, OVN's servers |
//! | [`rows`] | the rows that roles ask for, table by table |
//! | [`subscription`] | a role's share of a connection |
//! | `follow` | the task that connects, goes where the settings lead, and requests rows |

mod follow;
pub mod rows;
pub mod settings;
pub mod subscription;
pub mod switch;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ovsdb::session::Remotes;
use ovsdb::{Client, ClientConfig, Model, Snapshot};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use rows::AskedRows;
pub use rows::RowConditions;
pub use settings::{ConnectionSettings, DatabaseSettings, OvnDatabase};
pub use subscription::{ConnectionClosed, RowSubscription};

/// The tables of one of OVN's databases that a role reads, added to those of other roles.
#[derive(Clone, Copy, Debug)]
pub struct RoleTables {
    /// The database.
    pub database: OvnDatabase,
    /// Adds the tables and their indexes to a model. The rows come with [`RowSubscription::ask`].
    pub add: fn(Model) -> Model,
}

/// The connections of one process. Copies share them.
#[derive(Clone, Debug)]
pub struct NodeConnections(Arc<ConnectionsState>);

#[derive(Debug)]
struct ConnectionsState {
    settings: ConnectionSettings,
    vswitch: Client,
    databases: BTreeMap<OvnDatabase, Connection>,
    /// The time since when databases have been lost, by name.
    lost: Mutex<BTreeMap<String, Instant>>,
    /// Changes when a connection does.
    news: watch::Sender<u64>,
    follower: Mutex<Option<JoinHandle<()>>>,
}

/// The connection to one of OVN's databases.
#[derive(Debug)]
struct Connection {
    model: Model,
    /// The client, once the local switch tells where the database is.
    client: watch::Sender<Option<Client>>,
    /// The missing input.
    waiting: Mutex<String>,
    /// The rows that roles ask for.
    asked: watch::Sender<AskedRows>,
    /// The revision of `asked` that is in force.
    in_force: watch::Sender<u64>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl NodeConnections {
    /// Opens the local switch's database, and then those of OVN's that the roles read. Must be called within a tokio runtime.
    pub fn open(settings: ConnectionSettings, tables: &[RoleTables]) -> Self {
        let mut databases = BTreeMap::new();
        for RoleTables { database, add } in tables {
            let model = databases.remove(database).unwrap_or_else(|| Model::new(database.schema()));
            databases.insert(*database, add(model));
        }
        let databases = databases.into_iter().map(|(database, model)| (database, Connection::new(model)));
        let shared = Arc::new(ConnectionsState {
            vswitch: Client::open(settings.vswitch_client(), switch::model()),
            settings,
            databases: databases.collect(),
            lost: Mutex::default(),
            news: watch::Sender::default(),
            follower: Mutex::default(),
        });
        *lock(&shared.follower) = Some(task::spawn("databases", follow::follow(Arc::clone(&shared))));
        Self(shared)
    }

    /// The local switch's database.
    pub fn vswitch(&self) -> &Client {
        &self.0.vswitch
    }

    /// Subscribes to one of OVN's databases, whose tables must be among those that the connections were opened with.
    pub fn subscribe(&self, database: OvnDatabase) -> RowSubscription {
        RowSubscription::new(self.clone(), database)
    }

    /// All clients that are open.
    pub fn clients(&self) -> Vec<Client> {
        let ovn = self.0.databases.values().filter_map(|connection| connection.client.borrow().clone());
        std::iter::once(self.0.vswitch.clone()).chain(ovn).collect()
    }

    /// Changes when a connection is opened, lost, back, or waits for something else.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.news.subscribe()
    }

    /// The time since when a database has been lost, if it is.
    pub fn lost_since(&self, database: &str) -> Option<Instant> {
        lock(&self.0.lost).get(database).copied()
    }

    /// The servers of one of OVN's databases, by the settings of the process or else those of the local switch.
    pub fn remotes(&self, database: OvnDatabase) -> Option<Remotes> {
        self.0.remotes(database)
    }

    /// The configuration of a client of one of OVN's databases.
    pub fn client_config(&self, database: OvnDatabase, remotes: Remotes) -> ClientConfig {
        self.0.settings.of(database).client(remotes)
    }

    /// The settings.
    pub fn settings(&self) -> &ConnectionSettings {
        &self.0.settings
    }

    /// Closes all connections.
    pub async fn close(&self) {
        if let Some(follower) = lock(&self.0.follower).take() {
            follower.abort();
        }
        for client in self.clients() {
            client.close().await;
        }
        for connection in self.0.databases.values() {
            connection.client.send_replace(None);
        }
    }
}

impl ConnectionsState {
    fn remotes(&self, database: OvnDatabase) -> Option<Remotes> {
        if let Some(remotes) = &self.settings.of(database).remotes {
            return Some(remotes.clone());
        }
        let vswitch: Snapshot = self.vswitch.snapshot();
        let key = database.setting();
        let text = switch::remote(&vswitch, key)?;
        text.parse()
            .inspect_err(|error| tracing::error!(%error, "the local switch's {key} cannot be read"))
            .ok()
    }

    fn change(&self) {
        self.news.send_modify(|n| *n = n.wrapping_add(1));
    }
}

impl Connection {
    fn new(model: Model) -> Self {
        Connection {
            model: model.without_rows(),
            client: watch::Sender::default(),
            waiting: Mutex::new("the local switch's database (ovsdb_connection)".into()),
            asked: watch::Sender::default(),
            in_force: watch::Sender::default(),
        }
    }

    fn wait_for(&self, what: impl Into<String>) {
        *lock(&self.waiting) = what.into();
    }
}
