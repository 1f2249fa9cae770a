//! The options of OVN's DHCP server, with their types in OVN (`lib/ovn-l7.h`).
//!
//! The list is closed: only names in this list can be written into a flow.

use super::{DhcpError, DhcpValue};

/// Bytes of a DHCPv4 option: its length is one byte.
const LONGEST_V4: usize = 255;

/// Maximum bytes of a DHCPv6 option. The format allows 65535. But OVN puts all options into one OpenFlow action of at most that
/// size, and no client accepts an answer that exceeds a packet.
const LONGEST_V6: usize = 1024;

/// The version of DHCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DhcpVersion {
    /// DHCPv4.
    V4,
    /// DHCPv6.
    V6,
}

/// The type of an option's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DhcpKind {
    /// `true` or `false`: northd itself interprets this keyword and does not paste it.
    Flag,
    /// OVN's `bool`: 1 or 0.
    Bool,
    /// OVN's `uint8`.
    Uint8,
    /// OVN's `uint16`.
    Uint16,
    /// OVN's `uint32`.
    Uint32,
    /// OVN's `ipv4` with exactly one address.
    Ipv4,
    /// OVN's `ipv4` with one or more addresses.
    Ipv4List,
    /// OVN's `static_routes`.
    StaticRoutes,
    /// OVN's `str`, and `host_id` as a name.
    Str,
    /// OVN's `domains`, and the `str` of DHCPv6 that is such a list.
    Domains,
    /// OVN's `ipv6` with exactly one address.
    Ipv6,
    /// OVN's `ipv6` with one or more addresses.
    Ipv6List,
    /// OVN's `mac`.
    Mac,
}

impl DhcpKind {
    /// Describes values of this type in an error message.
    pub fn expected(self) -> &'static str {
        match self {
            DhcpKind::Flag | DhcpKind::Bool => "true or false",
            DhcpKind::Uint8 => "a number from 0 to 255",
            DhcpKind::Uint16 => "a number from 0 to 65535",
            DhcpKind::Uint32 => "a number from 0 to 4294967295",
            DhcpKind::Ipv4 => "an IPv4 address",
            DhcpKind::Ipv4List => "IPv4 addresses with commas between them",
            DhcpKind::StaticRoutes => "IPv4 routes: DESTINATION/LENGTH,NEXTHOP with commas between them",
            DhcpKind::Str => "a string of at most 255 bytes",
            DhcpKind::Domains => "DNS names with commas between them",
            DhcpKind::Ipv6 => "an IPv6 address",
            DhcpKind::Ipv6List => "IPv6 addresses with commas between them",
            DhcpKind::Mac => "a MAC address",
        }
    }
}

/// An option of OVN. This module defines all of them.
#[derive(Debug, PartialEq, Eq)]
pub struct DhcpOption {
    name: &'static str,
    kind: DhcpKind,
    longest: usize,
}

impl DhcpOption {
    const fn v4(name: &'static str, kind: DhcpKind) -> Self {
        DhcpOption { name, kind, longest: LONGEST_V4 }
    }

    const fn v6(name: &'static str, kind: DhcpKind) -> Self {
        DhcpOption { name, kind, longest: LONGEST_V6 }
    }

    /// The option with this name in OVN.
    pub fn named(version: DhcpVersion, name: &str) -> Result<&'static DhcpOption, DhcpError> {
        let known = Self::all(version).iter().find(|option| option.name == name);
        known.ok_or_else(|| DhcpError::Unknown(name.chars().take(80).collect()))
    }

    /// Every option.
    pub fn all(version: DhcpVersion) -> &'static [DhcpOption] {
        match version {
            DhcpVersion::V4 => V4,
            DhcpVersion::V6 => V6,
        }
    }

    /// The option's name in OVN.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The type of its values.
    pub fn kind(&self) -> DhcpKind {
        self.kind
    }

    /// Parses a value in the form that users and API clients write.
    pub fn parse(&self, text: &str) -> Result<DhcpValue, DhcpError> {
        let value = DhcpValue::parse(self.kind, text)?;
        self.check(&value)?;
        Ok(value)
    }

    /// Checks whether the option can have a value.
    pub fn check(&self, value: &DhcpValue) -> Result<(), DhcpError> {
        if !value.is(self.kind) {
            return Err(DhcpError::Kind(self.kind.expected()));
        }
        match value.encoded_len() {
            length if length > self.longest => Err(DhcpError::Long(length, self.longest)),
            _ => Ok(()),
        }
    }
}

/// `server_mac` is not an option of DHCP; northd reads it from the same map. It and `server_id` are single values because
/// northd also sets and matches the addresses of the reply with them.
const V4: &[DhcpOption] = &[
    DhcpOption::v4("netmask", DhcpKind::Ipv4),
    DhcpOption::v4("router", DhcpKind::Ipv4List),
    DhcpOption::v4("dns_server", DhcpKind::Ipv4List),
    DhcpOption::v4("log_server", DhcpKind::Ipv4List),
    DhcpOption::v4("lpr_server", DhcpKind::Ipv4List),
    DhcpOption::v4("hostname", DhcpKind::Str),
    DhcpOption::v4("domain_name", DhcpKind::Str),
    DhcpOption::v4("swap_server", DhcpKind::Ipv4),
    DhcpOption::v4("ip_forward_enable", DhcpKind::Bool),
    DhcpOption::v4("policy_filter", DhcpKind::Ipv4List),
    DhcpOption::v4("default_ttl", DhcpKind::Uint8),
    DhcpOption::v4("mtu", DhcpKind::Uint16),
    DhcpOption::v4("broadcast_address", DhcpKind::Ipv4),
    DhcpOption::v4("router_discovery", DhcpKind::Bool),
    DhcpOption::v4("router_solicitation", DhcpKind::Ipv4),
    DhcpOption::v4("arp_cache_timeout", DhcpKind::Uint32),
    DhcpOption::v4("ethernet_encap", DhcpKind::Bool),
    DhcpOption::v4("tcp_ttl", DhcpKind::Uint8),
    DhcpOption::v4("tcp_keepalive_interval", DhcpKind::Uint32),
    DhcpOption::v4("nis_server", DhcpKind::Ipv4List),
    DhcpOption::v4("ntp_server", DhcpKind::Ipv4List),
    DhcpOption::v4("netbios_name_server", DhcpKind::Ipv4List),
    DhcpOption::v4("netbios_node_type", DhcpKind::Uint8),
    DhcpOption::v4("lease_time", DhcpKind::Uint32),
    DhcpOption::v4("server_id", DhcpKind::Ipv4),
    DhcpOption::v4("server_mac", DhcpKind::Mac),
    DhcpOption::v4("T1", DhcpKind::Uint32),
    DhcpOption::v4("T2", DhcpKind::Uint32),
    DhcpOption::v4("tftp_server", DhcpKind::Str),
    DhcpOption::v4("bootfile_name", DhcpKind::Str),
    DhcpOption::v4("bootfile_name_alt", DhcpKind::Str),
    DhcpOption::v4("domain_search_list", DhcpKind::Domains),
    DhcpOption::v4("classless_static_route", DhcpKind::StaticRoutes),
    DhcpOption::v4("tftp_server_address", DhcpKind::Ipv4List),
    DhcpOption::v4("path_prefix", DhcpKind::Str),
    DhcpOption::v4("ms_classless_static_route", DhcpKind::StaticRoutes),
    DhcpOption::v4("wpad", DhcpKind::Str),
    DhcpOption::v4("next_server", DhcpKind::Ipv4),
];

/// `dhcpv6_stateless` is not an option of DHCP either. northd derives the source address of the reply from `server_id`.
const V6: &[DhcpOption] = &[
    DhcpOption::v6("server_id", DhcpKind::Mac),
    DhcpOption::v6("ia_addr", DhcpKind::Ipv6),
    DhcpOption::v6("dns_server", DhcpKind::Ipv6List),
    DhcpOption::v6("domain_search", DhcpKind::Domains),
    DhcpOption::v6("fqdn", DhcpKind::Str),
    DhcpOption::v6("bootfile_name", DhcpKind::Str),
    DhcpOption::v6("bootfile_name_alt", DhcpKind::Str),
    DhcpOption::v6("dhcpv6_stateless", DhcpKind::Flag),
];
