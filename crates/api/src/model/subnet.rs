//! Subnets.

use std::net::IpAddr;

use ipnet::IpNet;
use ovn::MacAddr;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Standard;
use crate::store::SqlValue;
use crate::world::{Kind, Link, Record, link_by_name, quota_owner};

/// A prefix on a network, with what DHCP tells about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subnet {
    /// Its id.
    pub id: Uuid,
    /// Owner.
    pub project: String,
    /// Not unique.
    pub name: String,
    /// Where it is.
    pub network_id: Uuid,
    /// The prefix, without host bits.
    pub cidr: IpNet,
    /// The next hop of its default route; may lie outside of the prefix.
    pub gateway_ip: Option<IpAddr>,
    /// Where addresses are taken from, in order, without overlap.
    pub allocation_pools: Vec<AddressRange>,
    /// Whether DHCP answers.
    pub enable_dhcp: bool,
    /// Resolvers, in order.
    pub dns_nameservers: Vec<IpAddr>,
    /// Further routes for DHCP to tell.
    pub host_routes: Vec<HostRoute>,
    /// Who sends router advertisements, and of which kind.
    pub ipv6_ra_mode: Option<Ipv6Mode>,
    /// How ports come to their addresses.
    pub ipv6_address_mode: Option<Ipv6Mode>,
    /// Device owners that may have addresses automatically; empty means all.
    pub service_types: Vec<String>,
    /// The pool the prefix was taken from.
    pub subnetpool_id: Option<Uuid>,
    /// MAC of the DHCP server; made once, so that clients never see it change.
    pub dhcp_server_mac: MacAddr,
    /// Revision, times, description, tags.
    pub standard: Standard,
}

impl Subnet {
    /// Whether ports form their own address from the prefix.
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
    /// First.
    pub start: IpAddr,
    /// Last.
    pub end: IpAddr,
}

/// A route that DHCP tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HostRoute {
    /// Where to.
    pub destination: IpNet,
    /// Through whom.
    pub nexthop: IpAddr,
}

/// How IPv6 hosts are configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ipv6Mode {
    /// From advertisements alone.
    Slaac,
    /// Addresses from DHCPv6.
    #[serde(rename = "dhcpv6-stateful")]
    Dhcpv6Stateful,
    /// Addresses from advertisements, the rest from DHCPv6.
    #[serde(rename = "dhcpv6-stateless")]
    Dhcpv6Stateless,
}

impl Ipv6Mode {
    /// The word the API uses.
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
