//! The session against real ovsdb-servers: what the other tests assume of them is so.

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
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap_or_else(|error| {
        panic!("cannot run {program}: {error}; it comes with openvswitch-common and openvswitch-switch")
    });
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Server {
    fn start(clustered: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name).display().to_string();
        std::fs::write(at("schema"), schema_text()).unwrap();
        match clustered {
            true => {
                let raft = format!("unix:{}", at("raft"));
                run("ovsdb-tool", &["create-cluster", &at("db"), &at("schema"), &raft]);
            }
            false => run("ovsdb-tool", &["create", &at("db"), &at("schema")]),
        }
        let process = Command::new("ovsdb-server")
            .arg(format!("--remote=punix:{}", at("socket")))
            .arg(format!("--unixctl={}", at("ctl")))
            .arg("--no-chdir")
            .arg(at("db"))
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { process, directory }
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
    /// What happened, newest last.
    events: Vec<Event>,
}

impl Driver {
    fn new(socket: &Path) -> Self {
        let config = SessionConfig::new(vec![Remote::Unix(socket.to_owned())]);
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
                        let reason = CloseReason::Dial(error.to_string());
                        self.session.handle_close(Instant::now(), reason);
                    }
                },
                Action::Dial(other) => panic!("not configured: {other}"),
                Action::Send(text) => {
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
                    Err(error) => closed = Some(CloseReason::Io(error.to_string())),
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

    /// Commits, and says whether the change was told before the reply.
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
    let server = Server::start(false);
    let mut driver = Driver::new(&server.socket());
    assert_eq!(driver.synced(), SyncKind::Fresh);
    assert_eq!(driver.session.status().method, Some(Method::CondSince));
    assert_eq!(driver.session.status().server.unwrap().model, StorageModel::Standalone);
    assert!(driver.insert("a", 1), "the update comes before the reply");
    assert!(driver.insert("b", 2));
    assert_eq!(driver.names(), ["a", "b"]);

    let only = Condition::column::<Item>(Item::N, Function::Equal, &1i64);
    let seq = driver.session.set_condition(Instant::now(), "T", only);
    driver.until("condition", |event| matches!(event, Event::Condition { acked } if *acked == seq));
    assert_eq!(driver.names(), ["a"]);
    let bad = Condition::Any(vec![crate::wire::clause::Clause::new(
        "no",
        Function::Equal,
        crate::wire::atom::Atom::from(1),
    )]);
    driver.session.set_condition(Instant::now(), "T", bad);
    driver.until("refusal", |event| matches!(event, Event::ConditionRefused { .. }));
    let none = driver.session.set_condition(Instant::now(), "T", Condition::Any(vec![]));
    driver.until("condition", |event| matches!(event, Event::Condition { acked } if *acked == none));
    assert_eq!(driver.names(), [""; 0], "no clause is no row");
    let all = driver.session.set_condition(Instant::now(), "T", Condition::All);
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
    let server = Server::start(true);
    let mut driver = Driver::new(&server.socket());
    assert_eq!(driver.synced(), SyncKind::Fresh);
    assert!(driver.insert("a", 1));
    let status = driver.session.status();
    assert_eq!(status.server.unwrap().model, StorageModel::Clustered);
    assert!(status.min_index > 0);

    driver.session.reconnect(Instant::now());
    assert_eq!(driver.synced(), SyncKind::Resumed);
    let mut other = Driver::new(&server.socket());
    other.synced();
    // One leaves, the other writes, the one comes back: only that is sent.
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
    let server = Server::start(false);
    let (mut a, mut b) = (Driver::new(&server.socket()), Driver::new(&server.socket()));
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
