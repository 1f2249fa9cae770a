//! Subnet pools.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Standard;
use crate::store::SqlValue;
use crate::world::{Kind, Link, Record, link_by_name, quota_owner};

/// Prefixes that subnets are cut from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubnetPool {
    /// Its id.
    pub id: Uuid,
    /// Owner.
    pub project: String,
    /// Not unique.
    pub name: String,
    /// All of one family; merged, sorted.
    pub prefixes: Vec<IpNet>,
    /// 4 or 6.
    pub ip_version: u8,
    /// Length of the largest subnet.
    pub min_prefixlen: u8,
    /// Length of the smallest subnet.
    pub max_prefixlen: u8,
    /// Length if none is asked for.
    pub default_prefixlen: u8,
    /// How much a project may take: addresses for IPv4, /64 networks for IPv6.
    pub default_quota: Option<u64>,
    /// The scope its addresses are unique in.
    pub address_scope_id: Option<Uuid>,
    /// Every project may use it.
    pub shared: bool,
    /// Taken if a subnet asks for the default pool of its family.
    pub is_default: bool,
    /// Revision, times, description, tags.
    pub standard: Standard,
}

impl Record for SubnetPool {
    fn links(&self, note: &mut dyn FnMut(Link, Uuid)) {
        link_by_name(Kind::SubnetPool, (self.id, &self.project, &self.name), note);
        if let Some(scope) = self.address_scope_id {
            note(Link::Inside(Kind::SubnetPool, scope), self.id);
        }
    }
    fn counted_in(&self) -> Option<&str> {
        quota_owner(&self.project)
    }
    fn columns(&self) -> Vec<(&'static str, SqlValue)> {
        vec![
            ("project_id", (&self.project).into()),
            ("address_scope_id", SqlValue::optional(self.address_scope_id)),
        ]
    }
}
