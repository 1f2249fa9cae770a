//! Members of pools.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Generation, GivenAddress, Standard};
use crate::store::SqlValue;
use crate::world::{Kind, Link, Record, link_by_name, quota_owner};

/// A server of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The id, which is a part of a value in its row.
    pub id: Uuid,
    /// The owning project.
    pub project: String,
    /// Its load balancer.
    pub load_balancer_id: Uuid,
    /// Its pool.
    pub pool_id: Uuid,
    /// The name; not unique.
    pub name: String,
    /// Whether it gets connections.
    pub admin_state_up: bool,
    /// The address on which it listens. Unique in its pool together with `protocol_port`.
    pub address: GivenAddress,
    /// The port on which it listens, see `address`.
    pub protocol_port: u16,
    /// The subnet that its owner named, if any; see [`Member::subnet`].
    pub subnet_id: Option<Uuid>,
    /// The subnet of the VIP, used if its owner named no subnet.
    pub vip_subnet_id: Uuid,
    /// The weight among new connections; 0 means none.
    pub weight: u16,
    /// Whether it gets connections only while no other member can serve them.
    pub backup: bool,
    /// Its position among the members of its load balancer, in order of creation.
    pub ordinal: u64,
    /// The generations of its changes.
    pub generation: Generation,
    /// Times and tags.
    pub standard: Standard,
}

impl Member {
    /// The subnet that it counts for.
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
