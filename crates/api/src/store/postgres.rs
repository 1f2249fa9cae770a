//! PostgreSQL: one connection, renewed whenever it breaks. Several servers may use one database.

mod tls;

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use futures_util::future::{try_join_all, try_join3};
use tokio::sync::Notify;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{AsyncMessage, Client, Config};
use uuid::Uuid;

use super::columns::{self, SqlValue, Statement};
use super::engine::{Contents, Decide, MissedChanges, PostgresUrl, StoreError};
use super::schema;
use crate::world::{Ancestry, CHANGES_KEPT, Change, Kind, Revision};
use tls::Asked;

const UNREADABLE: &str = "expected postgres://user@host:port/database?option=value; write @ : / ? # & and % in a password as %40 %3A \
    %2F %3F %23 %26 and %25, or keep it in server.database_password_file";
/// The channel on which writers notify each other of changes.
const CHANNEL: &str = "meridian_changes";
/// The advisory lock that keeps two servers from migrating the tables at the same time.
const MIGRATION_LOCK: i64 = 0x6d65_7269_6469_616e;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The time limit of one round of statements. It includes the wait for another writer's lock; PostgreSQL takes the lock from a writer that
/// idles in its transaction for three seconds ([`ABANDONED`]).
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The time limit of reading all rows.
const LOAD_TIMEOUT: Duration = Duration::from_secs(120);
/// The time without any packet after which a connection counts as dead, whatever the kernel's defaults are.
const DEAD_PEER: Duration = Duration::from_secs(5);
/// PostgreSQL ends a transaction that idles for so long. Without this limit, a stopped or unreachable host could keep all other writers out
/// until it returns.
const ABANDONED: &str = "SET idle_in_transaction_session_timeout = '3s'";
/// Begins reads of one instant. They lock nobody out, so the idle limit is off: processing many rows takes time before the next query.
const READ: &str =
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL idle_in_transaction_session_timeout = 0";
/// Locks out other writers until the transaction ends.
const LOCK_STATE: &str = "SELECT FROM state WHERE one = 1 FOR UPDATE";
/// Time limit of the search for a transaction whose commit got no reply.
const DOUBT: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// A database that other servers may share.
#[derive(Debug)]
pub(super) struct Postgres {
    config: Config,
    asked: Asked,
    link: Option<Link>,
    heard: Arc<Notify>,
}

/// A connection that has not failed yet.
#[derive(Debug)]
struct Link {
    client: Client,
    prepared: HashMap<String, tokio_postgres::Statement>,
}

impl Link {
    /// A prepared statement, from the cache of this connection if it was used before.
    async fn prepare(&mut self, sql: &str) -> Result<tokio_postgres::Statement, StoreError> {
        if let Some(known) = self.prepared.get(sql) {
            return Ok(known.clone());
        }
        let prepared = self.client.prepare(sql).await;
        let prepared = prepared.map_err(|error| failed("prepare a statement", error))?;
        self.prepared.insert(sql.to_owned(), prepared.clone());
        Ok(prepared)
    }

    async fn read_revision(&mut self) -> Result<Revision, StoreError> {
        let statement = self.prepare(schema::REVISION).await?;
        read_revision(&self.client, &statement).await
    }

    async fn has_batch(&mut self, seq: u64, batch: Uuid) -> Result<bool, StoreError> {
        let statement = self.prepare(schema::HAS_BATCH).await?;
        let seq = i64::try_from(seq).unwrap_or(i64::MAX);
        let row = self.client.query_one(&statement, &[&seq, &batch.to_string()]).await;
        let row = row.map_err(|error| failed("look for a transaction of the past", error))?;
        Ok(row.get::<_, i64>(0) > 0)
    }
}

impl Postgres {
    pub(super) async fn open(at: &PostgresUrl) -> Result<Self, StoreError> {
        let wrong = |source| StoreError::Refused { tried: "parse the URL of the database".into(), source };
        let (asked, url) = Asked::read(at.url.expose()).map_err(|error| wrong(error.into()))?;
        // The parser's own error may contain a part of the password.
        let mut config: Config = url.parse().map_err(|_: tokio_postgres::Error| wrong(UNREADABLE.into()))?;
        if let Some(password) = &at.password {
            config.password(password.expose());
        }
        config.connect_timeout(CONNECT_TIMEOUT).application_name("meridian").ssl_mode(asked.mode());
        config.keepalives_idle(DEAD_PEER).keepalives_interval(Duration::from_secs(1)).keepalives_retries(3);
        config.tcp_user_timeout(DEAD_PEER);
        let mut postgres = Postgres { config, asked, link: None, heard: Arc::new(Notify::new()) };
        let link = postgres.link().await?;
        within(LOAD_TIMEOUT, migrate(&mut link.client)).await?;
        Ok(postgres)
    }

    pub(super) async fn load(&mut self) -> Result<Contents, StoreError> {
        let result = within(LOAD_TIMEOUT, load(self.link().await?)).await;
        self.kept(result)
    }

    pub(super) async fn missed(&mut self, known: Revision) -> Result<MissedChanges, StoreError> {
        let link = self.link().await?;
        let result = async {
            let revision = within(ANSWER_TIMEOUT, link.read_revision()).await?;
            if revision == known {
                return Ok(MissedChanges::Changes { revision, changes: Vec::new() });
            }
            // All reads must be of one instant, or a row could be newer than the revision that it is filed under.
            execute(&link.client, READ).await?;
            let found = link.read_revision().await?;
            let missed = missed(link, known, found).await?;
            execute(&link.client, "COMMIT").await?;
            Ok(missed)
        };
        let result = within(LOAD_TIMEOUT, result).await;
        self.kept(result)
    }

    /// Fails if the server is a standby, or is configured to be read-only.
    pub(super) async fn check_writable(&mut self) -> Result<(), StoreError> {
        let link = self.link().await?;
        let result = async {
            let tried = "check whether the database accepts changes";
            let row = link.client.query_one("SHOW transaction_read_only", &[]).await;
            let row = row.map_err(|error| failed(tried, error))?;
            match row.get::<_, &str>(0) {
                "on" => Err(StoreError::Unavailable {
                    tried: "change the database".into(),
                    source: "it is read-only; make it writable, or point `database` to the primary".into(),
                }),
                _ => Ok(()),
            }
        };
        // A session keeps the read-only setting that it began with. So a read-only session is closed; the next one may be writable.
        let result = within(ANSWER_TIMEOUT, result).await;
        self.kept(result)
    }

    pub(super) async fn commit(&mut self, known: Revision, decide: Decide) -> Result<Revision, StoreError> {
        let link = self.link().await?;
        let decided = match begin(link, known).await {
            Ok((found, missed)) => within(ANSWER_TIMEOUT, prepare(link, found, decide(missed))).await,
            Err(error) => Err(error),
        };
        let (next, writes) = match decided {
            Ok(decided) => decided,
            Err(error) => {
                // The connection is dropped, which makes the server roll back.
                return self.kept(Err(error));
            }
        };
        match within(ANSWER_TIMEOUT, finish(&link.client, &writes)).await {
            Ok(()) => Ok(next),
            // The commit may have arrived.
            Err(error) if error.is_transient() && !writes.is_empty() => {
                self.link = None;
                if self.has_happened(next).await? { Ok(next) } else { Err(error) }
            }
            Err(error) => self.kept(Err(error)),
        }
    }

    pub(super) async fn written(&mut self) {
        self.heard.notified().await;
    }

    /// Whether a transaction without a reply was committed after all. A retry without this check could make the change twice.
    async fn has_happened(&mut self, revision: Revision) -> Result<bool, StoreError> {
        let give_up = tokio::time::Instant::now() + DOUBT;
        loop {
            match within(ANSWER_TIMEOUT, self.look_for(revision)).await {
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

    async fn look_for(&mut self, revision: Revision) -> Result<bool, StoreError> {
        let link = self.link().await?;
        // The server may still run the statements that were sent before the connection broke. It holds the lock until then, so waiting for
        // the lock waits for its end.
        link.client
            .query_one(LOCK_STATE, &[])
            .await
            .map_err(|error| failed("look whether the last transaction has happened", error))?;
        link.has_batch(revision.seq, revision.batch).await
    }

    pub(super) async fn contains(&mut self, revision: Revision) -> Result<bool, StoreError> {
        let link = self.link().await?;
        let result = within(ANSWER_TIMEOUT, contains(link, revision)).await;
        self.kept(result)
    }

    /// The connection; opens a new one if there is none.
    async fn link(&mut self) -> Result<&mut Link, StoreError> {
        if self.link.as_ref().is_some_and(|link| link.client.is_closed()) {
            self.link = None;
        }
        if self.link.is_none() {
            let connected = connect(&self.config, &self.asked, Arc::clone(&self.heard));
            self.link = Some(within(CONNECT_TIMEOUT, connected).await?);
        }
        match &mut self.link {
            Some(link) => Ok(link),
            None => unreachable!("it was just made"),
        }
    }

    /// Passes a result on and drops a connection that failed: it may be in the middle of a statement.
    fn kept<T>(&mut self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if result.is_err() {
            self.link = None;
        }
        result
    }
}

/// Limits the time of one use of the connection. Statements have no time-out of their own, and a server that hangs or is unreachable sends
/// nothing.
async fn within<T>(
    limit: Duration,
    used: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    tokio::time::timeout(limit, used).await.unwrap_or_else(|_| {
        let source = format!("no answer within {} s", limit.as_secs()).into();
        Err(StoreError::Unavailable { tried: "wait for the database".into(), source })
    })
}

async fn connect(config: &Config, asked: &Asked, heard: Arc<Notify>) -> Result<Link, StoreError> {
    let tried = "connect to the database";
    // Certificates may be unreadable during their renewal, so this error is transient.
    let tls = asked.tls().map_err(|source| StoreError::Unavailable { tried: tried.into(), source })?;
    let connected = config.connect(tls).await.map_err(|error| failed(tried, error))?;
    let (client, mut connection) = connected;
    let own = Arc::new(AtomicI32::new(0));
    let ours = Arc::clone(&own);
    // Ends with its connection. The writer notices the closed client at its next query, a second later at most, and connects again.
    task::spawn("postgres", async move {
        loop {
            match poll_fn(|cx| connection.poll_message(cx)).await {
                // Our own notifications are no news.
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
        // Notifications are lost while no connection listens, so check once after connecting.
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
    let steps = schema::steps();
    let known = steps.len() as i64;
    if found > known {
        return Err(StoreError::Newer { found, known });
    }
    for step in &steps[usize::try_from(found).unwrap_or(0)..] {
        txn.batch_execute(step).await.map_err(fail)?;
    }
    txn.execute("DELETE FROM schema_version", &[]).await.map_err(fail)?;
    txn.execute("INSERT INTO schema_version (version) VALUES ($1)", &[&known]).await.map_err(fail)?;
    txn.execute(schema::NAME_STORE, &[&Uuid::new_v4().to_string()]).await.map_err(fail)?;
    txn.commit().await.map_err(fail)
}

async fn load(link: &mut Link) -> Result<Contents, StoreError> {
    execute(&link.client, READ).await?;
    let contents = read_all(link).await?;
    execute(&link.client, "COMMIT").await?;
    Ok(contents)
}

async fn read_all(link: &mut Link) -> Result<Contents, StoreError> {
    let mut contents = Contents { revision: link.read_revision().await?, rows: Vec::new() };
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

/// Begins a transaction that locks out other writers. Returns the present revision and the changes since `known`.
async fn begin(link: &mut Link, known: Revision) -> Result<(Revision, MissedChanges), StoreError> {
    let prepared = async { Ok((link.prepare("BEGIN").await?, link.prepare(LOCK_STATE).await?)) };
    let (begin, lock) = within(ANSWER_TIMEOUT, prepared).await?;
    let revision = within(ANSWER_TIMEOUT, link.prepare(schema::REVISION)).await?;
    let client = &link.client;
    let run = async |statement| {
        let ran = client.execute(statement, &[]).await;
        ran.map_err(|error| failed("begin a transaction", error))
    };
    // All are sent before the first reply. The revision is a statement of its own: inside the locking statement it would read the list of
    // changes as of before the wait for the lock.
    let begun = try_join3(run(&begin), run(&lock), read_revision(client, &revision));
    let (_, _, found) = within(ANSWER_TIMEOUT, begun).await?;
    Ok((found, within(LOAD_TIMEOUT, missed(link, known, found)).await?))
}

/// A prepared statement and its values.
type Write = (tokio_postgres::Statement, Vec<SqlValue>);

/// The rest of a transaction that writes `changes`: its new revision and its statements.
async fn prepare(
    link: &mut Link,
    found: Revision,
    changes: Vec<Change>,
) -> Result<(Revision, Vec<Write>), StoreError> {
    if changes.is_empty() {
        return Ok((found, Vec::new()));
    }
    let next = Revision { seq: found.seq + 1, batch: Uuid::new_v4(), ..found };
    let mut writes = Vec::new();
    for Statement { sql, values } in columns::statements(next, &changes) {
        writes.push((link.prepare(&sql).await?, values));
    }
    writes.push((link.prepare(&format!("NOTIFY {CHANNEL}")).await?, Vec::new()));
    writes.push((link.prepare("COMMIT").await?, Vec::new()));
    Ok((next, writes))
}

/// Writes and commits in one round: sends everything before the first reply, and the server runs it in order. If one statement fails, those
/// behind it do too, and the commit at the end rolls back.
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

/// The changes of other servers after `known`, up to `found`.
async fn missed(link: &mut Link, known: Revision, found: Revision) -> Result<MissedChanges, StoreError> {
    if found == known {
        return Ok(MissedChanges::Changes { revision: found, changes: Vec::new() });
    }
    if !contains(link, known).await? {
        return read_all(link).await.map(MissedChanges::AnotherPast);
    }
    if found.seq - known.seq > CHANGES_KEPT / 2 {
        return read_all(link).await.map(MissedChanges::Everything);
    }
    let tried = "read what other servers wrote";
    let after = i64::try_from(known.seq).unwrap_or(i64::MAX);
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
    Ok(MissedChanges::Changes { revision: found, changes })
}

/// Whether a revision is the present or a past one.
async fn contains(link: &mut Link, revision: Revision) -> Result<bool, StoreError> {
    match Ancestry::of(revision, link.read_revision().await?) {
        Ancestry::Ancestor => Ok(true),
        Ancestry::Stranger => Ok(false),
        Ancestry::Listed => link.has_batch(revision.seq, revision.batch).await,
    }
}

async fn read_revision(
    client: &Client,
    statement: &tokio_postgres::Statement,
) -> Result<Revision, StoreError> {
    let row = client.query_one(statement, &[]).await;
    let row = row.map_err(|error| failed("read the state of the database", error))?;
    Ok(schema::revision(row.get(0), row.get(1), row.get(2)))
}

async fn execute(client: &Client, sql: &str) -> Result<(), StoreError> {
    client.batch_execute(sql).await.map_err(|error| failed("talk to the database", error))
}

impl ToSql for SqlValue {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            SqlValue::Text(text) => text.to_sql(ty, out),
            SqlValue::Number(number) => number.to_sql(ty, out),
            SqlValue::Flag(flag) => flag.to_sql(ty, out),
        }
    }

    fn accepts(ty: &Type) -> bool {
        <String as ToSql>::accepts(ty) || <i64 as ToSql>::accepts(ty) || <bool as ToSql>::accepts(ty)
    }

    to_sql_checked!();
}

fn failed(tried: &str, error: tokio_postgres::Error) -> StoreError {
    let tried = tried.to_owned();
    // Class 08 is the connection, 40 a rollback that may be retried, 53 resources, 57 an operator's intervention. 25006 is a server that
    // has become read-only (a standby after a failover), 25P03 an idle transaction. No code at all is a broken connection.
    let transient = match error.code().map(SqlState::code) {
        None => true,
        Some(code) => ["08", "25006", "25P03", "40", "53", "57"].iter().any(|class| code.starts_with(class)),
    };
    let source = Box::new(error);
    if transient { StoreError::Unavailable { tried, source } } else { StoreError::Refused { tried, source } }
}
