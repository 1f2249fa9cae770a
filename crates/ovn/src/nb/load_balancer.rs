//! `Load_Balancer`: VIPs of one protocol and their backends.

use ovsdb::{Map, Ref, Set, Str, Table};

use super::LoadBalancerHealthCheck;
use crate::text::word::words;
use crate::text::{BackendIp, Backends, Endpoint, PortMapping, Text};

/// A row of `Load_Balancer`: VIPs of one protocol and their backends.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Northbound", table = "Load_Balancer")]
pub struct LoadBalancer {
    /// Not unique.
    pub name: Str,
    /// Each VIP with its backends.
    pub vips: Map<Text<Endpoint>, Text<Backends>>,
    /// Required by OVN where VIPs have ports; it takes TCP where none is set.
    pub protocol: Option<LbProtocol>,
    /// The probes of the backends.
    pub health_check: Set<Ref<LoadBalancerHealthCheck>>,
    /// The logical port of each backend. A probed VIP sends nothing to backends that are missing here.
    pub ip_port_mappings: Map<Text<BackendIp>, Text<PortMapping>>,
    /// The fields that are hashed to choose a backend; empty means the five-tuple, as the datapath hashes it.
    pub selection_fields: Set<SelectionField>,
    /// `affinity_timeout`, `reject`, `hairpin_snat_ip`, ...
    pub options: Map<Str, Str>,
    /// Keys of the cloud's management; see [`octavia`](crate::text::octavia).
    pub external_ids: Map<Str, Str>,
}

words! {
    /// L4 protocols of load balancers.
    pub enum LbProtocol {
        /// TCP.
        Tcp = "tcp",
        /// UDP.
        Udp = "udp",
        /// SCTP; never probed.
        Sctp = "sctp",
    }
}

words! {
    /// Fields that can be hashed. A server rejects keywords that its schema does not list.
    pub enum SelectionField {
        /// Ethernet source.
        EthSrc = "eth_src",
        /// Ethernet destination.
        EthDst = "eth_dst",
        /// IP protocol (routes only).
        IpProto = "ip_proto",
        /// IPv4 source.
        IpSrc = "ip_src",
        /// IPv4 destination.
        IpDst = "ip_dst",
        /// IPv6 source (OVN 25.03).
        Ipv6Src = "ipv6_src",
        /// IPv6 destination (OVN 25.03).
        Ipv6Dst = "ipv6_dst",
        /// L4 source port.
        TpSrc = "tp_src",
        /// L4 destination port.
        TpDst = "tp_dst",
    }
}
