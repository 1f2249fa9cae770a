//! What the target must know of each table beside its columns.

use ovsdb::{Map, Str};

use super::state::Writable;
use crate::{nb, sb, vswitch};

macro_rules! writable {
    ($($table:ty $(, reported: [$($column:literal),+])?;)+) => {$(
        impl Writable for $table {
            const REPORTED: &'static [&'static str] = &[$($($column),+)?];

            fn external_ids(&self) -> Option<&Map<Str, Str>> {
                Some(&self.external_ids)
            }
        }
    )+};
}

/// Tables without `external_ids`.
macro_rules! writable_bare {
    ($($table:ty;)+) => {$(
        impl Writable for $table {
            const REPORTED: &'static [&'static str] = &[];

            fn external_ids(&self) -> Option<&Map<Str, Str>> {
                None
            }
        }
    )+};
}

writable! {
    nb::NbGlobal, reported: ["nb_cfg_timestamp", "sb_cfg", "hv_cfg", "hv_cfg_timestamp"];
    nb::LogicalSwitch;
    nb::LogicalSwitchPort, reported: ["tag", "dynamic_addresses", "up"];
    nb::AddressSet;
    nb::PortGroup;
    nb::Acl;
    nb::Qos;
    nb::Copp;
    nb::Meter;
    nb::MeterBand;
    nb::LoadBalancer;
    nb::LoadBalancerHealthCheck;
    nb::LogicalRouter;
    nb::LogicalRouterPort, reported: ["ipv6_prefix", "status"];
    nb::LogicalRouterStaticRoute;
    nb::LogicalRouterPolicy;
    nb::Nat;
    nb::DhcpOptions;
    nb::Dns;
    nb::GatewayChassis;
    nb::HaChassis;
    nb::HaChassisGroup;
    nb::Bfd, reported: ["status"];
    sb::Chassis;
    sb::ChassisPrivate, reported: ["chassis", "nb_cfg", "nb_cfg_timestamp"];
    vswitch::OpenVSwitch, reported: ["cur_cfg", "ovs_version"];
    vswitch::Bridge;
    vswitch::Port;
    vswitch::Interface, reported: ["ofport", "mac_in_use", "mtu", "error"];
}

writable_bare! {
    nb::LoadBalancerGroup;
    nb::StaticMacBinding;
    sb::Encap;
}
