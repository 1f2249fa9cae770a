//! The metadata port of a network: the chassis serve instance metadata at its addresses.
//!
//! As in Neutron, it has an address in every IPv4 subnet and in IPv6 subnets with DHCP. Instances without DHCP reach it through a router
//! (`desired/metadata_route.rs`). External subnets without DHCP are omitted: their addresses are scarce, and instances there have no router
//! of ours.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use uuid::Uuid;

use super::ipam;
use super::network;
use super::port::{self, Internal};
use super::touch;
use crate::fault::Fault;
use crate::model::{FixedIp, Network, Port, Subnet, owner};
use crate::settings::Settings;
use crate::world::{Link, Txn, World};

/// The prefix of its device id; the network's id follows.
pub const PREFIX: &str = "ovnmeta-";

/// The metadata port of a network, if it has one.
pub fn of(world: &World, network: Uuid) -> Option<&Port> {
    world
        .linked::<Port>(Link::PortsOfDevice(device_id(network).as_str().into()))
        .map(|port| &**port)
        .find(|port| is_metadata(port))
}

/// Whether a port is the metadata port of its network. Neutron before its Wallaby release gave it the owner `network:dhcp`, and imported
/// ports keep theirs.
pub fn is_metadata(port: &Port) -> bool {
    let is_owner = matches!(port.device_owner.as_str(), owner::DISTRIBUTED | owner::DHCP);
    is_owner
        && port.device_id.strip_prefix(PREFIX).is_some_and(|id| Uuid::try_parse(id) == Ok(port.network_id))
}

/// Creates the metadata port of a network if it should have one, and sets its addresses. Callers invoke this after creating or changing the
/// network or one of its subnets.
pub fn keep(txn: &mut Txn, network: Uuid) -> Result<(), Fault> {
    if !txn.outside().settings.ovn_metadata_enabled {
        return Ok(());
    }
    let id = match of(txn, network) {
        Some(port) => port.id,
        None => {
            let project = network::found(txn, network)?.project.clone();
            let internal = Internal {
                project,
                device_id: device_id(network),
                device_owner: txn.outside().settings.metadata_port_device_owner.device_owner().to_owned(),
                fixed_ips: Some(Vec::new()),
                ..Internal::on(network)
            };
            port::create_internal(txn, internal)?.id
        }
    };
    let settings = &txn.outside().settings;
    let Some(port) = txn.get::<Port>(&id) else { return Ok(()) };
    let fixed_ips = addresses(txn, settings, port);
    if port.fixed_ips != fixed_ips {
        txn.edit::<Port>(&id, |port| port.fixed_ips = fixed_ips);
        touch::<port::Ports>(txn, id);
    }
    Ok(())
}

/// Whether a network lacks its metadata port, or that port an IPv4 address that it could have.
pub fn lacks(world: &World, settings: &Settings, network: Uuid) -> bool {
    of(world, network).is_none_or(|port| !missing(world, settings, port).is_empty())
}

/// Adds the metadata port or the IPv4 addresses that a network lacks. An imported port keeps its addresses.
pub fn repair(txn: &mut Txn, network: Uuid) -> Result<(), Fault> {
    let Some(port) = of(txn, network) else { return keep(txn, network) };
    let (id, missing) = (port.id, missing(txn, &txn.outside().settings, port));
    if !missing.is_empty() {
        txn.edit::<Port>(&id, |port| port.fixed_ips.extend(missing));
        touch::<port::Ports>(txn, id);
    }
    Ok(())
}

/// The IPv4 addresses that a metadata port lacks and could have.
fn missing(world: &World, settings: &Settings, port: &Port) -> Vec<FixedIp> {
    let lacks = |fixed: &FixedIp| fixed.ip_address.is_ipv4() && !port.fixed_ips.contains(fixed);
    addresses(world, settings, port).into_iter().filter(lacks).collect()
}

/// The addresses that a metadata port should have: its present ones, and one in each further subnet that it serves.
fn addresses(world: &World, settings: &Settings, port: &Port) -> Vec<FixedIp> {
    let is_external = world.get::<Network>(&port.network_id).is_some_and(|network| network.external);
    let without_dhcp = settings.metadata_ip_on_nodhcp && !is_external;
    let serves = |subnet: &Subnet| subnet.enable_dhcp || (without_dhcp && subnet.cidr.addr().is_ipv4());
    let mut fixed_ips = Vec::new();
    let subnets = world.linked::<Subnet>(Link::SubnetsOfNetwork(port.network_id));
    for subnet in subnets.filter(|subnet| serves(subnet)) {
        let own =
            port.fixed_ips.iter().find(|fixed| fixed.subnet_id == subnet.id).map(|fixed| fixed.ip_address);
        let chosen = own.or_else(|| {
            if subnet.is_autoconfigured() {
                let formed = ipam::self_formed(subnet.cidr, port.mac);
                Some(formed).filter(|address| world.address_holder(subnet.id, *address).is_none())
            } else {
                // An exhausted pool is no reason to refuse the subnet: its ports go without metadata.
                ipam::lowest_free(world, subnet)
            }
        });
        fixed_ips.extend(chosen.map(|ip_address| FixedIp { subnet_id: subnet.id, ip_address }));
    }
    fixed_ips
}

fn device_id(network: Uuid) -> String {
    format!("{PREFIX}{network}")
}

#[cfg(test)]
mod tests;
