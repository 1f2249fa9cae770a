//! The effect of a new subnet on gateways that are already on its network.

use std::collections::BTreeSet;

use uuid::Uuid;

use crate::fault::Fault;
use crate::model::{Network, Port, Subnet, owner};
use crate::resource::ipam::{self, FixedIpRequest};
use crate::resource::router::{Routers, reach};
use crate::resource::touch;
use crate::world::{Link, Txn};

/// Applies a new subnet of an external network to the gateways there. The subnet must not overlap with other subnets of their routers.
/// Every gateway without an address of the subnet's family gets one, as long as the pool has any.
pub fn subnet_added(txn: &mut Txn, id: Uuid) -> Result<(), Fault> {
    let Some(subnet) = txn.get::<Subnet>(&id).cloned() else { return Ok(()) };
    if !txn.get::<Network>(&subnet.network_id).is_some_and(|network| network.external) {
        return Ok(());
    }
    let mut gateways: Vec<_> = txn
        .linked::<Port>(Link::PortsOfNetwork(subnet.network_id))
        .filter(|port| port.is_gateway())
        .cloned()
        .collect();
    gateways.sort_by_key(|port| (port.gateway_ordinal, port.id));
    let routers: BTreeSet<Uuid> = gateways.iter().filter_map(|port| port.router_id()).collect();
    for router in routers {
        let elsewhere: Vec<_> = reach::attached(txn, router)
            .into_iter()
            .filter(|other| other.network_id != subnet.network_id)
            .collect();
        reach::refuse_overlap("subnet", &subnet, &elsewhere)?;
    }
    if !serves_gateways(&subnet) {
        return Ok(());
    }
    for port in gateways {
        if port.fixed_ips.iter().any(|fixed| fixed.ip_address.is_ipv4() == subnet.cidr.addr().is_ipv4()) {
            continue;
        }
        let mut request: Vec<FixedIpRequest> =
            port.fixed_ips.iter().copied().map(FixedIpRequest::from).collect();
        request.push(FixedIpRequest { subnet_id: Some(id), ip_address: None });
        let Ok(fixed_ips) = ipam::reallocate(txn, &port, &request, &port.device_owner, port.mac) else {
            continue;
        };
        let now = txn.now();
        txn.edit::<Port>(&port.id, |port| {
            port.fixed_ips = fixed_ips;
            port.standard.bump(now);
        });
        if let Some(router) = port.router_id() {
            touch::<Routers>(txn, router);
        }
    }
    Ok(())
}

fn serves_gateways(subnet: &Subnet) -> bool {
    subnet.service_types.is_empty() || subnet.service_types.iter().any(|of| of == owner::ROUTER_GATEWAY)
}
