//! Floating IPs.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Standard;

/// An external address that can be given to a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FloatingIp {
    /// Also the UUID of its NAT row.
    pub id: Uuid,
    /// Owner.
    pub project: String,
    /// The external network.
    pub floating_network_id: Uuid,
    /// The address.
    pub floating_ip_address: Ipv4Addr,
    /// The hidden port that holds the address.
    pub floating_port_id: Uuid,
    /// The port it leads to, the address there and the router between. All or none.
    pub port_id: Option<Uuid>,
    /// See `port_id`.
    pub fixed_ip_address: Option<Ipv4Addr>,
    /// See `port_id`.
    pub router_id: Option<Uuid>,
    /// Host name.
    pub dns_name: String,
    /// Its domain.
    pub dns_domain: String,
    /// Revision, times, description, tags.
    pub standard: Standard,
}
