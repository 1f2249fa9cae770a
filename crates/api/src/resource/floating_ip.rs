//! Floating IPs.
//!
//! A port holds the address of each floating IP. It belongs to no project, so only administrators see it. `association` decides which port
//! and router a floating IP leads to.

mod association;
mod pool;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use serde_json::{Value, json};
use uuid::Uuid;

use super::ipam::{self, FixedIpRequest};
use super::{
    Attribute, Audience, Checked, Filters, Preset, Resource, Scene, Shape, View, absent, attribute, network,
    port, quota,
};
use crate::caller::Caller;
use crate::dialect::{Dialect, Neutron};
use crate::fault::Fault;
use crate::model::{FloatingIp, Network, Port, Standard, Subnet, owner};
use crate::policy;
use crate::world::{Kind, Link, Txn, World};

pub use association::{release_lost, release_port};
pub use pool::FloatingIpPools;

/// The noun `floatingip`.
#[derive(Debug)]
pub struct FloatingIps;

const OPTIONAL_ID: Shape = Shape::Nullable(&Shape::Uuid);
const DOMAIN: Shape = Shape::Word { format: "fqdn", parse: network::domain };
const OPTIONAL_ADDRESS: Shape = Shape::Nullable(&Shape::Address);

static ATTRIBUTES: &[Attribute] = &[
    attribute::ID,
    attribute::TENANT_ID,
    attribute::PROJECT_ID,
    Attribute::new("floating_network_id", Shape::Uuid, "The external network.").required(),
    Attribute::new(
        "floating_ip_address",
        OPTIONAL_ADDRESS,
        "The address; any free one if none is asked for.",
    )
    .create_by(policy::MANAGER)
    .preset(Preset::Null),
    Attribute::new("subnet_id", OPTIONAL_ID, "The subnet to take the address from.")
        .create()
        .preset(Preset::Null)
        .shown(Audience::Never)
        .unsearchable(),
    Attribute::new("port_id", OPTIONAL_ID, "The port it leads to.").create().update().preset(Preset::Null),
    Attribute::new("fixed_ip_address", OPTIONAL_ADDRESS, "The address of that port.")
        .create()
        .update()
        .preset(Preset::Null),
    Attribute::new("router_id", OPTIONAL_ID, "The router between."),
    Attribute::new("status", Shape::OneOf(&["ACTIVE", "DOWN"]), "ACTIVE once OVN translates it."),
    Attribute::new("port_details", Shape::Any, "Some of the port it leads to."),
    Attribute::new("dns_name", Shape::Text { max: 255 }, "Its host name.").create().preset(Preset::Text("")),
    Attribute::new("dns_domain", DOMAIN, "Its domain, with a dot at the end.")
        .create()
        .preset(Preset::Text("")),
    attribute::DESCRIPTION,
    attribute::TAGS,
    attribute::REVISION_NUMBER,
    attribute::CREATED_AT,
    attribute::UPDATED_AT,
];

impl Resource for FloatingIps {
    type Entity = FloatingIp;
    const DIALECT: &'static dyn Dialect = &Neutron;
    const NAME: &'static str = "floatingip";
    const COLLECTION: &'static str = "floatingips";
    const PATH: &'static str = "floatingips";
    const ABSENT: (&'static str, &'static str) = ("FloatingIPNotFound", "Floating IP");

    fn attributes() -> &'static [Attribute] {
        ATTRIBUTES
    }

    fn project(entity: &FloatingIp) -> &str {
        &entity.project
    }

    fn standard(entity: &FloatingIp) -> Option<&Standard> {
        Some(&entity.standard)
    }

    fn standard_mut(entity: &mut FloatingIp) -> Option<&mut Standard> {
        Some(&mut entity.standard)
    }

    fn reach(filters: &Filters) -> Option<Vec<Link>> {
        let ids = |name: &str| -> Option<Vec<Uuid>> {
            filters.values(name)?.iter().map(|value| Uuid::try_parse(value).ok()).collect()
        };
        if let Some(ports) = ids("port_id") {
            return Some(ports.into_iter().map(Link::FloatingIpsOfPort).collect());
        }
        if let Some(routers) = ids("router_id") {
            return Some(routers.into_iter().map(Link::FloatingIpsOfRouter).collect());
        }
        ids("floating_network_id")
            .map(|networks| networks.into_iter().map(Link::FloatingIpsOfNetwork).collect())
    }

    fn view(entity: &FloatingIp, scene: &Scene<'_>, view: &mut View<'_>) {
        view.identity(entity.id, &entity.project);
        view.text("floating_network_id", &entity.floating_network_id);
        view.text("floating_ip_address", &entity.floating_ip_address);
        view.optional("port_id", entity.port_id.as_ref());
        view.optional("fixed_ip_address", entity.fixed_ip_address.as_ref());
        view.optional("router_id", entity.router_id.as_ref());
        view.put_with("status", || {
            let active = entity.port_id.is_some() && scene.report.fip_active(entity.id);
            if active { "ACTIVE" } else { "DOWN" }
        });
        view.put_with("port_details", || {
            let port = entity.port_id.and_then(|port| scene.world.get::<Port>(&port));
            port.map(|port| details(port, scene))
        });
        view.text("dns_name", entity.dns_name.as_str());
        view.text("dns_domain", entity.dns_domain.as_str());
        view.standard(&entity.standard);
    }

    fn create(txn: &mut Txn, caller: &Caller, new: &Checked) -> Result<Uuid, Fault> {
        let project = new.project().to_owned();
        quota::check(txn, Kind::FloatingIp, &project, 1)?;
        let floating_network_id = new.uuid("floating_network_id").unwrap_or_default();
        check_network(txn, caller, floating_network_id)?;
        let wanted = FixedIpRequest {
            subnet_id: new.uuid("subnet_id"),
            ip_address: new.parsed("floating_ip_address"),
        };
        let id = txn.new_id();
        let port = hold(txn, floating_network_id, id, wanted)?;
        let address = port.fixed_ips.iter().find_map(|fixed| as_v4(fixed.ip_address));
        let floating = FloatingIp {
            id,
            project,
            floating_network_id,
            floating_ip_address: address.ok_or_else(|| no_address(floating_network_id))?,
            floating_port_id: port.id,
            port_id: None,
            fixed_ip_address: None,
            router_id: None,
            dns_name: new.text("dns_name").unwrap_or_default().to_owned(),
            dns_domain: new.text("dns_domain").unwrap_or_default().to_owned(),
            standard: new.standard(txn.now()),
        };
        let project = floating.project.clone();
        txn.put(floating);
        let taken = quota::shared_addresses(txn, &project, &port);
        quota::check_shared_addresses(txn, &project, 0, taken)?;
        let fixed = new.parsed::<IpAddr>("fixed_ip_address");
        match new.uuid("port_id") {
            Some(port) => association::associate(txn, caller, id, port, fixed)?,
            None if fixed.is_some() => {
                let text = "fixed_ip_address cannot be specified without a port_id";
                return Err(Fault::senseless("floatingip", text));
            }
            None => {}
        }
        Ok(id)
    }

    fn update(txn: &mut Txn, caller: &Caller, id: Uuid, change: &Checked) -> Result<(), Fault> {
        let fixed = change.parsed::<IpAddr>("fixed_ip_address");
        let present = txn.get::<FloatingIp>(&id).and_then(|floating| floating.port_id);
        // An update without any attribute ends the association, as in Neutron.
        let silent = ATTRIBUTES.iter().all(|attribute| !change.has(attribute.name));
        let port = match change.uuid("port_id") {
            Some(port) => Some(port),
            None if silent || change.has("port_id") => None,
            None if change.has("fixed_ip_address") => present,
            None => return Ok(()),
        };
        match port {
            Some(port) => association::associate(txn, caller, id, port, fixed),
            None if fixed.is_some() => {
                let text = "fixed_ip_address cannot be specified without a port_id";
                Err(Fault::senseless("floatingip", text))
            }
            None => {
                association::release(txn, id);
                Ok(())
            }
        }
    }

    fn delete(txn: &mut Txn, _caller: &Caller, id: Uuid, _: &Checked) -> Result<(), Fault> {
        if let Some(floating) = txn.remove::<FloatingIp>(&id) {
            port::remove(txn, floating.floating_port_id);
        }
        Ok(())
    }
}

/// The floating IP with this id.
pub fn found(world: &World, id: Uuid) -> Result<&Arc<FloatingIp>, Fault> {
    world.get::<FloatingIp>(&id).ok_or_else(|| absent::<FloatingIps>(id))
}

fn details(port: &Port, scene: &Scene<'_>) -> Value {
    json!({
        "name": port.name,
        "network_id": port.network_id,
        "mac_address": port.mac.to_string(),
        "admin_state_up": port.admin_state_up,
        "status": scene.report.port_status(port).as_str(),
        "device_id": port.device_id,
        "device_owner": port.device_owner,
    })
}

fn check_network(world: &World, caller: &Caller, id: Uuid) -> Result<(), Fault> {
    let network: &Network = network::visible(world, caller, id)?;
    if !network.external {
        return Err(Fault::senseless("floatingip", format!("Network {id} is not a valid external network")));
    }
    if !world.linked::<Subnet>(Link::SubnetsOfNetwork(id)).any(|subnet| subnet.ip_version() == 4) {
        return Err(Fault::senseless("floatingip", format!("Network {id} does not contain any IPv4 subnet")));
    }
    Ok(())
}

/// Creates the port that holds the address.
fn hold(txn: &mut Txn, network: Uuid, floating: Uuid, wanted: FixedIpRequest) -> Result<Arc<Port>, Fault> {
    let request = match wanted {
        FixedIpRequest { ip_address: Some(address), subnet_id } => {
            check_address(txn, network, address, subnet_id)?;
            wanted
        }
        FixedIpRequest { subnet_id, .. } => {
            let subnet = subnets(txn, network)
                .into_iter()
                .filter(|subnet| subnet_id.is_none_or(|id| id == subnet.id))
                .find(|subnet| ipam::lowest_free(txn, subnet).is_some());
            match subnet {
                Some(subnet) => FixedIpRequest { subnet_id: Some(subnet.id), ip_address: None },
                None => return Err(no_subnet(txn, network, subnet_id)),
            }
        }
    };
    port::create_internal(
        txn,
        port::Internal {
            device_id: floating.to_string(),
            device_owner: owner::FLOATING_IP.into(),
            fixed_ips: Some(vec![request]),
            ..port::Internal::on(network)
        },
    )
}

/// The subnets that floating IPs are allocated from: first those with their service type, then those without any.
fn subnets(world: &World, network: Uuid) -> Vec<Arc<Subnet>> {
    let all = || {
        world
            .linked::<Subnet>(Link::SubnetsOfNetwork(network))
            .filter(|subnet| subnet.ip_version() == 4)
            .cloned()
    };
    let special = all().filter(|subnet| subnet.service_types.iter().any(|of| of == owner::FLOATING_IP));
    special.chain(all().filter(|subnet| subnet.service_types.is_empty())).collect()
}

fn check_address(world: &World, network: Uuid, address: IpAddr, subnet: Option<Uuid>) -> Result<(), Fault> {
    if !address.is_ipv4() {
        return Err(Fault::invalid("floating_ip_address", format!("'{address}' is not an IPv4 address")));
    }
    let mut of_network = world.linked::<Subnet>(Link::SubnetsOfNetwork(network));
    if of_network.any(|of| subnet.is_none_or(|id| id == of.id) && of.gateway_ip == Some(address)) {
        let text = format!("Floating IP {address} is the same as the gateway IP");
        return Err(Fault::senseless("floatingip", text));
    }
    Ok(())
}

/// The fault if the requested subnet has no address. Subnets outside of the network get one and the same message, whether they exist or
/// not: the caller may know only the network.
fn no_subnet(world: &World, network: Uuid, asked: Option<Uuid>) -> Fault {
    let Some(asked) = asked else { return no_address(network) };
    match world.get::<Subnet>(&asked) {
        Some(subnet) if subnet.network_id == network && subnet.ip_version() == 4 => no_address(network),
        _ => {
            let text = format!("Subnet {asked} is not an IPv4 subnet of network {network}");
            Fault::senseless("floatingip", text)
        }
    }
}

fn no_address(network: Uuid) -> Fault {
    let text = format!("Unable to find any IP address on external network {network}.");
    Fault::new(400, "ExternalIpAddressExhausted", text)
}

fn as_v4(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V4(v4) => Some(v4),
        IpAddr::V6(_) => None,
    }
}

#[cfg(test)]
mod tests;
