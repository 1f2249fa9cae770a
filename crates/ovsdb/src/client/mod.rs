//! The client on tokio: sockets, time and tasks around the [session](crate::session), which makes the decisions.
//!
//! [`Client`] is the entry point. Behind it one task (`task`) drives the session, `subscribe` publishes changes to readers,
//! `connect` and `tls` reach servers, `record` records all inputs and outputs, and [`Rpc`] is a plain connection for tools that
//! need no replica.
//!
//! In `tracing`, a client has one span `ovsdb` for its lifetime, and one span `commit` (level debug) per transaction, from the
//! call to its outcome.

mod connect;
mod link;
mod lock;
mod metrics;
mod queue;
mod record;
mod rpc;
mod subscribe;
mod task;
mod tls;

use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use thiserror::Error;
use tokio::sync::{oneshot, watch};
use tracing::{Instrument, Span};
use uuid::Uuid;

pub use connect::{DialError, Dialer, Stream};
pub use lock::{Lock, LockState};
pub use metrics::Metrics;
pub use record::{Difference, ReplayError, Replayed, replay};
pub use rpc::{Note, Rpc, RpcError};
pub use subscribe::{Feed, FeedEvent};
pub use tls::{Identity, TlsConfig, TlsError};

use crate::model::{AnyCondition, Condition, Misfit, Str, Table};
use crate::replica::{Fit, Model, Snapshot};
use crate::session::{CloseReason, LockMode, Progress, Remotes, Session, SessionConfig, Status};
use crate::txn::group::GroupLimits;
use crate::txn::view::{self, View};
use crate::txn::{CommitError, Committed, Transaction};
use crate::wire::schema::DatabaseSchema;
use metrics::Meters;
use queue::Commands;
use record::Recorder;
use subscribe::Publisher;
use task::{Command, Driver, Limits};

/// The default of [`ClientConfig::max_message`].
pub const MAX_MESSAGE: usize = 512 << 20;

/// The configuration of a client. [`ClientConfig::new`] has the defaults.
#[derive(Clone, Debug)]
#[must_use]
pub struct ClientConfig {
    /// The servers and the requirements on them.
    pub session: SessionConfig,
    /// The settings for connecting to them.
    pub dialer: Dialer,
    /// The maximum size of a message from a server. Memory is allocated as its bytes arrive, not before. The largest by far is
    /// the content of a database in the reply to a monitor: 100,000 rows of 5 KB each fit into the default of 512 MiB. Rows of
    /// `Logical_Switch_Port` and `Port_Binding` have 1 to 2 KB.
    pub max_message: usize,
    /// The number of bytes that may wait to be sent, including grouped commits, before commits have to wait. If replies to a server alone
    /// exceed it, the server does not read them, and the client drops the connection. Default: 16 MiB.
    pub max_backlog: usize,
    /// The number of rows and events that a feed holds for a slow reader before they are merged. Default: 100,000.
    pub feed_limit: usize,
    /// The maximum size of one batch of grouped transactions.
    pub group: GroupLimits,
    /// A file for recording all messages, if any.
    pub record: Option<PathBuf>,
    /// The seed of random choices (order of remotes, delays); different for each client by default.
    pub seed: u64,
}

impl ClientConfig {
    /// The defaults, for these remotes.
    pub fn new(remotes: Remotes) -> Self {
        Self {
            session: remotes.into(),
            dialer: Dialer::default(),
            max_message: MAX_MESSAGE,
            max_backlog: 16 << 20,
            feed_limit: 100_000,
            group: GroupLimits::default(),
            record: None,
            seed: Uuid::new_v4().as_u64_pair().0,
        }
    }

    /// Presents these certificates to `ssl:` remotes.
    pub fn tls(mut self, tls: TlsConfig) -> Self {
        self.dialer.tls = Some(tls);
        self
    }
}

/// The reason why no replica is available.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The server's schema lacks something that the model needs. The client keeps trying.
    #[error("the server's schema does not fit: {}", misfits(.0))]
    Misfit(Vec<Misfit>),
    /// The replica was not in sync in time. The client keeps trying.
    #[error("not in sync with {database} within {after:?}: {}", reason(.last))]
    Timeout {
        /// The database.
        database: Str,
        /// The timeout.
        after: Duration,
        /// Why the last attempt failed.
        last: Option<CloseReason>,
    },
    /// The client was closed.
    #[error("the client is closed")]
    Closed,
}

fn misfits(list: &[Misfit]) -> String {
    list.iter().map(Misfit::to_string).collect::<Vec<_>>().join("; ")
}

fn reason(last: &Option<CloseReason>) -> String {
    last.as_ref().map_or_else(|| "no attempt has ended yet".into(), CloseReason::to_string)
}

/// The reason why a condition is not in force.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConditionError {
    /// The server refuses the condition; the previous one stays in force.
    #[error("the server refused the condition: {error}")]
    Refused {
        /// The server's message.
        error: String,
    },
    /// The client was closed.
    #[error("the client is closed")]
    Closed,
}

/// The server's schema and how the model fits it.
#[derive(Clone, Debug, Default)]
struct FittedSchema {
    fit: Arc<Fit>,
    schema: Option<Arc<DatabaseSchema>>,
}

/// The state that the client shares with its task.
#[derive(Debug)]
pub(crate) struct ClientState {
    publisher: Publisher,
    meters: Arc<Meters>,
    status: watch::Sender<Status>,
    fit: RwLock<FittedSchema>,
    misfits: watch::Sender<Vec<Misfit>>,
}

impl ClientState {
    fn fitted(&self) -> FittedSchema {
        self.fit.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_fit(&self, fit: Fit, schema: Arc<DatabaseSchema>) {
        *self.fit.write().unwrap_or_else(PoisonError::into_inner) =
            FittedSchema { fit: Arc::new(fit), schema: Some(schema) };
    }

    fn set_misfits(&self, misfits: Vec<Misfit>) {
        self.misfits.send_replace(misfits);
    }
}

/// A database as a local replica: read at any time, watched, written by transactions.
///
/// Copies are cheap and share one client, which ends when the last one is dropped.
#[derive(Clone)]
pub struct Client {
    database: Str,
    tables: Arc<[Str]>,
    shared: Arc<ClientState>,
    commands: Commands,
}

/// The outcome of a transaction in flight. Dropping it does not cancel the transaction.
#[derive(Debug)]
#[must_use = "the outcome of the transaction"]
pub struct Pending {
    outcome: oneshot::Receiver<Result<Committed, CommitError>>,
    span: Span,
}

impl Future for Pending {
    type Output = Result<Committed, CommitError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // A task that ends answers first, unless its runtime is gone.
        let outcome = Pin::new(&mut self.outcome).poll(cx);
        outcome
            .map(|outcome| outcome.unwrap_or(Err(CommitError::Closed)))
            .map(|outcome| noted(&self.span, outcome))
    }
}

/// Records an outcome in its span and returns it.
fn noted<T>(span: &Span, outcome: Result<T, CommitError>) -> Result<T, CommitError> {
    match &outcome {
        Ok(_) => span.record("outcome", "committed"),
        Err(error) => span.record("outcome", tracing::field::display(error)),
    };
    outcome
}

/// The maximum number of attempts of [`Client::transact`].
const TRIES: u32 = 16;

impl Client {
    /// Starts the client in the current tokio runtime, and returns at once. It connects and reconnects until it is closed.
    pub fn open(config: ClientConfig, model: Model) -> Self {
        let (database, now) = (Str::from(model.database()), Instant::now());
        let tables = model.tables().map(|(table, _)| table.clone()).collect();
        let recorder = config.record.as_ref().and_then(|path| {
            Recorder::create(path, &database, now, config.seed)
                .inspect_err(|error| tracing::warn!(%error, path = %path.display(), "cannot record"))
                .ok()
        });
        let session = Session::new(config.session, model, now, config.seed);
        let meters = Arc::new(Meters::default());
        let shared = Arc::new(ClientState {
            publisher: Publisher::new(session.snapshot(), config.feed_limit, meters.clone()),
            meters,
            status: watch::Sender::new(session.status()),
            fit: RwLock::default(),
            misfits: watch::Sender::new(Vec::new()),
        });
        let (commands, queue) = queue::queue();
        let limits = Limits { message: config.max_message, backlog: config.max_backlog, group: config.group };
        let driver = Driver::new(session, config.dialer, queue, shared.clone(), limits, recorder);
        // One span covers the client's whole life. Messages have no spans of their own.
        let span = tracing::info_span!("ovsdb", %database);
        tokio::spawn(driver.run().instrument(span));
        Self { database, tables, shared, commands }
    }

    /// The database.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// Waits until the replica equals the server's content. A schema that does not fit is an error. The client waits through all other
    /// failures, because they may pass; [`Client::status`] shows the current one.
    pub async fn synced(&self) -> Result<Snapshot, OpenError> {
        let (mut status, mut misfits) = (self.shared.status.subscribe(), self.shared.misfits.subscribe());
        loop {
            if status.borrow_and_update().progress == Progress::Synced {
                return Ok(self.snapshot());
            }
            let misfit = misfits.borrow_and_update().clone();
            if !misfit.is_empty() {
                return Err(OpenError::Misfit(misfit));
            }
            tokio::select! {
                _ = status.changed() => {}
                _ = misfits.changed() => {}
                () = self.commands.closed() => return Err(OpenError::Closed),
            }
        }
    }

    /// Like [`Client::synced`], with a time limit. The error then contains the cause of the last failed attempt.
    pub async fn synced_within(&self, limit: Duration) -> Result<Snapshot, OpenError> {
        match tokio::time::timeout(limit, self.synced()).await {
            Ok(done) => done,
            Err(_) => Err(OpenError::Timeout {
                database: self.database.clone(),
                after: limit,
                last: self.shared.status.borrow().last_close.clone(),
            }),
        }
    }

    /// The newest snapshot of the database; empty before the first connection.
    pub fn snapshot(&self) -> Snapshot {
        self.shared.publisher.snapshot()
    }

    /// A feed of changes from now on.
    pub fn subscribe(&self) -> Feed {
        self.shared.publisher.subscribe(false)
    }

    /// A feed that begins with the existing rows as inserts, followed by changes.
    pub fn subscribe_all(&self) -> Feed {
        self.shared.publisher.subscribe(true)
    }

    /// Commits a transaction. When this returns, [`Client::snapshot`] has it.
    ///
    /// The client sends it at once, after earlier ones and without waiting for their replies. While not in sync, it returns
    /// [`CommitError::NotConnected`]. Dropping the future does not cancel the transaction.
    pub async fn commit(&self, txn: &Transaction) -> Result<Committed, CommitError> {
        self.start(txn, false).await?.await
    }

    /// Commits a transaction in a batch with other transactions that are committed this way at the same time: many small ones cost little
    /// more than one. Each gets its own outcome, and they take effect in the order of their calls. [`Group`](crate::txn::Group) describes
    /// the effect on checks that span a transaction.
    pub async fn commit_grouped(&self, txn: &Transaction) -> Result<Committed, CommitError> {
        self.start(txn, true).await?.await
    }

    /// Queues a transaction as [`Client::commit_grouped`] does, and returns before it is sent. So one task can have many in
    /// flight; they take effect in the order of the queue. Waits only while too many bytes are unsent.
    pub async fn enqueue(&self, txn: &Transaction) -> Result<Pending, CommitError> {
        self.start(txn, true).await
    }

    async fn start(&self, txn: &Transaction, grouped: bool) -> Result<Pending, CommitError> {
        let (database, operations, outcome) = (&*self.database, txn.len(), tracing::field::Empty);
        let span = tracing::debug_span!("commit", database, operations, grouped, outcome);
        match self.hand_over(txn, grouped).await {
            Ok(outcome) => Ok(Pending { outcome, span }),
            Err(error) => noted(&span, Err(error)),
        }
    }

    async fn hand_over(
        &self,
        txn: &Transaction,
        grouped: bool,
    ) -> Result<oneshot::Receiver<Result<Committed, CommitError>>, CommitError> {
        if let Some(wanted) = txn.database().filter(|wanted| *wanted != self.database) {
            let (wanted, have) = (wanted.into(), self.database.clone());
            return Err(CommitError::OtherDatabase { wanted, have });
        }
        let (reply, outcome) = oneshot::channel();
        if txn.is_empty() {
            let _ = reply.send(Ok(Committed::default()));
            return Ok(outcome);
        }
        let schema = self.shared.fitted().schema;
        let has = |schema: &DatabaseSchema, table: &str, column: &str| {
            schema.tables.get(table).is_some_and(|table| table.columns.contains_key(column))
        };
        let composed = txn.compose(|table, column| match &schema {
            Some(schema) => !has(schema, table, column),
            // Before the first connection nothing is sent.
            None => false,
        })?;
        let command = Command::Commit { composed, grouped, reply };
        self.commands.commit(command).await.map_err(|_| CommitError::Closed)?;
        Ok(outcome)
    }

    /// Decides and commits as one step. The closure reads through a view that records its reads. The writes are committed only if the rows
    /// that it read are unchanged; otherwise the closure runs again on a newer snapshot.
    ///
    /// The closure may run several times and must only read and write through the view. Its last value is returned with the outcome; an
    /// error of its own ends the attempt.
    pub async fn transact<V, E: From<CommitError>>(
        &self,
        mut decide: impl FnMut(&mut View) -> Result<V, E>,
    ) -> Result<V, E> {
        let mut tried = 0;
        loop {
            let snapshot = self.snapshot();
            let seq = snapshot.seq();
            let mut view = View::new(snapshot);
            let value = decide(&mut view)?;
            tried += 1;
            match self.commit(&view.into_transaction()).await {
                Ok(_) => return Ok(value),
                Err(CommitError::Conflict { .. }) if tried < TRIES => self.newer_than(seq, tried).await,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits for a newer snapshot. The wait is short, because the conflicting change may be outside of the monitored part.
    async fn newer_than(&self, seq: crate::replica::Seq, tried: u32) {
        let mut feed = self.subscribe();
        let newer = async { while feed.snapshot().seq() <= seq && feed.next().await.is_some() {} };
        let _ = tokio::time::timeout(view::patience(tried), newer).await;
    }

    /// Changes the condition of a table, and returns when the replica holds exactly the matching rows. A server that supports only
    /// `monitor` sends all rows regardless of the condition. Then the replica holds them all, and this returns at once.
    ///
    /// # Panics
    /// If the model does not contain the table.
    pub async fn set_condition<T: Table>(&self, condition: Condition<T>) -> Result<(), ConditionError> {
        self.set_condition_of(T::TABLE, condition.into()).await
    }

    /// Like [`Client::set_condition`], by the table's name.
    ///
    /// # Panics
    /// If the model does not contain the table.
    pub async fn set_condition_of(&self, table: &str, condition: AnyCondition) -> Result<(), ConditionError> {
        let known = self.tables.iter().any(|known| known == table);
        assert!(known, "the model of {} has no table {table}", self.database);
        let (reply, outcome) = oneshot::channel();
        let command = Command::Condition { table: table.into(), condition, reply };
        self.commands.tell(command).map_err(|_| ConditionError::Closed)?;
        outcome.await.unwrap_or(Err(ConditionError::Closed))
    }

    /// Requests a lock and waits in its queue; see [`Lock`].
    pub async fn lock(&self, name: &str) -> Lock {
        self.want(name, LockMode::Wait).await
    }

    /// Requests a lock, and steals it from its owner.
    pub async fn steal(&self, name: &str) -> Lock {
        self.want(name, LockMode::Steal).await
    }

    async fn want(&self, name: &str, mode: LockMode) -> Lock {
        let (state, receiver) = watch::channel(LockState::Waiting);
        let name = Str::from(name);
        // If the client is closed, the sender is dropped with the command, and the lock reports that.
        let _ = self.commands.tell(Command::Lock { name: name.clone(), mode, state });
        Lock::new(name, receiver, self.commands.downgrade())
    }

    /// The client's status, as a watch channel.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.shared.status.subscribe()
    }

    /// The result of comparing the model with the server's schema; empty before the first connection.
    pub fn fit(&self) -> Arc<Fit> {
        self.shared.fitted().fit
    }

    /// The schema of the current or last server; `None` before the first connection. The replica keeps only the parts that decoding needs;
    /// a writer may also need ranges and allowed values.
    pub fn schema(&self) -> Option<Arc<DatabaseSchema>> {
        self.shared.fitted().schema
    }

    /// The counts so far.
    pub fn metrics(&self) -> Metrics {
        self.shared.meters.read()
    }

    /// Replaces the remotes and the cluster that they require, if any.
    pub async fn set_remotes(&self, remotes: Remotes) {
        let _ = self.commands.tell(Command::Remotes(remotes));
    }

    /// Drops the connection and opens another one.
    pub async fn reconnect(&self) {
        let _ = self.commands.tell(Command::Reconnect);
    }

    /// Closes the client for all its copies, regardless of the server's state. Sent transactions without a reply become
    /// [`CommitError::Unknown`], waiting ones [`CommitError::Closed`].
    pub async fn close(&self) {
        if self.commands.tell(Command::Close).is_ok() {
            self.commands.closed().await;
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("snapshot", &self.snapshot()).finish_non_exhaustive()
    }
}
