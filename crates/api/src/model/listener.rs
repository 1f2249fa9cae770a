//! Listeners of load balancers.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Generation, GivenCidr, LbProtocol, Standard};
use crate::store::SqlValue;
use crate::world::{Kind, Link, Record, link_by_name, quota_owner};

/// A port of the VIPs on which a load balancer listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listener {
    /// Part of a key in its row.
    pub id: Uuid,
    /// Owner.
    pub project: String,
    /// Its load balancer.
    pub load_balancer_id: Uuid,
    /// Not unique.
    pub name: String,
    /// Whether it serves.
    pub admin_state_up: bool,
    /// Transport. With `protocol_port` unique in its load balancer.
    pub protocol: LbProtocol,
    /// See `protocol`.
    pub protocol_port: u16,
    /// Connections at a time; -1 is no limit. Shown, not enforced.
    pub connection_limit: i64,
    /// Who serves; nobody if none.
    pub default_pool_id: Option<Uuid>,
    /// Milliseconds. Shown, not enforced.
    pub timeouts: ListenerTimeouts,
    /// From where clients may connect; from everywhere if empty.
    pub allowed_cidrs: Vec<GivenCidr>,
    /// When it changed.
    pub generation: Generation,
    /// Times, description, tags.
    pub standard: Standard,
}

/// Times that OVN knows nothing of, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerTimeouts {
    /// A silent client.
    pub client_data: u32,
    /// A member that does not answer.
    pub member_connect: u32,
    /// A silent member.
    pub member_data: u32,
    /// Wait for more of a connection's first bytes.
    pub tcp_inspect: u32,
}

impl Default for ListenerTimeouts {
    fn default() -> Self {
        ListenerTimeouts { client_data: 50_000, member_connect: 5_000, member_data: 50_000, tcp_inspect: 0 }
    }
}

impl Record for Listener {
    fn links(&self, note: &mut dyn FnMut(Link, Uuid)) {
        link_by_name(Kind::Listener, (self.id, &self.project, &self.name), note);
        note(Link::Inside(Kind::Listener, self.load_balancer_id), self.id);
        if let Some(pool) = self.default_pool_id {
            note(Link::ListenersOfPool(pool), self.id);
        }
    }
    fn counted_in(&self) -> Option<&str> {
        quota_owner(&self.project)
    }
    fn columns(&self) -> Vec<(&'static str, SqlValue)> {
        vec![
            ("project_id", (&self.project).into()),
            ("load_balancer_id", (&self.load_balancer_id).into()),
            ("default_pool_id", SqlValue::optional(self.default_pool_id)),
        ]
    }
}
