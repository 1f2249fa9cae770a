//! Subnets: a prefix on a network, its allocation pools and its DHCP options.
//!
//! A change of a subnet affects other objects. The network's metadata port has an address in each subnet with DHCP, hosts form an address
//! in each subnet with SLAAC, and gateway ports on an external network get an address of a new family ([`gateway::subnet_added`]).
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod checks;
pub mod pools;
mod prefix;

use std::net::IpAddr;
use std::sync::Arc;

use serde_json::json;
use uuid::Uuid;

use super::attribute::{
    CREATED_AT, DESCRIPTION, ID, NAME, PROJECT_ID, REVISION_NUMBER, TAGS, TENANT_ID, UPDATED_AT,
};
use super::network::{self, Networks};
use super::port::{self, mac};
use super::{
    Attribute, Audience, Checked, Field, Filters, Preset, Resource, Scene, Shape, View, gateway,
    metadata_port, quota, touch,
};
use crate::caller::Caller;
use crate::dialect::{Dialect, Neutron};
use crate::fault::Fault;
use crate::model::{AddressRange, HostRoute, Network, Port, Standard, Subnet, owner};
use crate::policy::{Party, PolicyTarget, Rule, Term};
use crate::world::{Kind, Link, Txn, World};

/// The rule for changing a subnet: members of its project and of the network's.
const MEMBERS: Rule = Rule(&[Term::Admin, Term::Member(Party::Owner), Term::Member(Party::Network)]);

/// The noun `subnet`.
#[derive(Debug)]
pub struct Subnets;

const MODES: Shape = Shape::Nullable(&Shape::OneOf(&["slaac", "dhcpv6-stateful", "dhcpv6-stateless"]));
const POOL: Shape =
    Shape::Object(&[Field::required("start", Shape::Address), Field::required("end", Shape::Address)]);
const ROUTE: Shape =
    Shape::Object(&[Field::required("destination", Shape::Cidr), Field::required("nexthop", Shape::Address)]);
const POOLS: Shape = Shape::Nullable(&Shape::List { of: &POOL, max: 256, unique: false });
/// The operator's limit is lower. This one bounds the cost of finding duplicates.
const ROUTES: Shape = Shape::Nullable(&Shape::List { of: &ROUTE, max: 256, unique: true });
const RESOLVERS: Shape = Shape::Nullable(&Shape::List { of: &Shape::Address, max: 256, unique: true });
const SERVICES: Shape = Shape::Nullable(&Shape::List { of: &SERVICE, max: 64, unique: true });
const SERVICE: Shape = Shape::Word { format: "device-owner", parse: checks::service_type };
const POOL_ID: Shape = Shape::Nullable(&Shape::Word { format: "uuid", parse: prefix::pool_id });

static ATTRIBUTES: &[Attribute] = &[
    ID,
    TENANT_ID,
    PROJECT_ID,
    NAME,
    Attribute::new("network_id", Shape::Uuid, "The network it is on.").required(),
    Attribute::new("ip_version", Shape::Integer { min: 4, max: 6 }, "4 or 6.").required(),
    Attribute::new("cidr", Shape::Nullable(&Shape::Cidr), "The prefix.").create(),
    Attribute::new("subnetpool_id", POOL_ID, "The pool that the prefix is taken from.").create(),
    Attribute::new(
        "prefixlen",
        Shape::Nullable(&Shape::Integer { min: 1, max: 128 }),
        "Length of the prefix to take.",
    )
    .create()
    .shown(Audience::Never)
    .unsearchable(),
    Attribute::new(
        "use_default_subnetpool",
        Shape::Bool,
        "Take the prefix from the default pool of its family.",
    )
    .create()
    .preset(Preset::Bool(false))
    .shown(Audience::Never)
    .unsearchable(),
    Attribute::new(
        "gateway_ip",
        Shape::Nullable(&Shape::Address),
        "Next hop of the default route: the first address if not named, none if null.",
    )
    .create()
    .update(),
    Attribute::new(
        "allocation_pools",
        POOLS,
        "Where automatic addresses come from: all but the gateway if not named.",
    )
    .create()
    .update(),
    Attribute::new("enable_dhcp", Shape::Bool, "Whether DHCP answers.")
        .create()
        .update()
        .preset(Preset::Bool(true)),
    Attribute::new("dns_nameservers", RESOLVERS, "Resolvers that DHCP tells, in order.")
        .create()
        .update()
        .preset(Preset::List),
    Attribute::new("host_routes", ROUTES, "Further routes that DHCP tells.")
        .create()
        .update()
        .preset(Preset::List),
    Attribute::new("ipv6_ra_mode", MODES, "What router advertisements say.").create().preset(Preset::Null),
    Attribute::new("ipv6_address_mode", MODES, "How ports come to their addresses.")
        .create()
        .preset(Preset::Null),
    Attribute::new(
        "service_types",
        SERVICES,
        "Device owners that get addresses from it; everybody if empty.",
    )
    .create_by(MEMBERS)
    .update_by(MEMBERS)
    .preset(Preset::List),
    Attribute::new(
        "shared",
        Shape::Bool,
        "Whether its network is shared with the caller; only to filter by.",
    )
    .shown(Audience::Never),
    Attribute::new("router:external", Shape::Bool, "Whether its network is external."),
    DESCRIPTION,
    TAGS,
    REVISION_NUMBER,
    CREATED_AT,
    UPDATED_AT,
];

impl Resource for Subnets {
    type Entity = Subnet;
    const DIALECT: &'static dyn Dialect = &Neutron;
    const NAME: &'static str = "subnet";
    const COLLECTION: &'static str = "subnets";
    const PATH: &'static str = "subnets";
    const ABSENT: (&'static str, &'static str) = ("SubnetNotFound", "Subnet");
    const GET: Rule = Rule(&[
        Term::Admin,
        Term::Service,
        Term::Reader(Party::Owner),
        Term::Reader(Party::Network),
        Term::Shared,
        Term::External,
    ]);
    const CREATE: Rule = Rule(&[Term::Admin, Term::Member(Party::Network)]);
    const UPDATE: Rule = MEMBERS;
    const DELETE: Rule = MEMBERS;
    const TAGS: Rule = MEMBERS;

    fn attributes() -> &'static [Attribute] {
        ATTRIBUTES
    }

    fn project(subnet: &Subnet) -> &str {
        &subnet.project
    }

    fn standard(subnet: &Subnet) -> Option<&Standard> {
        Some(&subnet.standard)
    }

    fn standard_mut(subnet: &mut Subnet) -> Option<&mut Standard> {
        Some(&mut subnet.standard)
    }

    fn target<'w>(subnet: &'w Subnet, world: &'w World) -> PolicyTarget<'w> {
        match world.get::<Network>(&subnet.network_id) {
            Some(network) => PolicyTarget::on(&subnet.project, world, network),
            None => PolicyTarget::of(&subnet.project),
        }
    }

    fn target_of_new<'w>(
        world: &'w World,
        caller: &Caller,
        new: &'w Checked,
    ) -> Result<PolicyTarget<'w>, Fault> {
        let network = network::visible(world, caller, new.uuid("network_id").unwrap_or_default())?;
        Ok(PolicyTarget::on(new.project(), world, network))
    }

    fn reach(filters: &Filters) -> Option<Vec<Link>> {
        let networks =
            filters.uuids("network_id").map(|ids| ids.into_iter().map(Link::SubnetsOfNetwork).collect());
        // An empty value selects subnets without a pool.
        let from_pools = |pools: Vec<Uuid>| {
            let all = filters.values("subnetpool_id").is_some_and(|values| values.len() == pools.len());
            all.then(|| pools.into_iter().map(Link::SubnetsOfPool).collect())
        };
        networks.or_else(|| filters.uuids("subnetpool_id").and_then(from_pools))
    }

    fn view(subnet: &Subnet, scene: &Scene<'_>, view: &mut View<'_>) {
        view.identity(subnet.id, &subnet.project);
        view.text("name", &subnet.name);
        view.text("network_id", &subnet.network_id);
        view.put("ip_version", subnet.ip_version());
        view.text("cidr", &subnet.cidr);
        view.optional("subnetpool_id", subnet.subnetpool_id.as_ref());
        view.optional("gateway_ip", subnet.gateway_ip.as_ref());
        let pool = |pool: &AddressRange| json!({"start": pool.start, "end": pool.end});
        view.list("allocation_pools", subnet.allocation_pools.iter().map(pool));
        view.put("enable_dhcp", subnet.enable_dhcp);
        view.texts("dns_nameservers", &subnet.dns_nameservers);
        let route = |route: &HostRoute| json!({"destination": route.destination, "nexthop": route.nexthop});
        view.list("host_routes", subnet.host_routes.iter().map(route));
        view.put("ipv6_ra_mode", subnet.ipv6_ra_mode.map(|mode| mode.as_str()));
        view.put("ipv6_address_mode", subnet.ipv6_address_mode.map(|mode| mode.as_str()));
        view.texts("service_types", &subnet.service_types);
        view.put_with("shared", || network::is_shared_with(scene.world, subnet.network_id, scene.caller));
        view.put_with("router:external", || {
            scene.world.get::<Network>(&subnet.network_id).is_some_and(|network| network.external)
        });
        view.standard(&subnet.standard);
    }

    fn create(txn: &mut Txn, caller: &Caller, new: &Checked) -> Result<Uuid, Fault> {
        let network_id = new.uuid("network_id").unwrap_or_default();
        quota::check(txn, Kind::Subnet, new.project(), 1)?;
        let id = txn.new_id();
        let (cidr, subnetpool_id) = prefix::choose(txn, caller, network_id, new)?;
        let gateway_ip = if new.is_null("gateway_ip") {
            None
        } else {
            new.parsed("gateway_ip").or_else(|| pools::default_gateway(cidr))
        };
        if let Some(gateway) = gateway_ip {
            pools::check_gateway(cidr, gateway)?;
        }
        // As in Neutron, an empty list means the default pools: a subnet without any pool could not assign addresses.
        let asked: Vec<AddressRange> = new.read("allocation_pools").unwrap_or_default();
        let allocation_pools = match asked.is_empty() {
            true => pools::default_pools(cidr, gateway_ip),
            false => pools::check_pools(cidr, gateway_ip, asked)?,
        };
        let base_mac = txn.outside().settings.base_mac;
        let subnet = Subnet {
            id,
            project: new.project().to_owned(),
            name: new.text("name").unwrap_or_default().to_owned(),
            network_id,
            cidr,
            gateway_ip,
            allocation_pools,
            enable_dhcp: new.bool("enable_dhcp").unwrap_or(true),
            dns_nameservers: new.read("dns_nameservers").unwrap_or_default(),
            host_routes: routes(new),
            ipv6_ra_mode: new.read("ipv6_ra_mode"),
            ipv6_address_mode: new.read("ipv6_address_mode"),
            service_types: new.read("service_types").unwrap_or_default(),
            subnetpool_id,
            dhcp_server_mac: mac::random(txn.chance(), base_mac),
            standard: new.standard(txn.now()),
        };
        checks::whole(&subnet, &txn.outside().settings)?;
        network::check_mtu(network::found(txn, network_id)?, [subnet.ip_version()])?;
        txn.put(subnet.clone());
        port::form_addresses(txn, &subnet)?;
        gateway::subnet_added(txn, id)?;
        metadata_port::keep(txn, network_id)?;
        touch::<Networks>(txn, network_id);
        Ok(id)
    }

    fn update(txn: &mut Txn, _caller: &Caller, id: Uuid, change: &Checked) -> Result<(), Fault> {
        let before = Arc::clone(found(txn, id)?);
        let mut subnet = Subnet::clone(&before);
        change.set_text("name", &mut subnet.name);
        change.set_bool("enable_dhcp", &mut subnet.enable_dhcp);
        if change.has("gateway_ip") {
            subnet.gateway_ip = change.parsed("gateway_ip");
        }
        if change.has("dns_nameservers") {
            subnet.dns_nameservers = change.read("dns_nameservers").unwrap_or_default();
        }
        if change.has("host_routes") {
            subnet.host_routes = routes(change);
        }
        if change.has("service_types") {
            subnet.service_types = change.read("service_types").unwrap_or_default();
        }
        if subnet.gateway_ip != before.gateway_ip {
            check_new_gateway(txn, &before, subnet.gateway_ip)?;
        }
        match change.read("allocation_pools") {
            Some(asked) => {
                subnet.allocation_pools = pools::check_pools(subnet.cidr, subnet.gateway_ip, asked)?;
            }
            None if change.is_null("allocation_pools") => {
                subnet.allocation_pools = pools::default_pools(subnet.cidr, subnet.gateway_ip);
            }
            None => pools::keep_gateway_out(subnet.gateway_ip, &subnet.allocation_pools)?,
        }
        checks::whole(&subnet, &txn.outside().settings)?;
        let network = subnet.network_id;
        txn.edit::<Subnet>(&id, |slot| *slot = subnet);
        metadata_port::keep(txn, network)
    }

    fn delete(txn: &mut Txn, _caller: &Caller, id: Uuid, _: &Checked) -> Result<(), Fault> {
        let subnet = Arc::clone(found(txn, id)?);
        let ports: Vec<_> = txn.linked::<Port>(Link::PortsOfSubnet(id)).cloned().collect();
        if ports.iter().any(|port| !yields(txn, &subnet, port)) {
            let message = format!(
                "Unable to complete operation on subnet {id}: One or more ports have an IP allocation from this subnet."
            );
            return Err(Fault::conflict("SubnetInUse", message));
        }
        for port in ports {
            port::drop_addresses(txn, port.id, id);
        }
        txn.remove::<Subnet>(&id);
        touch::<Networks>(txn, subnet.network_id);
        Ok(())
    }
}

/// The subnet with this id, or 404.
pub fn found(world: &World, id: Uuid) -> Result<&Arc<Subnet>, Fault> {
    world.get::<Subnet>(&id).ok_or_else(|| super::absent::<Subnets>(id))
}

/// Whether a port gives up its addresses when the subnet is deleted: the metadata port, and hosts that formed theirs.
fn yields(world: &World, subnet: &Subnet, port: &Port) -> bool {
    let is_vip = world.has_linked(Link::LoadBalancerOfVipPort(port.id));
    let is_source = port.device_owner == owner::LB_HEALTH_MONITOR;
    let is_host = subnet.is_autoconfigured() && port.router_id().is_none() && !is_vip && !is_source;
    metadata_port::is_metadata(port) || is_host
}

fn check_new_gateway(world: &World, before: &Subnet, gateway: Option<IpAddr>) -> Result<(), Fault> {
    if let Some(gateway) = gateway {
        pools::check_gateway(before.cidr, gateway)?;
        // A router cannot be its own next hop.
        let holder = world.address_holder(before.id, gateway).and_then(|id| world.get::<Port>(&id));
        if let Some(port) = holder.filter(|port| port.is_gateway() || port.device_owner == owner::FLOATING_IP)
        {
            let message = format!("Gateway ip {gateway} is in use by port {}. Unable to update.", port.id);
            return Err(Fault::conflict("GatewayIpInUse", message));
        }
    }
    let Some(old) = before.gateway_ip else { return Ok(()) };
    let holder = world.address_holder(before.id, old).and_then(|id| world.get::<Port>(&id));
    match holder.filter(|port| port.is_router_interface()) {
        Some(port) => {
            let message =
                format!("Current gateway ip {old} already in use by port {}. Unable to update.", port.id);
            Err(Fault::conflict("GatewayIpInUse", message))
        }
        None => Ok(()),
    }
}

/// Host routes in stored form: without host bits in the destination.
fn routes(request: &Checked) -> Vec<HostRoute> {
    let routes: Vec<HostRoute> = request.read("host_routes").unwrap_or_default();
    routes.into_iter().map(|route| HostRoute { destination: route.destination.trunc(), ..route }).collect()
}

#[cfg(test)]
mod tests;
