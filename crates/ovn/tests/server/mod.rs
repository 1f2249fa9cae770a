//! Real ovsdb-servers with the schemas of every supported version, spoken to without the client's help.
// Each test takes what it needs.
#![allow(dead_code)]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ovn::target::{Database, SnapshotView, Tables};
use ovsdb::Transaction;
use ovsdb::replica::{Replica, UpdateVersion};
use ovsdb::txn::group::{Answer, Group, GroupLimits};
use ovsdb::txn::{CommitError, Committed};
use ovsdb::wire::schema::DatabaseSchema;
use reconcile::TargetError;
use serde_json::value::RawValue;
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

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("sock")
    }

    pub(crate) fn call(&mut self, method: &str, params: &str) -> Result<Value, Value> {
        let request = format!(r#"{{"method":"{method}","params":{params},"id":1}}"#);
        self.stream.write_all(request.as_bytes()).unwrap();
        loop {
            let message = self.read();
            // Updates and probes are not what is waited for.
            if message["id"] == json!(1) {
                return match &message["error"] {
                    Value::Null => Ok(message["result"].clone()),
                    error => Err(error.clone()),
                };
            }
        }
    }

    /// The next JSON text of the stream: it ends where it parses.
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

    /// Operations by hand, as somebody else would send them.
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
    schema: Arc<DatabaseSchema>,
    tables: Arc<Tables>,
    replica: Replica,
    monitors: u64,
}

impl Server {
    pub(crate) fn start(version: &str) -> Self {
        let name = format!("ovn-nb-{version}");
        let process = Process::start(&name);
        let schema = DatabaseSchema::parse(&std::fs::read_to_string(schema_file(&name)).unwrap()).unwrap();
        let tables = Tables::northbound();
        let mut replica = Replica::new(tables.model(None));
        replica.fit(&schema).unwrap();
        Server { process, schema: Arc::new(schema), tables: Arc::new(tables), replica, monitors: 0 }
    }

    /// Operations by hand, as somebody else would send them.
    pub(crate) fn transact(&mut self, ops: &str) -> Result<Vec<Value>, String> {
        self.process.transact(NORTHBOUND, ops)
    }
}

impl Database for Server {
    async fn observe(&mut self) -> Result<SnapshotView, TargetError> {
        let requests: serde_json::Map<String, Value> = self
            .replica
            .monitored()
            .into_iter()
            .map(|table| (table.table.to_string(), json!([{ "columns": table.columns }])))
            .collect();
        self.monitors += 1;
        let id = format!("m{}", self.monitors);
        let reply =
            self.process.call("monitor_cond", &json!([NORTHBOUND, id, requests]).to_string()).unwrap();
        self.process.call("monitor_cancel", &json!([id]).to_string()).unwrap();
        let body = RawValue::from_string(reply.to_string()).unwrap();
        self.replica.reload(UpdateVersion::V2, &body).unwrap();
        Ok(SnapshotView::new(self.replica.snapshot(), Arc::clone(&self.schema), Arc::clone(&self.tables)))
    }

    async fn commit(&mut self, txn: Transaction) -> Result<Committed, CommitError> {
        // The client's own queue makes the request and reads the answer.
        let mut group = Group::new(GroupLimits { ops: usize::MAX, bytes: usize::MAX });
        group.push((), txn.compose(|_| Default::default())?);
        let batch = group.next_batch().expect("one transaction waits");
        let ops = batch.strip_prefix('[').and_then(|batch| batch.strip_suffix(']')).expect("an array");
        let result = self.process.call("transact", &format!(r#"["{NORTHBOUND}",{ops}]"#)).unwrap();
        let results = RawValue::from_string(result.to_string()).unwrap();
        let (_, settled) = group.answer(Answer::Result(&results)).pop().expect("it is settled");
        settled
    }
}
