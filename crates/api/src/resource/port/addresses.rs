//! Changes of a port's addresses because of a change of a subnet.

use std::net::IpAddr;

use uuid::Uuid;

use super::Ports;
use crate::fault::Fault;
use crate::model::{FixedIp, Port, Subnet, owner};
use crate::resource::{floating_ip, ipam, metadata_port, touch};
use crate::world::{Link, Txn};

/// Adds an address to a port.
pub fn add_address(txn: &mut Txn, port: Uuid, subnet_id: Uuid, ip_address: IpAddr) {
    txn.edit::<Port>(&port, |port| port.fixed_ips.push(FixedIp { subnet_id, ip_address }));
    touch::<Ports>(txn, port);
}

/// Removes a port's addresses of a subnet.
pub fn drop_addresses(txn: &mut Txn, port: Uuid, subnet: Uuid) {
    txn.edit::<Port>(&port, |port| port.fixed_ips.retain(|fixed| fixed.subnet_id != subnet));
    floating_ip::release_lost(txn, port);
    touch::<Ports>(txn, port);
}

/// Adds the self-formed addresses of a network's hosts in a new subnet, if it uses SLAAC.
pub fn form_addresses(txn: &mut Txn, subnet: &Subnet) -> Result<(), Fault> {
    if !subnet.is_autoconfigured() {
        return Ok(());
    }
    let serves =
        |owner: &str| subnet.service_types.is_empty() || subnet.service_types.iter().any(|of| of == owner);
    let hosts: Vec<_> = txn
        .linked::<Port>(Link::PortsOfNetwork(subnet.network_id))
        .filter(|port| !matches!(port.device_owner.as_str(), owner::ROUTER_INTERFACE | owner::FLOATING_IP))
        // The metadata port follows DHCP, which `metadata_port` handles for all subnets together.
        .filter(|port| !metadata_port::is_metadata(port) && serves(&port.device_owner))
        .map(|port| (port.id, ipam::self_formed(subnet.cidr, port.mac)))
        .collect();
    for (port, address) in hosts {
        if txn.address_holder(subnet.id, address).is_some() || subnet.gateway_ip == Some(address) {
            return Err(ipam::already_allocated(address, subnet.id));
        }
        add_address(txn, port, subnet.id, address);
    }
    Ok(())
}
