//! The server's status: the `Database` table of its `_Server` database, and the verdict on it.
//!
//! [`judge`] is the whole decision, a pure function from a row to a verdict. This module also stores the rows. The client reads
//! this table before it knows any schema, it has one relevant row, and none of its columns holds more than one value. So the
//! typed replica would not help.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde::Deserialize;
use thiserror::Error;
use uuid::Uuid;

use crate::model::Str;
use crate::wire::atom::Atom;
use crate::wire::datum::Datum;

/// The database and the table.
pub(super) const DATABASE: &str = "_Server";
pub(super) const TABLE: &str = "Database";

/// The storage model of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StorageModel {
    /// A standalone server, or an active one with a backup. Also the default for a server that reports no model.
    #[default]
    Standalone,
    /// A member of a RAFT cluster.
    Clustered,
    /// Forwards the data of another server.
    Relay,
    /// A model of a newer version.
    Other(Str),
}

/// One row: a database of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerRow {
    /// The database's name.
    pub name: Str,
    /// The storage model.
    pub model: StorageModel,
    /// Its schema as JSON; absent until the server itself has it.
    pub schema: Option<Str>,
    /// Whether the server is connected to its storage: the majority of the cluster, or the relay's source.
    pub connected: bool,
    /// Whether the server is the leader of the cluster.
    pub leader: bool,
    /// The cluster.
    pub cluster_id: Option<Uuid>,
    /// The member of the cluster.
    pub server_id: Option<Uuid>,
    /// The server's position in the cluster's log.
    pub index: Option<u64>,
}

/// The reason why a server is not acceptable.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The server does not have the database.
    #[error("the server has no database {database}: check the name, or wait until it is added")]
    NoDatabase {
        /// The requested database.
        database: Str,
    },
    /// The server has no schema yet.
    #[error(
        "the server has not joined its cluster (or reached its relay source) yet; connecting to another one"
    )]
    NotReady,
    /// The server lost its cluster or its relay source.
    #[error(
        "the server is cut off from the rest of its cluster (or from its relay source); connecting to another one"
    )]
    CutOff,
    /// The server is not the leader, and we want the leader.
    #[error("the server does not lead its cluster; connecting to another one")]
    NotLeader,
    /// The server's data is older than ours.
    #[error("the server's data is old (log index {index}, seen {seen}); connecting to another one")]
    Stale {
        /// The server's position in the log.
        index: u64,
        /// The highest position seen of another server.
        seen: u64,
    },
    /// The server belongs to another cluster than the configured one.
    #[error("the server belongs to {}, expected cluster {expected}: check the remotes or the cluster id", cluster(.found))]
    WrongCluster {
        /// The configured one.
        expected: Uuid,
        /// The server's id; `None` if it is in no cluster.
        found: Option<Uuid>,
    },
}

fn cluster(id: &Option<Uuid>) -> String {
    id.map_or_else(|| "no cluster".to_owned(), |id| format!("cluster {id}"))
}

/// Our requirements on a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wishes<'a> {
    pub(super) database: &'a str,
    pub(super) leader_only: bool,
    pub(super) cluster_id: Option<Uuid>,
    /// The smallest acceptable log index.
    pub(super) min_index: u64,
    /// Whether there is no other server to connect to.
    pub(super) only_one: bool,
}

/// Decides whether a server is acceptable.
pub(super) fn judge(row: Option<&ServerRow>, wishes: Wishes<'_>) -> Result<(), Refusal> {
    let Some(row) = row else {
        return Err(Refusal::NoDatabase { database: wishes.database.into() });
    };
    if let Some(expected) = wishes.cluster_id
        && row.cluster_id != Some(expected)
        // A relay does not report the id of the cluster behind it.
        && row.model != StorageModel::Relay
    {
        return Err(Refusal::WrongCluster { expected, found: row.cluster_id });
    }
    if row.schema.is_none() {
        return Err(Refusal::NotReady);
    }
    match row.model {
        StorageModel::Clustered => {
            let index = row.index.unwrap_or(0);
            if !row.connected {
                Err(Refusal::CutOff)
            } else if wishes.leader_only && !row.leader {
                Err(Refusal::NotLeader)
            } else if index < wishes.min_index {
                Err(Refusal::Stale { index, seen: wishes.min_index })
            } else {
                Ok(())
            }
        }
        // A relay is never the leader; writes go through it to the leader. A relay that is cut off still has the data. If there is no other
        // server, that is better than nothing, and a thousand clients that reconnect again and again would not help.
        StorageModel::Relay if !row.connected && !wishes.only_one => Err(Refusal::CutOff),
        StorageModel::Relay | StorageModel::Standalone | StorageModel::Other(_) => Ok(()),
    }
}

/// Our position in a cluster's log, so that no server takes us back in time.
///
/// A restored database begins again at a low index. The session accepts it if the server reports the restore (another cluster
/// id, or no cluster any more), or if no server was better for [`stale_limit`](super::SessionConfig::stale_limit).
#[derive(Debug, Default)]
pub(super) struct Watermark {
    index: u64,
    cluster_id: Option<Uuid>,
    /// The time since which each round over the remotes found a stale server and no acceptable one.
    stale_since: Option<Instant>,
    /// Whether a server was stale in this round.
    stale_in_round: bool,
}

impl Watermark {
    /// The smallest index that is accepted from this server. `true` if the replica's content belongs to another history.
    pub(super) fn floor(&mut self, row: &ServerRow, limit: Option<Duration>, now: Instant) -> (u64, bool) {
        let another = match row.model {
            StorageModel::Clustered => {
                matches!((self.cluster_id, row.cluster_id), (Some(known), Some(found)) if known != found)
            }
            _ => self.cluster_id.is_some() && row.model == StorageModel::Standalone,
        };
        let waited = self
            .stale_since
            .zip(limit)
            .is_some_and(|(since, limit)| now.saturating_duration_since(since) >= limit);
        if another || waited {
            *self = Self::default();
            return (0, true);
        }
        (self.index, false)
    }

    /// Records an acceptable server.
    pub(super) fn accept(&mut self, row: &ServerRow) {
        if row.model == StorageModel::Clustered {
            self.index = self.index.max(row.index.unwrap_or(0));
            self.cluster_id = row.cluster_id.or(self.cluster_id);
        }
        self.stale_since = None;
    }

    /// Records a server that was rejected as stale.
    pub(super) fn stale(&mut self, now: Instant) {
        self.stale_since.get_or_insert(now);
        self.stale_in_round = true;
    }

    /// Called after a round over all remotes. If no server was even stale, none has reported anything about its data, so the time without a
    /// reachable server does not count. Attempts that fail for another reason prove nothing: in a restored cluster the followers are no
    /// leaders, and a member may be gone for good.
    pub(super) fn end_round(&mut self) {
        if !std::mem::take(&mut self.stale_in_round) {
            self.stale_since = None;
        }
    }

    pub(super) fn index(&self) -> u64 {
        self.index
    }
}

/// The rows as one connection sees them, by their UUIDs as strings.
#[derive(Debug, Default)]
pub(super) struct ServerRows(HashMap<Str, ServerRow>);

impl ServerRows {
    /// Applies a `<table-updates2>`, the first one or a later one.
    pub(super) fn apply(&mut self, body: &str) -> Result<(), serde_json::Error> {
        let tables: HashMap<String, HashMap<Str, RowUpdate>> = serde_json::from_str(body)?;
        for (uuid, update) in tables.into_iter().filter(|(name, _)| name == TABLE).flat_map(|(_, rows)| rows)
        {
            match update {
                RowUpdate::Initial(columns) | RowUpdate::Insert(columns) => {
                    let mut row = ServerRow::default();
                    columns.write(&mut row);
                    self.0.insert(uuid, row);
                }
                RowUpdate::Modify(columns) => columns.write(self.0.entry(uuid).or_default()),
                RowUpdate::Delete(()) => drop(self.0.remove(&uuid)),
            }
        }
        Ok(())
    }

    /// The row of a database; of several, the one in the configured cluster.
    pub(super) fn find(&self, database: &str, cluster_id: Option<Uuid>) -> Option<&ServerRow> {
        let mut named = self.0.values().filter(|row| row.name == database);
        let first = named.next()?;
        let wanted = |row: &&ServerRow| cluster_id.is_some() && row.cluster_id == cluster_id;
        Some(std::iter::once(first).chain(named).find(wanted).unwrap_or(first))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum RowUpdate {
    Initial(Columns),
    Insert(Columns),
    Modify(Columns),
    Delete(()),
}

/// The columns in an update. Columns of newer servers are skipped.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Columns {
    name: Option<Datum>,
    model: Option<Datum>,
    schema: Option<Datum>,
    connected: Option<Datum>,
    leader: Option<Datum>,
    cid: Option<Datum>,
    sid: Option<Datum>,
    index: Option<Datum>,
}

impl Columns {
    fn write(self, row: &mut ServerRow) {
        let text = |datum: &Datum| match datum.scalar() {
            Some(Atom::String(text)) => Some(text.clone()),
            _ => None,
        };
        let flag = |datum: &Datum| matches!(datum.scalar(), Some(Atom::Boolean(true)));
        let uuid = |datum: &Datum| match datum.scalar() {
            Some(Atom::Uuid(uuid)) => Some(*uuid),
            _ => None,
        };
        if let Some(name) = self.name {
            row.name = text(&name).unwrap_or_default();
        }
        if let Some(model) = self.model {
            row.model = match text(&model).unwrap_or_default().as_str() {
                "" | "standalone" => StorageModel::Standalone,
                "clustered" => StorageModel::Clustered,
                "relay" => StorageModel::Relay,
                other => StorageModel::Other(other.into()),
            };
        }
        if let Some(schema) = self.schema {
            row.schema = text(&schema);
        }
        if let Some(connected) = self.connected {
            row.connected = flag(&connected);
        }
        if let Some(leader) = self.leader {
            row.leader = flag(&leader);
        }
        if let Some(cid) = self.cid {
            row.cluster_id = uuid(&cid);
        }
        if let Some(sid) = self.sid {
            row.server_id = uuid(&sid);
        }
        if let Some(index) = self.index {
            row.index = match index.scalar() {
                Some(Atom::Integer(index)) => u64::try_from(*index).ok(),
                _ => None,
            };
        }
    }
}

#[cfg(test)]
mod tests;
