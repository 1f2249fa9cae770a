//! Subnet pools.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Standard;
use crate::store::SqlValue;
use crate::world::{Kind, Link, Record, link_by_name, quota_owner};

/// A set of prefixes from which subnets are allocated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubnetPool {
    /// Its id.
    pub id: Uuid,
    /// The owning project.
    pub project: String,
    /// The name; not unique.
    pub name: String,
    /// The prefixes, all of one family; merged, sorted.
    pub prefixes: Vec<IpNet>,
    /// 4 or 6.
    pub ip_version: u8,
    /// The prefix length of the largest subnet.
    pub min_prefixlen: u8,
    /// The prefix length of the smallest subnet.
    pub max_prefixlen: u8,
    /// The default prefix length.
    pub default_prefixlen: u8,
    /// The limit per project: addresses for IPv4, /64 networks for IPv6.
    pub default_quota: Option<u64>,
    /// The address scope in which its addresses are unique.
    pub address_scope_id: Option<Uuid>,
    /// Whether every project may use it.
    pub shared: bool,
    /// Whether it is the default pool of its family.
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
