//! Floating IPs.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Standard;
use crate::store::SqlValue;
use crate::world::{Kind, Link, Record, quota_owner};

/// An external address that can be associated with a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FloatingIp {
    /// Also the UUID of its NAT row.
    pub id: Uuid,
    /// The owning project.
    pub project: String,
    /// The external network.
    pub floating_network_id: Uuid,
    /// The address.
    pub floating_ip_address: Ipv4Addr,
    /// The hidden port that holds the address.
    pub floating_port_id: Uuid,
    /// The associated port. Set together with `fixed_ip_address` and `router_id`, or none of them is.
    pub port_id: Option<Uuid>,
    /// The associated address of `port_id`.
    pub fixed_ip_address: Option<Ipv4Addr>,
    /// The router between both.
    pub router_id: Option<Uuid>,
    /// The host name.
    pub dns_name: String,
    /// The domain of the host name.
    pub dns_domain: String,
    /// Revision, times, description, tags.
    pub standard: Standard,
}

impl Record for FloatingIp {
    fn links(&self, note: &mut dyn FnMut(Link, Uuid)) {
        note(Link::OwnedBy(Kind::FloatingIp, self.project.as_str().into()), self.id);
        note(Link::FloatingIpsOfNetwork(self.floating_network_id), self.id);
        if let Some(port) = self.port_id {
            note(Link::FloatingIpsOfPort(port), self.id);
        }
        if let Some(router) = self.router_id {
            note(Link::FloatingIpsOfRouter(router), self.id);
        }
    }
    fn counted_in(&self) -> Option<&str> {
        quota_owner(&self.project)
    }
    fn columns(&self) -> Vec<(&'static str, SqlValue)> {
        vec![
            ("project_id", (&self.project).into()),
            ("floating_network_id", (&self.floating_network_id).into()),
            ("floating_ip_address", (&self.floating_ip_address).into()),
            ("floating_port_id", (&self.floating_port_id).into()),
            ("fixed_port_id", SqlValue::optional(self.port_id)),
            ("router_id", SqlValue::optional(self.router_id)),
        ]
    }
}
