//! A test rig for a session: the test is clock, network and server.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::model::{Condition, Str};
use crate::replica::Model;
use crate::session::*;

#[derive(Clone, Debug, Default, PartialEq, crate::Table)]
#[ovsdb(database = "d", table = "T")]
pub(super) struct Item {
    pub(super) name: Str,
    pub(super) n: i64,
    #[ovsdb(optional)]
    pub(super) note: Str,
}

pub(super) const NIL: &str = "00000000-0000-0000-0000-000000000000";
pub(super) const CLUSTER: &str = "c0000000-0000-4000-8000-000000000001";

/// The UUID of a numbered row or transaction, as a string.
pub(super) fn uuid(n: u64) -> String {
    uuid::Uuid::from_u128(u128::from(n)).to_string()
}

pub(super) fn schema_text() -> String {
    json!({"name": "d", "version": "1.0.0", "tables": {"T": {"columns": {
        "name": {"type": "string"}, "n": {"type": "integer"}}}}})
    .to_string()
}

pub(super) fn wider_schema_text() -> String {
    json!({"name": "d", "version": "1.1.0", "tables": {"T": {"columns": {
        "name": {"type": "string"}, "n": {"type": "integer"}, "note": {"type": "string"}}}}})
    .to_string()
}

/// A row of `_Server`, with something else than usual.
pub(super) fn row(other: Value) -> Value {
    let mut columns = json!({"name": "d", "model": "standalone", "connected": true, "leader": true,
        "schema": schema_text(), "_version": ["uuid", NIL]});
    columns.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
    json!({"Database": {uuid(1): {"initial": columns}}})
}

pub(super) fn member(leader: bool, index: u64) -> Value {
    row(json!({"model": "clustered", "leader": leader, "index": index, "cid": ["uuid", CLUSTER]}))
}

/// Rows as the first content has them.
pub(super) fn content(names: &[(u64, &str)]) -> Value {
    let rows: BTreeMap<_, _> =
        names.iter().map(|(n, name)| (uuid(*n), json!({"initial": {"name": name, "n": n}}))).collect();
    if rows.is_empty() { json!({}) } else { json!({"T": rows}) }
}

pub(super) fn inserted(n: u64, name: &str) -> Value {
    json!({"T": {uuid(n): {"insert": {"name": name, "n": n}}}})
}

pub(super) struct Rig {
    pub(super) session: Session,
    pub(super) now: Instant,
    /// Requests without an answer, oldest first: id, method, parameters.
    pub(super) requests: Vec<(u64, String, Value)>,
    /// Everything else that was sent.
    pub(super) others: Vec<Value>,
    /// Every action as a short string: `dial tcp:h:1`, `monitor_cond`, `close eof`.
    pub(super) actions: Vec<String>,
}

impl Rig {
    pub(super) fn new() -> Self {
        Self::with(1, |_| {})
    }

    /// With so many remotes and other settings.
    pub(super) fn with(remotes: u16, change: impl FnOnce(&mut SessionConfig)) -> Self {
        Self::modelled(remotes, change, Model::new("d").table::<Item>())
    }

    pub(super) fn modelled(remotes: u16, change: impl FnOnce(&mut SessionConfig), model: Model) -> Self {
        let remotes = (1..=remotes).map(|port| Remote::Tcp(Endpoint { host: "h".into(), port })).collect();
        let mut config = SessionConfig::new(remotes);
        config.shuffle = false;
        change(&mut config);
        let now = Instant::now();
        let mut rig = Self {
            session: Session::new(config, model, now, 1),
            now,
            requests: Vec::new(),
            others: Vec::new(),
            actions: Vec::new(),
        };
        rig.pump();
        rig
    }

    /// Takes the actions off the session.
    pub(super) fn pump(&mut self) {
        while let Some(action) = self.session.poll_action() {
            match action {
                Action::Dial(remote) => {
                    self.requests.clear();
                    self.actions.push(format!("dial {remote}"));
                }
                Action::Close(reason) => {
                    assert!(!reason.to_string().is_empty());
                    self.requests.clear();
                    self.actions.push(format!("close {}", reason.label()));
                }
                Action::Send(text) | Action::Transact(text) => {
                    let message: Value = serde_json::from_str(&text).unwrap();
                    match (message["id"].as_u64(), message["method"].as_str()) {
                        (Some(id), Some(method)) => {
                            self.actions.push(method.to_owned());
                            self.requests.push((id, method.to_owned(), message["params"].clone()));
                        }
                        _ => self.others.push(message),
                    }
                }
            }
        }
    }

    pub(super) fn take_actions(&mut self) -> Vec<String> {
        self.pump();
        std::mem::take(&mut self.actions)
    }

    /// All events as short strings.
    pub(super) fn events(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.session.poll_event()).map(|event| words(&event)).collect()
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now += time;
        self.session.handle_timeout(self.now);
        self.pump();
    }

    /// Advances the clock to the next timeout.
    pub(super) fn wait(&mut self) {
        if let Some(due) = self.session.next_timeout() {
            self.now = self.now.max(due);
        }
        self.session.handle_timeout(self.now);
        self.pump();
    }

    pub(super) fn open(&mut self) {
        self.session.handle_open(self.now);
        self.pump();
    }

    pub(super) fn closed(&mut self, why: CloseReason) {
        self.requests.clear();
        self.session.handle_close(self.now, why);
        self.pump();
    }

    pub(super) fn eof(&mut self) {
        self.closed(CloseReason::Eof);
    }

    pub(super) fn text(&mut self, text: &str) {
        // Lent or given away, which is all the same to a session.
        match text.len() % 2 {
            0 => self.session.handle_message(self.now, text.as_bytes()),
            _ => self.session.handle_message(self.now, text.as_bytes().to_vec()),
        }
        self.pump();
    }

    pub(super) fn say(&mut self, message: Value) {
        self.text(&message.to_string());
    }

    pub(super) fn notify(&mut self, method: &str, params: Value) {
        self.say(json!({"id": null, "method": method, "params": params}));
    }

    /// The oldest request of this method, taken.
    pub(super) fn take(&mut self, method: &str) -> (u64, Value) {
        let at = self.requests.iter().position(|(_, name, _)| name == method);
        let at = at.unwrap_or_else(|| panic!("no {method} in {:?}", self.requests));
        let (id, _, params) = self.requests.remove(at);
        (id, params)
    }

    /// Answers the oldest request of this method; its parameters.
    pub(super) fn answer(&mut self, method: &str, result: Value) -> Value {
        let (id, params) = self.take(method);
        self.say(json!({"id": id, "result": result, "error": null}));
        params
    }

    /// Answers the greeting with the server's row and the schema in it.
    pub(super) fn greet(&mut self, server: Value) -> Value {
        let row = &server["Database"][uuid(1)]["initial"];
        let schema = row["schema"].as_str().and_then(|text| serde_json::from_str(text).ok());
        let params = self.answer("monitor_cond", server);
        if let Some(schema) = schema
            && self.requests.iter().any(|(_, method, _)| method == "get_schema")
        {
            self.answer("get_schema", schema);
        }
        params
    }

    pub(super) fn refuse(&mut self, method: &str, error: Value) -> Value {
        let (id, params) = self.take(method);
        self.say(json!({"id": id, "error": error}));
        params
    }

    /// Opens and answers everything until it is in sync; the parameters of the monitor request.
    pub(super) fn sync(&mut self, server: Value, found: bool, last: u64, content: Value) -> Value {
        self.open();
        self.answer("set_db_change_aware", json!({}));
        self.greet(server);
        self.answer("monitor_cond_since", json!([found, uuid(last), content]))
    }

    /// In sync with a standalone server that has these rows.
    pub(super) fn synced(names: &[(u64, &str)]) -> Self {
        let mut rig = Self::new();
        rig.sync(row(json!({})), false, 0, content(names));
        assert!(rig.session.is_synced());
        rig.forget();
        rig
    }

    /// In sync with the leader of a cluster at index 10, after transaction 100.
    pub(super) fn clustered(
        remotes: u16,
        change: impl FnOnce(&mut SessionConfig),
        names: &[(u64, &str)],
    ) -> Self {
        let mut rig = Self::with(remotes, change);
        rig.sync(member(true, 10), false, 100, content(names));
        assert!(rig.session.is_synced());
        rig.forget();
        rig
    }

    /// Discards the events and actions so far.
    pub(super) fn forget(&mut self) {
        self.pump();
        self.events();
        self.actions.clear();
    }

    /// The name of the present monitor of the content.
    pub(super) fn monitor(&self) -> String {
        match &self.session.phase {
            Phase::Open(connection) => connection.content_monitor.clone(),
            _ => String::new(),
        }
    }

    pub(super) fn server_monitor(&self) -> String {
        match &self.session.phase {
            Phase::Open(connection) => connection.server_monitor.clone(),
            _ => String::new(),
        }
    }

    pub(super) fn update3(&mut self, last: u64, body: Value) {
        let params = json!([self.monitor(), uuid(last), body]);
        self.notify("update3", params);
    }

    pub(super) fn server_update(&mut self, columns: Value) {
        let params = json!([self.server_monitor(), {"Database": {uuid(1): {"modify": columns}}}]);
        self.notify("update2", params);
    }

    pub(super) fn names(&self) -> Vec<String> {
        let snapshot = self.session.snapshot();
        let mut names: Vec<_> =
            snapshot.table::<Item>().iter().map(|(_, row)| row.name.to_string()).collect();
        names.sort();
        names
    }

    pub(super) fn only(&mut self, n: i64) -> CondSeq {
        let condition = Condition::column(Item::N, crate::wire::clause::Function::Equal, &n);
        let seq = self.session.set_condition(self.now, "T", condition);
        self.pump();
        seq
    }
}

fn words(event: &Event) -> String {
    match event {
        Event::Connected { remote } => format!("connected {remote}"),
        Event::Fit(fit, _) => format!("fit {}", if fit.is_exact() { "exact" } else { "degraded" }),
        Event::Misfit(misfits) => format!("misfit {}", misfits.len()),
        Event::Changed(delta) => {
            let mut changes: Vec<_> = delta
                .table::<Item>()
                .map(|change| match (&change.before, &change.after) {
                    (None, Some(row)) => format!("+{}", row.name),
                    (Some(row), None) => format!("-{}", row.name),
                    (_, row) => format!("~{}", row.as_ref().map_or("", |row| row.name.as_str())),
                })
                .collect();
            changes.sort();
            format!("changed {}", changes.join(" "))
        }
        Event::Synced { how } => format!("synced {how:?}"),
        Event::Reply { txn, outcome } => match outcome {
            Reply::Result(result) => format!("reply {} {result}", txn.0),
            Reply::Error(error) => format!("reply {} error {error}", txn.0),
            Reply::NotSent => format!("reply {} not sent", txn.0),
            Reply::Lost => format!("reply {} lost", txn.0),
        },
        Event::Lock { name, held } => format!("lock {name} {held}"),
        Event::LockRefused { name, error } => format!("lock {name} refused: {error}"),
        Event::Condition { acked } => format!("condition {}", acked.0),
        Event::ConditionRefused { seq, error } => format!("condition {} refused: {error}", seq.0),
        Event::Down { reason, retry_in, .. } => {
            format!("down {} {}", reason.label(), if retry_in.is_zero() { "now" } else { "later" })
        }
    }
}
