//! `Learned_Route`: a route that ovn-controller learned from a routing daemon (OVN 25.03).

use std::net::IpAddr;

use ovsdb::{Map, Ref, Str, Table};

use super::{DatapathBinding, PortBinding};
use crate::text::{HostAddr, Text};

/// A row of `Learned_Route`: a route that ovn-controller learned from a routing daemon (OVN 25.03).
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Southbound", table = "Learned_Route")]
pub struct LearnedRoute {
    /// The router.
    pub datapath: Ref<DatapathBinding>,
    /// The router port it was learned on.
    pub logical_port: Ref<PortBinding>,
    /// The destination.
    pub ip_prefix: Text<HostAddr>,
    /// The next hop.
    pub nexthop: Text<IpAddr>,
    /// Keys of ovn-controller.
    pub external_ids: Map<Str, Str>,
}
