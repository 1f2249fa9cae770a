//! Pools of load balancers.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Generation, GivenAddress, LbProtocol, Standard};
use crate::store::SqlValue;
use crate::world::{Kind, Link, Record, link_by_name, quota_owner};

/// A set of members that serve the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// Part of a key in its row.
    pub id: Uuid,
    /// Owner.
    pub project: String,
    /// Its load balancer.
    pub load_balancer_id: Uuid,
    /// Not unique.
    pub name: String,
    /// Whether its members serve.
    pub admin_state_up: bool,
    /// That of its listeners.
    pub protocol: LbProtocol,
    /// How a member is chosen for a new connection.
    pub algorithm: Algorithm,
    /// Whether a client stays with its member.
    pub persistence: Option<Persistence>,
    /// When it, a member or its health monitor changed.
    pub generation: Generation,
    /// Times, description, tags.
    pub standard: Standard,
}

/// How a member is chosen for a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Algorithm {
    /// By addresses and ports.
    SourceIpPort,
    /// By addresses alone: a client always gets the same member.
    SourceIp,
}

impl Algorithm {
    /// The word the API uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Algorithm::SourceIpPort => "SOURCE_IP_PORT",
            Algorithm::SourceIp => "SOURCE_IP",
        }
    }
}

/// A client, known by its address, stays with its member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Persistence {
    /// For how many seconds after its last connection.
    pub timeout: Option<u16>,
    /// Which clients count as one. Only a mask that tells all addresses apart is possible; shown as it was given.
    pub granularity: Option<GivenAddress>,
}

impl Persistence {
    /// Seconds, if the owner names none. Octavia's OVN provider has the same.
    pub const AFFINITY: u16 = 360;

    /// Seconds for which a client stays.
    pub fn affinity(&self) -> u16 {
        self.timeout.unwrap_or(Self::AFFINITY)
    }
}

impl Record for Pool {
    fn links(&self, note: &mut dyn FnMut(Link, Uuid)) {
        link_by_name(Kind::Pool, (self.id, &self.project, &self.name), note);
        note(Link::Inside(Kind::Pool, self.load_balancer_id), self.id);
    }
    fn counted_in(&self) -> Option<&str> {
        quota_owner(&self.project)
    }
    fn columns(&self) -> Vec<(&'static str, SqlValue)> {
        vec![("project_id", (&self.project).into()), ("load_balancer_id", (&self.load_balancer_id).into())]
    }
}
