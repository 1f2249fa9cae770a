//! `NAT`: one address translation of a router.

use std::net::IpAddr;

use ovsdb::{Map, Ref, Str, Table, Weak};

use super::{AddressSet, LogicalRouterPort};
use crate::mac::MacAddr;
use crate::text::word::words;
use crate::text::{HostAddr, Text};

/// A row of `NAT`: one address translation of a router.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Northbound", table = "NAT")]
pub struct Nat {
    /// The address outside.
    pub external_ip: Text<IpAddr>,
    /// Together with `logical_port`, makes a floating IP distributed: the port's own chassis answers for it.
    pub external_mac: Option<Text<MacAddr>>,
    /// Source ports to use, empty for any.
    pub external_port_range: Str,
    /// The address or prefix inside.
    pub logical_ip: Text<HostAddr>,
    /// The port that holds `logical_ip`.
    pub logical_port: Option<Str>,
    /// The direction of the translation.
    #[ovsdb(column = "type")]
    pub kind: NatType,
    /// Only for these peers.
    pub allowed_ext_ips: Option<Ref<AddressSet>>,
    /// Peers that are excluded from the translation.
    pub exempted_ext_ips: Option<Ref<AddressSet>>,
    /// The gateway port that translates; required if the router has several gateways.
    pub gateway_port: Option<Weak<LogicalRouterPort>>,
    /// A further condition on the packets (OVN 24.09).
    #[ovsdb(column = "match", optional)]
    pub matches: Str,
    /// Among rows with a match (OVN 24.09).
    #[ovsdb(optional)]
    pub priority: i64,
    /// `stateless` and others.
    pub options: Map<Str, Str>,
    /// Keys of the cloud's management.
    pub external_ids: Map<Str, Str>,
}

words! {
    /// The direction of the translation.
    pub enum NatType {
        /// Translates the source of outgoing packets.
        Snat = "snat",
        /// Translates the destination of incoming packets.
        Dnat = "dnat",
        /// Both: a floating IP.
        DnatAndSnat = "dnat_and_snat",
    }
}
