//! Members of pools.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Generation, GivenAddress, Standard};
use crate::store::SqlValue;
use crate::world::{Kind, Link, Record, link_by_name, quota_owner};

/// A server of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Part of a value in its row.
    pub id: Uuid,
    /// Owner.
    pub project: String,
    /// Its load balancer.
    pub load_balancer_id: Uuid,
    /// Its pool.
    pub pool_id: Uuid,
    /// Not unique.
    pub name: String,
    /// Whether it serves.
    pub admin_state_up: bool,
    /// Where it listens. With `protocol_port` unique in its pool.
    pub address: GivenAddress,
    /// See `address`.
    pub protocol_port: u16,
    /// The subnet that its owner named; see [`Member::subnet`].
    pub subnet_id: Option<Uuid>,
    /// The subnet of the VIP, for a member whose owner named none.
    pub vip_subnet_id: Uuid,
    /// Its share of new connections; 0 takes none.
    pub weight: u16,
    /// Serves only while no other member can.
    pub backup: bool,
    /// Its place among the members of its load balancer: they are listed in the order of their creation.
    pub ordinal: u64,
    /// When it changed.
    pub generation: Generation,
    /// Times and tags.
    pub standard: Standard,
}

impl Member {
    /// The subnet that it counts as a member of.
    pub fn subnet(&self) -> Uuid {
        self.subnet_id.unwrap_or(self.vip_subnet_id)
    }
}

impl Record for Member {
    fn links(&self, note: &mut dyn FnMut(Link, Uuid)) {
        link_by_name(Kind::Member, (self.id, &self.project, &self.name), note);
        note(Link::Inside(Kind::Member, self.pool_id), self.id);
        note(Link::MembersOfSubnet(self.subnet()), self.id);
        note(Link::MembersWithAddress(self.address.value), self.id);
    }
    fn counted_in(&self) -> Option<&str> {
        quota_owner(&self.project)
    }
    fn columns(&self) -> Vec<(&'static str, SqlValue)> {
        vec![("project_id", (&self.project).into()), ("pool_id", (&self.pool_id).into())]
    }
}
