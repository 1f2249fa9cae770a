//! The server's interface for tests: its address, and the methods that disturb it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinHandle;

use super::connection::FakeState;
use super::fault::Faults;
use super::host::Host;
use super::server_db::{self, Model};
use super::store;
use crate::wire::schema::SchemaError;

/// The error of a server that could not do what a test requested.
#[derive(Debug, Error)]
pub enum ServerError {
    /// A schema is wrong.
    #[error("the schema of the fake server")]
    Schema(#[from] SchemaError),
    /// It cannot listen on its address.
    #[error("listening on {remote}")]
    Listen {
        /// The remote of the server.
        remote: String,
        /// Why not.
        source: io::Error,
    },
    /// A database could not be converted.
    #[error("converting the database: {0}")]
    Convert(String),
}

/// The address at which the server listens.
#[derive(Clone, Debug)]
enum Address {
    Memory,
    Unix(PathBuf),
    Tcp(SocketAddr),
}

/// A server that has not started yet.
#[derive(Debug)]
pub struct Builder {
    schemas: Vec<String>,
    address: Address,
    model: Model,
    old: bool,
}

impl Builder {
    /// Serves an empty database with this schema; the tests' own access uses the first one.
    pub fn schema(mut self, text: impl Into<String>) -> Self {
        self.schemas.push(text.into());
        self
    }

    /// Listens on a Unix socket.
    pub fn listen_unix(mut self, path: impl Into<PathBuf>) -> Self {
        self.address = Address::Unix(path.into());
        self
    }

    /// Listens on a free TCP port of the loopback interface.
    pub fn listen_tcp_loopback(mut self) -> Self {
        self.address = Address::Tcp((Ipv4Addr::LOCALHOST, 0).into());
        self
    }

    /// The type that the server claims to be.
    pub fn model(mut self, model: Model) -> Self {
        self.model = model;
        self
    }

    /// Has no `_Server` database, as servers before OVS 2.9.
    pub fn without_server_database(mut self) -> Self {
        self.old = true;
        self
    }

    /// Starts it, in the tokio runtime that this is called in.
    pub async fn start(self) -> Result<Server, ServerError> {
        let mut schemas = Vec::new();
        for text in &self.schemas {
            let schema: Value = serde_json::from_str(text).map_err(|error| SchemaError {
                place: "schema".into(),
                problem: format!("no JSON: {error}"),
            })?;
            schemas.push(schema);
        }
        let first = schemas.first().and_then(|schema| schema.get("name")).and_then(Value::as_str);
        let database = first.unwrap_or(server_db::NAME).to_owned();
        let shared = Arc::new(FakeState::new(Host::new(schemas, self.model, self.old)?, database));
        let ticker = shared.clone();
        let ticker = tokio::spawn(async move { ticker.tick().await });
        let mut server = Server { shared, address: self.address, listener: None, ticker };
        server.listen().await?;
        Ok(server)
    }
}

/// An OVSDB server in this process. It ends when it is dropped.
#[derive(Debug)]
pub struct Server {
    shared: Arc<FakeState>,
    address: Address,
    listener: Option<JoinHandle<()>>,
    ticker: JoinHandle<()>,
}

impl Server {
    /// The builder of a server. Without an address, clients can use only [`Server::connect`].
    pub fn builder() -> Builder {
        Builder { schemas: Vec::new(), address: Address::Memory, model: Model::default(), old: false }
    }

    async fn listen(&mut self) -> Result<(), ServerError> {
        let remote = self.remote();
        let failed = |source| ServerError::Listen { remote, source };
        let shared = self.shared.clone();
        self.listener = match &self.address {
            Address::Memory => None,
            Address::Unix(path) => {
                // A previous run leaves its socket file behind. A missing file is no error.
                drop(std::fs::remove_file(path));
                let listener = UnixListener::bind(path).map_err(failed)?;
                Some(tokio::spawn(async move {
                    while let Ok((stream, _)) = listener.accept().await {
                        shared.accept(stream);
                    }
                }))
            }
            Address::Tcp(address) => {
                let listener = TcpListener::bind(address).await.map_err(failed)?;
                if let Ok(bound) = listener.local_addr() {
                    self.address = Address::Tcp(bound);
                }
                Some(tokio::spawn(async move {
                    while let Ok((stream, _)) = listener.accept().await {
                        shared.accept(stream);
                    }
                }))
            }
        };
        Ok(())
    }

    /// The remote for clients: `unix:PATH` or `tcp:ADDRESS:PORT`; `memory:` if clients can only use [`Server::connect`].
    pub fn remote(&self) -> String {
        match &self.address {
            Address::Memory => "memory:".to_owned(),
            Address::Unix(path) => format!("unix:{}", path.display()),
            Address::Tcp(address) => format!("tcp:{address}"),
        }
    }

    /// A connection in memory.
    pub fn connect(&self) -> DuplexStream {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        self.shared.accept(ours);
        theirs
    }

    /// Serves a connection that was opened elsewhere, for example over TLS.
    pub fn serve(&self, stream: impl AsyncRead + AsyncWrite + Send + 'static) {
        self.shared.accept(stream);
    }

    /// The planned faults.
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    /// Commits operations (an array, without the database's name) and returns their results.
    pub fn transact(&self, ops: &Value) -> Value {
        let ops = ops.as_array().map_or(&[][..], Vec::as_slice);
        self.shared.with(|host, now| host.transact(&self.shared.database, ops, now))
    }

    /// All rows of a table as objects with `_uuid` and `_version`, sorted by UUID.
    pub fn rows(&self, table: &str) -> Vec<Value> {
        self.shared.with(|host, _| {
            let table = host.databases.get(self.shared.database.as_str()).and_then(|db| db.tables.get(table));
            let rows = table.into_iter().flat_map(|table| table.rows.values());
            rows.map(|row| store::row_json(row, row.keys())).collect()
        })
    }

    /// The number of connections.
    pub fn connections(&self) -> usize {
        self.shared.connections()
    }

    /// Whether any connection owns the lock.
    pub fn is_locked(&self, lock: &str) -> bool {
        self.shared.with(|host, _| host.locks.owner(lock).is_some())
    }

    /// Sends an echo request to every connection.
    pub fn probe(&self) {
        self.shared.with(|host, _| {
            let peers: Vec<_> = host.sessions.keys().copied().collect();
            peers.into_iter().for_each(|peer| host.echo(peer));
        });
    }

    /// The number of unanswered echo requests of all connections together.
    pub fn unanswered(&self) -> u64 {
        self.shared.with(|host, _| host.sessions.values().map(|session| session.echoes).sum())
    }

    /// Gains or loses leadership.
    pub fn set_leader(&self, leader: bool) {
        self.shared.with(|host, now| host.stand(now, |standing| standing.leader = leader));
    }

    /// Gains or loses the cluster (or, as a relay, its source). Transactions wait meanwhile.
    pub fn set_connected(&self, connected: bool) {
        self.shared.with(|host, now| host.stand(now, |standing| standing.connected = connected));
    }

    /// Claims a position in the cluster's log. A smaller one than before simulates a restored or stale member.
    pub fn set_index(&self, index: u64) {
        self.shared.with(|host, now| host.stand(now, |standing| standing.index = index));
    }

    /// Becomes another kind of server, or a member of another cluster.
    pub fn set_model(&self, model: Model) {
        self.shared.with(|host, now| host.stand(now, |standing| standing.model = model));
    }

    /// Adopts another server's data, transaction ids and index, as a member of its cluster does.
    pub fn follow(&self, leader: &Server) {
        let (databases, index) = leader.shared.with(|host, _| (host.databases.clone(), host.standing.index));
        self.shared.with(|host, _| host.follow(databases, index));
    }

    /// Forgets the history of transactions: a client that wants to resume must load everything again.
    pub fn forget_history(&self) {
        self.shared.with(|host, _| host.databases.values_mut().for_each(|db| db.history.clear()));
    }

    /// Converts the database: monitors are canceled, clients that do not know of that are disconnected.
    pub fn convert(&self, schema: &str) -> Result<(), ServerError> {
        let schema = serde_json::from_str(schema)
            .map_err(|error| SchemaError { place: "schema".into(), problem: format!("no JSON: {error}") })?;
        self.shared
            .with(|host, _| host.convert(&self.shared.database, schema))
            .map_err(|refusal| ServerError::Convert(refusal.details))
    }

    /// Closes every connection; clients may reconnect.
    pub fn disconnect_all(&self) {
        self.shared.disconnect_all();
    }

    /// Stops listening and closes every connection. The data stay for [`Server::restart`].
    pub async fn stop(&mut self) {
        if let Some(listener) = self.listener.take() {
            listener.abort();
            // The end of the task frees the port; its result does not matter.
            drop(listener.await);
        }
        if let Address::Unix(path) = &self.address {
            drop(std::fs::remove_file(path));
        }
        self.disconnect_all();
    }

    /// Stops and listens again at the same address with the same data, except ephemeral columns.
    pub async fn restart(&mut self) -> Result<(), ServerError> {
        self.restart_with(false).await
    }

    /// Stops and listens again at the same address without any data.
    pub async fn restart_empty(&mut self) -> Result<(), ServerError> {
        self.restart_with(true).await
    }

    async fn restart_with(&mut self, wipe: bool) -> Result<(), ServerError> {
        self.stop().await;
        self.shared.with(|host, _| host.restart(wipe))?;
        self.listen().await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ticker.abort();
        if let Some(listener) = &self.listener {
            listener.abort();
        }
        self.shared.disconnect_all();
    }
}
