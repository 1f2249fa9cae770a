//! The output of a session: actions for the driver, events for the user of the data.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use thiserror::Error;

use super::cluster::Refusal;
use super::monitor::CondSeq;
use super::remote::Remote;
use crate::model::{Misfit, Str};
use crate::replica::{Delta, Fit};
use crate::wire::excerpt::Excerpt;
use crate::wire::schema::DatabaseSchema;

/// An action for the driver; actions must be performed in order.
#[derive(Debug)]
pub enum Action {
    /// Connect; then `handle_open`, or `handle_close` if it fails.
    Dial(Remote),
    /// Send this transaction. The submitter limits how many may wait to be sent.
    Transact(String),
    /// Send this message. Most messages are replies to the server, which thus decides how many there are. If it does not read them, they
    /// must not pile up.
    Send(String),
    /// Close the connection, or the attempt. The driver does not call `handle_close` for it, because the session already knows.
    Close(CloseReason),
}

/// An error with its causes in one line, for reasons that are strings.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> Excerpt {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(": ");
        text.push_str(&next.to_string());
        cause = next.source();
    }
    text.into()
}

/// A transaction that was submitted; unique in its session. Its number is also the id of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TxnId(pub u64);

/// The method by which a replica became current.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncKind {
    /// The first content of this replica.
    Fresh,
    /// The server sent only the changes since the last connection.
    Resumed,
    /// The server sent everything again, and the replica was compared with it.
    Reloaded,
}

/// The outcome of a transaction.
#[derive(Debug)]
pub enum Reply {
    /// The server's results, one per operation; any of them may be an error.
    Result(Box<RawValue>),
    /// The server refused the request as a whole.
    Error(Box<RawValue>),
    /// The transaction was not sent: the session was not synced.
    NotSent,
    /// The transaction was sent and the connection broke: its outcome is unknown.
    Lost,
}

/// An event. The order of events is part of their meaning:
///
/// - A new connection: `Connected`, `Fit`, [`Changed`](Event::Changed) if the data differs from the replica, [`Synced`](Event::Synced),
///   `Condition` if conditions came into force, and from then on `Lock`. So all changes are reported before `Synced`.
/// - `Changed` precedes the `Reply` of the transaction that caused it.
/// - `Changed` precedes the `Condition` that caused it.
/// - A broken connection: `Lock { held: false }` for each held lock, one `Reply` for each open transaction, `Down`. The replica stays
///   unchanged.
#[derive(Debug)]
pub enum Event {
    /// A connection is open; the server is still unknown.
    Connected {
        /// The remote.
        remote: Remote,
    },
    /// The server's schema fits the model; the fit lists missing optional columns.
    Fit(Fit, Arc<DatabaseSchema>),
    /// The server's schema does not fit; the list contains all mismatches. The event repeats only when they change. The session closes the
    /// connection and retries.
    Misfit(Vec<Misfit>),
    /// The replica changed, by one transaction of the server or by the merged changes since the last connection.
    Changed(Delta),
    /// The replica equals the server's content, and follows it from here on. Transactions can be submitted.
    Synced {
        /// The kind of load that led to it.
        how: SyncKind,
    },
    /// The one reply to a transaction.
    Reply {
        /// The transaction.
        txn: TxnId,
        /// The outcome.
        outcome: Reply,
    },
    /// The session acquired or lost a lock.
    Lock {
        /// Its name.
        name: Str,
        /// Whether this session holds the lock.
        held: bool,
    },
    /// The server refuses the request for a lock. The session requests it again on the next connection.
    LockRefused {
        /// Its name.
        name: Str,
        /// The server's error.
        error: String,
    },
    /// Conditions up to this one are in force.
    Condition {
        /// The value from `set_condition`.
        acked: CondSeq,
    },
    /// The server refuses the conditions that were set since the last accepted ones, up to this one. The previous conditions
    /// stay in force.
    ConditionRefused {
        /// The value from `set_condition`.
        seq: CondSeq,
        /// The server's error.
        error: String,
    },
    /// A connection, or the attempt at one, ended.
    Down {
        /// The remote.
        remote: Option<Remote>,
        /// Why.
        reason: CloseReason,
        /// The time for which the session was synced, if it ever was.
        served: Option<Duration>,
        /// When the next attempt begins.
        retry_in: Duration,
    },
}

/// The reason why a connection, or an attempt, ended. Each message advises what to do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CloseReason {
    /// The connection failed.
    #[error("cannot connect: {0}")]
    Dial(Excerpt),
    /// The connection was not established in time.
    #[error("no connection within {0:?}: is the address right, does a firewall drop it?")]
    DialTimeout(Duration),
    /// The server closed it.
    #[error("the server closed the connection")]
    Eof,
    /// Reading or writing failed.
    #[error("the connection broke: {0}")]
    Io(Excerpt),
    /// Nothing arrived, not even a reply to a probe.
    #[error("the server has been silent for {0:?}; check whether it hangs and whether the network works")]
    Silent(Duration),
    /// The server sends requests and does not read our answers.
    #[error(
        "the server sends requests and does not read the answers, of which {0} bytes wait: it hangs, or it is not an OVSDB server"
    )]
    Unread(usize),
    /// The server sent something that is not OVSDB.
    #[error("the server violates the protocol: {0}")]
    Protocol(Excerpt),
    /// The server is not acceptable.
    #[error(transparent)]
    Refused(Refusal),
    /// The server does not provide the schema.
    #[error("the server refused to send the schema: {0}")]
    SchemaRefused(Excerpt),
    /// The schema cannot be read.
    #[error("cannot parse the server's schema: {0}")]
    SchemaUnreadable(Excerpt),
    /// The schema does not fit the model.
    #[error(
        "the server's schema does not fit ({problems} problems, first: {first}): upgrade the server or this program"
    )]
    Misfit {
        /// The first one.
        first: Misfit,
        /// The number of mismatches.
        problems: usize,
    },
    /// The server does not let us monitor.
    #[error("the server refused to monitor: {0}; check permissions and conditions")]
    MonitorRefused(Excerpt),
    /// An update could not be applied, and again after a reload.
    #[error("the server's updates contradict each other: {0}")]
    Inconsistent(Excerpt),
    /// There is no remote to connect to.
    #[error("no remotes are configured")]
    NoRemotes,
    /// The remote in use is no longer among the remotes.
    #[error("the remotes were changed")]
    RemotesChanged,
    /// The user of the session requested a reconnect.
    #[error("a reconnect was requested")]
    Asked,
}

impl CloseReason {
    /// Whether the remote should be the last choice from now on.
    pub(super) fn blames_remote(&self) -> bool {
        !matches!(self, Self::Eof | Self::Io(_) | Self::RemotesChanged | Self::NoRemotes)
    }

    /// A short constant keyword, for metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Dial(_) => "dial",
            Self::DialTimeout(_) => "dial_timeout",
            Self::Eof => "eof",
            Self::Io(_) => "io",
            Self::Silent(_) => "silent",
            Self::Unread(_) => "unread",
            Self::Protocol(_) => "protocol",
            Self::Refused(Refusal::NoDatabase { .. }) => "no_database",
            Self::Refused(Refusal::NotReady) => "not_ready",
            Self::Refused(Refusal::CutOff) => "cut_off",
            Self::Refused(Refusal::NotLeader) => "not_leader",
            Self::Refused(Refusal::Stale { .. }) => "stale",
            Self::Refused(Refusal::WrongCluster { .. }) => "wrong_cluster",
            Self::SchemaRefused(_) => "schema_refused",
            Self::SchemaUnreadable(_) => "schema_unreadable",
            Self::Misfit { .. } => "misfit",
            Self::MonitorRefused(_) => "monitor_refused",
            Self::Inconsistent(_) => "inconsistent",
            Self::NoRemotes => "no_remotes",
            Self::RemotesChanged => "remotes_changed",
            Self::Asked => "asked",
        }
    }
}

/// The `error` member of a reply. Servers send a string or an object.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ServerError {
    /// The tag of the error, e.g. `unknown database`.
    pub(super) word: Excerpt,
    pub(super) details: Excerpt,
    /// Whether the error is an object: then the server has processed the request. A string means that it did not get that far.
    pub(super) examined: bool,
}

impl ServerError {
    pub(super) fn read(error: &RawValue) -> Self {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Shape {
            Word(String),
            Object {
                error: String,
                #[serde(default)]
                details: Option<String>,
            },
        }
        match serde_json::from_str(error.get()) {
            Ok(Shape::Word(word)) => Self { word: word.into(), details: Excerpt::default(), examined: false },
            Ok(Shape::Object { error, details }) => {
                let details = details.unwrap_or_default().into();
                Self { word: error.into(), details, examined: true }
            }
            Err(_) => Self { word: error.get().into(), details: Excerpt::default(), examined: true },
        }
    }

    /// The server does not know the method, so an older one may do.
    pub(super) fn is_unknown_method(&self) -> bool {
        !self.examined || &*self.word == "unknown method"
    }
}

impl std::fmt::Display for ServerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.word)?;
        if self.details.is_empty() { Ok(()) } else { write!(f, " ({})", self.details) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_servers_are_read_in_every_shape() {
        let read = |text: &str| ServerError::read(&serde_json::from_str::<Box<RawValue>>(text).unwrap());
        let plain = read(r#""unknown method""#);
        assert!(plain.is_unknown_method());
        assert_eq!(plain.to_string(), "unknown method");
        let object = read(r#"{"error":"unknown column","details":"No column bad in table T.","syntax":"x"}"#);
        assert!(!object.is_unknown_method());
        assert_eq!(object.to_string(), "unknown column (No column bad in table T.)");
        assert!(read(r#"{"error":"unknown method"}"#).is_unknown_method());
        assert_eq!(read(r#"{"error":"x","details":null}"#).to_string(), "x");
        assert_eq!(read("[1]").to_string(), "[1]");
        assert!(!read("[1]").is_unknown_method());
    }
}
