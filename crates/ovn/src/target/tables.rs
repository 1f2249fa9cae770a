//! The target's knowledge of each table beyond its columns.

use ovsdb::{Map, Str, Table, Uuid};

use super::element;
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

/// Implements `Writable` for tables whose rows list thousands of ports. Their members are compared without converting them to datums.
macro_rules! writable_with_ports {
    ($($table:ty;)+) => {$(
        impl Writable for $table {
            const REPORTED: &'static [&'static str] = &[];

            fn external_ids(&self) -> Option<&Map<Str, Str>> {
                Some(&self.external_ids)
            }

            fn refers(&self, column: usize, to: Uuid) -> bool {
                if column == Self::PORTS.position() {
                    return element::refers(&self.ports, to);
                }
                element::uuids(&self.datum(column)).any(|uuid| uuid == to)
            }

            fn moved(&self, column: usize, other: &Self) -> Vec<Uuid> {
                if column == Self::PORTS.position() {
                    return element::moved(&self.ports, &other.ports);
                }
                element::differing(&self.datum(column), &other.datum(column))
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
    nb::LogicalSwitchPort, reported: ["tag", "dynamic_addresses", "up"];
    nb::AddressSet;
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

writable_with_ports! {
    nb::LogicalSwitch;
    nb::PortGroup;
}

writable_bare! {
    nb::LoadBalancerGroup;
    nb::StaticMacBinding;
    sb::Encap;
}
