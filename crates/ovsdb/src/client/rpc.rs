//! A plain connection for tools: one request at a time, replies as JSON, no replica and no reconnects.

use std::collections::VecDeque;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{self, Instant};

use super::MAX_MESSAGE;
use super::connect::{DialError, Dialer, Stream};
use crate::session::{Remote, Remotes, with_causes};
use crate::txn::{Select, outcome};
use crate::wire::frame::{FrameError, FrameSplitter};
use crate::wire::message::{self, Message, MessageError};
use crate::wire::schema::{DatabaseSchema, SchemaError};

/// Maximum bytes of notifications to keep while waiting for a reply. A server that sends more of them is not going to reply.
const MAX_NOTES: usize = 64 << 20;

/// A plain connection to a server.
#[derive(Debug)]
pub struct Rpc {
    remote: Remote,
    stream: Stream,
    splitter: FrameSplitter,
    timeout: Duration,
    next_id: u64,
    heard: bool,
    notes: VecDeque<Note>,
    /// The number of bytes in `notes`.
    noted: usize,
}

/// A notification from the server.
#[derive(Debug)]
pub struct Note {
    /// The method: `update`, `locked`, `stolen`.
    pub method: String,
    /// The parameters.
    pub params: Box<RawValue>,
}

/// The error of a request.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RpcError {
    /// No remote could be reached.
    #[error("cannot connect to any remote: {}", list(.0))]
    Unreachable(Vec<DialError>),
    /// Reading or writing failed.
    #[error("the connection to {remote} failed")]
    Io {
        /// The remote.
        remote: Remote,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The server ended the connection.
    #[error("{remote} closed the connection{}", if *silent { " without a reply; if it is a TLS port, use ssl:" } else { "" })]
    Closed {
        /// The remote.
        remote: Remote,
        /// A plain connection on which nothing ever arrived, as on a TLS port without TLS.
        silent: bool,
    },
    /// The received bytes cannot be split into messages.
    #[error("{remote} does not speak OVSDB")]
    Frame {
        /// The remote.
        remote: Remote,
        /// Why.
        #[source]
        source: FrameError,
    },
    /// The received data is not a message.
    #[error("{remote} does not speak OVSDB")]
    Message {
        /// The remote.
        remote: Remote,
        /// Why.
        #[source]
        source: MessageError,
    },
    /// No reply arrived in time, or it stopped arriving.
    #[error("{remote} {} {method} within {after:?}", if *begun { "did not complete its reply to" } else { "did not answer" })]
    Timeout {
        /// The remote.
        remote: Remote,
        /// The request.
        method: String,
        /// The duration of the silence.
        after: Duration,
        /// Whether a part of the message had arrived.
        begun: bool,
    },
    /// The server keeps sending notifications instead of a reply.
    #[error("{remote} sends notifications and does not reply to {method}")]
    Unanswered {
        /// The remote.
        remote: Remote,
        /// The request.
        method: String,
    },
    /// The server refused.
    #[error("the server refused {method}: {error}{}{details}", if details.is_empty() { "" } else { ": " })]
    Refused {
        /// The request.
        method: String,
        /// The server's error tag.
        error: String,
        /// The server's explanation.
        details: String,
    },
    /// The reply does not have the form that this method requires.
    #[error("cannot parse the reply to {method}")]
    Answer {
        /// The request.
        method: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The schema can't be read.
    #[error("cannot parse the server's schema of {database}")]
    Schema {
        /// The database.
        database: String,
        /// Why.
        #[source]
        source: SchemaError,
    },
}

/// Several attempts, each with its cause: there is no one source.
fn list(attempts: &[DialError]) -> String {
    attempts.iter().map(|attempt| with_causes(attempt).to_string()).collect::<Vec<_>>().join("; ")
}

impl Rpc {
    /// Connects to the first remote that answers, in the given order. `timeout` limits every step from here on; a reply may
    /// take longer as long as parts of it arrive.
    pub async fn connect(remotes: &Remotes, dialer: &Dialer, timeout: Duration) -> Result<Self, RpcError> {
        let dialer = Dialer { timeout: timeout.min(dialer.timeout), ..dialer.clone() };
        let mut attempts = Vec::new();
        for remote in &remotes.list {
            match dialer.dial(remote).await {
                Ok(stream) => {
                    let splitter = FrameSplitter::new(MAX_MESSAGE);
                    let (remote, notes) = (remote.clone(), VecDeque::new());
                    return Ok(Self {
                        remote,
                        stream,
                        splitter,
                        timeout,
                        next_id: 0,
                        heard: false,
                        notes,
                        noted: 0,
                    });
                }
                Err(error) => attempts.push(error),
            }
        }
        Err(RpcError::Unreachable(attempts))
    }

    /// The remote that answered.
    pub fn remote(&self) -> &Remote {
        &self.remote
    }

    /// Sends a request and returns the reply as JSON.
    pub async fn call(&mut self, method: &str, params: &impl Serialize) -> Result<Value, RpcError> {
        let result = self.call_raw(method, params).await?;
        serde_json::from_str(result.get())
            .map_err(|source| RpcError::Answer { method: method.into(), source })
    }

    /// Sends a request and returns the raw JSON of the reply.
    pub async fn call_raw(
        &mut self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<Box<RawValue>, RpcError> {
        let id = self.next_id;
        self.next_id += 1;
        let deadline = Instant::now() + self.timeout;
        self.send(&message::request(id, method, params)).await?;
        let wanted = id.to_string();
        loop {
            match self.receive(deadline, method).await? {
                Incoming::Answer { id, body } if id == wanted => {
                    return body.map_err(|error| {
                        let failure = outcome::read_refusal(&error);
                        let (error, details) = (failure.error, failure.details);
                        RpcError::Refused { method: method.into(), error, details }
                    });
                }
                Incoming::Answer { .. } => {}
                Incoming::Note(note) => {
                    self.noted += note.params.get().len();
                    if self.noted > MAX_NOTES {
                        return Err(RpcError::Unanswered {
                            remote: self.remote.clone(),
                            method: method.into(),
                        });
                    }
                    self.notes.push_back(note);
                }
            }
        }
    }

    /// The next notification from the server; `None` if none arrives within the time.
    pub async fn note(&mut self, within: Duration) -> Result<Option<Note>, RpcError> {
        if let Some(note) = self.notes.pop_front() {
            self.noted -= note.params.get().len();
            return Ok(Some(note));
        }
        let deadline = Instant::now() + within;
        loop {
            match self.receive(deadline, "").await {
                Ok(Incoming::Note(note)) => return Ok(Some(note)),
                Ok(Incoming::Answer { .. }) => {}
                Err(RpcError::Timeout { .. }) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Runs a query on a database; returns the raw JSON of the results.
    pub async fn select(&mut self, database: &str, select: &Select<'_>) -> Result<Box<RawValue>, RpcError> {
        self.call_raw("transact", &(database, select)).await
    }

    /// The databases that the server has.
    pub async fn databases(&mut self) -> Result<Vec<String>, RpcError> {
        let names = self.call_raw("list_dbs", &[(); 0]).await?;
        serde_json::from_str(names.get())
            .map_err(|source| RpcError::Answer { method: "list_dbs".into(), source })
    }

    /// A database's schema.
    pub async fn schema(&mut self, database: &str) -> Result<DatabaseSchema, RpcError> {
        let schema = self.call_raw("get_schema", &[database]).await?;
        DatabaseSchema::parse(schema.get())
            .map_err(|source| RpcError::Schema { database: database.into(), source })
    }

    async fn send(&mut self, text: &str) -> Result<(), RpcError> {
        let failed = |source| RpcError::Io { remote: self.remote.clone(), source };
        let written = async {
            self.stream.write_all(text.as_bytes()).await?;
            self.stream.flush().await
        };
        match time::timeout(self.timeout, written).await {
            Ok(written) => written.map_err(failed),
            Err(_) => Err(failed(std::io::ErrorKind::TimedOut.into())),
        }
    }

    /// The next message. Each arriving part of it extends the deadline. Probes do not: a server that is alive may still never
    /// reply.
    async fn receive(&mut self, deadline: Instant, method: &str) -> Result<Incoming, RpcError> {
        let mut limit = deadline;
        loop {
            let frame = match self.splitter.next_frame() {
                Ok(frame) => frame,
                Err(source) => return Err(RpcError::Frame { remote: self.remote.clone(), source }),
            };
            if let Some(text) = frame {
                match Message::parse(text) {
                    Ok(Message::Reply { id, result }) => {
                        return Ok(Incoming::Answer { id: id.get().into(), body: Ok(result.to_owned()) });
                    }
                    Ok(Message::Error { id, error }) => {
                        return Ok(Incoming::Answer { id: id.get().into(), body: Err(error.to_owned()) });
                    }
                    Ok(Message::Notification { method, params }) => {
                        let note = Note { method: method.into_owned(), params: params.to_owned() };
                        return Ok(Incoming::Note(note));
                    }
                    Ok(Message::Request { id, method, params }) => {
                        let answer = match &*method {
                            "echo" => message::reply(id, &params),
                            _ => message::refusal(id, &"unknown method"),
                        };
                        self.send(&answer).await?;
                        limit = deadline;
                    }
                    Err(source) => return Err(RpcError::Message { remote: self.remote.clone(), source }),
                }
                continue;
            }
            let read = self.stream.read_buf(self.splitter.read_buffer());
            match time::timeout_at(limit, read).await {
                Ok(Ok(0)) => {
                    let silent = !self.heard && matches!(self.remote, Remote::Tcp(_));
                    return Err(RpcError::Closed { remote: self.remote.clone(), silent });
                }
                Ok(Ok(_)) => {
                    self.heard = true;
                    limit = limit.max(Instant::now() + self.timeout);
                }
                Ok(Err(source)) => return Err(RpcError::Io { remote: self.remote.clone(), source }),
                Err(_) => {
                    let (remote, method, begun) = (self.remote.clone(), method.to_owned(), limit > deadline);
                    return Err(RpcError::Timeout { remote, method, after: self.timeout, begun });
                }
            }
        }
    }
}

enum Incoming {
    Answer { id: String, body: Result<Box<RawValue>, Box<RawValue>> },
    Note(Note),
}
