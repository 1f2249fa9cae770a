//! The VIPs of a load balancer: the choice of addresses and the ports that hold them.

use std::net::IpAddr;
use std::sync::Arc;

use ovn::ident::name;
use ovn::text::neutron::device_owner;
use serde_json::Value;
use uuid::Uuid;

use crate::dialect::octavia::{conflict, unknown_reference, validation};
use crate::model::{FixedIp, GivenAddress, Port, Subnet, Vip};
use crate::resource::ipam::{self, FixedIpRequest};
use crate::resource::port::{self, Internal, Ports};
use crate::resource::subnet::Subnets;
use crate::resource::{Checked, Resource, network, quota};
use crate::world::{Kind, Link, World};
use crate::{Caller, Fault, Txn};

/// The prefix of the device ids of VIP ports; the load balancer's id follows.
pub(in crate::resource) const DEVICE_PREFIX: &str = "lb-";

/// The subnet, or 400 if the caller may not use it.
pub(in crate::resource) fn usable_subnet<'w>(
    world: &'w World,
    caller: &Caller,
    id: Uuid,
) -> Result<&'w Arc<Subnet>, Fault> {
    let subnet = world.get::<Subnet>(&id).filter(|subnet| Subnets::visible(subnet, world, caller));
    subnet.ok_or_else(|| unknown_reference("Subnet", id))
}

/// The network and the VIPs of a new load balancer. Creates their ports.
pub(super) fn create(
    txn: &mut Txn,
    caller: &Caller,
    load_balancer: Uuid,
    new: &Checked,
) -> Result<(Uuid, Vec<Vip>), Fault> {
    let address: Option<GivenAddress> = new.parsed("vip_address");
    let (network, first) = match new.uuid("vip_port_id") {
        Some(port) => own_port(txn, caller, port, new.uuid("vip_subnet_id"), address)?,
        None => {
            let subnet = choose_subnet(txn, caller, new, address.as_ref().map(|given| given.value))?;
            let label = name::lb_vip_port(load_balancer);
            (subnet.network_id, make_port(txn, new.project(), load_balancer, label, &subnet, address)?)
        }
    };
    let mut vips = vec![first];
    let further: Vec<(Uuid, Option<GivenAddress>)> = further_vips(new);
    for (number, (id, address)) in further.into_iter().enumerate() {
        let subnet = Arc::clone(usable_subnet(txn, caller, id)?);
        if subnet.network_id != network {
            return Err(validation("All VIP subnets must belong to the same network."));
        }
        if vips.iter().any(|vip| vip.subnet_id == id) {
            return Err(validation("All VIP subnets must be unique."));
        }
        let label = name::lb_additional_vip_port(load_balancer, number + 1);
        vips.push(make_port(txn, new.project(), load_balancer, label, &subnet, address)?);
    }
    Ok((network, vips))
}

fn further_vips(new: &Checked) -> Vec<(Uuid, Option<GivenAddress>)> {
    let read = |vip: &Value| {
        let text = |key: &str| vip.get(key).and_then(Value::as_str);
        let subnet = text("subnet_id").and_then(|id| id.parse().ok()).unwrap_or_default();
        (subnet, text("ip_address").and_then(|address| address.parse().ok()))
    };
    let list = new.get("additional_vips").and_then(Value::as_array);
    list.into_iter().flatten().map(read).collect()
}

/// The port that the owner brings. It keeps its name and its device, and outlives the load balancer.
fn own_port(
    world: &World,
    caller: &Caller,
    id: Uuid,
    subnet: Option<Uuid>,
    address: Option<GivenAddress>,
) -> Result<(Uuid, Vip), Fault> {
    // The owner of a network sees foreign ports there, and must not take them.
    let is_own = |port: &&Arc<Port>| caller.admin || port.project == caller.project;
    let port = world.get::<Port>(&id).filter(|port| Ports::visible(port, world, caller));
    let port = port.filter(is_own).ok_or_else(|| unknown_reference("Port", id))?;
    if !port.device_id.is_empty() || world.has_linked(Link::LoadBalancerOfVipPort(id)) {
        return Err(validation(format_args!("VIP port {id} is in use already.")));
    }
    let fits = |fixed: &&FixedIp| {
        subnet.is_none_or(|subnet| fixed.subnet_id == subnet)
            && address.as_ref().is_none_or(|given| fixed.ip_address == given.value)
    };
    let mut fitting = port.fixed_ips.iter().filter(fits);
    match (fitting.next(), fitting.next()) {
        (Some(fixed), None) => {
            let address = address.unwrap_or_else(|| fixed.ip_address.into());
            Ok((port.network_id, Vip { subnet_id: fixed.subnet_id, address, port_id: id, own_port: true }))
        }
        (None, _) => Err(validation("Specified VIP address or subnet is not on the VIP port.")),
        _ => Err(validation(
            "VIP port's subnet could not be determined. Please specify either a VIP subnet or address.",
        )),
    }
}

fn choose_subnet(
    world: &World,
    caller: &Caller,
    new: &Checked,
    address: Option<IpAddr>,
) -> Result<Arc<Subnet>, Fault> {
    let network = new.uuid("vip_network_id");
    if let Some(id) = network
        && network::visible(world, caller, id).is_err()
    {
        return Err(unknown_reference("Network", id));
    }
    let subnet = match (new.uuid("vip_subnet_id"), network) {
        (Some(id), network) => {
            let subnet = usable_subnet(world, caller, id)?;
            if network.is_some_and(|network| network != subnet.network_id) {
                return Err(validation("Supplied VIP subnet is not on the VIP network."));
            }
            Arc::clone(subnet)
        }
        (None, Some(network)) => subnet_of(world, network, address)?,
        (None, None) => {
            return Err(validation("VIP must contain one of: vip_port_id, vip_network_id, vip_subnet_id."));
        }
    };
    match address {
        Some(address) if !ipam::is_usable(subnet.cidr, address) => {
            let text = format_args!("VIP address {address} is not an address of subnet {}.", subnet.id);
            Err(validation(text))
        }
        _ => Ok(subnet),
    }
}

/// The subnet of a network that contains the address. Without an address: the first with a free one, IPv4 before IPv6.
fn subnet_of(world: &World, network: Uuid, address: Option<IpAddr>) -> Result<Arc<Subnet>, Fault> {
    let mut subnets: Vec<_> = world.linked::<Subnet>(Link::SubnetsOfNetwork(network)).cloned().collect();
    subnets.sort_by_key(|subnet| (!subnet.cidr.addr().is_ipv4(), subnet.standard.created_at, subnet.id));
    if subnets.is_empty() {
        return Err(validation("Supplied network does not contain a subnet."));
    }
    let fits = |subnet: &Arc<Subnet>| match address {
        Some(address) => subnet.cidr.contains(&address),
        None => ipam::lowest_free(world, subnet).is_some(),
    };
    let found = subnets.into_iter().find(fits);
    found.ok_or_else(|| match address {
        Some(_) => validation("Supplied network does not contain a subnet for VIP address specified."),
        None => conflict(format!("No more IP addresses available on network {network}.")),
    })
}

fn make_port(
    txn: &mut Txn,
    project: &str,
    load_balancer: Uuid,
    label: String,
    subnet: &Subnet,
    address: Option<GivenAddress>,
) -> Result<Vip, Fault> {
    quota::check(txn, Kind::Port, project, 1)?;
    let asked = address.as_ref().map(|given| given.value);
    if let Some(address) = asked {
        if !ipam::is_usable(subnet.cidr, address) {
            let text = format_args!("VIP address {address} is not an address of subnet {}.", subnet.id);
            return Err(validation(text));
        }
        // With the gateway's address, the load balancer would take the packets that others send to the gateway.
        if txn.address_holder(subnet.id, address).is_some() || subnet.gateway_ip == Some(address) {
            return Err(conflict(format!("The VIP IP address is already in use: {address}")));
        }
    }
    // Subnets with SLAAC assign no addresses automatically.
    let chosen = match asked.or_else(|| ipam::lowest_free(txn, subnet)) {
        Some(chosen) => chosen,
        None => return Err(conflict(format!("No more IP addresses available in subnet {}.", subnet.id))),
    };
    let internal = Internal {
        project: project.to_owned(),
        name: label,
        device_id: format!("{DEVICE_PREFIX}{load_balancer}"),
        device_owner: device_owner::LB_VIP.to_owned(),
        fixed_ips: Some(vec![FixedIpRequest { subnet_id: Some(subnet.id), ip_address: Some(chosen) }]),
        // Clients such as Terraform set security groups on it, which a port without port security refuses.
        has_port_security: true,
        ..Internal::on(subnet.network_id)
    };
    let port = port::create_internal(txn, internal)?;
    let taken = quota::shared_addresses(txn, project, &port);
    quota::check_shared_addresses(txn, project, 0, taken)?;
    let address = address.unwrap_or_else(|| chosen.into());
    Ok(Vip { subnet_id: subnet.id, address, port_id: port.id, own_port: false })
}
