//! Routers.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Standard;
use crate::store::SqlValue;
use crate::world::{Kind, Link, Record, link_by_name, quota_owner};

/// A router. Its interfaces and gateways are ports that have it as their device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Router {
    /// Also the UUID of its logical router.
    pub id: Uuid,
    /// The owning project.
    pub project: String,
    /// The name; not unique.
    pub name: String,
    /// Whether it forwards.
    pub admin_state_up: bool,
    /// The compatibility gateway: the one in `external_gateway_info`. None if and only if the router has no gateway port.
    pub gw_port_id: Option<Uuid>,
    /// Whether all gateways translate source addresses. Kept when the last gateway is removed.
    pub enable_snat: bool,
    /// Whether every gateway gives a default route, instead of one.
    pub enable_default_route_ecmp: bool,
    /// Whether BFD removes default routes whose next hop does not answer.
    pub enable_default_route_bfd: bool,
    /// The extra routes of the owner, without duplicates.
    pub routes: Vec<ExtraRoute>,
    /// The requested availability zones of its gateways.
    pub availability_zone_hints: Vec<String>,
    /// Revision, times, description, tags.
    pub standard: Standard,
}

/// An extra route. Several next hops for one destination share the traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ExtraRoute {
    /// The destination, without host bits.
    pub destination: IpNet,
    /// The next hop.
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
