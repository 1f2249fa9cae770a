//! Records all inputs and outputs of a session, and replays them.
//!
//! A session is a pure state machine, so its inputs are enough to reproduce a run, for example in a debugger. A recording has
//! one JSON object per line: `at` in microseconds, then either an input (`open`, `close`, `in`, `activity`, `timeout`,
//! `submit`, `condition`, `lock`, `unlock`, `remotes`, `reconnect`) or an action (`dial`, `out`, `hangup`). [`replay`] feeds
//! the inputs to a new session and compares the actions with the recorded ones.

use std::fs::File;
use std::io::{self, BufRead, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;

use crate::model::AnyCondition;
use crate::replica::{Model, Snapshot};
use crate::session::{Action, CloseReason, Event, LockMode, Remotes, Session, SessionConfig};
use crate::wire::clause::{Clause, Function};
use crate::wire::datum::Datum;
use crate::wire::excerpt::Excerpt;

/// An input of a session.
#[derive(Clone, Copy, Debug)]
pub(super) enum Input<'a> {
    Open,
    Close(&'a CloseReason),
    Message(&'a [u8]),
    Activity,
    Timeout,
    Submit(&'a str),
    Condition { table: &'a str, condition: &'a AnyCondition },
    Lock { name: &'a str, mode: LockMode },
    Unlock { name: &'a str },
    Remotes(&'a Remotes),
    Reconnect,
}

impl Input<'_> {
    /// Feeds the input to a session.
    pub(super) fn give(self, session: &mut Session, now: Instant) {
        match self {
            Self::Open => session.handle_open(now),
            Self::Close(reason) => session.handle_close(now, reason.clone()),
            Self::Message(text) => session.handle_message(now, text),
            Self::Activity => session.handle_activity(now),
            Self::Timeout => session.handle_timeout(now),
            Self::Submit(operations) => drop(session.submit(now, operations.to_owned())),
            Self::Condition { table, condition } => {
                session.set_condition(now, table, condition.clone());
            }
            Self::Lock { name, mode } => session.lock(now, name, mode),
            Self::Unlock { name } => session.unlock(now, name),
            Self::Remotes(remotes) => session.set_remotes(now, remotes.clone()),
            Self::Reconnect => session.reconnect(now),
        }
    }
}

/// One line. Messages are recorded as strings, because their JSON may contain line breaks or be invalid.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Entry {
    Open,
    Close { kind: String, text: String },
    In(String),
    Activity,
    Timeout,
    Submit(String),
    Condition { table: String, condition: Value },
    Lock { name: String, steal: bool },
    Unlock { name: String },
    Remotes(String),
    Reconnect,
    Dial(String),
    Out(String),
    Hangup(String),
}

#[derive(Deserialize, Serialize)]
struct Line {
    at: u64,
    #[serde(flatten)]
    entry: Entry,
}

/// Writes a recording.
#[derive(Debug)]
pub(super) struct Recorder {
    out: BufWriter<File>,
    start: Instant,
    failed: bool,
}

/// The first line.
#[derive(Deserialize, Serialize)]
struct Header {
    ovsdb_recording: u32,
    database: String,
    seed: u64,
}

const VERSION: u32 = 1;

impl Recorder {
    /// Begins a recording. An existing file is replaced.
    pub(super) fn create(path: &Path, database: &str, start: Instant, seed: u64) -> io::Result<Self> {
        let mut out = BufWriter::new(File::create(path)?);
        serde_json::to_writer(
            &mut out,
            &Header { ovsdb_recording: VERSION, database: database.into(), seed },
        )?;
        out.write_all(b"\n")?;
        Ok(Self { out, start, failed: false })
    }

    pub(super) fn input(&mut self, now: Instant, input: &Input<'_>) {
        let entry = match *input {
            Input::Open => Entry::Open,
            Input::Close(reason) => {
                let (kind, text) = match reason {
                    CloseReason::Dial(text) | CloseReason::Io(text) | CloseReason::Protocol(text) => {
                        (reason.label(), text.to_string())
                    }
                    other => (other.label(), String::new()),
                };
                Entry::Close { kind: kind.into(), text }
            }
            Input::Message(text) => Entry::In(String::from_utf8_lossy(text).into_owned()),
            Input::Activity => Entry::Activity,
            Input::Timeout => Entry::Timeout,
            Input::Submit(operations) => Entry::Submit(operations.into()),
            Input::Condition { table, condition } => {
                Entry::Condition { table: table.into(), condition: json!(condition) }
            }
            Input::Lock { name, mode } => Entry::Lock { name: name.into(), steal: mode == LockMode::Steal },
            Input::Unlock { name } => Entry::Unlock { name: name.into() },
            Input::Remotes(remotes) => Entry::Remotes(remotes.to_string()),
            Input::Reconnect => Entry::Reconnect,
        };
        self.write(now, entry);
    }

    pub(super) fn action(&mut self, now: Instant, action: &Action) {
        self.write(now, recorded(action));
    }

    fn write(&mut self, now: Instant, entry: Entry) {
        if self.failed {
            return;
        }
        let at = now.saturating_duration_since(self.start).as_micros() as u64;
        let written = serde_json::to_writer(&mut self.out, &Line { at, entry })
            .map_err(io::Error::from)
            .and_then(|()| self.out.write_all(b"\n"));
        // A recording that fails must not stop the client, so only the recording ends.
        if let Err(error) = written {
            tracing::warn!(%error, "the recording of the session ends here");
            self.failed = true;
        }
    }
}

fn recorded(action: &Action) -> Entry {
    match action {
        Action::Dial(remote) => Entry::Dial(remote.to_string()),
        Action::Send(text) | Action::Transact(text) => Entry::Out(text.clone()),
        Action::Close(reason) => Entry::Hangup(reason.label().into()),
    }
}

/// The result of a replay.
#[derive(Debug)]
#[non_exhaustive]
pub struct Replayed {
    /// The events of the session.
    pub events: Vec<Event>,
    /// The final snapshot.
    pub snapshot: Snapshot,
    /// Requests and replies that it sent.
    pub sent: usize,
    /// The first action that differs from the recorded one.
    pub difference: Option<Difference>,
}

/// An action that differs from the recorded one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The line in the recording; one past the last line if the session did more.
    pub line: usize,
    /// The recorded action.
    pub recorded: Option<String>,
    /// The replayed action.
    pub done: Option<String>,
}

/// A recording could not be played back.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The file could not be read.
    #[error("cannot read the recording {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A line is not in the format of a recording.
    #[error("cannot parse line {line} of the recording")]
    Line {
        /// Its number.
        line: usize,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The recording belongs to another database, or has another version.
    #[error("the recording is of database {found} (version {version}), not of {wanted} (version {VERSION})")]
    Other {
        /// The recorded database.
        found: String,
        /// The recording's version.
        version: u32,
        /// The model's database.
        wanted: String,
    },
}

/// Replays a recording in a new session, which must be configured like the recorded one.
pub fn replay(path: &Path, config: SessionConfig, model: Model) -> Result<Replayed, ReplayError> {
    let failed = |source| ReplayError::File { path: path.into(), source };
    let file = File::open(path).map_err(failed)?;
    let mut lines = io::BufReader::new(file).lines();
    let head = lines.next().unwrap_or_else(|| Ok(String::new())).map_err(failed)?;
    let header: Header =
        serde_json::from_str(&head).map_err(|source| ReplayError::Line { line: 1, source })?;
    if header.database != model.database() || header.ovsdb_recording != VERSION {
        let (found, version) = (header.database, header.ovsdb_recording);
        return Err(ReplayError::Other { found, version, wanted: model.database().into() });
    }
    let start = Instant::now();
    let mut session = Session::new(config, model, start, header.seed);
    let mut events = Vec::new();
    let mut sent = 0;
    let mut difference = None;
    let mut line = 1;
    for text in lines {
        line += 1;
        let text = text.map_err(failed)?;
        let Line { at, entry } =
            serde_json::from_str(&text).map_err(|source| ReplayError::Line { line, source })?;
        events.extend(std::iter::from_fn(|| session.poll_event()));
        let now = start + Duration::from_micros(at);
        if let Some(recorded) = give(&mut session, now, entry, line)? {
            let done = session.poll_action().map(|action| {
                sent += usize::from(matches!(action, Action::Send(_) | Action::Transact(_)));
                json!(self::recorded(&action)).to_string()
            });
            if done.as_ref() != Some(&recorded) && difference.is_none() {
                difference = Some(Difference { line, recorded: Some(recorded), done });
            }
        }
    }
    events.extend(std::iter::from_fn(|| session.poll_event()));
    if let (None, Some(action)) = (&difference, session.poll_action()) {
        let done = Some(json!(recorded(&action)).to_string());
        difference = Some(Difference { line: line + 1, recorded: None, done });
    }
    Ok(Replayed { events, snapshot: session.snapshot(), sent, difference })
}

/// Feeds an input to the session. Returns an action as a string.
fn give(
    session: &mut Session,
    now: Instant,
    entry: Entry,
    line: usize,
) -> Result<Option<String>, ReplayError> {
    match &entry {
        Entry::Open => Input::Open.give(session, now),
        Entry::Close { kind, text } => {
            let text = Excerpt::from(text.as_str());
            let reason = match kind.as_str() {
                "dial" => CloseReason::Dial(text),
                "io" => CloseReason::Io(text),
                "protocol" => CloseReason::Protocol(text),
                _ => CloseReason::Eof,
            };
            Input::Close(&reason).give(session, now);
        }
        Entry::In(text) => Input::Message(text.as_bytes()).give(session, now),
        Entry::Activity => Input::Activity.give(session, now),
        Entry::Timeout => Input::Timeout.give(session, now),
        Entry::Submit(operations) => Input::Submit(operations).give(session, now),
        Entry::Condition { table, condition } => {
            let condition = read_condition(condition).map_err(|source| ReplayError::Line { line, source })?;
            Input::Condition { table, condition: &condition }.give(session, now);
        }
        Entry::Lock { name, steal } => {
            let mode = if *steal { LockMode::Steal } else { LockMode::Wait };
            Input::Lock { name, mode }.give(session, now);
        }
        Entry::Unlock { name } => Input::Unlock { name }.give(session, now),
        Entry::Remotes(text) => {
            let remotes: Remotes = text.parse().unwrap_or_default();
            Input::Remotes(&remotes).give(session, now);
        }
        Entry::Reconnect => Input::Reconnect.give(session, now),
        Entry::Dial(_) | Entry::Out(_) | Entry::Hangup(_) => return Ok(Some(json!(entry).to_string())),
    }
    Ok(None)
}

/// Parses a condition in the form in which it is sent.
fn read_condition(value: &Value) -> Result<AnyCondition, serde_json::Error> {
    use serde::de::Error;
    if let Ok([all]) = <[bool; 1]>::deserialize(value) {
        return Ok(if all { AnyCondition::All } else { AnyCondition::None });
    }
    let clauses: Vec<(String, String, Datum)> = Deserialize::deserialize(value)?;
    let clause = |(column, function, value): (String, String, Datum)| {
        let known = Function::from_name(&function);
        let function =
            known.ok_or_else(|| serde_json::Error::custom(format!("unknown function {function}")))?;
        Ok(Clause::new(column, function, value))
    };
    clauses.into_iter().map(clause).collect::<Result<_, _>>().map(AnyCondition::Any)
}
