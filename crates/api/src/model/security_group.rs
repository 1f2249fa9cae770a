//! Security groups and their rules.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Standard;
use crate::store::SqlValue;
use crate::world::{Kind, Link, Record, link_by_name, quota_owner};

/// A set of rules for ports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecurityGroup {
    /// The id, as in the name of the port group, `pg_<id>`.
    pub id: Uuid,
    /// The owning project.
    pub project: String,
    /// The name; unique only for `default`.
    pub name: String,
    /// Whether connection tracking lets replies through.
    pub stateful: bool,
    /// Whether it is the project's group for ports that name none.
    pub is_default: bool,
    /// Revision, times, description, tags.
    pub standard: Standard,
}

/// A rule of a group: it allows some traffic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecurityGroupRule {
    /// Also the UUID of its ACL.
    pub id: Uuid,
    /// The owning project.
    pub project: String,
    /// The group.
    pub security_group_id: Uuid,
    /// The direction, seen from the port.
    pub direction: Direction,
    /// The family.
    pub ethertype: Ethertype,
    /// The protocol as given: a name or a number; none means any.
    pub protocol: Option<String>,
    /// The first port, or the ICMP type.
    pub port_range_min: Option<u16>,
    /// The last port, or the ICMP code.
    pub port_range_max: Option<u16>,
    /// The prefix of the remote side, as given.
    pub remote_ip_prefix: Option<IpNet>,
    /// The group of the remote side.
    pub remote_group_id: Option<Uuid>,
    /// Revision, times, description; rules have no tags.
    pub standard: Standard,
}

/// The direction of packets, seen from the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// To the port.
    Ingress,
    /// From the port.
    Egress,
}

/// The family of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Ethertype {
    /// IPv4.
    IPv4,
    /// IPv6.
    IPv6,
}

impl Record for SecurityGroup {
    fn links(&self, note: &mut dyn FnMut(Link, Uuid)) {
        link_by_name(Kind::SecurityGroup, (self.id, &self.project, &self.name), note);
        if self.is_default {
            note(Link::DefaultGroupOf(self.project.as_str().into()), self.id);
        }
    }
    fn counted_in(&self) -> Option<&str> {
        quota_owner(&self.project)
    }
    fn columns(&self) -> Vec<(&'static str, SqlValue)> {
        vec![("project_id", (&self.project).into())]
    }
}

impl Record for SecurityGroupRule {
    fn links(&self, note: &mut dyn FnMut(Link, Uuid)) {
        note(Link::OwnedBy(Kind::SecurityGroupRule, self.project.as_str().into()), self.id);
        note(Link::RulesOfGroup(self.security_group_id), self.id);
        if let Some(group) = self.remote_group_id {
            note(Link::RulesNamingGroup(group), self.id);
        }
    }
    fn counted_in(&self) -> Option<&str> {
        quota_owner(&self.project)
    }
    fn columns(&self) -> Vec<(&'static str, SqlValue)> {
        vec![("project_id", (&self.project).into()), ("security_group_id", (&self.security_group_id).into())]
    }
}
