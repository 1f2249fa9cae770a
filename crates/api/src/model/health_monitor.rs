//! Health monitors of pools.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Generation, LbProtocol, Standard};
use crate::store::SqlValue;
use crate::world::{Kind, Link, Record, link_by_name, quota_owner};

/// The settings of OVN's probes of a pool's members. A pool has at most one health monitor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthMonitor {
    /// The id, which is a part of a key in its rows.
    pub id: Uuid,
    /// The owning project.
    pub project: String,
    /// Its load balancer.
    pub load_balancer_id: Uuid,
    /// Its pool.
    pub pool_id: Uuid,
    /// The name; not unique.
    pub name: String,
    /// Whether it probes.
    pub admin_state_up: bool,
    /// The kind of its probes.
    pub kind: MonitorKind,
    /// The seconds between two probes.
    pub delay: u32,
    /// The seconds to wait for a reply.
    pub timeout: u32,
    /// The number of replies after which a member counts as online.
    pub max_retries: u8,
    /// The number of missing replies after which a member counts as offline.
    pub max_retries_down: u8,
    /// The generations of its changes.
    pub generation: Generation,
    /// Times and tags.
    pub standard: Standard,
}

/// A kind of probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum MonitorKind {
    /// A TCP SYN.
    #[serde(rename = "TCP")]
    Tcp,
    /// A UDP datagram.
    #[serde(rename = "UDP-CONNECT")]
    UdpConnect,
}

impl MonitorKind {
    /// The value in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            MonitorKind::Tcp => "TCP",
            MonitorKind::UdpConnect => "UDP-CONNECT",
        }
    }

    /// Whether OVN can probe members of this protocol in this way. It probes with the protocol of the load balancer, whatever the
    /// health monitor requests, and never with SCTP.
    pub fn can_probe(self, protocol: LbProtocol) -> bool {
        match self {
            MonitorKind::Tcp => protocol == LbProtocol::Tcp,
            MonitorKind::UdpConnect => protocol == LbProtocol::Udp,
        }
    }
}

impl Record for HealthMonitor {
    fn links(&self, note: &mut dyn FnMut(Link, Uuid)) {
        link_by_name(Kind::HealthMonitor, (self.id, &self.project, &self.name), note);
        note(Link::Inside(Kind::HealthMonitor, self.pool_id), self.id);
    }
    fn counted_in(&self) -> Option<&str> {
        quota_owner(&self.project)
    }
    fn columns(&self) -> Vec<(&'static str, SqlValue)> {
        vec![("project_id", (&self.project).into()), ("pool_id", (&self.pool_id).into())]
    }
}
