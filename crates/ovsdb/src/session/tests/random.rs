//! Random interleavings against a small model of a server. In all of them nothing panics or stalls, each transaction gets one
//! reply, a lock is alternately reported as held and lost, and once the server behaves, the replica equals the server's
//! content.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::rig::*;
use crate::model::AnyCondition;
use crate::session::*;

/// Rows by number, each with its column `n`.
type Rows = BTreeMap<u64, i64>;

/// The conditions for `n` that the server refuses.
const NONSENSE: i64 = 3;

/// A server with history: all members of its cluster at once.
#[derive(Debug, Default)]
struct Server {
    /// Every state that ever was, with the id of the transaction that led to it; the last one is now.
    history: Vec<(u64, Rows)>,
    wide: bool,
    /// The schema that its row has: after a conversion the old one, for a while.
    row_wide: bool,
    leader: bool,
    /// The newest method it knows.
    method: u8,
    /// Whether the server keeps history, as members of a cluster do.
    resumes: bool,
    wire: Wire,
}

/// One connection from the server's view.
#[derive(Debug, Default)]
struct Wire {
    outbox: VecDeque<Value>,
    server_monitor: Option<Value>,
    /// Its name, its method, and the `n` of the rows it wants, if not all.
    monitor: Option<(Value, u8, Option<i64>)>,
}

impl Server {
    fn now(&self) -> &(u64, Rows) {
        self.history.last().unwrap()
    }

    fn seen(rows: &Rows, only: Option<i64>) -> Rows {
        rows.iter().filter(|(_, n)| only.is_none_or(|only| only == **n)).map(|(k, n)| (*k, *n)).collect()
    }

    fn id(&self, id: u64) -> String {
        if self.resumes { uuid(id) } else { NIL.to_owned() }
    }

    /// The update from one view to another, in the format of a method.
    fn difference(method: u8, from: &Rows, to: &Rows) -> Value {
        let mut changes = serde_json::Map::new();
        for (row, n) in to {
            let new = json!({"name": row.to_string(), "n": n});
            match (from.get(row), method) {
                (None, 1) => drop(changes.insert(uuid(*row), json!({"new": new}))),
                (None, _) => drop(changes.insert(uuid(*row), json!({"insert": new}))),
                (Some(old), 1) if old != n => {
                    changes.insert(uuid(*row), json!({"old": {"n": old}, "new": new}));
                }
                (Some(old), _) if old != n => drop(changes.insert(uuid(*row), json!({"modify": {"n": n}}))),
                _ => {}
            }
        }
        for (row, n) in from.iter().filter(|(row, _)| !to.contains_key(row)) {
            let old = json!({"old": {"name": row.to_string(), "n": n}});
            changes.insert(uuid(*row), if method == 1 { old } else { json!({"delete": null}) });
        }
        if changes.is_empty() { json!({}) } else { json!({"T": changes}) }
    }

    /// Sends the monitor the difference between two views.
    fn tell(&mut self, from: &Rows, to: &Rows) {
        let Some((name, method, _)) = self.wire.monitor.clone() else { return };
        let body = Self::difference(method, from, to);
        if body != json!({}) {
            let (word, params) = match method {
                1 => ("update", json!([name, body])),
                2 => ("update2", json!([name, body])),
                _ => ("update3", json!([name, self.id(self.now().0), body])),
            };
            self.wire.outbox.push_back(json!({"id": null, "method": word, "params": params}));
        }
    }

    fn commit(&mut self, row: u64, n: Option<i64>) {
        let (id, before) = self.now().clone();
        let mut after = before.clone();
        match n {
            Some(n) => drop(after.insert(row, n)),
            None => drop(after.remove(&row)),
        }
        self.history.push((id + 1, after.clone()));
        let only = self.wire.monitor.as_ref().and_then(|(_, _, only)| *only);
        self.tell(&Self::seen(&before, only), &Self::seen(&after, only));
        self.status(json!({"index": self.now().0}));
    }

    fn status(&mut self, columns: Value) {
        if let Some(name) = &self.wire.server_monitor {
            let params = json!([name, {"Database": {uuid(1): {"modify": columns}}}]);
            self.wire.outbox.push_back(json!({"id": null, "method": "update2", "params": params}));
        }
    }

    fn schema(wide: bool) -> String {
        if wide { wider_schema_text() } else { schema_text() }
    }

    /// The row catches up with a conversion.
    fn catch_up(&mut self) {
        if self.row_wide != self.wide {
            self.row_wide = self.wide;
            self.status(json!({"schema": Self::schema(self.wide)}));
        }
    }

    fn convert(&mut self) {
        self.wide = !self.wide;
        if let Some((name, ..)) = self.wire.monitor.take() {
            self.wire.outbox.push_back(json!({"id": null, "method": "monitor_canceled", "params": [name]}));
        }
        // A conversion drops the history that clients could resume from.
        let (id, rows) = self.now().clone();
        self.history = vec![(id + 1000, rows)];
    }

    fn lead(&mut self, leader: bool) {
        self.leader = leader;
        self.status(json!({"leader": leader}));
    }

    /// Takes one request.
    fn serve(&mut self, id: u64, method: &str, params: &Value) {
        let only = |ask: &Value| ask["where"][0][2].as_i64();
        let result = match method {
            "monitor_cond" if params[0] == "_Server" => {
                self.wire.server_monitor = Some(params[1].clone());
                Ok(row(json!({"model": "clustered", "leader": self.leader, "cid": ["uuid", CLUSTER],
                    "index": self.now().0, "schema": Self::schema(self.row_wide)})))
            }
            "monitor" | "monitor_cond" | "monitor_cond_since" => {
                let version = [("monitor", 1), ("monitor_cond", 2), ("monitor_cond_since", 3)]
                    .into_iter()
                    .find_map(|(name, version)| (name == method).then_some(version))
                    .unwrap();
                let only = only(&params[2]["T"][0]);
                if version > self.method {
                    Err(json!("unknown method"))
                } else if only == Some(NONSENSE) {
                    Err(json!({"error": "syntax error"}))
                } else {
                    self.wire.monitor = Some((params[1].clone(), version, only));
                    let now = Self::seen(&self.now().1, only);
                    let known =
                        self.history.iter().find(|(id, _)| self.resumes && params[3] == uuid(*id).as_str());
                    let (found, from) = match known {
                        Some((_, rows)) => (true, Self::seen(rows, only)),
                        None => (false, Rows::new()),
                    };
                    let body = Self::difference(version, &from, &now);
                    Ok(if version == 3 { json!([found, self.id(self.now().0), body]) } else { body })
                }
            }
            "monitor_cond_change" => match self.wire.monitor.clone() {
                None => Err(json!({"error": "unknown monitor session"})),
                Some(_) if only(&params[2]["T"][0]) == Some(NONSENSE) => {
                    Err(json!({"error": "syntax error"}))
                }
                Some((name, version, old)) => {
                    let new = only(&params[2]["T"][0]);
                    self.wire.monitor = Some((name, version, new));
                    let rows = self.now().1.clone();
                    self.tell(&Self::seen(&rows, old), &Self::seen(&rows, new));
                    Ok(json!({}))
                }
            },
            "monitor_cancel" => {
                if self.wire.monitor.as_ref().is_some_and(|(name, ..)| *name == params[0]) {
                    self.wire.monitor = None;
                }
                if self.wire.server_monitor.as_ref() == Some(&params[0]) {
                    self.wire.server_monitor = None;
                }
                Ok(json!({}))
            }
            "transact" => {
                let op = &params[1];
                self.commit(op["row"].as_u64().unwrap(), op["n"].as_i64());
                Ok(json!([{}]))
            }
            "lock" | "steal" => Ok(json!({"locked": params[0] == "mine"})),
            "echo" => Ok(params.clone()),
            "get_schema" => Ok(serde_json::from_str(&Self::schema(self.wide)).unwrap()),
            "unlock" | "set_db_change_aware" => Ok(json!({})),
            other => panic!("the session asks for {other}"),
        };
        self.wire.outbox.push_back(match result {
            Ok(result) => json!({"id": id, "result": result, "error": null}),
            Err(error) => json!({"id": id, "error": error}),
        });
    }
}

#[derive(Clone, Debug)]
enum Step {
    Open,
    DialFails,
    Eof,
    Serve,
    Deliver,
    Commit(u64, Option<i64>),
    Lead(bool),
    Convert,
    CatchUp,
    Submit(u64, Option<i64>),
    Only(i64),
    Everything,
    Lock(bool),
    Unlock(bool),
    Timeout,
    Pass(u64),
    Activity,
    Garbage,
    Stray,
    Cancel,
    Reconnect,
}

fn step() -> impl Strategy<Value = Step> {
    let change = || (0u64..6, proptest::option::weighted(0.8, 0i64..3));
    prop_oneof![
        8 => Just(Step::Open),
        1 => Just(Step::DialFails),
        1 => Just(Step::Eof),
        16 => Just(Step::Serve),
        24 => Just(Step::Deliver),
        4 => change().prop_map(|(row, n)| Step::Commit(row, n)),
        1 => any::<bool>().prop_map(Step::Lead),
        1 => Just(Step::Convert),
        2 => Just(Step::CatchUp),
        6 => change().prop_map(|(row, n)| Step::Submit(row, n)),
        2 => (0..=NONSENSE).prop_map(Step::Only),
        1 => Just(Step::Everything),
        1 => any::<bool>().prop_map(Step::Lock),
        1 => any::<bool>().prop_map(Step::Unlock),
        4 => Just(Step::Timeout),
        4 => (0u64..4000).prop_map(Step::Pass),
        1 => Just(Step::Activity),
        1 => Just(Step::Garbage),
        1 => Just(Step::Stray),
        1 => Just(Step::Cancel),
        1 => Just(Step::Reconnect),
    ]
}

struct World {
    rig: Rig,
    server: Server,
    submitted: Vec<TxnId>,
    replied: Vec<TxnId>,
    held: BTreeMap<String, bool>,
    connections: u64,
    asked: CondSeq,
    only: Option<i64>,
}

impl World {
    fn new(method: u8, resumes: bool, remotes: u16) -> Self {
        let server =
            Server { history: vec![(100, Rows::new())], leader: true, method, resumes, ..Server::default() };
        let rig = Rig::with(remotes, |_| {});
        Self {
            rig,
            server,
            submitted: vec![],
            replied: vec![],
            held: BTreeMap::new(),
            connections: 0,
            asked: CondSeq(0),
            only: None,
        }
    }

    fn lock_name(mine: bool) -> &'static str {
        if mine { "mine" } else { "theirs" }
    }

    fn act(&mut self, step: &Step) {
        let open = matches!(self.rig.session.phase, Phase::Open(_));
        match step {
            Step::Open if !open => self.rig.open(),
            Step::DialFails if !open => self.rig.closed(CloseReason::Dial("no".into())),
            Step::Eof if open => self.rig.eof(),
            Step::Serve if !self.rig.requests.is_empty() => {
                let (id, method, params) = self.rig.requests.remove(0);
                self.server.serve(id, &method, &params);
            }
            Step::Deliver => {
                if let Some(message) = self.server.wire.outbox.pop_front() {
                    self.rig.say(message);
                }
            }
            Step::Commit(row, n) => self.server.commit(*row, *n),
            Step::Lead(leader) => self.server.lead(*leader),
            Step::Convert => self.server.convert(),
            Step::CatchUp => self.server.catch_up(),
            Step::Submit(row, n) => {
                let op = json!([{"row": row, "n": n}]).to_string();
                self.submitted.push(self.rig.session.submit(self.rig.now, op));
            }
            Step::Only(n) => (self.only, self.asked) = (Some(*n), self.rig.only(*n)),
            Step::Everything => {
                self.only = None;
                self.asked = self.rig.session.set_condition(self.rig.now, "T", AnyCondition::All);
            }
            Step::Lock(mine) => self.rig.session.lock(self.rig.now, Self::lock_name(*mine), LockMode::Steal),
            Step::Unlock(mine) => self.rig.session.unlock(self.rig.now, Self::lock_name(*mine)),
            Step::Timeout => self.rig.wait(),
            Step::Pass(millis) => self.rig.pass(Duration::from_millis(*millis)),
            Step::Activity => self.rig.session.handle_activity(self.rig.now),
            Step::Garbage if open => self.rig.text("}{"),
            Step::Stray => self.rig.say(json!({"id": 4_000_000, "result": {}, "error": null})),
            Step::Cancel => {
                if let Some((name, ..)) = self.server.wire.monitor.take() {
                    let canceled = json!({"id": null, "method": "monitor_canceled", "params": [name]});
                    self.server.wire.outbox.push_back(canceled);
                }
            }
            Step::Reconnect => self.rig.session.reconnect(self.rig.now),
            _ => {}
        }
        self.settle();
    }

    /// The invariants after every step.
    fn settle(&mut self) {
        self.rig.pump();
        // The server's end of a connection lives no longer than ours.
        let connections = self.rig.session.status().counters.connections;
        let open = matches!(self.rig.session.phase, Phase::Open(_));
        if connections != self.connections || !open {
            self.connections = connections;
            self.server.wire = Wire::default();
        }
        assert!(open || self.rig.session.next_timeout().is_some(), "stalled");
        while let Some(event) = self.rig.session.poll_event() {
            match event {
                Event::Reply { txn, .. } => {
                    assert!(self.submitted.contains(&txn) && !self.replied.contains(&txn), "{txn:?}");
                    self.replied.push(txn);
                }
                Event::Lock { name, held } => {
                    assert_ne!(self.held.insert(name.to_string(), held).unwrap_or(false), held, "{name}");
                }
                _ => {}
            }
        }
        let outstanding = self.rig.session.status().outstanding;
        assert_eq!(outstanding, self.submitted.len() - self.replied.len());
    }

    /// The server behaves from now on.
    fn heal(&mut self) {
        self.server.lead(true);
        self.server.catch_up();
        for _ in 0..2000 {
            self.act(&Step::Deliver);
            if !self.server.wire.outbox.is_empty() {
                continue;
            }
            if !self.rig.requests.is_empty() {
                self.act(&Step::Serve);
            } else if self.rig.session.is_synced() {
                return;
            } else if self.rig.session.status().progress == Progress::Dialing {
                self.act(&Step::Open);
            } else {
                self.act(&Step::Timeout);
            }
        }
        panic!("not in sync: {:?}", self.rig.session.status());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_the_session_recovers(
        method in 1u8..=3,
        resumes: bool,
        remotes in 1u16..4,
        steps in proptest::collection::vec(step(), 0..160),
    ) {
        let mut world = World::new(method, resumes, remotes);
        for step in &steps {
            world.act(step);
        }
        world.heal();
        let only = world.server.wire.monitor.as_ref().and_then(|(_, _, only)| *only);
        let expected = Server::seen(&world.server.now().1, only);
        let snapshot = world.rig.session.snapshot();
        let held: Rows = snapshot
            .table::<Item>()
            .iter()
            .map(|(_, item)| (item.name.parse().unwrap(), item.n))
            .collect();
        prop_assert_eq!(held, expected);
        let status = world.rig.session.status();
        prop_assert!(status.conditions >= world.asked);
        prop_assert_ne!(only, Some(NONSENSE));
        let refused = world.only == Some(NONSENSE);
        prop_assert!(method == 1 || refused || only == world.only, "the last condition is in force");
        world.rig.eof();
        world.settle();
        world.submitted.sort();
        world.replied.sort();
        prop_assert_eq!(&world.submitted, &world.replied);
        prop_assert!(world.held.values().all(|held| !held));
    }

    #[test]
    fn no_bytes_can_hurt(
        synced: bool,
        messages in proptest::collection::vec(prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..60),
            "\\{\"(id|method|params|result|error)\":(null|1|[0-9]{1,3}|\"[a-z0-9]{0,6}\"|\\[.{0,12}\\]|\\{.{0,12}\\})(,\"(id|method|params|result|error)\":(null|1|2|3|4|\"update3?\"|\"locked\"|\\[\"content-[0-9]\",.{0,12}\\])){0,3}\\}"
                .prop_map(String::into_bytes),
        ], 0..20),
    ) {
        let mut rig = if synced { Rig::synced(&[(1, "a")]) } else { Rig::new() };
        for message in messages {
            if !matches!(rig.session.phase, Phase::Open(_)) {
                rig.open();
            }
            match message.len() % 2 {
                0 => rig.session.handle_message(rig.now, &message),
                _ => rig.session.handle_message(rig.now, message),
            }
            rig.pump();
            rig.events();
        }
    }

    /// Our own kinds of message with other parameters: the decoders behind the envelope.
    #[test]
    fn no_parameters_can_hurt(
        kind in 0usize..6,
        json in "(\\[|\\{|\"|,|:|\\]|\\}|null|1|true|\"T\"|\"Database\"|\"insert\"|\"initial\"){0,14}",
    ) {
        let mut rig = if kind < 2 { Rig::new() } else { Rig::synced(&[(1, "a")]) };
        rig.open();
        let text = match kind {
            0 => format!(r#"{{"id":{},"result":{json},"error":null}}"#, rig.take("monitor_cond").0),
            1 => {
                rig.greet(row(json!({})));
                format!(r#"{{"id":{},"result":{json},"error":null}}"#, rig.take("monitor_cond_since").0)
            }
            2 => format!(r#"{{"id":null,"method":"update3","params":["{}","{NIL}",{json}]}}"#, rig.monitor()),
            3 => format!(r#"{{"id":null,"method":"update2","params":["{}",{json}]}}"#, rig.server_monitor()),
            4 => format!(r#"{{"id":null,"method":"update3","params":{json}}}"#),
            _ => format!(r#"{{"id":null,"method":"monitor_canceled","params":{json}}}"#),
        };
        rig.text(&text);
    }
}
