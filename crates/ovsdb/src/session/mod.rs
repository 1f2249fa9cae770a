//! The protocol with a server as a pure state machine: no sockets, no clock, no tasks.
//!
//! The driver, which moves the bytes, reports events and the time to a [`Session`], and performs its actions:
//!
//! ```text
//!   bytes, time                              actions: Dial, Send, Close
//!   handle_open / _message / _close   +---------+   poll_action
//!   handle_activity / _timeout  ----->| Session |----->
//!   submit, set_condition, lock       +---------+   poll_event
//!                                     | replica |   events: Changed, Synced, Reply, Lock, Down ...
//!                                     +---------+
//! ```
//!
//! After each call the driver polls until both queues are empty, and sleeps until `next_timeout` or the next byte.
//!
//! ```text
//!            timeout            handle_open
//!  Waiting ----------> Dialing -------------> Greeting: set_db_change_aware, monitor_cond of _Server, get_schema
//!     ^                   |                      |   \
//!     |                   |              row says|    \ refused: a server from before OVS 2.9
//!     |                   |              we may  |     \
//!     |  fails, or too    |              stay    v      v
//!     |  late             |                   Reading the schema
//!     |                   |                      |  it fits
//!     +-------------------+                      v
//!     |                                       Loading: monitor_cond_since -> monitor_cond -> monitor
//!     |                                          |            ^
//!     |   closed, silent, garbage, refused,      | content    | schema changed (Greeting again, if monitors were
//!     +<-- not leader, stale, misfit ... ---- Synced ---------+ canceled), or an update did not fit: reload in place
//! ```
//!
//! Rules:
//! - **It never gives up.** After any failure the session tries the next remote; after a round over all of them there is a
//!   delay, exponential and with jitter. The reason is in [`Event::Down`] and [`Session::status`].
//! - **The replica outlives connections.** A new connection resumes or reloads. A reload is a comparison, and only true changes
//!   are published. The order of events is described at [`Event`].
//! - **Nothing is queued.** [`Session::submit`] while not in sync answers [`Reply::NotSent`] at once: only the author of a
//!   transaction knows whether it still makes sense later.
//! - **Every transaction gets one reply**, [`Reply::Lost`] if the connection broke after it was sent.
//! - **No bytes can hurt.** A malformed message closes the connection with a reason.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod attempt;
mod backoff;
mod cluster;
mod config;
mod content;
mod event;
mod handshake;
mod inbox;
mod lock;
mod monitor;
mod probe;
mod remote;
mod status;

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use serde::Serialize;
use uuid::Uuid;

pub use cluster::{Refusal, ServerRow, StorageModel};
pub use config::SessionConfig;
pub(crate) use event::with_causes;
pub use event::{Action, CloseReason, Event, Reply, SyncKind, TxnId};
pub use lock::LockMode;
pub use monitor::{CondSeq, Method};
pub use remote::{DEFAULT_PORT, Endpoint, Remote, RemoteError, Remotes};
pub use status::{Counters, Progress, ServerStatus, Status};

use crate::model::{AnyCondition, Misfit, Str};
use crate::replica::{Model, MonitoredTable, Replica, Snapshot};
use crate::wire::message;
use backoff::{Backoff, Random};
use cluster::Watermark;
use handshake::{Connection, Stage};
use lock::Locks;
use monitor::Conditions;
use probe::Check;
use remote::Rotation;

/// Keeps a replica of one database in sync with any of its servers.
#[derive(Debug)]
pub struct Session {
    config: SessionConfig,
    database: Str,
    replica: Replica,
    /// The shape of the replica's last content: its tables and columns.
    shape: Option<Vec<MonitoredTable>>,
    /// The transaction up to which the replica is complete, if the server provides such ids.
    last_id: Option<Uuid>,
    conditions: Conditions,
    locks: Locks,
    watermark: Watermark,
    rotation: Rotation,
    backoff: Backoff,
    random: Random,
    phase: Phase,
    since: Instant,
    next_id: u64,
    /// Requests without a reply, on this connection.
    pending: BTreeMap<u64, Pending>,
    /// The number of open requests that are transactions.
    outstanding: usize,
    actions: VecDeque<QueuedRequest>,
    events: VecDeque<Event>,
    misfits: Vec<Misfit>,
    last_close: Option<CloseReason>,
    counters: Counters,
}

#[derive(Debug)]
enum Phase {
    Waiting { until: Instant },
    Dialing { deadline: Option<Instant> },
    Open(Box<Connection>),
}

/// The purpose of a request.
#[derive(Debug, PartialEq, Eq)]
enum Pending {
    Server,
    Schema,
    Content {
        resume: bool,
    },
    Conditions,
    Lock {
        name: Str,
        epoch: u64,
    },
    Transaction,
    /// A request whose reply does not matter.
    Formality,
}

/// An action, and the transaction that it carries.
#[derive(Debug)]
struct QueuedRequest {
    action: Action,
    txn: Option<TxnId>,
}

impl Session {
    /// Creates a session that begins to connect at once. The seed spreads clients: give each a different one.
    pub fn new(config: SessionConfig, model: Model, now: Instant, seed: u64) -> Self {
        let database = Str::from(model.database());
        let conditions =
            Conditions::new(model.tables().map(|(table, condition)| (table.clone(), condition.clone())));
        let mut session = Self {
            database,
            conditions,
            replica: Replica::new(model),
            shape: None,
            last_id: None,
            locks: Locks::default(),
            watermark: Watermark::default(),
            rotation: Rotation::new(config.remotes.clone(), config.shuffle),
            backoff: Backoff::new(config.backoff_min, config.backoff_max),
            random: Random::new(seed),
            phase: Phase::Waiting { until: now },
            since: now,
            next_id: 0,
            pending: BTreeMap::new(),
            outstanding: 0,
            actions: VecDeque::new(),
            events: VecDeque::new(),
            misfits: Vec::new(),
            last_close: None,
            counters: Counters::default(),
            config,
        };
        session.rotation.begin_round(&mut session.random);
        if !session.dial(now) {
            session.rest(now, CloseReason::NoRemotes, None);
        }
        session
    }

    /// The requested connection is open.
    pub fn handle_open(&mut self, now: Instant) {
        if !matches!(self.phase, Phase::Dialing { .. }) || self.dial_queued() {
            tracing::debug!("ignored a connection that the session did not request");
            return;
        }
        self.counters.connections += 1;
        if let Some(remote) = self.rotation.current().cloned() {
            self.events.push_back(Event::Connected { remote });
        }
        self.enter(now, Phase::Open(Box::new(Connection::new(&self.config, now))));
        self.greet(now);
    }

    /// The connection ended, or failed. Not called for connections that an [`Action::Close`] ended.
    pub fn handle_close(&mut self, now: Instant, why: CloseReason) {
        match self.phase {
            Phase::Waiting { .. } => {}
            Phase::Dialing { .. } if self.dial_queued() => {}
            Phase::Dialing { .. } | Phase::Open(_) => self.end(now, why, false),
        }
    }

    /// Bytes of an incomplete message arrived.
    pub fn handle_activity(&mut self, now: Instant) {
        if let Phase::Open(connection) = &mut self.phase {
            connection.probe.alive(now);
        }
    }

    /// Handles a complete JSON text. If the caller gives up ownership, the memory of a large message is freed while it is decoded.
    pub fn handle_message<'a>(&mut self, now: Instant, text: impl Into<Cow<'a, [u8]>>) {
        let Phase::Open(connection) = &mut self.phase else { return };
        connection.probe.alive(now);
        self.counters.received += 1;
        let received = match text.into() {
            Cow::Borrowed(text) => self.receive(now, text),
            Cow::Owned(text) => self.receive_owned(now, text),
        };
        if let Err(reason) = received {
            self.close(now, reason);
        }
    }

    /// The time of `next_timeout` has come. A call that is early or unnecessary does no harm.
    pub fn handle_timeout(&mut self, now: Instant) {
        match &mut self.phase {
            Phase::Waiting { until } if now >= *until => {
                if !self.dial(now) {
                    self.rest(now, CloseReason::NoRemotes, None);
                }
            }
            Phase::Dialing { deadline: Some(deadline) } if now >= *deadline => {
                self.close(now, CloseReason::DialTimeout(self.config.connect_timeout));
            }
            Phase::Open(connection) => match connection.probe.check(now, connection.awaiting()) {
                Check::Fine => {}
                Check::SendProbe => {
                    self.counters.probes += 1;
                    self.request("echo", &[(); 0], Pending::Formality);
                }
                Check::Dead { silent_for } => self.close(now, CloseReason::Silent(silent_for)),
            },
            Phase::Waiting { .. } | Phase::Dialing { .. } => {}
        }
    }

    /// The time of the next `handle_timeout`. `None` only while a connection is open and probes are off.
    pub fn next_timeout(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Waiting { until } => Some(*until),
            Phase::Dialing { deadline } => *deadline,
            Phase::Open(connection) => connection.probe.next(connection.awaiting()),
        }
    }

    /// Sends a transaction: a JSON array of operations, without the database's name. Its one reply is an event. The array is sent
    /// unchanged; a string that is no array is not sent.
    pub fn submit(&mut self, _now: Instant, operations: String) -> TxnId {
        let operations = operations.trim();
        let inner = operations.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).map(str::trim);
        let (Some(inner), true) = (inner, self.is_synced()) else {
            self.next_id += 1;
            let txn = TxnId(self.next_id);
            self.events.push_back(Event::Reply { txn, outcome: Reply::NotSent });
            return txn;
        };
        self.next_id += 1;
        let txn = TxnId(self.next_id);
        // The string is spliced, because operations are large and already JSON.
        let database = serde_json::Value::from(self.database.as_str());
        let comma = if inner.is_empty() { "" } else { "," };
        let text = format!(r#"{{"id":{},"method":"transact","params":[{database}{comma}{inner}]}}"#, txn.0);
        self.pending.insert(txn.0, Pending::Transaction);
        self.outstanding += 1;
        self.counters.transactions += 1;
        self.counters.sent += 1;
        self.actions.push_back(QueuedRequest { action: Action::Transact(text), txn: Some(txn) });
        txn
    }

    /// Sets another condition for a table of the model. It is in force when [`Event::Condition`] reports this number or a greater one, or
    /// [`Status::conditions`] already does. Servers that support only `monitor` send every row regardless of the condition; there it counts
    /// as in force at once.
    ///
    /// # Panics
    /// If the model has no such table.
    pub fn set_condition(
        &mut self,
        _now: Instant,
        table: &str,
        condition: impl Into<AnyCondition>,
    ) -> CondSeq {
        let condition = condition.into();
        let seq = self.conditions.set(table, condition);
        self.send_conditions();
        seq.unwrap_or_else(|| panic!("table {table} is not in the model of {}", self.database))
    }

    /// Requests a lock, on this connection and all later ones. [`Event::Lock`] reports when it is ours. If it is already
    /// requested, the mode may change to stealing; otherwise nothing changes.
    pub fn lock(&mut self, _now: Instant, name: &str, mode: LockMode) {
        self.locks.want(name, mode);
        self.send_locks();
    }

    /// Releases a lock.
    pub fn unlock(&mut self, _now: Instant, name: &str) {
        let Some((asked, held)) = self.locks.drop(name) else { return };
        if asked && matches!(self.phase, Phase::Open(_)) {
            self.request("unlock", &[name], Pending::Formality);
        }
        if held {
            self.events.push_back(Event::Lock { name: name.into(), held: false });
        }
    }

    /// Replaces the remotes and the required cluster. A connection to a remote that stays in the list stays, too, unless the
    /// required cluster changed.
    pub fn set_remotes(&mut self, now: Instant, remotes: Remotes) {
        let same_cluster = self.config.cluster_id == remotes.cluster_id;
        self.config.cluster_id = remotes.cluster_id;
        let kept = self.rotation.replace(remotes.list) && same_cluster;
        self.rotation.begin_round(&mut self.random);
        match self.phase {
            Phase::Waiting { .. } => {
                if !self.dial(now) {
                    self.rest(now, CloseReason::NoRemotes, None);
                }
            }
            _ if kept => {}
            _ => self.close(now, CloseReason::RemotesChanged),
        }
    }

    /// Drops the connection and opens another one, preferably to another remote.
    pub fn reconnect(&mut self, now: Instant) {
        match self.phase {
            Phase::Waiting { .. } => {
                if !self.dial(now) {
                    self.rest(now, CloseReason::NoRemotes, None);
                }
            }
            _ => self.close(now, CloseReason::Asked),
        }
    }

    /// The next action for the driver.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front().map(|queued| queued.action)
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The current snapshot of the replica. It includes events that were not polled yet.
    pub fn snapshot(&self) -> Snapshot {
        self.replica.snapshot()
    }

    /// Whether a submitted transaction would be sent now.
    pub fn is_synced(&self) -> bool {
        matches!(&self.phase, Phase::Open(connection) if connection.stage == Stage::Synced)
    }

    /// The status of the session.
    pub fn status(&self) -> Status {
        let connection = match &self.phase {
            Phase::Open(connection) => Some(connection),
            _ => None,
        };
        Status {
            progress: match &self.phase {
                Phase::Waiting { .. } => Progress::Waiting,
                Phase::Dialing { .. } => Progress::Dialing,
                Phase::Open(connection) => connection.stage.progress(),
            },
            since: self.since,
            remote: self.rotation.current().cloned(),
            server: connection.and_then(|c| c.server(&self.database, self.config.cluster_id)),
            method: connection.filter(|c| c.stage == Stage::Synced).map(|c| c.method),
            conditions: self.conditions.acked(),
            locks: self.locks.held().cloned().collect(),
            outstanding: self.outstanding,
            min_index: self.watermark.index(),
            failed_rounds: self.backoff.failures(),
            last_close: self.last_close.clone(),
            counters: self.counters,
        }
    }

    /// Enters a phase.
    fn enter(&mut self, now: Instant, phase: Phase) {
        self.phase = phase;
        self.since = now;
    }

    /// Sends a request; its reply is awaited.
    fn request(&mut self, method: &str, params: &impl Serialize, what: Pending) {
        self.next_id += 1;
        self.pending.insert(self.next_id, what);
        let text = message::request(self.next_id, method, params);
        self.send(text);
    }

    fn send(&mut self, text: String) {
        self.counters.sent += 1;
        self.actions.push_back(QueuedRequest { action: Action::Send(text), txn: None });
    }
}

#[cfg(test)]
mod tests;
