//! `Load_Balancer`: a load balancer in the Southbound. The column that names its datapaths depends on the version.

use ovsdb::{Map, Ref, Set, Str, Table};

use super::{DatapathBinding, LogicalDpGroup};
use crate::text::{Backends, Endpoint, Text};

/// A row of `Load_Balancer`: a load balancer in the Southbound.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Southbound", table = "Load_Balancer")]
pub struct LoadBalancer {
    /// The Northbound row's name.
    pub name: Str,
    /// Each VIP with its backends.
    pub vips: Map<Text<Endpoint>, Text<Backends>>,
    /// L4 protocol.
    pub protocol: Option<Str>,
    /// Switches, before OVN 22.09.
    pub datapaths: Set<Ref<DatapathBinding>>,
    /// Switches, before OVN 24.03.
    pub datapath_group: Option<Ref<LogicalDpGroup>>,
    /// Switches, from OVN 24.03.
    #[ovsdb(optional)]
    pub ls_datapath_group: Option<Ref<LogicalDpGroup>>,
    /// Routers, from OVN 24.03; before, a load balancer on routers only has no row.
    #[ovsdb(optional)]
    pub lr_datapath_group: Option<Ref<LogicalDpGroup>>,
    /// `lb_id`, the Northbound UUID.
    pub external_ids: Map<Str, Str>,
}
