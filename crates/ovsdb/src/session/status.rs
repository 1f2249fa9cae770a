//! The status of a session at any moment, for metrics, logs and people.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::{Duration, Instant};

use uuid::Uuid;

use super::cluster::StorageModel;
use super::event::CloseReason;
use super::monitor::{CondSeq, Method};
use super::remote::Remote;
use crate::model::Str;

/// The progress of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Between two attempts.
    Waiting,
    /// Establishing a connection.
    Dialing,
    /// Querying the server's status.
    Greeting,
    /// The server is acceptable; waiting for its schema.
    ReadingSchema,
    /// Waiting for the content.
    Loading,
    /// In sync.
    Synced,
}

impl Progress {
    /// A constant keyword, for metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Dialing => "dialing",
            Self::Greeting => "greeting",
            Self::ReadingSchema => "reading_schema",
            Self::Loading => "loading",
            Self::Synced => "synced",
        }
    }
}

/// The status of a session.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Status {
    /// The progress of the session.
    pub progress: Progress,
    /// The time at which this progress began.
    pub since: Instant,
    /// The remote that is in use or being dialled.
    pub remote: Option<Remote>,
    /// The server's own description; `None` before it arrived, and for servers too old to have one.
    pub server: Option<ServerStatus>,
    /// The monitor method in use.
    pub method: Option<Method>,
    /// Conditions up to this one are in force.
    pub conditions: CondSeq,
    /// The locks held.
    pub locks: Vec<Str>,
    /// Transactions without a reply.
    pub outstanding: usize,
    /// The greatest log index seen. Servers behind it are refused.
    pub min_index: u64,
    /// Rounds over all remotes that failed in a row.
    pub failed_rounds: u32,
    /// Why the last connection or attempt ended.
    pub last_close: Option<CloseReason>,
    /// The counts since the session began.
    pub counters: Counters,
}

/// The server's own description.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerStatus {
    /// The storage model of the database.
    pub model: StorageModel,
    /// Whether the server leads its cluster.
    pub leader: bool,
    /// Whether the server is connected to its storage.
    pub connected: bool,
    /// Its place in the log.
    pub index: Option<u64>,
    /// The cluster.
    pub cluster_id: Option<Uuid>,
    /// The member.
    pub server_id: Option<Uuid>,
}

/// The counts since a session began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Attempts to connect.
    pub dials: u64,
    /// Established connections.
    pub connections: u64,
    /// The number of connections that ended, for any reason.
    pub closes: u64,
    /// Times the replica became current by a resumed monitor.
    pub resumes: u64,
    /// Times the replica became current by loading the whole content.
    pub loads: u64,
    /// The number of reloads because an update did not fit.
    pub repairs: u64,
    /// Messages from servers.
    pub received: u64,
    /// Messages to servers.
    pub sent: u64,
    /// Messages from servers that match nothing of ours: replies to no request, updates of no monitor.
    pub strays: u64,
    /// Probes sent.
    pub probes: u64,
    /// Transactions sent.
    pub transactions: u64,
    /// Transactions whose outcome is unknown.
    pub lost: u64,
    /// The duration of the last load, from the request to the replica.
    pub last_load: Duration,
}
