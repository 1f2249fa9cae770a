//! `Logical_Router_Static_Route`: a route. Routes with one prefix and several next hops are equal-cost paths.

use ovsdb::{Map, Set, Str, Table, Weak};

use super::{Bfd, SelectionField};
use crate::text::word::words;
use crate::text::{HostAddr, Nexthop, Text};

/// A row of `Logical_Router_Static_Route`: a route.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Northbound", table = "Logical_Router_Static_Route")]
pub struct LogicalRouterStaticRoute {
    /// Empty for the main table.
    pub route_table: Str,
    /// Destination, or source by `policy`.
    pub ip_prefix: Text<HostAddr>,
    /// The address that the route matches; absent means the destination.
    pub policy: Option<RoutePolicy>,
    /// An address, or `discard`.
    pub nexthop: Text<Nexthop>,
    /// The router port through which packets leave. Without it, two gateways on one subnet collapse into one.
    pub output_port: Option<Str>,
    /// The session that must be up for the route to count.
    pub bfd: Option<Weak<Bfd>>,
    /// The fields that are hashed to choose among equal-cost paths (OVN 24.09).
    #[ovsdb(optional)]
    pub selection_fields: Set<SelectionField>,
    /// Further settings.
    pub options: Map<Str, Str>,
    /// Keys of the cloud's management.
    pub external_ids: Map<Str, Str>,
}

words! {
    /// The address that a route matches.
    pub enum RoutePolicy {
        /// The destination.
        DstIp = "dst-ip",
        /// The source.
        SrcIp = "src-ip",
    }
}
