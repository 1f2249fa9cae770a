//! `Load_Balancer_Health_Check`: the probes for the backends of one VIP. OVSDB deletes it when no load balancer refers to it.

use ovsdb::{Map, Str, Table};

use crate::text::{Endpoint, Text};

/// A row of `Load_Balancer_Health_Check`: how the backends of one VIP are probed.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Northbound", table = "Load_Balancer_Health_Check")]
pub struct LoadBalancerHealthCheck {
    /// The VIP. northd compares this string with the keys of `vips`.
    pub vip: Text<Endpoint>,
    /// `interval`, `timeout`, `success_count`, `failure_count`.
    pub options: Map<Str, Str>,
    /// Keys of the cloud's management.
    pub external_ids: Map<Str, Str>,
}
