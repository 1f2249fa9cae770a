//! PostgreSQL: one connection, made again whenever it breaks. Several servers may work on one database.

mod tls;

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use futures_util::future::try_join_all;
use tokio::sync::Notify;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{AsyncMessage, Client, Config};
use uuid::Uuid;

use super::columns::{self, Statement, Value};
use super::engine::{Contents, Decide, Missed, StoreError};
use super::schema;
use crate::world::{Change, Kind};
use tls::Asked;

/// The channel on which writers tell each other that they wrote.
const CHANNEL: &str = "meridian_changes";
/// Keeps two servers from bringing the tables up to date at once.
const MIGRATION_LOCK: i64 = 0x6d65_7269_6469_616e;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A database that may be shared with other servers.
#[derive(Debug)]
pub(super) struct Postgres {
    config: Config,
    asked: Asked,
    link: Option<Link>,
    heard: Arc<Notify>,
}

/// A connection that works, as far as is known.
#[derive(Debug)]
struct Link {
    client: Client,
    prepared: HashMap<String, tokio_postgres::Statement>,
}

impl Postgres {
    pub(super) async fn open(url: &str) -> Result<Self, StoreError> {
        let wrong =
            |source| StoreError::Refused { tried: "understand the address of the database".into(), source };
        let (asked, url) = Asked::read(url).map_err(|error| wrong(error.into()))?;
        let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| wrong(error.into()))?;
        config.connect_timeout(CONNECT_TIMEOUT).application_name("meridian").ssl_mode(asked.mode());
        let mut postgres = Postgres { config, asked, link: None, heard: Arc::new(Notify::new()) };
        let link = postgres.link().await?;
        migrate(&mut link.client).await?;
        Ok(postgres)
    }

    pub(super) async fn load(&mut self) -> Result<Contents, StoreError> {
        let result = load(self.link().await?).await;
        self.kept(result)
    }

    pub(super) async fn missed(&mut self, known: u64) -> Result<Missed, StoreError> {
        let link = self.link().await?;
        let result = async {
            let seq = read_seq(&link.client, "").await?;
            if seq == known {
                return Ok(Missed::Changes { seq, changes: Vec::new() });
            }
            // What is read must be of one instant, or a row could be newer than the number it goes by.
            execute(&link.client, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
            let seq = read_seq(&link.client, "").await?;
            let missed = missed(&link.client, known, seq).await?;
            execute(&link.client, "COMMIT").await?;
            Ok(missed)
        };
        let result = result.await;
        self.kept(result)
    }

    pub(super) async fn commit(&mut self, known: u64, decide: Decide) -> Result<u64, StoreError> {
        let batch = Uuid::new_v4();
        let link = self.link().await?;
        let result = match write(link, known, batch, decide).await {
            Ok(seq) => end(&link.client, "COMMIT").await.map(|()| seq).map_err(|error| (error, Some(seq))),
            Err(error) => {
                // The server has undone everything if this does not reach it, too.
                let _ = link.client.batch_execute("ROLLBACK").await;
                Err((error, None))
            }
        };
        match result {
            Ok(seq) => Ok(seq),
            Err((error, Some(seq))) if error.is_transient() => {
                self.link = None;
                if self.has_batch(seq, batch).await? { Ok(seq) } else { Err(error) }
            }
            Err((error, _)) => self.kept(Err(error)),
        }
    }

    pub(super) async fn written(&mut self) {
        self.heard.notified().await;
    }

    /// Whether a transaction whose commit was not answered has happened after all.
    async fn has_batch(&mut self, seq: u64, batch: Uuid) -> Result<bool, StoreError> {
        let link = self.link().await?;
        let seq = i64::try_from(seq).unwrap_or(i64::MAX);
        let sql = "SELECT count(*) FROM changes WHERE seq = $1 AND batch = $2";
        let row = link.client.query_one(sql, &[&seq, &batch.to_string()]).await;
        let row = row.map_err(|error| failed("look whether the last transaction has happened", error))?;
        Ok(row.get::<_, i64>(0) > 0)
    }

    /// The connection; a new one if there is none.
    async fn link(&mut self) -> Result<&mut Link, StoreError> {
        if self.link.as_ref().is_some_and(|link| link.client.is_closed()) {
            self.link = None;
        }
        if self.link.is_none() {
            self.link = Some(connect(&self.config, &self.asked, Arc::clone(&self.heard)).await?);
        }
        match &mut self.link {
            Some(link) => Ok(link),
            None => unreachable!("it was just made"),
        }
    }

    /// A connection that failed may be in the middle of anything: the next call gets another.
    fn kept<T>(&mut self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if result.is_err() {
            self.link = None;
        }
        result
    }
}

async fn connect(config: &Config, asked: &Asked, heard: Arc<Notify>) -> Result<Link, StoreError> {
    let tried = "connect to the database";
    // Certificates that cannot be read now may be there again after their renewal.
    let tls = asked.tls().map_err(|source| StoreError::Unavailable { tried: tried.into(), source })?;
    let connected = config.connect(tls).await.map_err(|error| failed(tried, error))?;
    let (client, mut connection) = connected;
    tokio::spawn(async move {
        loop {
            match poll_fn(|cx| connection.poll_message(cx)).await {
                Some(Ok(AsyncMessage::Notification(_))) => heard.notify_one(),
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    tracing::warn!(%error, "the connection to the database broke");
                    break;
                }
                None => break,
            }
        }
        // Whatever is said while nobody listens is missed: look.
        heard.notify_one();
    });
    execute(&client, &format!("LISTEN {CHANNEL}")).await?;
    Ok(Link { client, prepared: HashMap::new() })
}

async fn migrate(client: &mut Client) -> Result<(), StoreError> {
    let tried = "bring the tables up to date";
    let fail = |error| failed(tried, error);
    let txn = client.transaction().await.map_err(fail)?;
    txn.execute("SELECT pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK]).await.map_err(fail)?;
    txn.batch_execute(schema::VERSION_TABLE).await.map_err(fail)?;
    let version = txn.query_opt("SELECT version FROM schema_version", &[]).await.map_err(fail)?;
    let found = version.map_or(0, |row| row.get::<_, i64>(0));
    let known = schema::STEPS.len() as i64;
    if found > known {
        return Err(StoreError::Newer { found, known });
    }
    for step in &schema::STEPS[usize::try_from(found).unwrap_or(0)..] {
        txn.batch_execute(step).await.map_err(fail)?;
    }
    txn.execute("DELETE FROM schema_version", &[]).await.map_err(fail)?;
    txn.execute("INSERT INTO schema_version (version) VALUES ($1)", &[&known]).await.map_err(fail)?;
    txn.commit().await.map_err(fail)
}

async fn load(link: &mut Link) -> Result<Contents, StoreError> {
    execute(&link.client, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
    let contents = read_all(&link.client).await?;
    execute(&link.client, "COMMIT").await?;
    Ok(contents)
}

async fn read_all(client: &Client) -> Result<Contents, StoreError> {
    let mut contents = Contents { seq: read_seq(client, "").await?, rows: Vec::new() };
    for kind in Kind::ALL {
        let rows = client.query(&schema::select_all(*kind), &[]).await;
        for row in rows.map_err(|error| failed("read the database", error))? {
            let entity = kind.read(row.get(1)).map_err(|source| StoreError::Unreadable {
                table: kind.table(),
                key: row.get(0),
                source: source.into(),
            })?;
            contents.rows.push(entity);
        }
    }
    Ok(contents)
}

/// Everything of a transaction but its end.
async fn write(link: &mut Link, known: u64, batch: Uuid, decide: Decide) -> Result<u64, StoreError> {
    execute(&link.client, "BEGIN").await?;
    let found = read_seq(&link.client, "FOR UPDATE").await?;
    let changes = decide(missed(&link.client, known, found).await?);
    if changes.is_empty() {
        return Ok(found);
    }
    let seq = found + 1;
    let statements = columns::statements(seq, batch, &changes);
    for statement in &statements {
        if !link.prepared.contains_key(&statement.sql) {
            let prepared = link.client.prepare(&statement.sql).await;
            let prepared = prepared.map_err(|error| failed("prepare a statement", error))?;
            link.prepared.insert(statement.sql.clone(), prepared);
        }
    }
    // All are sent before the first answer is waited for; the server runs them in order.
    let runs = statements.iter().map(|Statement { sql, values }| {
        let values: Vec<_> = values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
        let prepared = &link.prepared[sql];
        let client = &link.client;
        async move { client.execute(prepared, &values).await }
    });
    try_join_all(runs).await.map_err(|error| failed("write to the database", error))?;
    execute(&link.client, &format!("NOTIFY {CHANNEL}")).await?;
    Ok(seq)
}

/// What others wrote after `known`, up to `found`.
async fn missed(client: &Client, known: u64, found: u64) -> Result<Missed, StoreError> {
    if found == known {
        return Ok(Missed::Changes { seq: found, changes: Vec::new() });
    }
    // A number that went backwards is another database under the same name.
    if found < known || found - known > schema::CHANGES_KEPT / 2 {
        return read_all(client).await.map(Missed::Everything);
    }
    let tried = "read what other servers wrote";
    let after = i64::try_from(known).unwrap_or(i64::MAX);
    let sql = "SELECT DISTINCT kind, key FROM changes WHERE seq > $1";
    let rows = client.query(sql, &[&after]).await.map_err(|error| failed(tried, error))?;
    let mut changes = Vec::with_capacity(rows.len());
    for row in rows {
        let (table, key): (&str, String) = (row.get(0), row.get(1));
        let Some(kind) = Kind::ALL.iter().copied().find(|kind| kind.table() == table) else {
            continue;
        };
        let body = client.query_opt(&schema::select_one(kind), &[&key]).await;
        changes.push(match body.map_err(|error| failed(tried, error))? {
            None => Change::Remove(kind, key),
            Some(body) => Change::Put(kind.read(body.get(0)).map_err(|source| StoreError::Unreadable {
                table: kind.table(),
                key,
                source: source.into(),
            })?),
        });
    }
    changes.sort_by_key(Change::kind);
    Ok(Missed::Changes { seq: found, changes })
}

async fn read_seq(client: &Client, lock: &str) -> Result<u64, StoreError> {
    let row = client.query_one(&format!("SELECT seq FROM state WHERE one = 1 {lock}"), &[]).await;
    let row = row.map_err(|error| failed("read the state of the database", error))?;
    Ok(u64::try_from(row.get::<_, i64>(0)).unwrap_or(0))
}

async fn execute(client: &Client, sql: &str) -> Result<(), StoreError> {
    client.batch_execute(sql).await.map_err(|error| failed("talk to the database", error))
}

async fn end(client: &Client, sql: &str) -> Result<(), StoreError> {
    client.batch_execute(sql).await.map_err(|error| failed("commit to the database", error))
}

impl ToSql for Value {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Value::Text(text) => text.to_sql(ty, out),
            Value::Number(number) => number.to_sql(ty, out),
            Value::Flag(flag) => flag.to_sql(ty, out),
        }
    }

    fn accepts(ty: &Type) -> bool {
        <String as ToSql>::accepts(ty) || <i64 as ToSql>::accepts(ty) || <bool as ToSql>::accepts(ty)
    }

    to_sql_checked!();
}

fn failed(tried: &str, error: tokio_postgres::Error) -> StoreError {
    let tried = tried.to_owned();
    // Class 08 is the connection, 40 a rollback that may be tried again, 53 resources, 57 an operator's intervention; no
    // code at all is a connection that broke.
    let transient = match error.code().map(SqlState::code) {
        None => true,
        Some(code) => ["08", "40", "53", "57"].iter().any(|class| code.starts_with(class)),
    };
    let source = Box::new(error);
    if transient { StoreError::Unavailable { tried, source } } else { StoreError::Refused { tried, source } }
}
