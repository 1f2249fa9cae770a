//! A real ovsdb-server with a Northbound of some version, spoken to without the client's help.

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

const DATABASE: &str = "OVN_Northbound";

pub(crate) struct Server {
    process: Child,
    stream: UnixStream,
    schema: Arc<DatabaseSchema>,
    tables: Arc<Tables>,
    replica: Replica,
    monitors: u64,
    _dir: tempfile::TempDir,
}

impl Server {
    pub(crate) fn start(version: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let schema =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("testdata/schema/ovn-nb-{version}.json"));
        let (db, socket) = (dir.path().join("nb.db"), dir.path().join("nb.sock"));
        let made =
            Command::new("ovsdb-tool").arg("create").arg(&db).arg(&schema).status().expect("run ovsdb-tool");
        assert!(made.success(), "ovsdb-tool create of {version}");
        let process = Command::new("ovsdb-server")
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
        let schema = DatabaseSchema::parse(&std::fs::read_to_string(schema).unwrap()).unwrap();
        let tables = Tables::northbound();
        let mut replica = Replica::new(tables.model(None));
        replica.fit(&schema).unwrap();
        let (schema, tables) = (Arc::new(schema), Arc::new(tables));
        Server { process, stream, schema, tables, replica, monitors: 0, _dir: dir }
    }

    fn call(&mut self, method: &str, params: &str) -> Result<Value, Value> {
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

    /// The next JSON text of the stream: there is at most one reply outstanding, so it ends where it parses.
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
    pub(crate) fn transact(&mut self, ops: &str) -> Result<Vec<Value>, String> {
        let params = format!(r#"["{DATABASE}",{ops}]"#);
        let result = self.call("transact", &params).map_err(|error| error.to_string())?;
        let results = result.as_array().cloned().unwrap_or_default();
        match results.iter().find(|result| !result["error"].is_null()) {
            Some(failed) => Err(format!("{}: {}", failed["error"], failed["details"])),
            None => Ok(results),
        }
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
        let reply = self.call("monitor_cond", &json!([DATABASE, id, requests]).to_string()).unwrap();
        self.call("monitor_cancel", &json!([id]).to_string()).unwrap();
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
        let result = self.call("transact", &format!(r#"["{DATABASE}",{ops}]"#)).unwrap();
        let results = RawValue::from_string(result.to_string()).unwrap();
        let (_, settled) = group.answer(Answer::Result(&results)).pop().expect("it is settled");
        settled
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
