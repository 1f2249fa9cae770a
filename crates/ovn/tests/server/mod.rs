//! Real ovsdb-servers with the schemas of every supported version. Tests use them through the client, and directly as other
//! programs would.
// Each test uses a part of this module.
#![allow(dead_code)]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ovn::target::{ClientDatabase, Database, SnapshotView, Tables};
use ovsdb::{Client, ClientConfig, CommitError, Committed, Transaction};
use reconcile::TargetError;
use serde_json::{Value, json};

const NORTHBOUND: &str = "OVN_Northbound";

/// A server process and one connection to it.
pub(crate) struct Process {
    child: Child,
    stream: UnixStream,
    dir: tempfile::TempDir,
}

impl Process {
    /// With the schema of `testdata/schema/<name>.json`.
    pub(crate) fn start(name: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (db, socket) = (dir.path().join("db"), dir.path().join("sock"));
        let made = Command::new("ovsdb-tool")
            .arg("create")
            .arg(&db)
            .arg(schema_file(name))
            .status()
            .expect("run ovsdb-tool");
        assert!(made.success(), "ovsdb-tool create of {name}");
        let child = Command::new("ovsdb-server")
            .arg("--no-chdir")
            .arg(format!("--unixctl={}", dir.path().join("ctl").display()))
            .arg(format!("--remote=punix:{}", socket.display()))
            .arg(&db)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("run ovsdb-server");
        let limit = Instant::now() + Duration::from_secs(30);
        let stream = loop {
            match UnixStream::connect(&socket) {
                Ok(stream) => break stream,
                Err(error) => assert!(Instant::now() < limit, "connect to ovsdb-server: {error}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Process { child, stream, dir }
    }

    /// Makes the server the backup of a server that does not exist.
    pub(crate) fn become_backup(&self) {
        for words in [&["set-active-ovsdb-server", "unix:/nowhere"][..], &["connect-active-ovsdb-server"]] {
            let told = Command::new("ovs-appctl")
                .arg("-t")
                .arg(self.dir.path().join("ctl"))
                .arg(format!("ovsdb-server/{}", words[0]))
                .args(&words[1..])
                .stdout(Stdio::null())
                .status()
                .expect("run ovs-appctl");
            assert!(told.success(), "{words:?}");
        }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("sock")
    }

    pub(crate) fn call(&mut self, method: &str, params: &str) -> Result<Value, Value> {
        let request = format!(r#"{{"method":"{method}","params":{params},"id":1}}"#);
        self.stream.write_all(request.as_bytes()).unwrap();
        loop {
            let message = self.read();
            // Updates and probes are skipped.
            if message["id"] == json!(1) {
                return match &message["error"] {
                    Value::Null => Ok(message["result"].clone()),
                    error => Err(error.clone()),
                };
            }
        }
    }

    /// Reads the next JSON text of the stream, byte by byte until it parses.
    fn read(&mut self) -> Value {
        let mut text = Vec::new();
        let mut byte = [0];
        loop {
            self.stream.read_exact(&mut byte).unwrap();
            text.push(byte[0]);
            if byte[0] == b'}'
                && let Ok(value) = serde_json::from_slice(&text)
            {
                return value;
            }
        }
    }

    /// Sends operations directly, as another program would.
    pub(crate) fn transact(&mut self, database: &str, ops: &str) -> Result<Vec<Value>, String> {
        let params = format!(r#"["{database}",{ops}]"#);
        let result = self.call("transact", &params).map_err(|error| error.to_string())?;
        let results = result.as_array().cloned().unwrap_or_default();
        match results.iter().find(|result| !result["error"].is_null()) {
            Some(failed) => Err(format!("{}: {}", failed["error"], failed["details"])),
            None => Ok(results),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn schema_file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("testdata/schema/{name}.json"))
}

/// A Northbound that a target writes to.
pub(crate) struct Server {
    process: Process,
    database: ClientDatabase,
}

impl Server {
    pub(crate) fn start(version: &str) -> Self {
        let process = Process::start(&format!("ovn-nb-{version}"));
        let remotes = format!("unix:{}", process.socket().display()).parse().unwrap();
        let database = ClientDatabase::open(ClientConfig::new(remotes), Tables::northbound(), None);
        Server { process, database }
    }

    /// Makes the server a backup, which accepts no changes.
    pub(crate) fn become_backup(&self) {
        self.process.become_backup();
    }

    pub(crate) fn client(&self) -> Client {
        self.database.client().clone()
    }

    /// Sends operations directly, as another program would.
    pub(crate) fn transact(&mut self, ops: &str) -> Result<Vec<Value>, String> {
        self.process.transact(NORTHBOUND, ops)
    }
}

impl Database for Server {
    async fn observe(&mut self) -> Result<SnapshotView, TargetError> {
        self.database.observe().await?;
        // The server sends the changes of other clients before the reply, so afterwards the replica contains them.
        let mut nothing = Transaction::new();
        nothing.comment("are you there?");
        self.database.commit(nothing).await.expect("commit nothing");
        self.database.observe().await
    }

    async fn commit(&mut self, txn: Transaction) -> Result<Committed, CommitError> {
        self.database.commit(txn).await
    }
}
