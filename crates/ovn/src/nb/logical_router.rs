//! `Logical_Router`: a router.

use ovsdb::{Map, Ref, Set, Str, Table, Weak};

use super::{
    Copp, LoadBalancer, LoadBalancerGroup, LogicalRouterPolicy, LogicalRouterPort, LogicalRouterStaticRoute,
    Nat,
};

/// A row of `Logical_Router`: a router.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Northbound", table = "Logical_Router")]
pub struct LogicalRouter {
    /// Not unique in OVN; the UUID identifies a row.
    pub name: Str,
    /// The router's ports.
    pub ports: Set<Ref<LogicalRouterPort>>,
    /// Its routes.
    pub static_routes: Set<Ref<LogicalRouterStaticRoute>>,
    /// Its policies.
    pub policies: Set<Ref<LogicalRouterPolicy>>,
    /// Administrative state; absent means enabled.
    pub enabled: Option<bool>,
    /// Its address translations.
    pub nat: Set<Ref<Nat>>,
    /// Load balancers on its gateway.
    pub load_balancer: Set<Weak<LoadBalancer>>,
    /// Groups of load balancers of the router.
    pub load_balancer_group: Set<Ref<LoadBalancerGroup>>,
    /// Limits on traffic to the control plane.
    pub copp: Option<Weak<Copp>>,
    /// Options. `chassis` turns the router into a gateway router; others are the tunnel key, the MAC binding age, ...
    pub options: Map<Str, Str>,
    /// Keys of the cloud's management.
    pub external_ids: Map<Str, Str>,
}
