//! What an operator can choose about the API. Names and defaults are Neutron's where Neutron has the option.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ovn::MacAddr;
use serde::{Deserialize, Serialize};

/// Writes the struct, its defaults and the list of its keys from one text.
macro_rules! settings {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty = $default:expr,)*) => {
        /// The choices, with their defaults.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Settings {
            $($(#[doc = $doc])+ pub $name: $type,)*
        }

        impl Settings {
            /// Every key with what it means.
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
    /// Who this installation is, in the marks it leaves in the Northbound.
    owner: String = "meridian".into(),
    /// Whether new routers get a default route per gateway.
    enable_default_route_ecmp: bool = false,
    /// Whether the default routes of new routers are watched by BFD.
    enable_default_route_bfd: bool = false,
    /// Source NAT of a gateway that does not say.
    enable_snat_by_default: bool = true,
    /// How gateways are spread over chassis.
    ovn_l3_scheduler: Scheduler = Scheduler::LeastLoaded,
    /// Floating IPs leave from the chassis of their instance.
    enable_distributed_floating_ip: bool = false,
    /// One source NAT rule for everything instead of one per subnet.
    ovn_router_indirect_snat: bool = true,
    /// NAT without connection tracking.
    stateless_nat_enabled: bool = false,
    /// Whether networks get a metadata port.
    ovn_metadata_enabled: bool = true,
    /// Seconds.
    dhcp_default_lease_time: u32 = 43_200,
    /// Resolvers of subnets that name none.
    dns_servers: Vec<IpAddr> = Vec::new(),
    /// Added to every DHCPv4 row.
    ovn_dhcp4_global_options: BTreeMap<String, String> = BTreeMap::new(),
    /// Added to every DHCPv6 row.
    ovn_dhcp6_global_options: BTreeMap<String, String> = BTreeMap::new(),
    /// Seconds a learned neighbour is kept.
    mac_binding_age_threshold: u32 = 300,
    /// Seconds a learned MAC is kept on provider networks.
    fdb_age_threshold: u32 = 300,
    /// Whether localnet ports learn MACs.
    localnet_learn_fdb: bool = false,
    /// Whether external networks flood ARP requests to all routers.
    broadcast_arps_to_all_routers: bool = true,
    /// Multicast: snooping.
    igmp_snooping_enable: bool = false,
    /// Multicast: flood registered groups to provider networks.
    igmp_flood: bool = false,
    /// Multicast: flood reports to provider networks.
    igmp_flood_reports: bool = true,
    /// Multicast: flood unregistered groups.
    igmp_flood_unregistered: bool = false,
    /// MTU of the physical network.
    global_physnet_mtu: u32 = 1500,
    /// Bytes of Geneve options.
    geneve_max_header_size: u32 = 30,
    /// Tunnel keys to take, first and last.
    vni_range: (u32, u32) = (1, 65_535),
    /// VLAN tags to take, by physical network.
    network_vlan_ranges: BTreeMap<String, Vec<(u32, u32)>> = BTreeMap::new(),
    /// First half of new MACs.
    base_mac: MacAddr = MacAddr([0xfa, 0x16, 0x3e, 0, 0, 0]),
    /// Where the sockets of ports in user space are.
    vhost_sock_dir: String = "/var/run/openvswitch".into(),
    /// Domain of instances.
    dns_domain: String = "openstacklocal".into(),
    /// Largest page; none is no limit.
    pagination_max_limit: Option<u64> = None,
    /// Most address pairs of a port.
    max_allowed_address_pair: usize = 10,
    /// Most resolvers of a subnet.
    max_dns_nameservers: usize = 5,
    /// Most routes of a subnet.
    max_subnet_host_routes: usize = 20,
    /// Seconds without a sign of life after which an agent is dead.
    agent_down_time: u32 = 75,
    /// Zones of routers that name none.
    default_availability_zones: Vec<String> = Vec::new(),
    /// Default quotas by resource; -1 is no limit.
    quotas: BTreeMap<String, i64> = QUOTAS.into_iter().map(|(resource, limit)| (resource.into(), limit)).collect(),
    /// Whether BFD sessions are shared between routers.
    bfd_session_sharing: BfdSharing = BfdSharing::Port,
    /// Milliseconds; OVN's default if none.
    bfd_min_tx: Option<u32> = None,
    /// Milliseconds; OVN's default if none.
    bfd_min_rx: Option<u32> = None,
    /// Lost packets that end a session; OVN's default if none.
    bfd_detect_mult: Option<u32> = None,
    /// Seconds after which routes of a gateway that no chassis hosts are taken out.
    unhosted_grace: u32 = 5,
    /// Chassis without the gateway mark may carry gateways if none has it.
    gateway_chassis_fallback: bool = false,
    /// Written into `NB_Global.options` as they are: `bfd-min-rx`, `ignore_lsp_down` and the like.
    northbound_options: BTreeMap<String, String> = BTreeMap::new(),
    /// Put in front of links instead of what the request says.
    network_link_prefix: Option<String> = None,
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

impl Settings {
    /// Bytes that Geneve, UDP and IPv4 take of a packet.
    pub fn geneve_overhead(&self) -> u32 {
        self.geneve_max_header_size + 20 + 8
    }

    /// What cannot work, as (key, why). Types have been checked by then.
    pub fn faults(&self) -> Vec<(&'static str, &'static str)> {
        let mut faults = Vec::new();
        let mut must = |holds: bool, key, why| {
            if !holds {
                faults.push((key, why));
            }
        };
        must(!self.owner.is_empty(), "owner", "it must not be empty");
        must(self.bfd_min_tx != Some(0), "bfd_min_tx", "it must be at least 1 millisecond");
        must(self.bfd_detect_mult != Some(0), "bfd_detect_mult", "it must be at least 1");
        let (first, last) = self.vni_range;
        must(1 <= first && first <= last && last < 1 << 24, "vni_range", "it must be within 1 to 16777215");
        let tags = self.network_vlan_ranges.values().flatten();
        let valid = |(first, last): &(u32, u32)| 1 <= *first && first <= last && *last <= 4094;
        must(tags.clone().all(valid), "network_vlan_ranges", "tags must be within 1 to 4094");
        must(self.global_physnet_mtu >= 576, "global_physnet_mtu", "it must be at least 576");
        must(!self.base_mac.is_multicast(), "base_mac", "it must not be a multicast address");
        must(self.pagination_max_limit != Some(0), "pagination_max_limit", "it must be at least 1");
        must(self.agent_down_time > 0, "agent_down_time", "it must be at least 1 second");
        faults
    }
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
    fn what_cannot_work_is_named() {
        let settings = Settings {
            bfd_min_tx: Some(0),
            bfd_detect_mult: Some(0),
            vni_range: (9, 3),
            ..Settings::default()
        };
        let keys: Vec<_> = settings.faults().into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["bfd_min_tx", "bfd_detect_mult", "vni_range"]);
        // Zero is "I do not need to hear from you" in BFD.
        assert_eq!(Settings { bfd_min_rx: Some(0), ..Settings::default() }.faults(), []);
    }
}
