//! OVN's Southbound database: northd's translation of the Northbound, and the reports of the chassis.
//!
//! One file per table, one struct per file; documented upstream in ovn-sb(5). We write very little here: keys of our own in
//! `external_ids` of chassis, rows of remote chassis, and deletions of stale MAC bindings.

mod advertised_route;
mod chassis;
mod chassis_private;
mod datapath_binding;
mod encap;
mod learned_route;
mod load_balancer;
mod logical_dp_group;
mod mac_binding;
mod port_binding;
mod sb_global;
mod service_monitor;

pub use advertised_route::AdvertisedRoute;
pub use chassis::Chassis;
pub use chassis_private::ChassisPrivate;
pub use datapath_binding::{DatapathBinding, DatapathType};
pub use encap::{Encap, EncapType};
pub use learned_route::LearnedRoute;
pub use load_balancer::LoadBalancer;
pub use logical_dp_group::LogicalDpGroup;
pub use mac_binding::MacBinding;
pub use port_binding::PortBinding;
pub use sb_global::SbGlobal;
pub use service_monitor::{MonitorProtocol, MonitorStatus, ServiceMonitor};

use crate::spec::TableSpec;

/// Every table of this module, with its requirements on a schema.
pub fn model() -> &'static [TableSpec] {
    const MODEL: &[TableSpec] = &[
        TableSpec::of::<SbGlobal>(),
        TableSpec::of::<Chassis>(),
        TableSpec::of::<ChassisPrivate>(),
        TableSpec::of::<Encap>(),
        TableSpec::of::<DatapathBinding>(),
        TableSpec::of::<PortBinding>(),
        TableSpec::of::<LogicalDpGroup>(),
        TableSpec::of::<LoadBalancer>(),
        TableSpec::of::<ServiceMonitor>(),
        TableSpec::of::<MacBinding>(),
        TableSpec::newer::<AdvertisedRoute>(),
        TableSpec::newer::<LearnedRoute>(),
    ];
    MODEL
}
