//! One suite, two kinds of server: a real ovsdb-server and the fake.

use ovsdb::Uuid;
use ovsdb::client::{Client, ClientConfig, Dialer, Rpc};
use ovsdb::fake;
use ovsdb::replica::Model;
use ovsdb::session::{Progress, Remotes};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::server::{Standalone, run};
use super::stable::{self, Horse, Rider};
use super::{PATIENCE, soon};

/// A server with a database of the tests' own schema.
pub enum Backend {
    Real(Standalone),
    Fake(Fake),
}

/// The fake, and the directory that its socket is in.
pub struct Fake {
    pub server: fake::Server,
    _dir: TempDir,
}

/// Makes of one body a test on each kind of server.
macro_rules! on_both {
    ($(#[$doc:meta])* async fn $name:ident($backend:ident) $body:block) => {
        $(#[$doc])*
        mod $name {
            use super::*;

            async fn body(#[allow(unused_mut)] mut $backend: $crate::support::backend::Backend) $body

            #[tokio::test]
            async fn real() {
                body($crate::support::backend::Backend::real()).await;
            }

            #[tokio::test]
            async fn fake() {
                body($crate::support::backend::Backend::fake().await).await;
            }
        }
    };
}
pub(crate) use on_both;

impl Backend {
    /// A real one.
    pub fn real() -> Self {
        Self::Real(Standalone::start(stable::SCHEMA))
    }

    /// The fake.
    pub async fn fake() -> Self {
        Self::Fake(Fake::start(fake::Model::Standalone).await)
    }

    /// Where it is.
    pub fn remote(&self) -> String {
        match self {
            Self::Real(server) => server.unix(),
            Self::Fake(fake) => fake.server.remote(),
        }
    }

    /// A client's configuration for it: quick to come back.
    pub fn config(&self) -> ClientConfig {
        config(&self.remote())
    }

    /// A client with both tables, in sync.
    pub async fn client(&self) -> Client {
        synced(self.config(), model()).await
    }

    /// Commits operations by a plain connection, as somebody else would; the results.
    pub async fn transact(&self, ops: Value) -> Value {
        let remotes: Remotes = self.remote().parse().unwrap();
        let mut rpc = Rpc::connect(&remotes, &Dialer::default(), PATIENCE).await.unwrap();
        let mut params = vec![json!("Stable")];
        params.extend(ops.as_array().expect("operations are an array").iter().cloned());
        let results = rpc.call("transact", &params).await.unwrap();
        let failed = results.as_array().unwrap().iter().find(|result| result.get("error").is_some());
        assert!(failed.is_none(), "somebody else's transaction failed: {results}");
        results
    }

    /// Ends it; what is durable stays.
    pub async fn stop(&mut self) {
        match self {
            Self::Real(server) => server.kill(),
            Self::Fake(fake) => fake.server.stop().await,
        }
    }

    /// Starts it again at the same place.
    pub async fn start(&mut self) {
        match self {
            Self::Real(server) => server.run(),
            Self::Fake(fake) => fake.server.restart().await.unwrap(),
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
        }
    }

    /// Changes the schema while clients are connected.
    pub async fn convert(&self, schema: &str) {
        match self {
            Self::Real(server) => {
                let file = server.dir.path().join("converted.ovsschema");
                std::fs::write(&file, schema).unwrap();
                run("ovsdb-client", &["convert", &server.unix(), file.to_str().unwrap()]);
            }
            Self::Fake(fake) => fake.server.convert(schema).unwrap(),
        }
    }
}

impl Fake {
    /// A fake that claims to be of this kind.
    pub async fn start(model: fake::Model) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let builder = fake::Server::builder().schema(stable::SCHEMA).listen_unix(dir.path().join("sock"));
        Self { server: builder.model(model).start().await.unwrap(), _dir: dir }
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

/// Waits until a client is in sync, whatever is wrong until then.
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
