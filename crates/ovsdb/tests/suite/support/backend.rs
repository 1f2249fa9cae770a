//! One suite, several kinds of server: a real ovsdb-server, standalone, clustered and relaying, and the fake.

use ovsdb::Uuid;
use ovsdb::client::{Client, ClientConfig, Dialer, Rpc};
use ovsdb::fake;
use ovsdb::replica::Model;
use ovsdb::session::{Progress, Remotes, SyncKind};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::server::{Member, Relay, Standalone, run};
use super::stable::{self, Horse, Rider};
use super::{PATIENCE, soon};

/// A server with a database of the tests' own schema.
pub enum Backend {
    Real(Standalone),
    Fake(Fake),
    /// A RAFT cluster of one.
    Cluster(Member),
    /// A relay. The server behind it continues while the relay is stopped.
    Relay(Relay),
}

/// The fake, and the directory that its socket is in.
pub struct Fake {
    pub server: fake::Server,
    _dir: TempDir,
}

/// Expands one body to a test on each of these kinds of server.
macro_rules! on {
    ([$($kind:ident),*] $(#[$doc:meta])* async fn $name:ident($backend:ident) $body:block) => {
        $(#[$doc])*
        mod $name {
            use super::*;

            async fn body(#[allow(unused_mut)] mut $backend: $crate::support::backend::Backend) $body

            $(#[tokio::test]
            async fn $kind() {
                body($crate::support::backend::Backend::$kind().await).await;
            })*
        }
    };
}
pub(crate) use on;

/// Expands one body to a test on the real server and one on the fake.
macro_rules! on_both {
    ($($test:tt)*) => { $crate::support::backend::on! { [real, fake] $($test)* } };
}
pub(crate) use on_both;

/// Expands one body to a test on every kind of server.
macro_rules! on_all {
    ($($test:tt)*) => { $crate::support::backend::on! { [real, fake, cluster, relay] $($test)* } };
}
pub(crate) use on_all;

impl Backend {
    /// A real one.
    pub async fn real() -> Self {
        Self::Real(Standalone::start(stable::SCHEMA))
    }

    /// The fake.
    pub async fn fake() -> Self {
        Self::Fake(Fake::start(fake::Model::Standalone).await)
    }

    /// A real one, clustered.
    pub async fn cluster() -> Self {
        let member = Member::start(stable::SCHEMA, "Stable").await;
        // A server remembers only as much as its database is large, and these are small.
        let bales: Vec<i64> = (0..1000).collect();
        let hay = json!([{"op": "insert", "table": "Hay", "row": {"bales": ["set", bales]}}]);
        transact(&member.server.unix(), hay).await;
        Self::Cluster(member)
    }

    /// A real one that relays another.
    pub async fn relay() -> Self {
        Self::Relay(Relay::start(stable::SCHEMA, "Stable").await)
    }

    /// The remote of the server.
    pub fn remote(&self) -> String {
        match self {
            Self::Real(server) => server.unix(),
            Self::Fake(fake) => fake.server.remote(),
            Self::Cluster(member) => member.server.unix(),
            Self::Relay(relay) => relay.server.unix(),
        }
    }

    /// How a client that was synced before syncs again. Only a cluster's file contains the history from before a restart of the server.
    pub fn way_back(&self) -> SyncKind {
        match self {
            Self::Cluster(_) => SyncKind::Resumed,
            Self::Real(_) | Self::Fake(_) | Self::Relay(_) => SyncKind::Reloaded,
        }
    }

    /// A client's configuration for it: quick to come back.
    pub fn config(&self) -> ClientConfig {
        let mut config = config(&self.remote());
        // A relay leads nothing.
        config.session.leader_only = !matches!(self, Self::Relay(_));
        config
    }

    /// A client with both tables, in sync.
    pub async fn client(&self) -> Client {
        synced(self.config(), model()).await
    }

    /// Commits operations over a plain connection, as another program would; returns the results.
    pub async fn transact(&self, ops: Value) -> Value {
        transact(&self.remote(), ops).await
    }

    /// Stops the server; durable data stays.
    pub async fn stop(&mut self) {
        match self {
            Self::Real(server) => server.kill(),
            Self::Fake(fake) => fake.server.stop().await,
            Self::Cluster(member) => member.server.kill(),
            Self::Relay(relay) => relay.server.kill(),
        }
    }

    /// Starts it again at the same place.
    pub async fn start(&mut self) {
        match self {
            Self::Real(server) => server.run(),
            Self::Fake(fake) => fake.server.restart().await.unwrap(),
            Self::Cluster(member) => member.server.run(),
            Self::Relay(relay) => relay.server.run(),
        }
    }

    /// Changes its data while it is down.
    pub async fn change_offline(&mut self, ops: Value) {
        match self {
            Self::Real(server) => {
                let mut params = vec![json!("Stable")];
                params.extend(ops.as_array().unwrap().iter().cloned());
                let file = server.file();
                run("ovsdb-tool", &["transact", file.to_str().unwrap(), &Value::from(params).to_string()]);
            }
            Self::Fake(fake) => drop(fake.server.transact(&ops)),
            Self::Cluster(member) => {
                let elsewhere = member.elsewhere().await;
                transact(&elsewhere.unix(), ops).await;
            }
            Self::Relay(relay) => drop(transact(&relay.source.unix(), ops).await),
        }
    }

    /// Changes the schema while clients are connected.
    pub async fn convert(&self, schema: &str) {
        let (dir, remote) = match self {
            Self::Real(server) => (server.dir.path(), server.unix()),
            Self::Fake(fake) => return fake.server.convert(schema).unwrap(),
            Self::Cluster(member) => (member.dir.path(), member.server.unix()),
            Self::Relay(relay) => (relay.source.dir.path(), relay.source.unix()),
        };
        let file = dir.join("converted.ovsschema");
        std::fs::write(&file, schema).unwrap();
        run("ovsdb-client", &["convert", &remote, file.to_str().unwrap()]);
    }
}

/// Commits operations by a plain connection; the results.
async fn transact(remote: &str, ops: Value) -> Value {
    let remotes: Remotes = remote.parse().unwrap();
    let mut rpc = Rpc::connect(&remotes, &Dialer::default(), PATIENCE).await.unwrap();
    let mut params = vec![json!("Stable")];
    params.extend(ops.as_array().expect("operations are an array").iter().cloned());
    let results = rpc.call("transact", &params).await.unwrap();
    let failed = results.as_array().unwrap().iter().find(|result| result.get("error").is_some());
    assert!(failed.is_none(), "somebody else's transaction failed: {results}");
    results
}

impl Fake {
    /// A fake that claims to be of this kind.
    pub async fn start(model: fake::Model) -> Self {
        Self::build(|builder| builder.model(model)).await
    }

    /// A fake without a `_Server` database.
    pub async fn old() -> Self {
        Self::build(fake::Builder::without_server_database).await
    }

    async fn build(more: impl FnOnce(fake::Builder) -> fake::Builder) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let builder = fake::Server::builder().schema(stable::SCHEMA).listen_unix(dir.path().join("sock"));
        Self { server: more(builder).start().await.unwrap(), _dir: dir }
    }

    /// A client with both tables, in sync.
    pub async fn client(&self) -> Client {
        synced(config(&self.server.remote()), model()).await
    }
}

/// A client's configuration that comes back quickly.
pub fn config(remotes: &str) -> ClientConfig {
    let mut config = ClientConfig::new(remotes.parse().unwrap());
    config.session.backoff_min = std::time::Duration::from_millis(20);
    config.session.backoff_max = std::time::Duration::from_millis(200);
    config
}

/// Both tables.
pub fn model() -> Model {
    Model::new("Stable").table::<Horse>().table::<Rider>()
}

/// A client that is in sync.
pub async fn synced(config: ClientConfig, model: Model) -> Client {
    let client = Client::open(config, model);
    client.synced_within(PATIENCE).await.unwrap();
    client
}

/// Waits until a client is in sync, and ignores errors until then.
pub async fn in_sync(client: &Client) {
    let mut status = client.status();
    let synced = status.wait_for(|status| status.progress == Progress::Synced);
    soon("in sync", synced).await.expect("the client is open");
}

/// The operation that inserts a horse.
pub fn insert(uuid: Uuid, name: &str, seq: i64) -> Value {
    json!({"op": "insert", "table": "Horse", "uuid": uuid.to_string(), "row": {"name": name, "seq": seq}})
}

/// The operation that updates a horse.
pub fn update(uuid: Uuid, row: Value) -> Value {
    json!({"op": "update", "table": "Horse", "where": [["_uuid", "==", ["uuid", uuid.to_string()]]], "row": row})
}

/// The operation that deletes a horse.
pub fn delete(uuid: Uuid) -> Value {
    json!({"op": "delete", "table": "Horse", "where": [["_uuid", "==", ["uuid", uuid.to_string()]]]})
}
