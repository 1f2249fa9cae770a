//! A real ovsdb-server and the fake, side by side: both get the same messages, and their replies are normalised and compared.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ovsdb::Uuid;
use ovsdb::fake::{Model, Server};
use ovsdb::wire::DatabaseSchema;
use ovsdb::wire::FrameSplitter;
use serde_json::{Value, json};

pub(crate) const SCHEMA: &str = include_str!("test.ovsschema");

/// The real server's process.
struct Real(Child);

impl Drop for Real {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn run(program: &str, args: &[&str]) {
    let output = Command::new(program).args(args).output().expect("ovsdb-tool is installed");
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Both servers.
pub(crate) struct Pair {
    _runtime: tokio::runtime::Runtime,
    _fake: Server,
    _real: Real,
    dir: tempfile::TempDir,
}

impl Pair {
    pub(crate) fn standalone() -> Self {
        Self::start(Model::Standalone)
    }

    pub(crate) fn clustered() -> Self {
        Self::start(Model::Clustered { cluster: Uuid::new_v4(), server: Uuid::new_v4() })
    }

    fn start(model: Model) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        let (db, schema) = (path("db"), path("schema"));
        std::fs::write(&schema, SCHEMA).unwrap();
        match model {
            Model::Clustered { .. } => {
                run("ovsdb-tool", &["create-cluster", &db, &schema, &format!("unix:{}", path("raft"))]);
            }
            _ => run("ovsdb-tool", &["create", &db, &schema]),
        }
        let real = Command::new("ovsdb-server")
            .args([&format!("--remote=punix:{}", path("real")), &format!("--unixctl={}", path("ctl"))])
            .args(["--no-chdir", "-vconsole:off", &db])
            .env("OVS_RUNDIR", dir.path())
            .env("OVS_LOGDIR", dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("ovsdb-server is installed");
        let real = Real(real);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let fake = runtime
            .block_on(Server::builder().schema(SCHEMA).model(model).listen_unix(path("fake")).start())
            .unwrap();
        let pair = Self { _runtime: runtime, _fake: fake, _real: real, dir };
        pair.settle();
        pair
    }

    /// Waits until the real server serves the database.
    fn settle(&self) {
        for _ in 0..400 {
            if let Ok(stream) = UnixStream::connect(self.dir.path().join("real")) {
                let mut line = Line::new(stream);
                let (reply, _) = line.call("transact", &json!(["Test", {"op": "comment", "comment": ""}]));
                if reply.get("result").is_some_and(Value::is_array) {
                    return;
                }
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the real server did not come up");
    }

    /// Opens a number of connections to each.
    pub(crate) fn connect(&self, count: usize) -> Lines {
        let lines = |name: &str| {
            let path = self.dir.path().join(name);
            (0..count).map(|_| Line::new(connect(&path))).collect::<Vec<_>>()
        };
        let forms = [Form::default(), Form::default()];
        Lines { sides: [lines("real"), lines("fake")], forms }
    }
}

fn connect(path: &Path) -> UnixStream {
    UnixStream::connect(path).unwrap()
}

/// One connection to one server.
struct Line {
    stream: UnixStream,
    splitter: FrameSplitter,
    last: u64,
}

impl Line {
    fn new(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Self { stream, splitter: FrameSplitter::new(1 << 26), last: 0 }
    }

    fn send(&mut self, method: &str, params: &Value) -> u64 {
        self.last += 1;
        let text = json!({"id": self.last, "method": method, "params": params}).to_string();
        // If the server has closed the connection, the answer shows that.
        drop(self.stream.write_all(text.as_bytes()));
        self.last
    }

    /// The next message; `None` when the connection has ended.
    fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(text) = self.splitter.next_frame().unwrap() {
                return Some(serde_json::from_slice(text).unwrap());
            }
            let mut buffer = [0; 1 << 16];
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(count) => self.splitter.push(&buffer[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no answer: {error}"),
            }
        }
    }

    /// The reply to a request, and the messages that arrived before it.
    fn wait(&mut self, id: u64) -> (Value, Vec<Value>) {
        let mut before = Vec::new();
        loop {
            match self.next() {
                None => return ("closed".into(), before),
                Some(message) if message["id"] == id && message.get("method").is_none() => {
                    return (message, before);
                }
                Some(message) => before.push(message),
            }
        }
    }

    fn call(&mut self, method: &str, params: &Value) -> (Value, Vec<Value>) {
        let id = self.send(method, params);
        self.wait(id)
    }
}

/// The same connections to both servers.
pub(crate) struct Lines {
    sides: [Vec<Line>; 2],
    forms: [Form; 2],
}

impl Lines {
    /// Sends a request over one connection. The messages that all connections receive because of it must be the same on both sides. Returns
    /// the fake's unchanged reply.
    pub(crate) fn step(&mut self, line: usize, method: &str, params: &Value) -> Value {
        self.step_with(line, method, |_| params.clone())
    }

    /// Like `step`, with parameters that depend on the side: the real server is 0, the fake 1.
    pub(crate) fn step_with(&mut self, line: usize, method: &str, params: impl Fn(usize) -> Value) -> Value {
        let mut heard = Vec::new();
        let mut last = Value::Null;
        for (side, lines) in self.sides.iter_mut().enumerate() {
            let (reply, before) = lines[line].call(method, &params(side));
            let mut all = vec![(before, reply.clone())];
            // An echo after the request is answered after all messages that the request has caused.
            for line in lines.iter_mut().filter(|_| reply != "closed") {
                let (echo, before) = line.call("echo", &json!([]));
                all.push((before, json!(echo != "closed")));
            }
            heard.push(self.forms[side].heard(method, all));
            last = reply;
        }
        let fake = heard.pop().unwrap();
        let real = heard.pop().unwrap();
        let mut differences = String::new();
        compare("", &real, &fake, &mut differences);
        assert!(real == fake, "{method} {}{differences}", params(0));
        last
    }

    /// A transaction over the first connection.
    pub(crate) fn transact(&mut self, ops: &Value) -> Value {
        let mut params = vec![json!("Test")];
        params.extend(ops.as_array().unwrap().iter().cloned());
        self.step(0, "transact", &params.into())
    }

    /// Messages sent as they are; whether the connection still answers afterwards must be the same.
    pub(crate) fn raw(&mut self, line: usize, text: &str) {
        let mut heard = Vec::new();
        for (side, lines) in self.sides.iter_mut().enumerate() {
            let line = &mut lines[line];
            line.stream.write_all(text.as_bytes()).unwrap();
            line.last += 1;
            let echo = json!({"id": line.last, "method": "echo", "params": []}).to_string();
            // The server may have hung up already.
            drop(line.stream.write_all(echo.as_bytes()));
            let (reply, before) = line.wait(line.last);
            heard.push(self.forms[side].heard("raw", vec![(before, json!(reply != "closed"))]));
        }
        assert_eq!(heard[0], heard[1], "{text}");
    }

    /// The last transaction id that each side reported.
    pub(crate) fn last_ids(&self) -> [Option<String>; 2] {
        [self.forms[0].last_id.clone(), self.forms[1].last_id.clone()]
    }
}

/// Lists where two values differ.
fn compare(place: &str, real: &Value, fake: &Value, out: &mut String) {
    match (real, fake) {
        (real, fake) if real == fake => {}
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (at, (a, b)) in a.iter().zip(b).enumerate() {
                compare(&format!("{place}/{at}"), a, b, out);
            }
        }
        (Value::Object(a), Value::Object(b)) if a.keys().eq(b.keys()) => {
            for ((name, a), b) in a.iter().zip(b.values()) {
                compare(&format!("{place}/{name}"), a, b, out);
            }
        }
        _ => out.push_str(&format!("\n  {place}:\n    real {real}\n    fake {fake}")),
    }
}

/// Normalises a server's messages, so that they do not depend on its choices: its own UUIDs and versions are numbered, details of errors
/// dropped, sets sorted.
#[derive(Default)]
struct Form {
    uuids: HashMap<String, String>,
    last_id: Option<String>,
}

/// UUIDs that the tests choose begin like this, and are left as they are.
pub(crate) const CHOSEN: &str = "00000000-0000-0000-0000-";

impl Form {
    fn heard(&mut self, method: &str, heard: Vec<(Vec<Value>, Value)>) -> Value {
        let mut lines = Vec::new();
        for (before, mut reply) in heard {
            if let Some(message) = reply.as_object_mut() {
                message.remove("id");
                if message.get("result") == Some(&Value::Null) {
                    message.remove("result");
                }
                if message.get("error") == Some(&Value::Null) {
                    message.remove("error");
                }
                if let ("get_schema", Some(schema)) = (method, message.get_mut("result")) {
                    *schema = format!("{:?}", DatabaseSchema::from_json(schema).unwrap()).into();
                }
                if let ("monitor_cond_since", Some(Value::Array(result))) =
                    (method, message.get_mut("result"))
                {
                    self.last_id = result[1].as_str().map(str::to_owned);
                    result[1] = self.last_id_form();
                }
            }
            let mut told = Vec::new();
            for mut message in before {
                if message["method"] == "update3" {
                    self.last_id = message["params"][1].as_str().map(str::to_owned);
                    message["params"][1] = self.last_id_form();
                }
                told.push(self.normal(message));
            }
            // A connection's monitors are notified in no particular order.
            told.sort_by_key(|message| message["params"][0].to_string());
            lines.push(json!([told, self.normal(reply)]));
        }
        lines.into()
    }

    /// Transaction ids are the server's own, but zero means that there is none.
    fn last_id_form(&self) -> Value {
        match &self.last_id {
            Some(id) if Uuid::try_parse(id).is_ok_and(|id| id.is_nil()) => "none".into(),
            Some(_) => "some".into(),
            None => Value::Null,
        }
    }

    fn text(&mut self, text: String) -> String {
        if Uuid::try_parse(&text).is_err() || text.starts_with(CHOSEN) {
            return text;
        }
        let next = format!("uuid #{}", self.uuids.len());
        self.uuids.entry(text).or_insert(next).clone()
    }

    fn normal(&mut self, value: Value) -> Value {
        match value {
            Value::String(text) => self.text(text).into(),
            Value::Array(items) => {
                let mut items: Vec<_> = items.into_iter().map(|item| self.normal(item)).collect();
                if let [Value::String(tag), Value::Array(members)] = items.as_mut_slice()
                    && (tag == "set" || tag == "map")
                {
                    members.sort_by_key(Value::to_string);
                }
                items.into()
            }
            Value::Object(object) => {
                let refusal =
                    object.get("error").is_some_and(Value::is_string) && object.contains_key("details");
                let members = object.into_iter().filter(|(name, _)| !refusal || name == "error");
                let members = members.map(|(name, value)| {
                    let value = match (name.as_str(), value) {
                        ("_version" | "schema" | "index" | "cid" | "sid", value) => {
                            Value::from(if value.is_null() { "null" } else { "its own" })
                        }
                        ("rows", rows) => {
                            let mut rows = self.normal(rows);
                            if let Some(rows) = rows.as_array_mut() {
                                rows.sort_by_key(Value::to_string);
                            }
                            rows
                        }
                        (_, value) => self.normal(value),
                    };
                    (self.text(name), value)
                });
                Value::Object(members.collect())
            }
            other => other,
        }
    }
}
