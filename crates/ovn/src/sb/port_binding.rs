//! `Port_Binding`: a logical port and its chassis.

use std::net::IpAddr;

use ovsdb::{Map, Ref, Set, Str, Table, Uuid, Weak};

use super::{Chassis, DatapathBinding};
use crate::mac::MacAddr;
use crate::port_type::PortType;
use crate::text::neutron::{self, key};
use crate::text::{HostAddr, NatAddresses, PortAddresses, Text};

/// A row of `Port_Binding`: a logical port and its chassis.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Southbound", table = "Port_Binding")]
pub struct PortBinding {
    /// Unique.
    pub logical_port: Str,
    /// Empty for a VIF.
    #[ovsdb(column = "type")]
    pub kind: PortType,
    /// `peer`, `distributed-port`, `chassis-redirect-port`, `network_name`, ...
    pub options: Map<Str, Str>,
    /// The switch or router of the port.
    pub datapath: Ref<DatapathBinding>,
    /// Unique within the datapath.
    pub tunnel_key: i64,
    /// The port on which this nested port is a VLAN.
    pub parent_port: Option<Str>,
    /// VLAN of a nested or localnet port.
    pub tag: Option<i64>,
    /// The port that has claimed a virtual port.
    pub virtual_parent: Option<Str>,
    /// The chassis to which the port is bound.
    pub chassis: Option<Weak<Chassis>>,
    /// Further chassis to which the port is bound during a live migration.
    pub additional_chassis: Set<Weak<Chassis>>,
    /// Addresses; router ports have theirs with prefix lengths.
    pub mac: Set<Text<PortAddresses>>,
    /// The addresses to announce on behalf of the peer router.
    pub nat_addresses: Set<Text<NatAddresses>>,
    /// Whether the port is ready.
    pub up: Option<bool>,
    /// Keys of the switch or router port, and `name`.
    pub external_ids: Map<Str, Str>,
}

impl PortBinding {
    /// Whether the port is bound to this chassis and ready. A missing `up` counts as ready.
    pub fn is_bound(&self, chassis: Uuid) -> bool {
        self.chassis == Some(Weak::new(chassis)) && self.up != Some(false)
    }

    /// The port's addresses without prefix lengths: those of `mac`, or else those that the cloud's management wrote to `external_ids`. A
    /// port whose addresses are `unknown` to OVN still has the latter.
    pub fn ips(&self) -> Vec<IpAddr> {
        let known: Vec<IpAddr> =
            self.mac.iter().filter_map(Text::value).flat_map(PortAddresses::ips).collect();
        if known.is_empty() { self.cidrs().map(|cidr| cidr.addr).collect() } else { known }
    }

    /// The addresses in `neutron:cidrs` with their prefix lengths. Entries that do not parse are skipped.
    pub fn cidrs(&self) -> impl Iterator<Item = HostAddr> + '_ {
        let text = self.external_ids.get(key::CIDRS).map_or("", Str::as_str);
        neutron::cidrs(text).filter_map(Result::ok)
    }

    /// The first Ethernet address in `mac`.
    pub fn ethernet(&self) -> Option<MacAddr> {
        self.mac.iter().filter_map(Text::value).find_map(PortAddresses::mac)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(mac: &[&str], cidrs: &str) -> PortBinding {
        PortBinding {
            mac: mac.iter().map(|text| Text::new(text)).collect::<Set<_>>(),
            external_ids: [(key::CIDRS.into(), cidrs.into())].into(),
            ..Default::default()
        }
    }

    fn shown(port: &PortBinding) -> Vec<String> {
        port.ips().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn addresses_come_from_mac_else_from_cidrs() {
        let both = port(&["fa:16:3e:00:00:01 10.1.0.8", "unknown", "not one"], "10.9.9.9/24");
        assert_eq!(shown(&both), ["10.1.0.8"]);
        assert_eq!(both.ethernet().map(|mac| mac.to_string()).as_deref(), Some("fa:16:3e:00:00:01"));
        assert_eq!(shown(&port(&["unknown"], "10.1.0.8/24 x fd00::8/64")), ["10.1.0.8", "fd00::8"]);
        assert_eq!(shown(&port(&[], "")), [""; 0]);
        let router = port(&["fa:16:3e:aa:00:01 172.24.4.221/24 2001:db8::221/64"], "");
        assert_eq!(shown(&router), ["172.24.4.221", "2001:db8::221"]);
    }

    #[test]
    fn bound_means_here_and_not_down() {
        let (here, there) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let at = |chassis, up| PortBinding { chassis: Some(Weak::new(chassis)), up, ..Default::default() };
        assert!(at(here, Some(true)).is_bound(here) && at(here, None).is_bound(here));
        assert!(!at(here, Some(false)).is_bound(here) && !at(there, Some(true)).is_bound(here));
        assert!(!PortBinding::default().is_bound(here));
    }
}
