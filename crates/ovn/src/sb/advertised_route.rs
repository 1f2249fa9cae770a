//! `Advertised_Route`: a route that OVN itself announces to a routing daemon (OVN 25.03).

use ovsdb::{Map, Ref, Str, Table};

use super::{DatapathBinding, PortBinding};
use crate::text::{HostAddr, Text};

/// A row of `Advertised_Route`: a route that OVN itself announces to a routing daemon (OVN 25.03).
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Southbound", table = "Advertised_Route")]
pub struct AdvertisedRoute {
    /// The router.
    pub datapath: Ref<DatapathBinding>,
    /// The router port on which the route is announced.
    pub logical_port: Ref<PortBinding>,
    /// The announced prefix.
    pub ip_prefix: Text<HostAddr>,
    /// The port whose chassis OVN prefers for the announcement.
    pub tracked_port: Option<Ref<PortBinding>>,
    /// Keys of northd.
    pub external_ids: Map<Str, Str>,
}
