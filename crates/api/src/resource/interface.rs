//! Router interfaces: attaching a router to a subnet or to a port, and detaching it.

use std::sync::Arc;

use serde_json::{Value, json};
use uuid::Uuid;

use super::router::{Routers, reach};
use super::{ActionCall, Field, Reply, Shape, floating_ip, ipam, network, port, quota, rbac_policy, touch};
use crate::caller::Caller;
use crate::fault::Fault;
use crate::model::{FixedIp, FloatingIp, Network, Port, RbacAction, Router, Subnet, owner};
use crate::world::{Kind, Link, Txn, World};

const OPTIONAL_ID: Shape = Shape::Nullable(&Shape::Uuid);
/// The keys of a body. Newer clients send `advertise_host`, which has no effect here.
pub const BODY: Shape = Shape::Object(FIELDS);
const FIELDS: &[Field] = &[
    Field::new("subnet_id", OPTIONAL_ID),
    Field::new("port_id", OPTIONAL_ID),
    Field::new("advertise_host", Shape::Any),
];

/// The subnet and the port that a body names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Named {
    subnet: Option<Uuid>,
    port: Option<Uuid>,
}

impl Named {
    fn read(body: &Value) -> Result<Self, Fault> {
        let object = body.as_object().ok_or_else(|| Fault::bad("Body contains invalid data"))?;
        let one = |name: &str| match object.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                let text = OPTIONAL_ID.check(value).map_err(|reason| Fault::invalid(name, reason))?;
                Ok(text.as_str().and_then(|text| text.parse().ok()))
            }
        };
        let unknown = |key: &&String| !FIELDS.iter().any(|field| field.name == key.as_str());
        if let Some(key) = object.keys().find(unknown) {
            return Err(Fault::bad(format!("Unrecognized attribute(s) '{key}'")));
        }
        let named = Named { subnet: one("subnet_id")?, port: one("port_id")? };
        match named {
            Named { subnet: None, port: None } => {
                Err(Fault::senseless("router", "Either subnet_id or port_id must be specified"))
            }
            named => Ok(named),
        }
    }
}

/// `PUT /routers/{id}/add_router_interface`.
pub fn add(txn: &mut Txn, call: &ActionCall<'_>) -> Result<Reply, Fault> {
    let named = Named::read(call.body)?;
    let (port, subnet) = match named {
        Named { subnet: Some(_), port: Some(_) } => {
            return Err(Fault::senseless("router", "Cannot specify both subnet-id and port-id"));
        }
        Named { subnet: Some(subnet), .. } => (add_subnet(txn, call.caller, call.id, subnet)?, subnet),
        Named { port, .. } => add_port(txn, call.caller, call.id, port.unwrap_or_default())?,
    };
    touch::<Routers>(txn, call.id);
    let subnets: Vec<Uuid> = match named.subnet {
        Some(subnet) => vec![subnet],
        None => port.fixed_ips.iter().map(|fixed| fixed.subnet_id).collect(),
    };
    answer(txn, call.id, &port, subnet, &subnets)
}

/// `PUT /routers/{id}/remove_router_interface`.
pub fn remove(txn: &mut Txn, call: &ActionCall<'_>) -> Result<Reply, Fault> {
    let named = Named::read(call.body)?;
    let (port, subnet) = found(txn, call.id, named)?;
    let leaving: Vec<Uuid> = match named.port {
        Some(_) => port.fixed_ips.iter().map(|fixed| fixed.subnet_id).collect(),
        None => vec![subnet],
    };
    for subnet in &leaving {
        check_unused(txn, call.id, &port, *subnet)?;
    }
    let stays: Vec<FixedIp> =
        port.fixed_ips.iter().copied().filter(|fixed| !leaving.contains(&fixed.subnet_id)).collect();
    if stays.is_empty() {
        port::remove(txn, port.id);
    } else {
        let now = txn.now();
        txn.edit::<Port>(&port.id, |port| {
            port.fixed_ips = stays;
            port.standard.bump(now);
        });
        floating_ip::release_lost(txn, port.id);
    }
    touch::<Routers>(txn, call.id);
    answer(txn, call.id, &port, subnet, &leaving)
}

/// The response: the router, the port as it is or was, and the subnets of the request.
fn answer(world: &World, router: Uuid, port: &Port, subnet: Uuid, subnets: &[Uuid]) -> Result<Reply, Fault> {
    let project = &super::router::found(world, router)?.project;
    Ok(Reply::Value(json!({
        "id": router,
        "tenant_id": project,
        "project_id": project,
        "port_id": port.id,
        "network_id": port.network_id,
        "subnet_id": subnet,
        "subnet_ids": subnets,
    })))
}

/// Attaches a subnet: the router takes the subnet's gateway address. It gets a new port, or, for a further IPv6 subnet of a network, the
/// address goes to the port that the router has there.
fn add_subnet(txn: &mut Txn, caller: &Caller, id: Uuid, subnet_id: Uuid) -> Result<Arc<Port>, Fault> {
    let absent = || Fault::absent("SubnetNotFound", "Subnet", subnet_id);
    let subnet = txn.get::<Subnet>(&subnet_id).cloned().ok_or_else(absent)?;
    network::visible(txn, caller, subnet.network_id).map_err(|_| absent())?;
    let Some(gateway) = subnet.gateway_ip else {
        return Err(Fault::senseless("router", "Subnet for router interface must have a gateway IP"));
    };
    check_gives_gateway(txn, caller, &subnet)?;
    check_modes(&subnet)?;
    check_fits(txn, id, &subnet)?;
    if txn.address_holder(subnet.id, gateway).is_some() {
        return Err(ipam::already_allocated(gateway, subnet.id));
    }
    let fixed = FixedIp { subnet_id: subnet.id, ip_address: gateway };
    if let Some(shared) = ipv6_port(txn, id, subnet.network_id).filter(|_| gateway.is_ipv6()).cloned() {
        let count = shared.fixed_ips.len();
        quota::check_growth(txn, "port_fixed_ip", &shared.project, count, count + 1)?;
        let now = txn.now();
        let port = txn.edit::<Port>(&shared.id, |port| {
            port.fixed_ips.push(fixed);
            port.standard.bump(now);
        });
        let port = port.unwrap_or_else(|| Arc::clone(&shared));
        let addresses = |port| quota::shared_addresses(txn, &shared.project, port);
        quota::check_shared_addresses(txn, &shared.project, addresses(&shared), addresses(&port))?;
        return Ok(port);
    }
    let project = super::router::found(txn, id)?.project.clone();
    quota::check(txn, Kind::Port, &project, 1)?;
    let port = port::create_internal(
        txn,
        port::Internal {
            project,
            device_id: id.to_string(),
            device_owner: owner::ROUTER_INTERFACE.into(),
            fixed_ips: Some(vec![fixed.into()]),
            ..port::Internal::on(subnet.network_id)
        },
    )?;
    let taken = quota::shared_addresses(txn, &port.project, &port);
    quota::check_shared_addresses(txn, &port.project, 0, taken)?;
    Ok(port)
}

/// Attaches an existing unused port with its present addresses.
fn add_port(txn: &mut Txn, caller: &Caller, id: Uuid, port_id: Uuid) -> Result<(Arc<Port>, Uuid), Fault> {
    let port = port::found(txn, port_id)?.clone();
    if !caller.changes_project(&port.project) {
        return Err(Fault::absent("PortNotFound", "Port", port_id));
    }
    if !port.device_id.is_empty() || !port.device_owner.is_empty() {
        let text = format!(
            "Unable to complete operation on port {port_id} for network {}. Port already has an attached device {}.",
            port.network_id, port.device_id
        );
        return Err(Fault::conflict("PortInUse", text));
    }
    let subnets: Vec<Arc<Subnet>> =
        port.fixed_ips.iter().filter_map(|fixed| txn.get::<Subnet>(&fixed.subnet_id).cloned()).collect();
    let Some(first) = subnets.first() else {
        return Err(Fault::senseless("router", "Router port must have at least one fixed IP"));
    };
    if subnets.iter().filter(|subnet| subnet.ip_version() == 4).count() > 1 {
        return Err(Fault::senseless("router", "Cannot have multiple IPv4 subnets on router port"));
    }
    if subnets.iter().any(|subnet| subnet.ip_version() == 6)
        && let Some(other) = ipv6_port(txn, id, port.network_id)
    {
        let text = format!(
            "Router already contains IPv6 port {} belonging to network id {}. Only one IPv6 port from the same network \
             subnet can be connected to a router",
            other.id, port.network_id
        );
        return Err(Fault::senseless("router", text));
    }
    for subnet in &subnets {
        check_modes(subnet)?;
        check_fits(txn, id, subnet)?;
    }
    check_in_pools(txn, caller, &port)?;
    let router = super::router::found(txn, id)?;
    let own = |fixed: &FixedIp| router.routes.iter().any(|route| route.nexthop == fixed.ip_address);
    if port.fixed_ips.iter().any(own) {
        return Err(reach::invalid_routes(&router.routes, "the nexthop is used by router"));
    }
    let subnet = first.id;
    let now = txn.now();
    let attached = txn.edit::<Port>(&port_id, |port| {
        port.device_id = id.to_string();
        port.device_owner = owner::ROUTER_INTERFACE.into();
        port.standard.bump(now);
    });
    Ok((attached.unwrap_or(port), subnet))
}

/// Checks that the caller may take the gateway address of a subnet: it owns the subnet or the network, or the network is shared with this
/// very project. A network that is shared with all projects lets them create ports, but none may become the gateway of the others.
fn check_gives_gateway(world: &World, caller: &Caller, subnet: &Subnet) -> Result<(), Fault> {
    if rules_subnet(world, caller, subnet)
        || rbac_policy::names(world, subnet.network_id, RbacAction::AccessAsShared, &caller.project)
    {
        return Ok(());
    }
    let text = format!(
        "Cannot add interface to router because subnet {} is not owned by project making the request",
        subnet.id
    );
    Err(Fault::senseless("router", text))
}

/// Checks that any tenant could have got the addresses of a port: they are in the allocation pools, so none is a gateway address. Only a
/// caller that controls the subnet may attach other addresses.
fn check_in_pools(world: &World, caller: &Caller, port: &Port) -> Result<(), Fault> {
    for fixed in &port.fixed_ips {
        let Some(subnet) = world.get::<Subnet>(&fixed.subnet_id) else { continue };
        let pooled =
            subnet.allocation_pools.iter().any(|pool| (pool.start..=pool.end).contains(&fixed.ip_address));
        let given = (pooled || subnet.is_autoconfigured()) && subnet.gateway_ip != Some(fixed.ip_address);
        if !given && !rules_subnet(world, caller, subnet) {
            let text = format!(
                "Cannot add interface to router because specified port {} has an IP address out of the allocation pool of \
                 subnet {}, which is not owned by the project making the request",
                port.id, subnet.id
            );
            return Err(Fault::senseless("router", text));
        }
    }
    Ok(())
}

/// Whether the caller controls the addresses of a subnet: it owns the subnet or its network, or is an administrator.
fn rules_subnet(world: &World, caller: &Caller, subnet: &Subnet) -> bool {
    let network = world.get::<Network>(&subnet.network_id);
    caller.changes_project(&subnet.project)
        || network.is_some_and(|network| caller.changes_project(&network.project))
}

fn check_modes(subnet: &Subnet) -> Result<(), Fault> {
    if subnet.ipv6_address_mode.is_some() && subnet.ipv6_ra_mode.is_none() {
        let text = format!(
            "IPv6 subnet {} configured to receive RAs from an external router cannot be added to Neutron Router",
            subnet.id
        );
        return Err(Fault::senseless("router", text));
    }
    Ok(())
}

fn check_fits(world: &World, router: Uuid, subnet: &Subnet) -> Result<(), Fault> {
    let on_it = |port: &Arc<Port>| port.fixed_ips.iter().any(|fixed| fixed.subnet_id == subnet.id);
    if reach::interfaces(world, router).any(on_it) {
        return Err(Fault::senseless("router", format!("Router already has a port on subnet {}", subnet.id)));
    }
    reach::refuse_overlap("router", subnet, &reach::attached(world, router))
}

/// The interface of a router on a network that has IPv6 addresses.
fn ipv6_port(world: &World, router: Uuid, network: Uuid) -> Option<&Arc<Port>> {
    reach::interfaces(world, router).find(|port| {
        port.network_id == network && port.fixed_ips.iter().any(|fixed| fixed.ip_address.is_ipv6())
    })
}

/// The interface and the subnet that a removal names.
fn found(world: &World, router: Uuid, named: Named) -> Result<(Arc<Port>, Uuid), Fault> {
    let Some(id) = named.port else {
        let subnet = named.subnet.unwrap_or_default();
        let on_it = |port: &&Arc<Port>| port.fixed_ips.iter().any(|fixed| fixed.subnet_id == subnet);
        let port = reach::interfaces(world, router).find(on_it).cloned().ok_or_else(|| {
            let text = format!("Router {router} has no interface on subnet {subnet}");
            Fault::new(404, "RouterInterfaceNotFoundForSubnet", text)
        })?;
        return Ok((port, subnet));
    };
    let port = reach::interfaces(world, router).find(|port| port.id == id).cloned().ok_or_else(|| {
        let text = format!("Router {router} does not have an interface with id {id}");
        Fault::new(404, "RouterInterfaceNotFound", text)
    })?;
    let has = |subnet: Uuid| port.fixed_ips.iter().any(|fixed| fixed.subnet_id == subnet);
    match named.subnet {
        Some(subnet) if !has(subnet) => {
            let text = format!("Subnet on port {id} does not match the requested subnet {subnet}.");
            Err(Fault::new(400, "SubnetMismatchForPort", text))
        }
        Some(subnet) => Ok((port, subnet)),
        None => {
            let subnet = port.fixed_ips.first().map(|fixed| fixed.subnet_id).unwrap_or_default();
            Ok((port, subnet))
        }
    }
}

/// Checks that neither a floating IP nor a route of the router needs the interface.
fn check_unused(world: &World, router: Uuid, port: &Port, subnet_id: Uuid) -> Result<(), Fault> {
    let through = world.linked::<FloatingIp>(Link::FloatingIpsOfRouter(router));
    let needs = |floating: &FloatingIp| {
        let inside = floating.port_id.and_then(|port| world.get::<Port>(&port));
        inside.is_some_and(|inside| {
            let of_floating =
                |fixed: &&FixedIp| floating.fixed_ip_address.is_some_and(|ip| fixed.ip_address == ip);
            inside.fixed_ips.iter().filter(of_floating).any(|fixed| fixed.subnet_id == subnet_id)
        })
    };
    let refused = |kind, by: &str| {
        let text = format!(
            "Router interface for subnet {subnet_id} on router {router} cannot be deleted, as it is required by one or more {by}."
        );
        Err(Fault::conflict(kind, text))
    };
    if through.into_iter().any(|floating| needs(floating)) {
        return refused("RouterInterfaceInUseByFloatingIP", "floating IPs");
    }
    let Some(subnet) = world.get::<Subnet>(&subnet_id) else { return Ok(()) };
    let router: &Router = super::router::found(world, router)?;
    let others = || {
        let ports = reach::ports(world, router.id).filter(|other| other.id != port.id);
        ports.flat_map(|other| &other.fixed_ips).filter_map(|fixed| world.get::<Subnet>(&fixed.subnet_id))
    };
    let lost = |nexthop| subnet.cidr.contains(nexthop) && !others().any(|other| other.cidr.contains(nexthop));
    if router.routes.iter().any(|route| lost(&route.nexthop)) {
        return refused("RouterInterfaceInUseByRoute", "routes");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
