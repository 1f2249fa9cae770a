//! The settings of the API. Names and defaults are Neutron's where Neutron has the option.

mod quotas;

use std::collections::BTreeMap;
use std::net::IpAddr;

use ovn::MacAddr;
use ovn::text::DomainName;
use ovn::text::dhcp::{DhcpOption, DhcpVersion};
use serde::{Deserialize, Serialize};

use crate::model::{NetworkType, owner};

pub use quotas::DefaultQuotas;

/// Generates the struct, its defaults and the list of its keys from one table.
macro_rules! settings {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty = $default:expr,)*) => {
        /// The settings with their defaults.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Settings {
            $($(#[doc = $doc])+ pub $name: $type,)*
        }

        impl Settings {
            /// Every key and its description.
            pub const KEYS: &[(&str, &str)] = &[$((stringify!($name), concat!($($doc),+)),)*];
        }

        impl Default for Settings {
            fn default() -> Self {
                Settings { $($name: $default,)* }
            }
        }
    };
}

settings! {
    /// Name of this installation, in the marks of its rows in the Northbound.
    owner: String = "meridian".into(),
    /// Whether new routers get a default route per gateway.
    enable_default_route_ecmp: bool = false,
    /// Whether BFD monitors the default routes of new routers.
    enable_default_route_bfd: bool = false,
    /// Source NAT of a gateway whose request does not set enable_snat.
    enable_snat_by_default: bool = true,
    /// Choice of the chassis of gateways: leastloaded or chance.
    ovn_l3_scheduler: Scheduler = Scheduler::LeastLoaded,
    /// Whether floating IPs are translated on the chassis of their instance instead of the gateway's.
    enable_distributed_floating_ip: bool = false,
    /// Whether a router has one source NAT rule for all addresses instead of one per subnet.
    ovn_router_indirect_snat: bool = true,
    /// Whether floating IPs are translated without connection tracking.
    stateless_nat_enabled: bool = false,
    /// Whether one group per router adds load balancers to the router and its networks, instead of one reference each.
    load_balancer_groups: bool = false,
    /// Whether networks get a metadata port.
    ovn_metadata_enabled: bool = true,
    /// Whether the metadata port also has an address in IPv4 subnets without DHCP. In Neutron it has none there.
    metadata_ip_on_nodhcp: bool = true,
    /// Owner of new metadata ports: network:distributed as in Neutron today, or network:dhcp as in older ones.
    metadata_port_device_owner: MetadataPortOwner = MetadataPortOwner::Distributed,
    /// Whether routers get a route and policies to the metadata service, for instances without DHCP.
    metadata_router_route: bool = true,
    /// Seconds for which network-vif-plugged is delayed while the metadata service of a network of the instance is not ready on the
    /// chassis. Keep it below Nova's vif_plugging_timeout.
    metadata_ready_timeout: u32 = 15,
    /// Lease time of DHCP in seconds.
    dhcp_default_lease_time: u32 = 43_200,
    /// Resolvers of subnets without any. If empty, those of the server's host; with 0.0.0.0 or ::, none at all.
    dns_servers: Vec<IpAddr> = Vec::new(),
    /// Options of every DHCPv4 row: OVN's names, and values of their types.
    ovn_dhcp4_global_options: BTreeMap<String, String> = BTreeMap::new(),
    /// Options of every DHCPv6 row: OVN's names, and values of their types.
    ovn_dhcp6_global_options: BTreeMap<String, String> = BTreeMap::new(),
    /// Seconds for which a learned neighbour is kept.
    mac_binding_age_threshold: u32 = 300,
    /// Seconds for which a learned MAC is kept on provider networks.
    fdb_age_threshold: u32 = 300,
    /// Whether localnet ports learn MACs.
    localnet_learn_fdb: bool = false,
    /// Whether external networks flood ARP requests to all routers.
    broadcast_arps_to_all_routers: bool = true,
    /// Whether switches snoop multicast (IGMP and MLD).
    igmp_snooping_enable: bool = false,
    /// Whether registered multicast groups are flooded to provider networks.
    igmp_flood: bool = false,
    /// Whether multicast reports are flooded to provider networks.
    igmp_flood_reports: bool = true,
    /// Whether unregistered multicast groups are flooded.
    igmp_flood_unregistered: bool = false,
    /// MTU of the physical network.
    global_physnet_mtu: u32 = 1500,
    /// Bytes of Geneve options.
    geneve_max_header_size: u32 = 30,
    /// Types of a new network when the request names none, the first with a free number: geneve, vlan (in network_vlan_ranges), local.
    tenant_network_types: Vec<NetworkType> = vec![NetworkType::Geneve],
    /// Tunnel keys of new networks, first and last.
    vni_range: (u32, u32) = (1, 65_535),
    /// VLAN tags of new networks, by physical network.
    network_vlan_ranges: BTreeMap<String, Vec<(u32, u32)>> = BTreeMap::new(),
    /// Prefix of new MAC addresses: the first three bytes, or four if the fourth is not zero.
    base_mac: MacAddr = MacAddr([0xfa, 0x16, 0x3e, 0, 0, 0]),
    /// Directory of the vhost-user sockets of ports.
    vhost_sock_dir: String = "/var/run/openvswitch".into(),
    /// DNS domain of instances.
    dns_domain: String = "openstacklocal".into(),
    /// Maximum size of a page; no limit if unset.
    pagination_max_limit: Option<u64> = None,
    /// Maximum number of allowed address pairs of a port.
    max_allowed_address_pair: usize = 10,
    /// Maximum number of resolvers of a subnet.
    max_dns_nameservers: usize = 5,
    /// Maximum number of host routes of a subnet.
    max_subnet_host_routes: usize = 20,
    /// Seconds without a report after which an agent counts as dead.
    agent_down_time: u32 = 75,
    /// Availability zones of routers whose request names none.
    default_availability_zones: Vec<String> = Vec::new(),
    /// Default quotas by resource, -1 for no limit. Resources without an entry keep their defaults.
    quotas: DefaultQuotas = DefaultQuotas::default(),
    /// Maximum number of objects that one request may create.
    max_bulk_size: usize = 1000,
    /// Whether BFD sessions are shared between routers.
    bfd_session_sharing: BfdSharing = BfdSharing::Port,
    /// Minimum interval of sent BFD packets in milliseconds; OVN's default if unset.
    bfd_min_tx: Option<u32> = None,
    /// Minimum interval of received BFD packets in milliseconds; OVN's default if unset.
    bfd_min_rx: Option<u32> = None,
    /// Number of lost packets that end a BFD session; OVN's default if unset.
    bfd_detect_mult: Option<u32> = None,
    /// Seconds after which all rows are compared again even without a known change.
    resync_interval: u32 = 300,
    /// Percent of all rows that a new writer may delete without `meridian allow-deletions`; fewer than ten rows never wait, and 100 means
    /// no limit.
    max_takeover_deletions: u8 = 10,
    /// Seconds after which the routes of a gateway without a chassis are removed.
    unhosted_grace: u32 = 5,
    /// Whether all chassis may carry gateways if none is gateway-capable.
    gateway_chassis_fallback: bool = false,
    /// The time after which the other chassis consider a chassis dead, through BFD in the tunnels.
    ha_failover_strategy: HaFailover = HaFailover::Normal,
    /// Milliseconds between packets that a chassis accepts, with ha_failover_strategy = "manual".
    ha_bfd_min_rx: u32 = 1000,
    /// Milliseconds between packets that a chassis sends, with ha_failover_strategy = "manual".
    ha_bfd_min_tx: u32 = 100,
    /// Number of lost packets after which a chassis counts as dead, with ha_failover_strategy = "manual".
    ha_bfd_mult: u32 = 3,
    /// Further keys of `NB_Global.options`, written unchanged: `ignore_lsp_down`, `mac_binding_removal_limit` and the like.
    northbound_options: BTreeMap<String, String> = BTreeMap::new(),
    /// Prefix of links, instead of the address in the request.
    network_link_prefix: Option<String> = None,
}

/// The choice of a chassis for a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheduler {
    /// The chassis with the fewest gateways, siblings apart.
    LeastLoaded,
    /// A random chassis.
    Chance,
}

/// The owner of metadata ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MetadataPortOwner {
    /// That of Neutron since its Victoria release.
    #[serde(rename = "network:distributed")]
    Distributed,
    /// That of older ones.
    #[serde(rename = "network:dhcp")]
    Dhcp,
}

impl MetadataPortOwner {
    /// The value of a port's `device_owner`.
    pub fn device_owner(self) -> &'static str {
        match self {
            MetadataPortOwner::Distributed => owner::DISTRIBUTED,
            MetadataPortOwner::Dhcp => owner::DHCP,
        }
    }
}

/// The time after which a chassis counts as dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HaFailover {
    /// OVN's defaults.
    Normal,
    /// Half the time, with twice the packets.
    Aggressive,
    /// Twice the time, with half the packets.
    Conservative,
    /// The values of `ha_bfd_min_rx`, `ha_bfd_min_tx` and `ha_bfd_mult`.
    Manual,
}

/// The scope of a BFD session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BfdSharing {
    /// One session for each gateway port and next hop.
    Port,
    /// One session for each chassis, network and next hop.
    Chassis,
}

impl Settings {
    /// The bytes of a packet that Geneve, UDP and IPv4 use.
    pub fn geneve_overhead(&self) -> u32 {
        self.geneve_max_header_size + 20 + 8
    }

    /// `bfd-min-rx`, `bfd-min-tx` and `bfd-mult` of the tunnels. All three are always written, so that a return to `normal` needs no memory
    /// of the previous values.
    pub fn tunnel_bfd(&self) -> [(&'static str, u32); 3] {
        let (min_rx, min_tx, mult) = match self.ha_failover_strategy {
            HaFailover::Normal => (1000, 100, 3),
            HaFailover::Aggressive => (500, 50, 3),
            HaFailover::Conservative => (2000, 200, 3),
            HaFailover::Manual => (self.ha_bfd_min_rx, self.ha_bfd_min_tx, self.ha_bfd_mult),
        };
        [("bfd-min-rx", min_rx), ("bfd-min-tx", min_tx), ("bfd-mult", mult)]
    }

    /// The invalid settings, as (key, reason). The types are valid at this point.
    pub fn faults(&self) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        let mut must = |holds: bool, key, why: &str| {
            if !holds {
                faults.push((key, why.to_owned()));
            }
        };
        must(!self.owner.is_empty(), "owner", "it must not be empty");
        must(self.bfd_min_tx != Some(0), "bfd_min_tx", "it must be at least 1 millisecond");
        must(self.bfd_detect_mult != Some(0), "bfd_detect_mult", "it must be at least 1");
        must(self.ha_bfd_min_rx > 0, "ha_bfd_min_rx", "it must be at least 1 millisecond");
        must(self.ha_bfd_min_tx > 0, "ha_bfd_min_tx", "it must be at least 1 millisecond");
        must(self.ha_bfd_mult > 0, "ha_bfd_mult", "it must be at least 1");
        must(self.resync_interval > 0, "resync_interval", "it must be at least 1 second");
        must(
            self.max_takeover_deletions <= 100,
            "max_takeover_deletions",
            "it must be within 0 to 100 percent",
        );
        must(!self.tenant_network_types.is_empty(), "tenant_network_types", "it must name at least one");
        let flat = self.tenant_network_types.contains(&NetworkType::Flat);
        must(!flat, "tenant_network_types", "flat networks need the name of a physical network");
        let (first, last) = self.vni_range;
        must(1 <= first && first <= last && last < 1 << 24, "vni_range", "it must be within 1 to 16777215");
        let tags = self.network_vlan_ranges.values().flatten();
        let valid = |(first, last): &(u32, u32)| 1 <= *first && first <= last && *last <= 4094;
        must(tags.clone().all(valid), "network_vlan_ranges", "tags must be within 1 to 4094");
        must(self.global_physnet_mtu >= 576, "global_physnet_mtu", "it must be at least 576");
        must(!self.base_mac.is_multicast(), "base_mac", "it must not be a multicast address");
        must(self.pagination_max_limit != Some(0), "pagination_max_limit", "it must be at least 1");
        must(self.max_bulk_size > 0, "max_bulk_size", "it must be at least 1");
        must(self.agent_down_time > 0, "agent_down_time", "it must be at least 1 second");
        let domain = self.dns_domain.is_empty() || self.dns_domain.parse::<DomainName>().is_ok();
        must(
            domain,
            "dns_domain",
            "it must be a DNS name: letters, digits, '-' and '_', with dots between labels",
        );
        for (key, version, options) in [
            ("ovn_dhcp4_global_options", DhcpVersion::V4, &self.ovn_dhcp4_global_options),
            ("ovn_dhcp6_global_options", DhcpVersion::V6, &self.ovn_dhcp6_global_options),
        ] {
            faults.extend(
                options.iter().filter_map(|(name, value)| Some((key, dhcp_fault(version, name, value)?))),
            );
        }
        faults
    }
}

/// The reason why a global DHCP option cannot be written, if any.
fn dhcp_fault(version: DhcpVersion, name: &str, value: &str) -> Option<String> {
    let Ok(option) = DhcpOption::named(version, name) else {
        let names: Vec<_> = DhcpOption::all(version).iter().map(DhcpOption::name).collect();
        return Some(format!("OVN has no option {name:?}; it knows {}", names.join(", ")));
    };
    let error = option.parse(value).err()?;
    Some(format!("the value of {name} must be {}: {error}", option.kind().expected()))
}

/// The resolvers in a resolv.conf that instances can reach too.
pub fn resolvers(resolv_conf: &str) -> Vec<IpAddr> {
    let reachable = |ip: &IpAddr| match ip {
        IpAddr::V4(ip) => !ip.is_loopback() && !ip.is_unspecified() && !ip.is_link_local(),
        IpAddr::V6(ip) => !ip.is_loopback() && !ip.is_unspecified() && !ip.is_unicast_link_local(),
    };
    let named = resolv_conf.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        (words.next()? == "nameserver").then(|| words.next()?.parse().ok()).flatten()
    });
    named.filter(reachable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_one_of_the_struct_and_says_something() {
        let value = serde_json::to_value(Settings::default()).unwrap();
        let members: Vec<_> = value.as_object().unwrap().keys().cloned().collect();
        let mut keys: Vec<_> = Settings::KEYS.iter().map(|(key, _)| (*key).to_owned()).collect();
        keys.sort();
        assert_eq!(keys, members);
        assert!(Settings::KEYS.iter().all(|(_, doc)| doc.trim().len() > 5));
        assert_eq!(Settings::default().faults(), []);
    }

    #[test]
    fn resolvers_are_those_that_instances_can_reach() {
        let text = "# made by hand\nsearch example\nnameserver 127.0.0.53\nnameserver\t192.0.2.53 # ours\n\
                    ;nameserver 192.0.2.54\nnameserver fe80::1%eth0\nnameserver ::1\nnameserver 2001:db8::53\n\
                    nameserver\nnameserver nonsense\noptions edns0";
        let expected: Vec<IpAddr> = ["192.0.2.53", "2001:db8::53"].map(|ip| ip.parse().unwrap()).into();
        assert_eq!(resolvers(text), expected);
        assert_eq!(resolvers(""), [] as [IpAddr; 0]);
    }

    #[test]
    fn strategies_of_failover_are_whole_milliseconds() {
        let of = |strategy| {
            let manual =
                Settings { ha_bfd_min_rx: 700, ha_bfd_min_tx: 70, ha_bfd_mult: 5, ..Settings::default() };
            Settings { ha_failover_strategy: strategy, ..manual }.tunnel_bfd().map(|(_, value)| value)
        };
        assert_eq!(of(HaFailover::Normal), [1000, 100, 3]);
        assert_eq!(of(HaFailover::Aggressive), [500, 50, 3]);
        assert_eq!(of(HaFailover::Conservative), [2000, 200, 3]);
        assert_eq!(of(HaFailover::Manual), [700, 70, 5]);
        assert_eq!(Settings { ha_bfd_mult: 0, ..Settings::default() }.faults()[0].0, "ha_bfd_mult");
    }

    #[test]
    fn options_of_dhcp_are_checked_before_any_row_is_written() {
        let options = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let settings = Settings {
            ovn_dhcp4_global_options: options(&[
                ("ntp_server", "{192.0.2.1, 192.0.2.2}"),
                ("offerip", "192.0.2.3"),
                ("wpad", "http://wpad.example/"),
                ("mtu", "1400); drop; x(y = 1"),
            ]),
            ovn_dhcp6_global_options: options(&[("domain_search", "a example")]),
            dns_domain: "exa mple".into(),
            ..Settings::default()
        };
        let faults = settings.faults();
        let keys: Vec<_> = faults.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys, ["dns_domain", "ovn_dhcp4_global_options", "ovn_dhcp4_global_options"]);
        assert!(faults[1].1.contains("mtu must be a number from 0 to 65535"), "{}", faults[1].1);
        assert!(faults[2].1.contains("no option \"offerip\"; it knows netmask, router"), "{}", faults[2].1);
    }

    #[test]
    fn what_cannot_work_is_named() {
        let settings = Settings {
            bfd_min_tx: Some(0),
            bfd_detect_mult: Some(0),
            vni_range: (9, 3),
            tenant_network_types: vec![NetworkType::Vlan, NetworkType::Flat],
            resync_interval: 0,
            ..Settings::default()
        };
        let keys: Vec<_> = settings.faults().into_iter().map(|(key, _)| key).collect();
        assert_eq!(
            keys,
            ["bfd_min_tx", "bfd_detect_mult", "resync_interval", "tenant_network_types", "vni_range"]
        );
        // In BFD, zero means that this side does not need to receive packets.
        assert_eq!(Settings { bfd_min_rx: Some(0), ..Settings::default() }.faults(), []);
    }
}
