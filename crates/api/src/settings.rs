//! What an operator can choose about the API. Names and defaults are Neutron's where Neutron has the option.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ovn::MacAddr;
use serde::{Deserialize, Serialize};

/// The choices, with their defaults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Who this installation is, in the marks it leaves in the Northbound.
    pub owner: String,
    /// Whether new routers get a default route per gateway.
    pub enable_default_route_ecmp: bool,
    /// Whether the default routes of new routers are watched by BFD.
    pub enable_default_route_bfd: bool,
    /// Source NAT of a gateway that does not say.
    pub enable_snat_by_default: bool,
    /// How gateways are spread over chassis.
    pub ovn_l3_scheduler: Scheduler,
    /// Floating IPs leave from the chassis of their instance.
    pub enable_distributed_floating_ip: bool,
    /// One source NAT rule for everything instead of one per subnet.
    pub ovn_router_indirect_snat: bool,
    /// NAT without connection tracking.
    pub stateless_nat_enabled: bool,
    /// Whether networks get a metadata port.
    pub ovn_metadata_enabled: bool,
    /// Seconds.
    pub dhcp_default_lease_time: u32,
    /// Resolvers of subnets that name none.
    pub dns_servers: Vec<IpAddr>,
    /// Added to every DHCPv4 row.
    pub ovn_dhcp4_global_options: BTreeMap<String, String>,
    /// Added to every DHCPv6 row.
    pub ovn_dhcp6_global_options: BTreeMap<String, String>,
    /// Seconds a learned neighbour is kept.
    pub mac_binding_age_threshold: u32,
    /// Seconds a learned MAC is kept on provider networks.
    pub fdb_age_threshold: u32,
    /// Whether localnet ports learn MACs.
    pub localnet_learn_fdb: bool,
    /// Whether external networks flood ARP requests to all routers.
    pub broadcast_arps_to_all_routers: bool,
    /// Multicast: snooping.
    pub igmp_snooping_enable: bool,
    /// Multicast: flood registered groups to provider networks.
    pub igmp_flood: bool,
    /// Multicast: flood reports to provider networks.
    pub igmp_flood_reports: bool,
    /// Multicast: flood unregistered groups.
    pub igmp_flood_unregistered: bool,
    /// MTU of the physical network.
    pub global_physnet_mtu: u32,
    /// Bytes of Geneve options.
    pub geneve_max_header_size: u32,
    /// Tunnel keys to take, first and last.
    pub vni_range: (u32, u32),
    /// VLAN tags to take, by physical network.
    pub network_vlan_ranges: BTreeMap<String, Vec<(u32, u32)>>,
    /// First half of new MACs.
    pub base_mac: MacAddr,
    /// Domain of instances.
    pub dns_domain: String,
    /// Largest page; none is no limit.
    pub pagination_max_limit: Option<u64>,
    /// Most address pairs of a port.
    pub max_allowed_address_pair: usize,
    /// Most resolvers of a subnet.
    pub max_dns_nameservers: usize,
    /// Most routes of a subnet.
    pub max_subnet_host_routes: usize,
    /// Seconds without a sign of life after which an agent is dead.
    pub agent_down_time: u32,
    /// Zones of routers that name none.
    pub default_availability_zones: Vec<String>,
    /// Default quotas by resource; -1 is no limit.
    pub quotas: BTreeMap<String, i64>,
    /// Whether BFD sessions are shared between routers.
    pub bfd_session_sharing: BfdSharing,
    /// Milliseconds; OVN's default if none.
    pub bfd_min_tx: Option<u32>,
    /// Milliseconds; OVN's default if none.
    pub bfd_min_rx: Option<u32>,
    /// Lost packets that end a session; OVN's default if none.
    pub bfd_detect_mult: Option<u32>,
    /// Seconds after which routes of a gateway that no chassis hosts are taken out.
    pub unhosted_grace: u32,
    /// Chassis without the gateway mark may carry gateways if none has it.
    pub gateway_chassis_fallback: bool,
    /// Put in front of links instead of what the request says.
    pub network_link_prefix: Option<String>,
}

/// How gateways are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheduler {
    /// Where the fewest are, siblings apart.
    LeastLoaded,
    /// Anywhere.
    Chance,
}

/// How far a BFD session reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BfdSharing {
    /// One for each gateway port and next hop.
    Port,
    /// One for each chassis, network and next hop.
    Chassis,
}

/// The default limits.
const QUOTAS: [(&str, i64); 11] = [
    ("address_scope", -1),
    ("floatingip", 50),
    ("network", 100),
    ("port", 500),
    ("rbac_policy", 10),
    ("router", 10),
    ("router_route", 30),
    ("security_group", 10),
    ("security_group_rule", 100),
    ("subnet", 100),
    ("subnetpool", -1),
];

impl Default for Settings {
    fn default() -> Self {
        Settings {
            owner: "meridian".into(),
            enable_default_route_ecmp: false,
            enable_default_route_bfd: false,
            enable_snat_by_default: true,
            ovn_l3_scheduler: Scheduler::LeastLoaded,
            enable_distributed_floating_ip: false,
            ovn_router_indirect_snat: true,
            stateless_nat_enabled: false,
            ovn_metadata_enabled: true,
            dhcp_default_lease_time: 43_200,
            dns_servers: Vec::new(),
            ovn_dhcp4_global_options: BTreeMap::new(),
            ovn_dhcp6_global_options: BTreeMap::new(),
            mac_binding_age_threshold: 300,
            fdb_age_threshold: 300,
            localnet_learn_fdb: false,
            broadcast_arps_to_all_routers: true,
            igmp_snooping_enable: false,
            igmp_flood: false,
            igmp_flood_reports: true,
            igmp_flood_unregistered: false,
            global_physnet_mtu: 1500,
            geneve_max_header_size: 30,
            vni_range: (1, 65_535),
            network_vlan_ranges: BTreeMap::new(),
            base_mac: MacAddr([0xfa, 0x16, 0x3e, 0, 0, 0]),
            dns_domain: "openstacklocal".into(),
            pagination_max_limit: None,
            max_allowed_address_pair: 10,
            max_dns_nameservers: 5,
            max_subnet_host_routes: 20,
            agent_down_time: 75,
            default_availability_zones: Vec::new(),
            quotas: QUOTAS.into_iter().map(|(resource, limit)| (resource.into(), limit)).collect(),
            bfd_session_sharing: BfdSharing::Port,
            bfd_min_tx: None,
            bfd_min_rx: None,
            bfd_detect_mult: None,
            unhosted_grace: 5,
            gateway_chassis_fallback: false,
            network_link_prefix: None,
        }
    }
}

impl Settings {
    /// Bytes that Geneve, UDP and IPv4 take of a packet.
    pub fn geneve_overhead(&self) -> u32 {
        self.geneve_max_header_size + 20 + 8
    }
}
