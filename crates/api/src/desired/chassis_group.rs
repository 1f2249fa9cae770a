//! `HA_Chassis_Group` and its `HA_Chassis`: the chassis that may host a gateway port or external ports.
//!
//! Each gateway port has its own group. With one group per router, all of its gateways would be on one chassis.

use ovn::ident::{name, row_uuid};
use ovn::nb::{HaChassis, HaChassisGroup};
use ovn::target::Part;
use ovn::text::neutron::key;
use ovsdb::{Ref, Str};
use reconcile::ObjectId;
use uuid::Uuid;

use super::{Compiled, Look};
use super::{map, object, router_port, text};
use crate::model::{Network, Port};

/// The highest priority in a group of external ports.
const HIGHEST: i64 = 32_767;

/// The row of a gateway port's group.
pub(super) fn gateway_row(look: &Look<'_, '_>, port: Uuid) -> Uuid {
    look.row(row_uuid("port", &port.to_string(), "ha-chassis-group"))
}

/// The group of a gateway port, which its router port refers to.
pub(super) fn compile(look: &Look<'_, '_>, id: Uuid, to: &mut Compiled) {
    let to = &mut to.part;
    let Some((placement, port)) = look.placement(id).zip(look.port(id)) else { return };
    let network = look.network(port.network_id);
    if !network.is_some_and(|network| router_port::is_placed(port, network))
        || !router_port::is_there(look, port)
    {
        return;
    }
    let Some(router) = port.router_id().and_then(|router| look.router(router)) else { return };
    let ids = vec![
        (key::GATEWAY_PORT, text(port.id)),
        (key::AVAILABILITY_ZONE_HINTS, text(router.availability_zone_hints.join(","))),
        (key::ROUTER_ID, text(router.id)),
    ];
    let chassis =
        placement.chassis.iter().map(|placed| (placed.chassis.as_str(), i64::from(placed.priority)));
    group(
        look,
        object("port", port.id),
        "port",
        port.id,
        name::gateway_chassis_group(port.id),
        ids,
        chassis,
        to,
    );
}

/// The group of one external port, if chassis are set apart for external ports.
pub(super) fn compile_external_port(look: &Look<'_, '_>, port: &Port, to: &mut Part) -> Option<Uuid> {
    let network = look.network(port.network_id)?;
    if !look.fleet().chassis.iter().any(|chassis| chassis.external_ports) {
        return look.has_external_ports(network.id).then(|| network_group_row(look, network.id));
    }
    let chassis = candidates(look, network, |chassis| chassis.external_ports, port.id);
    if chassis.is_empty() {
        return None;
    }
    let ids = network_ids(network);
    let name = name::external_port_chassis_group(port.id);
    Some(group(look, object("port", port.id), "port", port.id, name, ids, ranked(&chassis), to))
}

/// The shared group of a network's external ports, if no chassis is set apart for them. Behind a router it has the chassis of the router's
/// first gateway, so that traffic takes no detour.
pub(super) fn compile_external_ports(look: &Look<'_, '_>, network: &Network, to: &mut Part) {
    if !look.has_external_ports(network.id)
        || look.fleet().chassis.iter().any(|chassis| chassis.external_ports)
    {
        return;
    }
    let mut ids = network_ids(network);
    let mut chassis = Vec::new();
    for router in look.routers_on(network.id) {
        let gateway = look.router(router).and_then(|router| router.gw_port_id);
        if let Some(placement) = gateway.and_then(|port| look.placement(port)) {
            ids.push((key::ROUTER_ID, text(router)));
            chassis = placement.chassis.iter().map(|placed| Str::new(&placed.chassis)).collect();
            break;
        }
    }
    if chassis.is_empty() {
        chassis = candidates(look, network, |chassis| chassis.gateway, network.id);
    }
    let name = name::external_ports_chassis_group(network.id);
    group(look, object("network", network.id), "network", network.id, name, ids, ranked(&chassis), to);
}

fn network_ids(network: &Network) -> Vec<(&'static str, Str)> {
    vec![
        (key::NETWORK_ID, text(network.id)),
        (key::AVAILABILITY_ZONE_HINTS, text(network.availability_zone_hints.join(","))),
    ]
}

fn network_group_row(look: &Look<'_, '_>, network: Uuid) -> Uuid {
    look.row(row_uuid("network", &network.to_string(), "ha-chassis-group"))
}

/// The chassis that reach a network, in an order that is stable for each id and differs between ids.
fn candidates(
    look: &Look<'_, '_>,
    network: &Network,
    fit: impl Fn(&crate::fleet::Chassis) -> bool,
    id: Uuid,
) -> Vec<Str> {
    let reaches = |chassis: &&crate::fleet::Chassis| match &network.segment.physical_network {
        Some(physical) => chassis.physical_networks.contains(physical),
        None => true,
    };
    let chassis = look.fleet().chassis.iter().filter(|chassis| fit(chassis)).filter(reaches);
    let mut names: Vec<Str> = chassis.map(|chassis| Str::new(&chassis.name)).collect();
    names.sort_by_key(|name| row_uuid("rank", &id.to_string(), name));
    names
}

fn ranked(chassis: &[Str]) -> impl Iterator<Item = (&str, i64)> {
    chassis.iter().zip(0..).map(|(name, n)| (name.as_str(), HIGHEST - n))
}

#[allow(clippy::too_many_arguments)]
fn group<'c>(
    look: &Look<'_, '_>,
    of: ObjectId,
    kind: &str,
    id: Uuid,
    name: String,
    ids: Vec<(&'static str, Str)>,
    chassis: impl Iterator<Item = (&'c str, i64)>,
    to: &mut Part,
) -> Uuid {
    let id = id.to_string();
    let row = look.row(row_uuid(kind, &id, "ha-chassis-group"));
    let mut members = Vec::new();
    for (name, priority) in chassis {
        let member = look.row(row_uuid(kind, &format!("{id}/{name}"), "ha-chassis"));
        let chassis = HaChassis { chassis_name: text(name), priority, ..Default::default() };
        to.own(of.clone(), member, chassis);
        members.push(Ref::new(member));
    }
    let ha_chassis = members.into_iter().collect();
    to.own(of, row, HaChassisGroup { name: text(name), ha_chassis, external_ids: map(ids) });
    row
}
