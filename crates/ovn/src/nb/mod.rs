//! OVN's Northbound database: the network as the cloud management requests it.
//!
//! One file per table, one struct per file; documented upstream in ovn-nb(5). A struct has only the columns that we use,
//! because the client monitors all of them. Columns marked `optional` are missing from some OVN between 23.03 and 26.03.

mod acl;
mod address_set;
mod bfd;
mod copp;
mod dhcp_options;
mod dns;
mod gateway_chassis;
mod ha_chassis;
mod ha_chassis_group;
mod load_balancer;
mod load_balancer_group;
mod load_balancer_health_check;
mod logical_router;
mod logical_router_policy;
mod logical_router_port;
mod logical_router_static_route;
mod logical_switch;
mod logical_switch_port;
mod meter;
mod meter_band;
mod nat;
mod nb_global;
mod port_group;
mod qos;
mod static_mac_binding;

pub use acl::{Acl, AclAction, Direction, Severity};
pub use address_set::AddressSet;
pub use bfd::{Bfd, BfdStatus};
pub use copp::Copp;
pub use dhcp_options::DhcpOptions;
pub use dns::Dns;
pub use gateway_chassis::GatewayChassis;
pub use ha_chassis::HaChassis;
pub use ha_chassis_group::HaChassisGroup;
pub use load_balancer::{LbProtocol, LoadBalancer, SelectionField};
pub use load_balancer_group::LoadBalancerGroup;
pub use load_balancer_health_check::LoadBalancerHealthCheck;
pub use logical_router::LogicalRouter;
pub use logical_router_policy::{LogicalRouterPolicy, PolicyAction};
pub use logical_router_port::LogicalRouterPort;
pub use logical_router_static_route::{LogicalRouterStaticRoute, RoutePolicy};
pub use logical_switch::LogicalSwitch;
pub use logical_switch_port::LogicalSwitchPort;
pub use meter::{Meter, MeterUnit};
pub use meter_band::MeterBand;
pub use nat::{Nat, NatType};
pub use nb_global::NbGlobal;
pub use port_group::PortGroup;
pub use qos::Qos;
pub use static_mac_binding::StaticMacBinding;

use crate::spec::TableSpec;

/// Every table of this module, with its requirements on a schema.
pub fn model() -> &'static [TableSpec] {
    const MODEL: &[TableSpec] = &[
        TableSpec::of::<NbGlobal>(),
        TableSpec::of::<LogicalSwitch>(),
        TableSpec::of::<LogicalSwitchPort>(),
        TableSpec::of::<AddressSet>(),
        TableSpec::of::<PortGroup>(),
        TableSpec::of::<Acl>(),
        TableSpec::of::<Qos>(),
        TableSpec::of::<Copp>(),
        TableSpec::of::<Meter>(),
        TableSpec::of::<MeterBand>(),
        TableSpec::of::<LoadBalancer>(),
        TableSpec::of::<LoadBalancerGroup>(),
        TableSpec::of::<LoadBalancerHealthCheck>(),
        TableSpec::of::<LogicalRouter>(),
        TableSpec::of::<LogicalRouterPort>(),
        TableSpec::of::<LogicalRouterStaticRoute>(),
        TableSpec::of::<LogicalRouterPolicy>(),
        TableSpec::of::<Nat>(),
        TableSpec::of::<DhcpOptions>(),
        TableSpec::of::<Dns>(),
        TableSpec::of::<GatewayChassis>(),
        TableSpec::of::<HaChassis>(),
        TableSpec::of::<HaChassisGroup>(),
        TableSpec::of::<Bfd>(),
        TableSpec::of::<StaticMacBinding>(),
    ];
    MODEL
}
