//! `Logical_Router_Policy`: a policy, applied after the route lookup (so a packet without any route never reaches it).

use std::net::IpAddr;

use ovsdb::{Map, Set, Str, Table, Weak};

use super::{Bfd, LogicalRouterPort};
use crate::text::Text;
use crate::text::word::words;

/// A row of `Logical_Router_Policy`: a policy, applied after the route lookup.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Northbound", table = "Logical_Router_Policy")]
pub struct LogicalRouterPolicy {
    /// 0 to 32767, the highest wins.
    pub priority: i64,
    /// The chain of the policy (OVN 25.03).
    #[ovsdb(optional)]
    pub chain: Option<Str>,
    /// The packets that the policy matches.
    #[ovsdb(column = "match")]
    pub matches: Str,
    /// The action on matching packets.
    pub action: PolicyAction,
    /// The chain to which `jump` leads (OVN 25.03).
    #[ovsdb(optional)]
    pub jump_chain: Option<Str>,
    /// The single next hop of old rows.
    pub nexthop: Option<Text<IpAddr>>,
    /// Next hops of `reroute`; several are equal-cost paths.
    pub nexthops: Set<Text<IpAddr>>,
    /// The port through which packets leave (OVN 26.03).
    #[ovsdb(optional)]
    pub output_port: Option<Weak<LogicalRouterPort>>,
    /// Sessions that must be up for a next hop to count (OVN 24.03).
    #[ovsdb(optional)]
    pub bfd_sessions: Set<Weak<Bfd>>,
    /// `pkt_mark` and others.
    pub options: Map<Str, Str>,
    /// Keys of the cloud's management.
    pub external_ids: Map<Str, Str>,
}

words! {
    /// The action of a policy.
    pub enum PolicyAction {
        /// Forwards the packet as routed.
        Allow = "allow",
        /// Drops.
        Drop = "drop",
        /// Sends to the next hops instead.
        Reroute = "reroute",
        /// Continues with another chain (OVN 25.03).
        Jump = "jump",
    }
}
