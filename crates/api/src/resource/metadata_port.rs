//! The metadata port of a network: it has an address in every subnet with DHCP, and chassis answer there for the metadata of
//! their instances.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use uuid::Uuid;

use super::ipam;
use super::network;
use super::port::{self, Internal};
use super::touch;
use crate::fault::Fault;
use crate::model::{FixedIp, Port, Subnet, owner};
use crate::world::{Link, Txn, World};

/// What its device id begins with; the network's id follows.
pub const PREFIX: &str = "ovnmeta-";

/// The metadata port of a network, if it has one.
pub fn of(world: &World, network: Uuid) -> Option<&Port> {
    world
        .linked::<Port>(Link::PortsOfDevice(device_id(network).as_str().into()))
        .map(|port| &**port)
        .find(|port| port.network_id == network && port.device_owner == owner::DISTRIBUTED)
}

/// Makes the metadata port of a network if it should have one, and gives it an address in every subnet with DHCP and in no
/// other. To be called after a network or one of its subnets came or changed.
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
                device_owner: owner::DISTRIBUTED.to_owned(),
                fixed_ips: Some(Vec::new()),
                ..Internal::on(network)
            };
            port::create_internal(txn, internal)?.id
        }
    };
    let Some(port) = txn.get::<Port>(&id) else { return Ok(()) };
    let mut fixed_ips = Vec::new();
    for subnet in txn.linked::<Subnet>(Link::SubnetsOfNetwork(network)).filter(|subnet| subnet.enable_dhcp) {
        let own =
            port.fixed_ips.iter().find(|fixed| fixed.subnet_id == subnet.id).map(|fixed| fixed.ip_address);
        let chosen = own.or_else(|| {
            if subnet.is_autoconfigured() {
                let formed = ipam::self_formed(subnet.cidr, port.mac);
                Some(formed).filter(|address| txn.address_holder(subnet.id, *address).is_none())
            } else {
                // A pool that is used up is no reason to refuse the subnet: its ports do without metadata.
                ipam::lowest_free(txn, subnet)
            }
        });
        fixed_ips.extend(chosen.map(|ip_address| FixedIp { subnet_id: subnet.id, ip_address }));
    }
    if port.fixed_ips != fixed_ips {
        txn.edit::<Port>(&id, |port| port.fixed_ips = fixed_ips);
        touch::<port::Ports>(txn, id);
    }
    Ok(())
}

fn device_id(network: Uuid) -> String {
    format!("{PREFIX}{network}")
}

#[cfg(test)]
mod tests;
