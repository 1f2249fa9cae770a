//! Subnets.

use std::net::IpAddr;

use ipnet::IpNet;
use ovn::MacAddr;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Standard;
use crate::store::SqlValue;
use crate::world::{Kind, Link, Record, link_by_name, quota_owner};

/// A prefix on a network, with its DHCP options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subnet {
    /// Its id.
    pub id: Uuid,
    /// The owning project.
    pub project: String,
    /// The name; not unique.
    pub name: String,
    /// Its network.
    pub network_id: Uuid,
    /// The prefix, without host bits.
    pub cidr: IpNet,
    /// The next hop of its default route; may be outside of the prefix.
    pub gateway_ip: Option<IpAddr>,
    /// The allocation pools, sorted, without overlap.
    pub allocation_pools: Vec<AddressRange>,
    /// Whether DHCP is on.
    pub enable_dhcp: bool,
    /// The resolvers, in order.
    pub dns_nameservers: Vec<IpAddr>,
    /// Further routes that DHCP sends.
    pub host_routes: Vec<HostRoute>,
    /// Whether and how a router sends advertisements.
    pub ipv6_ra_mode: Option<Ipv6Mode>,
    /// The method by which ports get their IPv6 addresses.
    pub ipv6_address_mode: Option<Ipv6Mode>,
    /// The device owners that get addresses automatically; empty means all.
    pub service_types: Vec<String>,
    /// The subnet pool of the prefix, if any.
    pub subnetpool_id: Option<Uuid>,
    /// The MAC of the DHCP server. Chosen once, because clients must not see it change.
    pub dhcp_server_mac: MacAddr,
    /// Revision, times, description, tags.
    pub standard: Standard,
}

impl Subnet {
    /// Whether ports form their own addresses from the prefix.
    pub fn is_autoconfigured(&self) -> bool {
        matches!(self.ipv6_address_mode, Some(Ipv6Mode::Slaac | Ipv6Mode::Dhcpv6Stateless))
    }

    /// 4 or 6.
    pub fn ip_version(&self) -> u8 {
        if self.cidr.addr().is_ipv4() { 4 } else { 6 }
    }
}

/// Addresses from `start` to `end`, both included, of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AddressRange {
    /// The first address.
    pub start: IpAddr,
    /// The last address.
    pub end: IpAddr,
}

/// A route that DHCP sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HostRoute {
    /// The destination.
    pub destination: IpNet,
    /// The next hop.
    pub nexthop: IpAddr,
}

/// The configuration of IPv6 hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ipv6Mode {
    /// Addresses and options from advertisements.
    Slaac,
    /// Addresses and options from DHCPv6.
    #[serde(rename = "dhcpv6-stateful")]
    Dhcpv6Stateful,
    /// Addresses from advertisements, options from DHCPv6.
    #[serde(rename = "dhcpv6-stateless")]
    Dhcpv6Stateless,
}

impl Ipv6Mode {
    /// The value in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Ipv6Mode::Slaac => "slaac",
            Ipv6Mode::Dhcpv6Stateful => "dhcpv6-stateful",
            Ipv6Mode::Dhcpv6Stateless => "dhcpv6-stateless",
        }
    }
}

impl Record for Subnet {
    fn links(&self, note: &mut dyn FnMut(Link, Uuid)) {
        link_by_name(Kind::Subnet, (self.id, &self.project, &self.name), note);
        note(Link::SubnetsOfNetwork(self.network_id), self.id);
        if let Some(pool) = self.subnetpool_id {
            note(Link::SubnetsOfPool(pool), self.id);
        }
    }
    fn counted_in(&self) -> Option<&str> {
        quota_owner(&self.project)
    }
    fn columns(&self) -> Vec<(&'static str, SqlValue)> {
        vec![
            ("project_id", (&self.project).into()),
            ("network_id", (&self.network_id).into()),
            ("subnetpool_id", SqlValue::optional(self.subnetpool_id)),
            ("cidr", (&self.cidr).into()),
        ]
    }
}
