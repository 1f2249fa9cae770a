//! The server without its sockets: databases, connections, and the messages that one message causes.
//!
//! Pure: messages and the time go in, messages come out. `request` has the methods of the protocol.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use uuid::Uuid;

use super::execute::{Outcome, Setting};
use super::lock::Locks;
use super::monitor::Monitor;
use super::refusal::Refusal;
use super::server_db::{self, Model, StorageState};
use super::store::{Change, Database};
use crate::model::Str;
use crate::wire::message::{self, Message};
use crate::wire::schema::SchemaError;

/// A connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Peer(pub(super) u64);

/// An action on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Out {
    /// The answer to a request.
    Reply(String),
    /// A notification, or a request of the server's.
    Notify {
        /// The method of the message.
        method: &'static str,
        /// The whole message.
        text: String,
    },
    /// The connection ends.
    Close,
}

/// The server's state of a connection.
#[derive(Debug, Default)]
pub(super) struct Session {
    pub(super) monitors: Vec<Monitor>,
    /// Whether the client has sent `set_db_change_aware`, so it understands `monitor_canceled`.
    pub(super) change_aware: bool,
    /// The number of unanswered echo requests.
    pub(super) echoes: u64,
}

/// A transaction that waits for something.
#[derive(Debug)]
struct Waiting {
    peer: Peer,
    id: Box<RawValue>,
    database: Str,
    ops: Vec<Value>,
    since_ms: u64,
    until_ms: Option<u64>,
}

/// The server.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) databases: BTreeMap<Str, Database>,
    pub(super) id: Uuid,
    pub(super) locks: Locks,
    pub(super) sessions: BTreeMap<Peer, Session>,
    pub(super) standing: StorageState,
    waiting: Vec<Waiting>,
    pub(super) last_peer: u64,
    pub(super) out: Vec<(Peer, Out)>,
    /// The connections to close once everything else has been sent.
    pub(super) closing: Vec<Peer>,
    /// Whether the `_Server` database must be updated. That happens after replies.
    pub(super) outdated: bool,
}

impl Host {
    /// A server with empty databases; one without the `_Server` database is an old one.
    pub(super) fn new(schemas: Vec<Value>, model: Model, old: bool) -> Result<Self, SchemaError> {
        let standing = StorageState { model, connected: true, leader: model != Model::Relay, index: 1 };
        let mut host = Self {
            databases: BTreeMap::new(),
            id: Uuid::new_v4(),
            locks: Locks::default(),
            sessions: BTreeMap::new(),
            standing,
            waiting: Vec::new(),
            last_peer: 0,
            out: Vec::new(),
            closing: Vec::new(),
            outdated: false,
        };
        for schema in schemas.into_iter().chain((!old).then(server_db::schema)) {
            let db = Database::new(schema, model != Model::Standalone)?;
            host.databases.insert(db.name.clone(), db);
        }
        // The server's own tables do not outlive it, so clients cannot resume them.
        if let Some(own) = host.databases.get_mut(server_db::NAME) {
            own.remembers = false;
        }
        host.describe();
        Ok(host)
    }

    /// The actions, in order.
    pub(super) fn drain(&mut self) -> Vec<(Peer, Out)> {
        if std::mem::take(&mut self.outdated) {
            self.describe();
        }
        let closing = std::mem::take(&mut self.closing);
        self.out.extend(closing.into_iter().map(|peer| (peer, Out::Close)));
        std::mem::take(&mut self.out)
    }

    /// Registers a new connection.
    pub(super) fn open(&mut self) -> Peer {
        self.last_peer += 1;
        let peer = Peer(self.last_peer);
        self.sessions.insert(peer, Session::default());
        peer
    }

    /// Handles the end of a connection.
    pub(super) fn closed(&mut self, peer: Peer) {
        self.sessions.remove(&peer);
        self.waiting.retain(|waiting| waiting.peer != peer);
        for (owner, name) in self.locks.leave(peer) {
            self.notify(owner, "locked", &json!([name]));
        }
    }

    /// Ends a connection.
    pub(super) fn close(&mut self, peer: Peer) {
        self.out.push((peer, Out::Close));
    }

    pub(super) fn notify(&mut self, peer: Peer, method: &'static str, params: &Value) {
        let text = message::notification(method, params);
        self.out.push((peer, Out::Notify { method, text }));
    }

    pub(super) fn reply(&mut self, peer: Peer, id: &RawValue, answer: Result<Value, Value>) {
        let text = match answer {
            Ok(result) => message::reply(id, &result),
            // The reply has no `result`, as the real server's.
            Err(error) => json!({"id": id, "error": error}).to_string(),
        };
        self.out.push((peer, Out::Reply(text)));
    }

    /// Sends an echo request to a connection.
    pub(super) fn echo(&mut self, peer: Peer) {
        let Some(session) = self.sessions.get_mut(&peer) else { return };
        session.echoes += 1;
        let text = json!({"id": "echo", "method": "echo", "params": []}).to_string();
        self.out.push((peer, Out::Notify { method: "echo", text }));
    }

    /// Handles a message.
    pub(super) fn receive(&mut self, peer: Peer, text: &[u8], now_ms: u64) {
        match Message::parse(text) {
            Ok(Message::Request { id, method, params }) => match serde_json::from_str(params.get()) {
                Ok(Value::Array(params)) => self.request(peer, id, &method, params, now_ms),
                _ => self.close(peer),
            },
            Ok(Message::Notification { method, params }) => match serde_json::from_str(params.get()) {
                Ok(Value::Array(params)) => {
                    if let ("cancel", [id]) = (&*method, params.as_slice()) {
                        self.cancel(peer, id);
                    }
                }
                _ => self.close(peer),
            },
            Ok(Message::Reply { id, .. } | Message::Error { id, .. }) => {
                let session = self.sessions.get_mut(&peer).filter(|session| session.echoes > 0);
                match session.filter(|_| id.get() == "\"echo\"") {
                    Some(session) => session.echoes -= 1,
                    None => self.close(peer),
                }
            }
            Err(_) => self.close(peer),
        }
    }

    fn cancel(&mut self, peer: Peer, id: &Value) {
        let mine = |waiting: &Waiting| {
            waiting.peer == peer && serde_json::from_str::<Value>(waiting.id.get()).is_ok_and(|w| w == *id)
        };
        if let Some(at) = self.waiting.iter().position(mine) {
            let waiting = self.waiting.remove(at);
            self.reply(peer, &waiting.id, Err("canceled".into()));
        }
    }

    /// Runs a connection's transaction at once, or keeps it until it can run.
    pub(super) fn submit(&mut self, peer: Peer, id: &RawValue, database: Str, ops: Vec<Value>, now_ms: u64) {
        if self.waiting.iter().any(|w| w.peer == peer && w.id.get() == id.get()) {
            return self.reply(peer, id, Err("duplicate request ID".into()));
        }
        let waiting = Waiting { peer, id: id.to_owned(), database, ops, since_ms: now_ms, until_ms: None };
        let progress = self.attempt(waiting, now_ms);
        if progress {
            self.retry(now_ms);
        }
    }

    /// Runs a waiting transaction again. Returns whether it changed something.
    fn attempt(&mut self, mut waiting: Waiting, now_ms: u64) -> bool {
        let setting = Setting {
            locks: self.locks.owned(waiting.peer),
            elapsed_ms: now_ms.saturating_sub(waiting.since_ms),
        };
        // Without a leader, transactions are not rejected but wait for one.
        let held = !self.standing.connected && waiting.database != server_db::NAME;
        let outcome = match self.databases.get_mut(&waiting.database) {
            Some(db) if !held => db.transact(&waiting.ops, &setting),
            _ => Outcome::Blocked { until_ms: None },
        };
        match outcome {
            Outcome::Done { results, changes } => {
                self.publish(&waiting.database, &changes);
                self.reply(waiting.peer, &waiting.id, Ok(results));
                !changes.is_empty()
            }
            Outcome::Blocked { until_ms } => {
                waiting.until_ms = until_ms.map(|until| waiting.since_ms.saturating_add(until));
                self.waiting.push(waiting);
                false
            }
        }
    }

    /// Runs the waiting transactions again until none of them makes progress.
    fn retry(&mut self, now_ms: u64) {
        loop {
            let mut progress = false;
            for waiting in std::mem::take(&mut self.waiting) {
                progress |= self.attempt(waiting, now_ms);
            }
            if !progress {
                return;
            }
        }
    }

    /// Advances the time: transactions that waited too long get their reply.
    pub(super) fn tick(&mut self, now_ms: u64) {
        self.retry(now_ms);
    }

    /// The time at which `tick` has work to do.
    pub(super) fn next_tick(&self) -> Option<u64> {
        self.waiting.iter().filter_map(|waiting| waiting.until_ms).min()
    }

    /// Sends a change to every monitor.
    pub(super) fn publish(&mut self, database: &str, changes: &[Change]) {
        if changes.is_empty() {
            return;
        }
        self.tell(database, changes);
        if database != server_db::NAME && matches!(self.standing.model, Model::Clustered { .. }) {
            self.standing.index = self.standing.index.saturating_add(1);
            self.outdated = true;
        }
    }

    pub(super) fn tell(&mut self, database: &str, changes: &[Change]) {
        let Some(db) = self.databases.get(database) else { return };
        for (peer, session) in &self.sessions {
            for monitor in session.monitors.iter().filter(|monitor| monitor.database == database) {
                if let Some((method, params)) = monitor.update(db, changes) {
                    let text = message::notification(method, &params);
                    self.out.push((*peer, Out::Notify { method, text }));
                }
            }
        }
    }

    /// Updates the `_Server` database.
    pub(super) fn describe(&mut self) {
        let Some(mut own) = self.databases.remove(server_db::NAME) else { return };
        let plain = StorageState { model: Model::Standalone, connected: true, leader: true, index: 0 };
        let schema = own.schema.clone();
        let mut changes = server_db::describe(&mut own, server_db::NAME, &schema, &plain);
        for (name, db) in &self.databases {
            changes.extend(server_db::describe(&mut own, name, &db.schema, &self.standing));
        }
        self.databases.insert(server_db::NAME.into(), own);
        self.tell(server_db::NAME, &changes);
    }

    /// Changes the server's own status row.
    pub(super) fn stand(&mut self, now_ms: u64, change: impl FnOnce(&mut StorageState)) {
        change(&mut self.standing);
        let remembers = self.standing.model != Model::Standalone;
        for (_, db) in self.databases.iter_mut().filter(|(name, _)| *name != server_db::NAME) {
            db.remembers = remembers;
        }
        self.describe();
        self.retry(now_ms);
    }

    /// Runs a transaction of the test itself.
    pub(super) fn transact(&mut self, database: &str, ops: &[Value], now_ms: u64) -> Value {
        let Some(db) = self.databases.get_mut(database) else { return Value::Null };
        match db.transact(ops, &Setting::default()) {
            Outcome::Done { results, changes } => {
                self.publish(database, &changes);
                if !changes.is_empty() {
                    self.retry(now_ms);
                }
                results
            }
            Outcome::Blocked { .. } => {
                json!([
                    Refusal::new("timed out", "a wait does not hold, and this way nothing waits").to_json()
                ])
            }
        }
    }
}
