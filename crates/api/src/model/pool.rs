//! Pools of load balancers.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Generation, GivenAddress, LbProtocol, Standard};
use crate::store::SqlValue;
use crate::world::{Kind, Link, Record, link_by_name, quota_owner};

/// A set of interchangeable members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// The id, which is a part of a key in its row.
    pub id: Uuid,
    /// The owning project.
    pub project: String,
    /// Its load balancer.
    pub load_balancer_id: Uuid,
    /// The name; not unique.
    pub name: String,
    /// Whether its members get connections.
    pub admin_state_up: bool,
    /// The protocol, the same as that of its listeners.
    pub protocol: LbProtocol,
    /// The choice of a member for a new connection.
    pub algorithm: Algorithm,
    /// Whether and how long a client stays with its member.
    pub persistence: Option<Persistence>,
    /// The generations in which it, a member or its health monitor changed.
    pub generation: Generation,
    /// Times, description, tags.
    pub standard: Standard,
}

/// The choice of a member for a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Algorithm {
    /// A hash of addresses and ports.
    SourceIpPort,
    /// A hash of addresses only: a client always gets the same member.
    SourceIp,
}

impl Algorithm {
    /// The value in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Algorithm::SourceIpPort => "SOURCE_IP_PORT",
            Algorithm::SourceIp => "SOURCE_IP",
        }
    }
}

/// Session persistence: a client, identified by its address, stays with its member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Persistence {
    /// The seconds after its last connection.
    pub timeout: Option<u16>,
    /// The netmask of clients that count as one. Only a mask of full length is supported; shown in the owner's spelling.
    pub granularity: Option<GivenAddress>,
}

impl Persistence {
    /// The default seconds, as in Octavia's OVN provider.
    pub const AFFINITY: u16 = 360;

    /// The seconds for which a client stays with its member.
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
