//! Load balancers. Listeners, pools, members and health monitors are their parts.

mod generation;
mod row_slot;

use std::collections::BTreeSet;
use std::net::IpAddr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{GivenAddress, Standard};
use crate::store::SqlValue;
use crate::world::{Kind, Link, Record, link_by_name, quota_owner};

pub use generation::Generation;
pub use row_slot::{RowGroup, RowSlot};

/// A load balancer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadBalancer {
    /// Also the UUID of its first row.
    pub id: Uuid,
    /// The owning project.
    pub project: String,
    /// The name; not unique.
    pub name: String,
    /// Whether it accepts connections.
    pub admin_state_up: bool,
    /// The provider's name, as its owner requested it.
    pub provider: String,
    /// The network of all its VIPs.
    pub vip_network_id: Uuid,
    /// The addresses to which clients connect; never empty. The first is the primary one.
    pub vips: Vec<Vip>,
    /// Its Northbound rows. They are stored so that a row keeps its UUID whatever pools are added and removed.
    pub rows: Vec<RowSlot>,
    /// Grows with each accepted change of the load balancer or of any of its parts. Its rows carry it, so they show which changes the
    /// Northbound has applied.
    pub generation: u64,
    /// The time of the last growth of `generation`.
    pub changed_at: Timestamp,
    /// The subnets with members that OVN probes. Each such subnet has one port as the source of probes, which all load balancers share.
    pub probed_subnets: BTreeSet<Uuid>,
    /// The number of members created so far: the next one's [`ordinal`](super::Member::ordinal).
    pub members_made: u64,
    /// Whether its owner has deleted it. It then has no parts and wants no rows. Once the Northbound has none of its rows, it is removed
    /// with its VIP ports.
    pub deleted: bool,
    /// Times, description, tags.
    pub standard: Standard,
}

/// An address to which clients connect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vip {
    /// The subnet of the address.
    pub subnet_id: Uuid,
    /// The address.
    pub address: GivenAddress,
    /// The port that holds the address.
    pub port_id: Uuid,
    /// Whether the owner created the port, which then outlives the load balancer.
    pub own_port: bool,
}

impl LoadBalancer {
    /// The first VIP.
    ///
    /// # Panics
    /// Never: a load balancer has a VIP from its creation on.
    pub fn primary_vip(&self) -> &Vip {
        self.vips.first().unwrap_or_else(|| unreachable!("load balancer {} has no VIP", self.id))
    }

    /// Whether a backend of this family can serve one of its VIPs.
    pub fn serves_family(&self, address: IpAddr) -> bool {
        self.vips.iter().any(|vip| vip.address.value.is_ipv4() == address.is_ipv4())
    }
}

impl Record for LoadBalancer {
    fn links(&self, note: &mut dyn FnMut(Link, Uuid)) {
        link_by_name(Kind::LoadBalancer, (self.id, &self.project, &self.name), note);
        for vip in &self.vips {
            note(Link::LoadBalancerOfVipPort(vip.port_id), self.id);
            note(Link::LoadBalancersOfSubnet(vip.subnet_id), self.id);
        }
        for subnet in &self.probed_subnets {
            note(Link::LoadBalancersProbing(*subnet), self.id);
        }
        if self.deleted {
            note(Link::DeletedLoadBalancers, self.id);
        }
    }
    /// A deleted load balancer counts until its rows are gone.
    fn counted_in(&self) -> Option<&str> {
        quota_owner(&self.project)
    }
    fn columns(&self) -> Vec<(&'static str, SqlValue)> {
        vec![("project_id", (&self.project).into())]
    }
}

/// The transport protocol of a listener or a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum LbProtocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl LbProtocol {
    /// The value in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            LbProtocol::Tcp => "TCP",
            LbProtocol::Udp => "UDP",
            LbProtocol::Sctp => "SCTP",
        }
    }

    /// Parses the value of the API.
    pub fn parse(word: &str) -> Option<Self> {
        [LbProtocol::Tcp, LbProtocol::Udp, LbProtocol::Sctp].into_iter().find(|it| it.as_str() == word)
    }
}
