//! Routers.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Standard;
use crate::store::SqlValue;
use crate::world::{Kind, Link, Record, link_by_name, quota_owner};

/// A router. Its interfaces and gateways are ports that name it as their device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Router {
    /// Also the UUID of its logical router.
    pub id: Uuid,
    /// Owner.
    pub project: String,
    /// Not unique.
    pub name: String,
    /// Whether it forwards.
    pub admin_state_up: bool,
    /// The compatibility gateway: the one that `external_gateway_info` shows. None if and only if the router has no
    /// gateway port.
    pub gw_port_id: Option<Uuid>,
    /// Router-wide; kept while there are gateways.
    pub enable_snat: bool,
    /// A default route per gateway instead of one.
    pub enable_default_route_ecmp: bool,
    /// Default routes leave when their next hop does not answer.
    pub enable_default_route_bfd: bool,
    /// Routes the owner asked for, without repeats.
    pub routes: Vec<ExtraRoute>,
    /// Where its gateways should be.
    pub availability_zone_hints: Vec<String>,
    /// Revision, times, description, tags.
    pub standard: Standard,
}

/// A route the owner asked for. Several next hops for one destination share the traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ExtraRoute {
    /// Where to, without host bits.
    pub destination: IpNet,
    /// Through whom.
    pub nexthop: IpAddr,
}

impl Record for Router {
    fn links(&self, note: &mut dyn FnMut(Link, Uuid)) {
        link_by_name(Kind::Router, (self.id, &self.project, &self.name), note);
    }
    fn counted_in(&self) -> Option<&str> {
        quota_owner(&self.project)
    }
    fn columns(&self) -> Vec<(&'static str, SqlValue)> {
        vec![("project_id", (&self.project).into()), ("gw_port_id", SqlValue::optional(self.gw_port_id))]
    }
}
