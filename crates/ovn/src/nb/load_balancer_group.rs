//! `Load_Balancer_Group`: load balancers that switches and routers use together.

use ovsdb::{Set, Str, Table, Weak};

use super::LoadBalancer;

/// A row of `Load_Balancer_Group`: load balancers that switches and routers use together.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Northbound", table = "Load_Balancer_Group")]
pub struct LoadBalancerGroup {
    /// Unique.
    pub name: Str,
    /// The members.
    pub load_balancer: Set<Weak<LoadBalancer>>,
}
