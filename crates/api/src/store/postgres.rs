//! PostgreSQL: one connection, made again whenever it breaks. Several servers may work on one database.

mod tls;

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use futures_util::future::{try_join, try_join_all};
use tokio::sync::Notify;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{AsyncMessage, Client, Config};
use uuid::Uuid;

use super::columns::{self, Statement, Value};
use super::engine::{Contents, Decide, Missed, PostgresUrl, StoreError};
use super::schema;
use crate::world::{Change, Kind};
use tls::Asked;

const UNREADABLE: &str = "expected postgres://user@host:port/database?option=value; write @ : / ? # & and % in a password as %40 %3A \
    %2F %3F %23 %26 and %25, or keep it in server.database_password_file";
/// The channel on which writers tell each other that they wrote.
const CHANNEL: &str = "meridian_changes";
/// Keeps two servers from bringing the tables up to date at once.
const MIGRATION_LOCK: i64 = 0x6d65_7269_6469_616e;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a transaction may stand still before the server ends it: one that a stopped or unreachable host has begun would keep
/// all other writers out for as long as that host is away.
const ABANDONED: &str = "SET idle_in_transaction_session_timeout = '3s'";
/// Reads of one instant. They keep nobody out, and much that was read takes its time before the next is asked for.
const READ: &str =
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL idle_in_transaction_session_timeout = 0";
/// The number of the last change, and the same with other writers kept out until the transaction ends.
const SEQ: &str = "SELECT seq FROM state WHERE one = 1";
const SEQ_LOCKED: &str = "SELECT seq FROM state WHERE one = 1 FOR UPDATE";
/// How long to look whether a transaction has happened whose end was not answered.
const DOUBT: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(100);

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

impl Link {
    /// A statement that the server has understood already, if it was used before on this connection.
    async fn prepare(&mut self, sql: &str) -> Result<tokio_postgres::Statement, StoreError> {
        if let Some(known) = self.prepared.get(sql) {
            return Ok(known.clone());
        }
        let prepared = self.client.prepare(sql).await;
        let prepared = prepared.map_err(|error| failed("prepare a statement", error))?;
        self.prepared.insert(sql.to_owned(), prepared.clone());
        Ok(prepared)
    }

    async fn read_seq(&mut self) -> Result<u64, StoreError> {
        let statement = self.prepare(SEQ).await?;
        read_seq(&self.client, &statement).await
    }
}

impl Postgres {
    pub(super) async fn open(at: &PostgresUrl) -> Result<Self, StoreError> {
        let wrong = |source| StoreError::Refused { tried: "parse the URL of the database".into(), source };
        let (asked, url) = Asked::read(at.url.expose()).map_err(|error| wrong(error.into()))?;
        // The parser's own error may repeat a part of the password.
        let mut config: Config = url.parse().map_err(|_: tokio_postgres::Error| wrong(UNREADABLE.into()))?;
        if let Some(password) = &at.password {
            config.password(password.expose());
        }
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
            let seq = link.read_seq().await?;
            if seq == known {
                return Ok(Missed::Changes { seq, changes: Vec::new() });
            }
            // What is read must be of one instant, or a row could be newer than the number it goes by.
            execute(&link.client, READ).await?;
            let seq = link.read_seq().await?;
            let missed = missed(link, known, seq).await?;
            execute(&link.client, "COMMIT").await?;
            Ok(missed)
        };
        let result = result.await;
        self.kept(result)
    }

    pub(super) async fn commit(&mut self, known: u64, decide: Decide) -> Result<u64, StoreError> {
        let batch = Uuid::new_v4();
        let link = self.link().await?;
        let decided = match begin(link, known).await {
            Ok((found, missed)) => prepare(link, found, batch, decide(missed)).await,
            Err(error) => Err(error),
        };
        let (seq, writes) = match decided {
            Ok(decided) => decided,
            Err(error) => {
                // The server has undone everything if this does not reach it, too.
                let _ = link.client.batch_execute("ROLLBACK").await;
                return self.kept(Err(error));
            }
        };
        match finish(&link.client, &writes).await {
            Ok(()) => Ok(seq),
            // The end may have come through.
            Err(error) if error.is_transient() && !writes.is_empty() => {
                self.link = None;
                if self.has_batch(seq, batch).await? { Ok(seq) } else { Err(error) }
            }
            Err(error) => self.kept(Err(error)),
        }
    }

    pub(super) async fn written(&mut self) {
        self.heard.notified().await;
    }

    /// Whether a transaction whose end was not answered has happened after all. To try it again without knowing could do
    /// everything twice.
    async fn has_batch(&mut self, seq: u64, batch: Uuid) -> Result<bool, StoreError> {
        let give_up = tokio::time::Instant::now() + DOUBT;
        loop {
            match self.look_for_batch(seq, batch).await {
                Err(source) if tokio::time::Instant::now() >= give_up => {
                    return Err(StoreError::InDoubt { source: Box::new(source) });
                }
                Err(_) => {
                    self.link = None;
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
                found => return found,
            }
        }
    }

    async fn look_for_batch(&mut self, seq: u64, batch: Uuid) -> Result<bool, StoreError> {
        let link = self.link().await?;
        let fail = |error| failed("look whether the last transaction has happened", error);
        // The server may still be at it, with all that was sent before the connection broke: it has the lock until its end.
        link.client.query_one(SEQ_LOCKED, &[]).await.map_err(fail)?;
        let seq = i64::try_from(seq).unwrap_or(i64::MAX);
        let sql = "SELECT count(*) FROM changes WHERE seq = $1 AND batch = $2";
        let row = link.client.query_one(sql, &[&seq, &batch.to_string()]).await.map_err(fail)?;
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
    let own = Arc::new(AtomicI32::new(0));
    let ours = Arc::clone(&own);
    task::spawn("postgres", async move {
        loop {
            match poll_fn(|cx| connection.poll_message(cx)).await {
                // What we wrote ourselves is no news.
                Some(Ok(AsyncMessage::Notification(told)))
                    if told.process_id() == ours.load(Ordering::Relaxed) => {}
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
    let pid = client.query_one("SELECT pg_backend_pid()", &[]).await;
    own.store(pid.map_err(|error| failed(tried, error))?.get(0), Ordering::Relaxed);
    execute(&client, &format!("{ABANDONED}; LISTEN {CHANNEL}")).await?;
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
    execute(&link.client, READ).await?;
    let contents = read_all(link).await?;
    execute(&link.client, "COMMIT").await?;
    Ok(contents)
}

async fn read_all(link: &mut Link) -> Result<Contents, StoreError> {
    let mut contents = Contents { seq: link.read_seq().await?, rows: Vec::new() };
    for kind in Kind::ALL {
        let rows = link.client.query(&schema::select_all(*kind), &[]).await;
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

/// Begins a transaction that keeps other writers out: the number of the last change, and what is new of it.
async fn begin(link: &mut Link, known: u64) -> Result<(u64, Missed), StoreError> {
    let (begin, seq) = (link.prepare("BEGIN").await?, link.prepare(SEQ_LOCKED).await?);
    let client = &link.client;
    let begun = async {
        let begun = client.execute(&begin, &[]).await;
        begun.map_err(|error| failed("begin a transaction", error))
    };
    // Both are sent before the first answer is waited for.
    let (_, found) = try_join(begun, read_seq(client, &seq)).await?;
    Ok((found, missed(link, known, found).await?))
}

/// A statement that the server knows, and its values.
type Write = (tokio_postgres::Statement, Vec<Value>);

/// What is left of a transaction that writes `changes`: the number that stands then, and the statements.
async fn prepare(
    link: &mut Link,
    found: u64,
    batch: Uuid,
    changes: Vec<Change>,
) -> Result<(u64, Vec<Write>), StoreError> {
    if changes.is_empty() {
        return Ok((found, Vec::new()));
    }
    let seq = found + 1;
    let mut writes = Vec::new();
    for Statement { sql, values } in columns::statements(seq, batch, &changes) {
        writes.push((link.prepare(&sql).await?, values));
    }
    writes.push((link.prepare(&format!("NOTIFY {CHANNEL}")).await?, Vec::new()));
    writes.push((link.prepare("COMMIT").await?, Vec::new()));
    Ok((seq, writes))
}

/// Writes and commits in one go: all is sent before the first answer is waited for, and the server runs it in order. If one
/// fails, those behind it do too, and the commit at the end undoes everything.
async fn finish(client: &Client, writes: &[Write]) -> Result<(), StoreError> {
    if writes.is_empty() {
        return execute(client, "COMMIT").await;
    }
    let runs = writes.iter().map(|(statement, values)| {
        let values: Vec<_> = values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
        async move { client.execute(statement, &values).await }
    });
    try_join_all(runs).await.map_err(|error| failed("write to the database", error))?;
    Ok(())
}

/// What others wrote after `known`, up to `found`.
async fn missed(link: &mut Link, known: u64, found: u64) -> Result<Missed, StoreError> {
    if found == known {
        return Ok(Missed::Changes { seq: found, changes: Vec::new() });
    }
    // A number that went backwards is another database under the same name.
    if found < known || found - known > schema::CHANGES_KEPT / 2 {
        return read_all(link).await.map(Missed::Everything);
    }
    let tried = "read what other servers wrote";
    let after = i64::try_from(known).unwrap_or(i64::MAX);
    let sql = "SELECT DISTINCT kind, key FROM changes WHERE seq > $1";
    let changed = link.prepare(sql).await?;
    let rows = link.client.query(&changed, &[&after]).await.map_err(|error| failed(tried, error))?;
    let mut changes = Vec::with_capacity(rows.len());
    for row in rows {
        let (table, key): (&str, String) = (row.get(0), row.get(1));
        let Some(kind) = Kind::ALL.iter().copied().find(|kind| kind.table() == table) else {
            continue;
        };
        let one = link.prepare(&schema::select_one(kind)).await?;
        let body = link.client.query_opt(&one, &[&key]).await;
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

async fn read_seq(client: &Client, statement: &tokio_postgres::Statement) -> Result<u64, StoreError> {
    let row = client.query_one(statement, &[]).await;
    let row = row.map_err(|error| failed("read the state of the database", error))?;
    Ok(u64::try_from(row.get::<_, i64>(0)).unwrap_or(0))
}

async fn execute(client: &Client, sql: &str) -> Result<(), StoreError> {
    client.batch_execute(sql).await.map_err(|error| failed("talk to the database", error))
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
    // Class 08 is the connection, 40 a rollback that may be tried again, 53 resources, 57 an operator's intervention, 25P03 a
    // transaction that stood still; no code at all is a connection that broke.
    let transient = match error.code().map(SqlState::code) {
        None => true,
        Some(code) => ["08", "25P03", "40", "53", "57"].iter().any(|class| code.starts_with(class)),
    };
    let source = Box::new(error);
    if transient { StoreError::Unavailable { tried, source } } else { StoreError::Refused { tried, source } }
}
