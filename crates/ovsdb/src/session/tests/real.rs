//! The session against real ovsdb-servers: checks the assumptions of the other tests about them.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::rig::{Item, schema_text, wider_schema_text};
use crate::model::Condition;
use crate::replica::Model;
use crate::session::*;
use crate::wire::clause::Function;
use crate::wire::frame::FrameSplitter;

/// Longer than any healthy machine needs.
const LIMIT: Duration = Duration::from_secs(60);

struct Server {
    process: Child,
    directory: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap_or_else(|error| {
        panic!("cannot run {program}: {error}; it comes with openvswitch-common and openvswitch-switch")
    });
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

impl Server {
    /// In a directory of its own; the file is made first.
    fn start(make: impl FnOnce(&Path, &Path)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let schema = directory.path().join("schema");
        std::fs::write(&schema, schema_text()).unwrap();
        make(directory.path(), &schema);
        let process = Self::spawn(directory.path(), &text(&directory.path().join("db")));
        Self { process, directory }
    }

    fn standalone() -> Self {
        Self::start(|at, schema| run("ovsdb-tool", &["create", &text(&at.join("db")), &text(schema)]))
    }

    /// The first member of a cluster.
    fn member() -> Self {
        Self::start(|at, schema| {
            let raft = format!("unix:{}", text(&at.join("raft")));
            run("ovsdb-tool", &["create-cluster", &text(&at.join("db")), &text(schema), &raft]);
        })
    }

    /// Another member.
    fn joining(first: &Self) -> Self {
        let other = format!("unix:{}", text(&first.directory.path().join("raft")));
        Self::start(|at, _| {
            let raft = format!("unix:{}", text(&at.join("raft")));
            run("ovsdb-tool", &["join-cluster", &text(&at.join("db")), "d", &raft, &other]);
        })
    }

    fn relay(source: &Self) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let process = Self::spawn(directory.path(), &format!("relay:d:unix:{}", text(&source.socket())));
        Self { process, directory }
    }

    fn spawn(at: &Path, database: &str) -> Child {
        Command::new("ovsdb-server")
            .arg(format!("--remote=punix:{}", text(&at.join("socket"))))
            .arg(format!("--unixctl={}", text(&at.join("ctl"))))
            .arg("--no-chdir")
            .arg(database)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn stop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    fn restart(&mut self) {
        self.process = Self::spawn(self.directory.path(), &text(&self.directory.path().join("db")));
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    fn convert(&self, schema: &str) {
        let path = self.directory.path().join("other");
        std::fs::write(&path, schema).unwrap();
        let remote = format!("unix:{}", self.socket().display());
        run("ovsdb-client", &["convert", &remote, &path.display().to_string()]);
    }
}

/// The least driver that works.
struct Driver {
    session: Session,
    stream: Option<(UnixStream, FrameSplitter)>,
    /// The events, newest last.
    events: Vec<Event>,
}

impl Driver {
    fn new(servers: &[&Server]) -> Self {
        Self::with(servers, true)
    }

    fn with(servers: &[&Server], leader_only: bool) -> Self {
        let mut config =
            SessionConfig::new(servers.iter().map(|server| Remote::Unix(server.socket())).collect());
        config.leader_only = leader_only;
        let session = Session::new(config, Model::new("d").table::<Item>(), Instant::now(), 7);
        Self { session, stream: None, events: Vec::new() }
    }

    fn turn(&mut self) {
        while let Some(action) = self.session.poll_action() {
            match action {
                Action::Dial(Remote::Unix(path)) => match UnixStream::connect(path) {
                    Ok(stream) => {
                        stream.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
                        self.stream = Some((stream, FrameSplitter::new(1 << 24)));
                        self.session.handle_open(Instant::now());
                    }
                    Err(error) => {
                        let reason = CloseReason::Dial(error.to_string().into());
                        self.session.handle_close(Instant::now(), reason);
                    }
                },
                Action::Dial(other) => panic!("not configured: {other}"),
                Action::Send(text) | Action::Transact(text) => {
                    if let Some((stream, _)) = &mut self.stream {
                        stream.write_all(text.as_bytes()).unwrap();
                    }
                }
                Action::Close(_) => self.stream = None,
            }
        }
        let mut closed = None;
        match &mut self.stream {
            None => std::thread::sleep(Duration::from_millis(10)),
            Some((stream, splitter)) => {
                let mut buffer = [0; 1 << 16];
                match stream.read(&mut buffer) {
                    Ok(0) => closed = Some(CloseReason::Eof),
                    Ok(n) => splitter.push(&buffer[..n]),
                    Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                    Err(error) => closed = Some(CloseReason::Io(error.to_string().into())),
                }
                while let Some(frame) = splitter.next_frame().unwrap() {
                    self.session.handle_message(Instant::now(), frame);
                }
            }
        }
        if let Some(reason) = closed {
            self.stream = None;
            self.session.handle_close(Instant::now(), reason);
        }
        self.session.handle_timeout(Instant::now());
        self.events.extend(std::iter::from_fn(|| self.session.poll_event()));
    }

    /// Runs until something happened; all that happened up to then is taken.
    fn until(&mut self, what: &str, found: impl Fn(&Event) -> bool) -> Vec<Event> {
        let begin = Instant::now();
        loop {
            if let Some(at) = self.events.iter().position(&found) {
                return self.events.drain(..=at).collect();
            }
            assert!(begin.elapsed() < LIMIT, "no {what}: {:?}", self.session.status());
            self.turn();
        }
    }

    fn synced(&mut self) -> SyncKind {
        let events = self.until("sync", |event| matches!(event, Event::Synced { .. }));
        match events.last() {
            Some(Event::Synced { how }) => *how,
            other => unreachable!("{other:?}"),
        }
    }

    /// Commits; returns whether the change was reported before the reply.
    fn insert(&mut self, name: &str, n: i64) -> bool {
        let operation = format!(r#"[{{"op":"insert","table":"T","row":{{"name":"{name}","n":{n}}}}}]"#);
        let wanted = self.session.submit(Instant::now(), operation);
        let events = self.until("reply", |event| matches!(event, Event::Reply { txn, .. } if *txn == wanted));
        assert!(
            matches!(events.last(), Some(Event::Reply { outcome: Reply::Result(result), .. }) if result.get().contains("uuid")),
            "{events:?}"
        );
        events.iter().any(|event| matches!(event, Event::Changed(_)))
    }

    fn names(&self) -> Vec<String> {
        let snapshot = self.session.snapshot();
        let mut names: Vec<_> =
            snapshot.table::<Item>().iter().map(|(_, row)| row.name.to_string()).collect();
        names.sort();
        names
    }
}

#[test]
fn a_standalone_server() {
    let server = Server::standalone();
    let mut driver = Driver::new(&[&server]);
    assert_eq!(driver.synced(), SyncKind::Fresh);
    assert_eq!(driver.session.status().method, Some(Method::CondSince));
    assert_eq!(driver.session.status().server.unwrap().model, StorageModel::Standalone);
    assert!(driver.insert("a", 1), "the update comes before the reply");
    assert!(driver.insert("b", 2));
    assert_eq!(driver.names(), ["a", "b"]);

    let only = Condition::column(Item::N, Function::Equal, &1i64);
    let seq = driver.session.set_condition(Instant::now(), "T", only);
    driver.until("condition", |event| matches!(event, Event::Condition { acked } if *acked == seq));
    assert_eq!(driver.names(), ["a"]);
    let bad = AnyCondition::Any(vec![crate::wire::clause::Clause::new(
        "no",
        Function::Equal,
        crate::wire::atom::Atom::from(1),
    )]);
    driver.session.set_condition(Instant::now(), "T", bad);
    driver.until("refusal", |event| matches!(event, Event::ConditionRefused { .. }));
    let none = driver.session.set_condition(Instant::now(), "T", AnyCondition::Any(vec![]));
    driver.until("condition", |event| matches!(event, Event::Condition { acked } if *acked == none));
    assert_eq!(driver.names(), [""; 0], "no clause is no row");
    let all = driver.session.set_condition(Instant::now(), "T", AnyCondition::All);
    driver.until("condition", |event| matches!(event, Event::Condition { acked } if *acked == all));
    assert_eq!(driver.names(), ["a", "b"]);

    // A conversion, on the same connection.
    server.convert(&wider_schema_text());
    assert_eq!(driver.synced(), SyncKind::Reloaded);
    assert_eq!(driver.names(), ["a", "b"]);
    assert_eq!(driver.session.status().counters.connections, 1);
    assert!(driver.session.snapshot().fit::<Item>().is_exact());

    // A new connection: everything is sent again, nothing has changed.
    driver.session.reconnect(Instant::now());
    let events = driver.until("sync", |event| matches!(event, Event::Synced { how: SyncKind::Reloaded }));
    assert!(!events.iter().any(|event| matches!(event, Event::Changed(_))), "{events:?}");
}

#[test]
fn a_member_of_a_cluster() {
    let server = Server::member();
    let mut driver = Driver::new(&[&server]);
    assert_eq!(driver.synced(), SyncKind::Fresh);
    assert!(driver.insert("a", 1));
    let status = driver.session.status();
    assert_eq!(status.server.unwrap().model, StorageModel::Clustered);
    assert!(status.min_index > 0);

    driver.session.reconnect(Instant::now());
    assert_eq!(driver.synced(), SyncKind::Resumed);
    let mut other = Driver::new(&[&server]);
    other.synced();
    // While one client is disconnected, another one writes. After the reconnect only that change is sent.
    driver.session.reconnect(Instant::now());
    assert!(other.insert("b", 2));
    assert_eq!(driver.synced(), SyncKind::Resumed);
    assert_eq!(driver.names(), ["a", "b"]);

    server.convert(&wider_schema_text());
    assert_eq!(driver.synced(), SyncKind::Reloaded);
    assert!(driver.session.snapshot().fit::<Item>().is_exact());
    assert!(driver.insert("c", 3));
}

#[test]
fn locks_between_two() {
    let server = Server::standalone();
    let (mut a, mut b) = (Driver::new(&[&server]), Driver::new(&[&server]));
    let (now, held) = (
        Instant::now(),
        |held| move |event: &Event| matches!(event, Event::Lock { held: h, .. } if *h == held),
    );
    a.synced();
    b.synced();
    a.session.lock(now, "l", LockMode::Wait);
    a.until("lock", held(true));
    b.session.lock(now, "l", LockMode::Steal);
    b.until("lock", held(true));
    a.until("theft", held(false));
    b.session.unlock(now, "l");
    b.turn();
    a.until("lock given back", held(true));
    b.session.lock(now, "l", LockMode::Wait);
    b.turn();
    a.session.reconnect(Instant::now());
    a.turn();
    b.until("lock of one who left", held(true));
}

#[test]
fn a_relay() {
    let mut source = Server::standalone();
    let relay = Server::relay(&source);
    let mut driver = Driver::new(&[&relay]);
    driver.synced();
    assert_eq!(driver.session.status().server.unwrap().model, StorageModel::Relay);
    assert!(driver.insert("a", 1), "also through a relay the update comes before the reply");
    // The relay's source stops and returns. A relay reports that only after half a minute, and keeps our transactions.
    let connections = driver.session.status().counters.connections;
    source.stop();
    source.restart();
    assert!(driver.insert("b", 2));
    assert_eq!(driver.names(), ["a", "b"]);
    assert_eq!(driver.session.status().counters.connections, connections);
}

#[test]
fn a_cluster_whose_leader_dies() {
    let first = Server::member();
    let mut members = [Server::joining(&first), Server::joining(&first), first];
    let mut driver = Driver::new(&members.iter().collect::<Vec<_>>());
    driver.synced();
    let mut expected = Vec::new();
    for n in 0..10 {
        assert!(driver.insert(&format!("row{n}"), n));
        expected.push(format!("row{n}"));
    }
    for member in &members {
        Driver::with(&[member], false).synced();
    }
    let leader = driver.session.status().remote.unwrap();
    let at = members.iter().position(|member| Remote::Unix(member.socket()) == leader).unwrap();
    let seq = driver.session.snapshot().seq();
    members[at].stop();
    driver.until("loss", |event| matches!(event, Event::Down { .. }));
    assert_eq!(driver.synced(), SyncKind::Resumed);
    assert_eq!(driver.session.snapshot().seq(), seq, "nothing was repeated");
    assert_ne!(driver.session.status().remote.unwrap(), leader);
    assert!(driver.insert("row-after", 99));
    expected.push("row-after".into());
    expected.sort();
    assert_eq!(driver.names(), expected);
    assert_eq!(driver.session.status().counters.loads, 1);
}
