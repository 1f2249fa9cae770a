//! The source ports of health probes: one for each subnet with probed members.
//!
//! OVN needs an address of the member's subnet as the source of its probes. A port holds that address, so that no other port can get it.
//! All load balancers share the port of a subnet, and the last one that needs it removes it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ovn::ident::name;
use uuid::Uuid;

use crate::dialect::octavia::conflict;
use crate::model::{HealthMonitor, LoadBalancer, Member, Pool, Port, Subnet, owner};
use crate::resource::ipam::{self, FixedIpRequest};
use crate::resource::port::{self, Internal};
use crate::world::{Kind, Link, World};
use crate::{Fault, Txn};

/// The source port of probes in a subnet, and its address there.
pub fn of(world: &World, subnet: Uuid) -> Option<(&Port, IpAddr)> {
    let device = name::lb_health_monitor_port(subnet);
    let ports = world.linked::<Port>(Link::PortsOfDevice(device.as_str().into()));
    ports.filter(|port| port.device_owner == owner::LB_HEALTH_MONITOR).find_map(|port| {
        let fixed = port.fixed_ips.iter().find(|fixed| fixed.subnet_id == subnet)?;
        Some((&**port, fixed.ip_address))
    })
}

/// Whether a device id is that of a subnet's port, and a load balancer needs it.
pub fn is_needed(world: &World, device_id: &str) -> bool {
    let subnet = name::lb_health_monitor_subnet(device_id);
    subnet.is_some_and(|subnet| world.has_linked(Link::LoadBalancersProbing(subnet)))
}

/// Creates the source ports that a load balancer newly needs, and removes those that none needs any more. Callers invoke this after each
/// change of the load balancer or its parts.
pub(crate) fn keep(txn: &mut Txn, id: Uuid) -> Result<(), Fault> {
    let Some(before) = txn.get::<LoadBalancer>(&id).map(|whole| whole.probed_subnets.clone()) else {
        return Ok(());
    };
    let after = probed_subnets(txn, id);
    if after == before {
        return Ok(());
    }
    txn.edit::<LoadBalancer>(&id, |whole| whole.probed_subnets = after.clone());
    for subnet in after.difference(&before) {
        create(txn, *subnet)?;
    }
    for subnet in before.difference(&after) {
        let port = of(txn, *subnet).map(|(port, _)| port.id);
        if let Some(port) = port.filter(|_| !txn.has_linked(Link::LoadBalancersProbing(*subnet))) {
            port::remove(txn, port);
        }
    }
    Ok(())
}

/// The subnets with members that have a health monitor, enabled or not: pausing a monitor does not remove its port.
fn probed_subnets(world: &World, id: Uuid) -> BTreeSet<Uuid> {
    let pools = world.linked::<Pool>(Link::Inside(Kind::Pool, id));
    let probed = pools.filter(|pool| has_monitor(world, pool.id));
    let members = probed.flat_map(|pool| world.linked::<Member>(Link::Inside(Kind::Member, pool.id)));
    let subnets: BTreeSet<Uuid> = members.map(|member| member.subnet()).collect();
    subnets.into_iter().filter(|subnet| world.get::<Subnet>(subnet).is_some()).collect()
}

fn has_monitor(world: &World, pool: Uuid) -> bool {
    world.linked::<HealthMonitor>(Link::Inside(Kind::HealthMonitor, pool)).next().is_some()
}

fn create(txn: &mut Txn, subnet: Uuid) -> Result<(), Fault> {
    let Some(subnet) = txn.get::<Subnet>(&subnet).cloned() else { return Ok(()) };
    if of(txn, subnet.id).is_some() {
        return Ok(());
    }
    let address = ipam::lowest_free(txn, &subnet).ok_or_else(|| {
        let id = subnet.id;
        conflict(format!("No more IP addresses available in subnet {id}: a health monitor needs one there."))
    })?;
    let name = name::lb_health_monitor_port(subnet.id);
    let internal = Internal {
        // All projects with members in the subnet share the port, so it counts in no quota.
        project: String::new(),
        name: name.clone(),
        device_id: name,
        device_owner: owner::LB_HEALTH_MONITOR.to_owned(),
        fixed_ips: Some(vec![FixedIpRequest { subnet_id: Some(subnet.id), ip_address: Some(address) }]),
        ..Internal::on(subnet.network_id)
    };
    port::create_internal(txn, internal).map(drop)
}
