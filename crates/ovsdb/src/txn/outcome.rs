//! The outcome of a transaction.
//!
//! The server replies with one result per operation. A failed operation has an error in its place and nulls after it. A
//! deferred check (references, unique indexes) fails in one element more than there were operations. This module turns the
//! reply into either [`Committed`] or a [`CommitError`] that says what to do next.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;
use thiserror::Error;
use uuid::Uuid;

use super::builder::{Label, OpKind};
use crate::model::Str;
use crate::wire::atom::Atom;
use crate::wire::excerpt::Excerpt;

/// The transaction is in the database, and in the replica's snapshot.
#[derive(Clone, Debug, Default)]
pub struct Committed {
    results: Vec<OpResult>,
}

/// The result of one operation.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum OpResult {
    /// A row was inserted.
    Inserted(Uuid),
    /// The number of rows that were updated, mutated or deleted.
    Counted(u64),
    /// The rows that a `select` found, as JSON.
    Rows(Box<RawValue>),
    /// An empty result.
    Done,
}

impl Committed {
    pub(crate) fn new(results: Vec<OpResult>) -> Self {
        Self { results }
    }

    /// One result per operation, in their order.
    pub fn results(&self) -> &[OpResult] {
        &self.results
    }

    /// Positions of the operations that found no row, because it was already deleted.
    pub fn missed(&self) -> impl Iterator<Item = usize> {
        let found_none = |(at, result)| matches!(result, &OpResult::Counted(0)).then_some(at);
        self.results.iter().enumerate().filter_map(found_none)
    }
}

/// The remedy for an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Retry later; the request itself is valid.
    Transient,
    /// The expectations did not hold: decide again on the new snapshot.
    Conflict,
    /// The server will refuse it every time.
    Refused,
    /// The caller made a mistake.
    Bug,
}

/// A transaction is not known to be in the database.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CommitError {
    /// The server rejected an operation, or the transaction as a whole.
    #[error("the server refused {}: {error}{}", place(.op), detail(.details))]
    Refused {
        /// The operation, by position and label; `None` if the transaction failed as a whole.
        op: Option<(usize, Label)>,
        /// The server's tag, such as `constraint violation`.
        error: String,
        /// The server's explanation.
        details: String,
    },
    /// Something that the transaction relies on has changed.
    #[error("{} did not hold: it has changed meanwhile", place(.op))]
    Conflict {
        /// The expectation that failed.
        op: Option<(usize, Label)>,
    },
    /// The transaction asserts a lock that this client does not hold.
    #[error("this client does not hold the lock {lock}")]
    NotOwner {
        /// The lock.
        lock: Str,
    },
    /// The transaction was sent, and no reply arrived: it may or may not be in the database. Observe again, do not resend it.
    #[error("the outcome is unknown ({reason}); read the database before writing again")]
    Unknown {
        /// The reason why there is no reply.
        reason: String,
    },
    /// The transaction writes, or selects rows by, a column that this server lacks.
    #[error("the server's schema has no column {column} in table {table}")]
    Unsupported {
        /// The table.
        table: Str,
        /// The column.
        column: Str,
    },
    /// The transaction was not sent: there is no session at the moment.
    #[error("not connected, nothing was sent")]
    NotConnected,
    /// The transaction was not sent: the client is closed.
    #[error("the client is closed, nothing was sent")]
    Closed,
    /// The transaction was not sent: its tables are in another database than the client's.
    #[error("the transaction is for database {wanted}, the client is for {have}")]
    OtherDatabase {
        /// The tables' database.
        wanted: Str,
        /// The client's database.
        have: Str,
    },
}

fn place(op: &Option<(usize, Label)>) -> String {
    match op {
        Some((at, label)) => format!("operation {at} ({label})"),
        None => "the transaction".into(),
    }
}

fn detail(details: &str) -> String {
    if details.is_empty() { String::new() } else { format!(": {details}") }
}

impl CommitError {
    /// The remedy.
    pub fn class(&self) -> Class {
        match self {
            Self::Refused { error, .. } if is_transient(error) => Class::Transient,
            Self::Refused { .. } | Self::Unsupported { .. } => Class::Refused,
            Self::Conflict { .. } => Class::Conflict,
            Self::NotOwner { .. } | Self::Unknown { .. } | Self::NotConnected => Class::Transient,
            Self::Closed | Self::OtherDatabase { .. } => Class::Bug,
        }
    }

    /// Whether the row to insert already exists under its UUID.
    pub fn is_duplicate_row(&self) -> bool {
        matches!(self, Self::Refused { error, .. } if error == "duplicate uuid")
    }

    /// Whether the server accepts no change from this connection, because it is a backup or the remote is read-only.
    pub fn is_read_only(&self) -> bool {
        matches!(self, Self::Refused { error, .. } if error == "not allowed")
    }

    pub(crate) fn refused(error: &str, details: &str, op: Option<(usize, Label)>) -> Self {
        match (error, &op) {
            ("timed out", _) => Self::Conflict { op },
            ("not owner", Some((_, label))) if label.kind == OpKind::Assert => {
                Self::NotOwner { lock: label.target.clone() }
            }
            // The server cancelled the transaction, because the connection or the database went away.
            ("canceled", _) => Self::Unknown { reason: "the server cancelled the request".into() },
            _ => Self::Refused { op, error: error.into(), details: details.into() },
        }
    }
}

/// Errors of the server's own, not of the transaction.
pub(crate) fn is_transient(error: &str) -> bool {
    matches!(error, "cluster error" | "I/O error" | "resources exhausted" | "disconnected")
}

/// The outcome of a transaction that was sent on its own.
pub(crate) fn judge(answer: Answer<'_>, labels: &[Label]) -> Result<Committed, CommitError> {
    let unknown = |reason: String| CommitError::Unknown { reason };
    let failure = match answer {
        Answer::NotSent => return Err(CommitError::NotConnected),
        Answer::Lost => return Err(unknown("the connection was lost".into())),
        Answer::Error(error) => read_refusal(error),
        Answer::Result(result) => match read(result, labels.len()).map_err(unknown)? {
            Ok(results) => return Ok(Committed::new(results)),
            Err(failure) => failure,
        },
    };
    let label = failure.at.map(|at| (at, labels[at].clone()));
    Err(CommitError::refused(&failure.error, &failure.details, label))
}

/// The server's reply to a request, or the reason why there is none.
#[derive(Clone, Copy, Debug)]
pub enum Answer<'a> {
    /// One result per operation.
    Result(&'a RawValue),
    /// The request as a whole was refused.
    Error(&'a RawValue),
    /// It was not sent.
    NotSent,
    /// It was sent and the connection ended before the reply.
    Lost,
}

/// The server's refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The failed operation; `None` if the transaction failed as a whole.
    pub(crate) at: Option<usize>,
    pub(crate) error: String,
    pub(crate) details: String,
}

impl Failure {
    /// Error messages of a server are stored, logged and displayed, so only their beginning is kept.
    fn new(at: Option<usize>, error: &str, details: &str) -> Self {
        Self { at, error: Excerpt::from(error).into(), details: Excerpt::from(details).into() }
    }
}

/// Parses the reply to `count` operations: their results, or the error of the one that failed.
pub(crate) fn read(result: &RawValue, count: usize) -> Result<Result<Vec<OpResult>, Failure>, String> {
    let answers: Answers<'_> = serde_json::from_str(result.get())
        .map_err(|error| Excerpt::from(format!("the server's reply is not a list of results: {error}")))?;
    if let Some((at, error)) = answers.failure {
        let at = (at < count).then_some(at);
        return Ok(Err(Failure::new(at, &error.error, &error.details)));
    }
    if answers.results.len() != count {
        let found = answers.results.len();
        return Err(format!("the server gave {found} results for {count} operations"));
    }
    Ok(Ok(answers.results))
}

/// Parses the error of a whole request.
pub(crate) fn read_refusal(error: &RawValue) -> Failure {
    match serde_json::from_str::<Refusal<'_>>(error.get()) {
        Ok(refusal) => Failure::new(None, &refusal.error, &refusal.details),
        Err(_) => match serde_json::from_str::<Cow<'_, str>>(error.get()) {
            Ok(bare) => Failure::new(None, &bare, ""),
            Err(_) => Failure::new(None, error.get(), ""),
        },
    }
}

#[derive(Deserialize)]
struct Refusal<'a> {
    #[serde(borrow)]
    error: Cow<'a, str>,
    #[serde(borrow, default)]
    details: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Element<'a> {
    #[serde(borrow, default)]
    error: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    details: Option<Cow<'a, str>>,
    #[serde(default)]
    uuid: Option<RowUuid>,
    #[serde(default)]
    count: Option<u64>,
    #[serde(default)]
    rows: Option<Box<RawValue>>,
}

/// `["uuid", "..."]`
struct RowUuid(Uuid);

impl<'de> Deserialize<'de> for RowUuid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Tagged<'a>(#[serde(borrow)] Cow<'a, str>, #[serde(borrow)] Cow<'a, str>);
        let Tagged(tag, text) = Deserialize::deserialize(deserializer)?;
        let uuid = Some(&text).filter(|_| tag == "uuid").and_then(|text| Uuid::try_parse(text).ok());
        uuid.map(Self)
            .ok_or_else(|| de::Error::custom(format_args!("[{tag:?}, {text:?}] is no UUID of a row")))
    }
}

/// The list of results up to and including the first error.
#[derive(Default)]
struct Answers<'a> {
    results: Vec<OpResult>,
    failure: Option<(usize, Refusal<'a>)>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Answers<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Answers<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of results")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut answers = Answers::default();
                let mut at = 0;
                // A null means that an operation was not reached. After the results of a successful transaction there are no nulls.
                while let Some(answer) = seq.next_element::<Option<Element<'de>>>()? {
                    match answer {
                        Some(Element { error: Some(error), details, .. }) if answers.failure.is_none() => {
                            let details = details.unwrap_or_default();
                            answers.failure = Some((at, Refusal { error, details }));
                        }
                        Some(Element { uuid: Some(RowUuid(uuid)), .. }) => {
                            answers.results.push(OpResult::Inserted(uuid));
                        }
                        Some(Element { count: Some(count), .. }) => {
                            answers.results.push(OpResult::Counted(count));
                        }
                        Some(Element { rows: Some(rows), .. }) => answers.results.push(OpResult::Rows(rows)),
                        Some(_) => answers.results.push(OpResult::Done),
                        None if answers.failure.is_none() => {
                            return Err(de::Error::custom("a null where no operation failed"));
                        }
                        None => {}
                    }
                    at += 1;
                }
                Ok(answers)
            }
        }
        deserializer.deserialize_seq(Each)
    }
}

impl fmt::Display for OpResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inserted(uuid) => write!(f, "inserted {}", Atom::Uuid(*uuid)),
            Self::Counted(count) => write!(f, "{count} rows"),
            Self::Rows(rows) => f.write_str(rows.get()),
            Self::Done => f.write_str("done"),
        }
    }
}
