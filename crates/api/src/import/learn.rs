//! Data that the Northbound has and the API does not return: ids of segments, MACs of DHCP servers, chassis of gateways. Pure.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use ovn::MacAddr;
use ovn::ident::{name, row_uuid};
use ovn::nb::{
    DhcpOptions, GatewayChassis, HaChassis, HaChassisGroup, LogicalRouter, LogicalRouterPort, LogicalSwitch,
    LogicalSwitchPort, Nat, NatType, NbGlobal,
};
use ovn::target::{Part, RowId};
use ovn::text::dhcp::{DhcpOption, DhcpVersion};
use ovn::text::neutron::{boolean, key};
use ovsdb::{Ref, Snapshot, Str, Table};
use uuid::Uuid;

use super::read::Objects;
use crate::model::{Network, Placed, Placement, PlugNotice, Port, Subnet};
use crate::nova::instance_of;
use crate::settings::Settings;

/// Fills in the ids of segments and the MACs of DHCP servers.
pub(super) fn identities(objects: &mut Objects, northbound: &Snapshot, settings: &Settings) {
    let mut segments = BTreeMap::new();
    for (_, switch) in northbound.table::<LogicalSwitch>().iter() {
        let Some(network) = name::neutron_id(&switch.name) else { continue };
        let ports = switch.ports.iter().filter_map(|port| northbound.get::<LogicalSwitchPort>(port.uuid()));
        segments.extend(ports.filter_map(|port| name::localnet_segment(&port.name)).map(|id| (network, id)));
    }
    let mut servers = BTreeMap::new();
    for (_, row) in northbound.table::<DhcpOptions>().iter() {
        let subnet = row.external_ids.get(key::DHCP_SUBNET_ID).and_then(|id| Uuid::try_parse(id).ok());
        // In IPv6 rows, `server_id` is the MAC.
        let mac = ["server_mac", "server_id"].iter().find_map(|key| row.options.get(*key)?.parse().ok());
        if let (Some(subnet), Some(mac), None) = (subnet, mac, row.external_ids.get(key::DHCP_PORT_ID)) {
            servers.insert(subnet, mac);
        }
    }
    for network in &mut objects.networks {
        network.segment.id = segments.get(&network.id).copied().unwrap_or_default();
    }
    for subnet in &mut objects.subnets {
        subnet.dhcp_server_mac = servers.get(&subnet.id).copied().unwrap_or_default();
    }
    invent(objects, settings);
}

/// Derives the remaining ids and MACs, the same each time.
pub(super) fn invent(objects: &mut Objects, settings: &Settings) {
    for Network { id, segment, .. } in &mut objects.networks {
        if segment.id.is_nil() {
            segment.id = row_uuid("network", &id.to_string(), "segment");
        }
    }
    for Subnet { id, dhcp_server_mac, .. } in &mut objects.subnets {
        if *dhcp_server_mac == MacAddr::default() {
            let [a, b, c, ..] = settings.base_mac.octets();
            let [.., x, y, z] = row_uuid("subnet", &id.to_string(), "dhcp-server-mac").into_bytes();
            *dhcp_server_mac = MacAddr([a, b, c, x, y, z]);
        }
    }
}

/// The ports that Neutron has reported to Nova as plugged in. Without these notices, the server would report every running
/// instance of the cloud again after the import.
pub(super) fn plug_notices(objects: &Objects, northbound: &Snapshot) -> Vec<PlugNotice> {
    let rows = northbound.table::<LogicalSwitchPort>().iter().filter(|(_, row)| row.up == Some(true));
    let up: BTreeSet<Uuid> = rows.filter_map(|(_, row)| Uuid::try_parse(&row.name).ok()).collect();
    let notice = |port: &Port| {
        let host =
            Some(port.binding.host_id.clone()).filter(|host| !host.is_empty() && up.contains(&port.id))?;
        Some(PlugNotice { port_id: port.id, instance: instance_of(port)?, hosts: [host].into() })
    };
    objects.ports.iter().filter_map(notice).collect()
}

/// The placements of gateway ports: the order of their chassis, in whichever form Neutron wrote it.
pub(super) fn placements(objects: &Objects, northbound: &Snapshot) -> Vec<Placement> {
    let ports: BTreeMap<&str, &LogicalRouterPort> =
        northbound.table::<LogicalRouterPort>().iter().map(|(_, row)| (row.name.as_str(), row)).collect();
    let routers: BTreeMap<&str, &LogicalRouter> =
        northbound.table::<LogicalRouter>().iter().map(|(_, row)| (row.name.as_str(), row)).collect();
    let networks: BTreeMap<Uuid, &Network> =
        objects.networks.iter().map(|network| (network.id, network)).collect();
    let place = |port: &Port| {
        let segment = &networks.get(&port.network_id)?.segment;
        let chassis = if segment.is_physical() {
            chassis_of(ports.get(name::router_port(port.id).as_str())?, northbound)
        } else {
            // Chassis do not compete for a gateway without a bridge; the router as a whole is on one chassis.
            let router = routers.get(name::router(port.router_id()?).as_str())?;
            router.options.get("chassis").map(|chassis| (1, chassis.clone())).into_iter().collect()
        };
        let physical_network = segment.physical_network.clone().filter(|_| segment.is_physical());
        let chassis = ranked(chassis);
        (!chassis.is_empty()).then_some(Placement { port_id: port.id, physical_network, chassis })
    };
    objects.ports.iter().filter(|port| port.is_gateway()).filter_map(place).collect()
}

fn chassis_of(port: &LogicalRouterPort, northbound: &Snapshot) -> Vec<(i64, Str)> {
    if let Some(group) = port.ha_chassis_group.and_then(|row| northbound.get::<HaChassisGroup>(row.uuid())) {
        return each(northbound, group.ha_chassis.iter(), |row: &HaChassis| {
            (row.priority, row.chassis_name.clone())
        });
    }
    each(northbound, port.gateway_chassis.iter(), |row: &GatewayChassis| {
        (row.priority, row.chassis_name.clone())
    })
}

fn each<'r, T: Table>(
    northbound: &Snapshot,
    rows: impl Iterator<Item = &'r Ref<T>>,
    read: impl Fn(&T) -> (i64, Str),
) -> Vec<(i64, Str)> {
    rows.filter_map(|row| northbound.get::<T>(row.uuid())).map(read).collect()
}

/// Chassis by descending priority. Valid and distinct priorities are kept.
fn ranked(mut chassis: Vec<(i64, Str)>) -> Vec<Placed> {
    chassis.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let fits = chassis.iter().all(|(priority, _)| (0..=32_767).contains(priority));
    let distinct = chassis.windows(2).all(|pair| pair[0].0 != pair[1].0);
    let count = chassis.len();
    let placed = chassis.into_iter().enumerate().map(|(at, (priority, chassis))| {
        let own = if fits && distinct { u16::try_from(priority).ok() } else { None };
        let priority = own.unwrap_or_else(|| u16::try_from(count - at).unwrap_or(u16::MAX));
        Placed { chassis: chassis.to_string(), priority, pinned: false }
    });
    placed.collect()
}

/// The settings that differ from those that the Northbound was written with: with them, the first pass would change traffic.
pub(super) fn notes(northbound: &Snapshot, settings: &Settings) -> Vec<String> {
    let mut notes = Vec::new();
    let global = northbound.table::<NbGlobal>().iter().next();
    let distributed = global.and_then(|(_, row)| boolean(row.external_ids.get(key::FIP_DISTRIBUTED)?));
    if let Some(distributed) = distributed.filter(|it| *it != settings.enable_distributed_floating_ip) {
        notes.push(format!(
            "Neutron had enable_distributed_floating_ip = {distributed}, the configuration has {}: floating IPs would move. \
             Set it in the section [network] to keep them.",
            settings.enable_distributed_floating_ip
        ));
    }
    let mut sources = northbound.table::<Nat>().iter().filter(|(_, row)| row.kind == NatType::Snat);
    let per_subnet = sources.any(|(_, row)| row.logical_ip.to_string() != "0.0.0.0/0");
    if per_subnet && settings.ovn_router_indirect_snat {
        notes.push(
            "Neutron translated sources subnet by subnet, the configuration has ovn_router_indirect_snat = true: one rule would \
             take their place, for networks behind other routers too. Set it to false in the section [network] to keep them."
                .to_owned(),
        );
    }
    notes
}

/// Whether two strings are different spellings of one option value. Neutron writes some strings without quotes.
fn is_one_value(row: &DhcpOptions, option: &str, one: Option<&Str>, other: Option<&Str>) -> bool {
    let version = match row.cidr.value() {
        Some(IpNet::V4(_)) => DhcpVersion::V4,
        _ => DhcpVersion::V6,
    };
    let value = |text: Option<&Str>| DhcpOption::named(version, option).ok()?.parse(text?).ok();
    value(one).is_some_and(|one| Some(one) == value(other))
}

/// The differences between our DHCP options and Neutron's, option by option. They show settings of ours that differ from Neutron's.
pub(super) fn dhcp_notes<'p>(
    wanted: impl Iterator<Item = &'p Part>,
    found: &BTreeMap<RowId, Uuid>,
    northbound: &Snapshot,
) -> Vec<String> {
    let mut differing: BTreeMap<&str, (usize, String, String)> = BTreeMap::new();
    for (id, row) in wanted.flat_map(Part::rows) {
        let theirs = found.get(&id).and_then(|theirs| northbound.get::<DhcpOptions>(*theirs));
        let (Some(ours), Some(theirs)) = (row.as_any().downcast_ref::<DhcpOptions>(), theirs) else {
            continue;
        };
        let options: BTreeSet<&Str> =
            ours.options.iter().chain(theirs.options.iter()).map(|(key, _)| key).collect();
        for option in options {
            let (then, now) = (ours.options.get(option), theirs.options.get(option));
            if then != now && !is_one_value(ours, option, then, now) {
                let said =
                    |value: Option<&Str>| value.map_or_else(|| "nothing".to_owned(), ToString::to_string);
                differing.entry(option).or_insert_with(|| (0, said(then), said(now))).0 += 1;
            }
        }
    }
    let note = |(option, (rows, then, now)): (&str, (usize, String, String))| {
        format!(
            "DHCP option {option} would change in {rows} rows, in one of them from {now} to {then}. Compare the section \
             [network] with Neutron's configuration."
        )
    };
    differing.into_iter().map(note).collect()
}
