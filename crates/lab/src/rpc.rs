//! A minimal JSON-RPC 1.0 client that fills an OVSDB server, or controls a C tool's control socket, for a benchmark: blocking,
//! one call at a time. It deliberately is not the project's own client: the client under measurement must not fill the servers.

use std::io::{BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// Timeout of one call: a transaction of a thousand rows, or a load of a hundred thousand.
const LIMIT: Duration = Duration::from_secs(600);

/// One connection.
pub struct Rpc {
    stream: UnixStream,
    replies: serde_json::StreamDeserializer<'static, serde_json::de::IoRead<BufReader<UnixStream>>, Value>,
    next: u64,
}

impl Rpc {
    /// Connects to a unix socket.
    pub fn connect(socket: &Path) -> Result<Rpc> {
        let stream =
            UnixStream::connect(socket).with_context(|| format!("cannot connect to {}", socket.display()))?;
        stream.set_read_timeout(Some(LIMIT))?;
        let replies = serde_json::Deserializer::from_reader(BufReader::new(stream.try_clone()?)).into_iter();
        Ok(Rpc { stream, replies, next: 0 })
    }

    /// Calls and waits for the reply.
    pub fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        self.send(method, params)?;
        self.receive()
    }

    /// Sends a call; `receive` waits for its reply.
    pub fn send(&mut self, method: &str, params: Value) -> Result<()> {
        self.next += 1;
        let text = serde_json::to_vec(&json!({ "id": self.next, "method": method, "params": params }))?;
        self.stream.write_all(&text).with_context(|| format!("cannot send {method}"))
    }

    /// The reply to the last call. Answers the server's probes in between.
    pub fn receive(&mut self) -> Result<Value> {
        loop {
            let mut message = self.replies.next().context("the server closed the connection")??;
            if !self.answer_probe(&message)? && message["id"] == self.next {
                if !message["error"].is_null() {
                    bail!("the server says {}", message["error"]);
                }
                return Ok(message["result"].take());
            }
        }
    }

    /// Waits until the server reports a change that a `monitor` call requested.
    pub fn told(&mut self) -> Result<()> {
        loop {
            let message = self.replies.next().context("the server closed the connection")??;
            if message["method"] == "update" {
                return Ok(());
            }
            self.answer_probe(&message)?;
        }
    }

    /// Answers a probe of the server; returns whether the message was one.
    fn answer_probe(&mut self, message: &Value) -> Result<bool> {
        let probe = message["method"] == "echo";
        if probe {
            let answer = json!({ "id": message["id"], "result": message["params"], "error": null });
            self.stream.write_all(&serde_json::to_vec(&answer)?)?;
        }
        Ok(probe)
    }

    /// Runs operations as one transaction; an error of any of them is an error here.
    pub fn transact(&mut self, database: &str, operations: Vec<Value>) -> Result<()> {
        let mut params = vec![json!(database)];
        params.extend(operations);
        let results = self.call("transact", Value::Array(params))?;
        match results.as_array().and_then(|all| all.iter().find(|one| !one["error"].is_null())) {
            Some(error) => bail!("a transaction on {database} failed: {error}"),
            None => Ok(()),
        }
    }
}
