//! `Logical_Switch`: a layer-2 network.

use ovsdb::{Map, Ref, Set, Str, Table, Weak};

use super::{Acl, Copp, Dns, LoadBalancer, LoadBalancerGroup, LogicalSwitchPort, Qos};

/// A row of `Logical_Switch`: a layer-2 network.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Northbound", table = "Logical_Switch")]
pub struct LogicalSwitch {
    /// Not unique in OVN; the UUID identifies a row.
    pub name: Str,
    /// The switch's ports.
    pub ports: Set<Ref<LogicalSwitchPort>>,
    /// Rules that apply to the whole switch.
    pub acls: Set<Ref<Acl>>,
    /// Marking and policing.
    pub qos_rules: Set<Ref<Qos>>,
    /// Load balancers for traffic from this switch's ports.
    pub load_balancer: Set<Weak<LoadBalancer>>,
    /// Groups of load balancers of the switch.
    pub load_balancer_group: Set<Ref<LoadBalancerGroup>>,
    /// Names that OVN resolves on this switch.
    pub dns_records: Set<Weak<Dns>>,
    /// Limits on traffic to the control plane.
    pub copp: Option<Weak<Copp>>,
    /// Subnet, multicast, tunnel key and other settings.
    pub other_config: Map<Str, Str>,
    /// Keys of the cloud's management.
    pub external_ids: Map<Str, Str>,
}
