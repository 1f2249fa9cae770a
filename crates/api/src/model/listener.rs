//! Listeners of load balancers.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Generation, GivenCidr, LbProtocol, Standard};
use crate::store::SqlValue;
use crate::world::{Kind, Link, Record, link_by_name, quota_owner};

/// A port of the VIPs on which a load balancer accepts connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listener {
    /// The id, which is a part of a key in its row.
    pub id: Uuid,
    /// The owning project.
    pub project: String,
    /// Its load balancer.
    pub load_balancer_id: Uuid,
    /// The name; not unique.
    pub name: String,
    /// Whether it accepts connections.
    pub admin_state_up: bool,
    /// The transport protocol. Unique in its load balancer together with `protocol_port`.
    pub protocol: LbProtocol,
    /// The port number, see `protocol`.
    pub protocol_port: u16,
    /// The maximum number of connections; -1 means no limit. Stored, not enforced.
    pub connection_limit: i64,
    /// The pool that serves connections. Without a pool the listener has no backends.
    pub default_pool_id: Option<Uuid>,
    /// Time-outs, stored but not enforced.
    pub timeouts: ListenerTimeouts,
    /// The prefixes from which clients may connect; empty means all.
    pub allowed_cidrs: Vec<GivenCidr>,
    /// The generations of its changes.
    pub generation: Generation,
    /// Times, description, tags.
    pub standard: Standard,
}

/// Time-outs that OVN does not support, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerTimeouts {
    /// For a silent client.
    pub client_data: u32,
    /// For a connection to a member.
    pub member_connect: u32,
    /// For a silent member.
    pub member_data: u32,
    /// For further bytes at the beginning of a connection.
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
