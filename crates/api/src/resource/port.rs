//! Ports: the connections of instances, routers and services to a network.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod addresses;
mod device;
mod dhcp_opts;
mod internal;
pub mod mac;
mod names;
mod pairs;
pub mod security;

use std::net::IpAddr;
use std::sync::Arc;

use ovn::MacAddr;
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::attribute::{
    ADMIN_STATE_UP, CREATED_AT, DESCRIPTION, ID, NAME, PROJECT_ID, REVISION_NUMBER, TAGS, TENANT_ID,
    UPDATED_AT,
};
use super::ipam::{self, FixedIpRequest};
use super::{
    Action, Attribute, Audience, Checked, Field, Filters, Part, Preset, Resource, Scene, Shape, View,
    binding, floating_ip, network, quota,
};
use crate::caller::Caller;
use crate::dialect::{Dialect, Neutron};
use crate::fault::Fault;
use crate::model::{Binding, FixedIp, Network, Placement, Port, Router, Standard};
use crate::policy::{self, Party, PolicyTarget, Rule, Term};
use crate::world::{Kind, Link, Txn, World};

pub use addresses::{add_address, drop_addresses, form_addresses};
pub use device::is_in_service;
pub use internal::{Internal, create_internal};

/// The noun `port`.
#[derive(Debug)]
pub struct Ports;

const FIXED_IP: Shape =
    Shape::Object(&[Field::new("subnet_id", Shape::Uuid), Field::new("ip_address", Shape::Address)]);
const FIXED_IPS: Shape = Shape::List { of: &FIXED_IP, max: 256, unique: false };
const GROUPS: Shape = Shape::Nullable(&Shape::List { of: &Shape::Uuid, max: 256, unique: true });
const PAIR: Shape = Shape::Object(&[
    Field::required("ip_address", Shape::Word { format: "cidr", parse: pairs::parse_address }),
    Field::new("mac_address", Shape::Nullable(&Shape::Mac)),
]);
const PAIRS: Shape = Shape::Nullable(&Shape::List { of: &PAIR, max: 1024, unique: false });
const OPTION: Shape = Shape::Object(&[
    Field::required("opt_name", Shape::Word { format: "dhcp-option", parse: dhcp_opts::parse_name }),
    Field::required("opt_value", Shape::Nullable(&Shape::Text { max: 255 })),
    Field::new("ip_version", Shape::Nullable(&Shape::Integer { min: 4, max: 6 })),
]);
const OPTIONS: Shape = Shape::Nullable(&Shape::List { of: &OPTION, max: 256, unique: false });
const NAMES: Shape = Shape::List { of: &Shape::Any, max: usize::MAX, unique: false };
const DEVICE: Shape = Shape::Text { max: 255 };

/// The rule for creating a port on a network.
const ON_NETWORK: Rule =
    Rule(&[Term::Admin, Term::Service, Term::Member(Party::Network), Term::SharedMember]);
/// The rule for attributes that would let a port impersonate another port of the network: members of the network's project.
const NETWORK_OWNER: Rule = Rule(&[Term::Admin, Term::Service, Term::Member(Party::Network)]);
/// The rule for changing the MAC of an existing port.
const NETWORK_MANAGER: Rule = Rule(&[Term::Admin, Term::Service, Term::Manager(Party::Network)]);
/// The rule for changing the use of a port. The network's owner may only read and delete it.
const OWN: Rule = Rule(&[Term::Admin, Term::Service, Term::Member(Party::Owner)]);
/// The rule for `device_owner`: values beginning with `network:` need a member of the network's project.
const DEVICE_OWNER: Rule =
    Rule(&[Term::NoNetworkDevice, Term::Admin, Term::Service, Term::Member(Party::Network)]);

static ATTRIBUTES: &[Attribute] = &[
    ID,
    TENANT_ID,
    PROJECT_ID,
    NAME,
    Attribute::new("network_id", Shape::Uuid, "The network it is on.").required(),
    ADMIN_STATE_UP,
    Attribute::new("status", Shape::OneOf(&["ACTIVE", "DOWN", "BUILD", "N/A"]), "Whether it forwards."),
    Attribute::new(
        "mac_address",
        Shape::Nullable(&Shape::Mac),
        "Its MAC address, unique in the network; null in an update asks for a new one.",
    )
    .create_by(NETWORK_OWNER)
    .update_by(NETWORK_MANAGER),
    Attribute::new("fixed_ips", FIXED_IPS, "Its addresses; one of each family if not named.")
        .create_by(ON_NETWORK)
        .update_by(NETWORK_OWNER)
        .parts(&[Part::new("ip_address", NETWORK_OWNER), Part::new("subnet_id", ON_NETWORK)])
        .filter(),
    Attribute::new("device_id", DEVICE, "What it belongs to.")
        .create_by(OWN)
        .update_by(OWN)
        .preset(Preset::Text("")),
    Attribute::new("device_owner", DEVICE, "What kind of thing that is.")
        .create_by(DEVICE_OWNER)
        .update_by(DEVICE_OWNER)
        .preset(Preset::Text("")),
    Attribute::new(
        "security_groups",
        GROUPS,
        "Groups whose rules it is under; the project's default if not named.",
    )
    .create()
    .update()
    .filter(),
    Attribute::new("port_security_enabled", Shape::Bool, "Whether it may send only with its own addresses.")
        .create_by(NETWORK_OWNER)
        .update_by(NETWORK_OWNER),
    Attribute::new("allowed_address_pairs", PAIRS, "Further addresses that it may send with.")
        .create_by(NETWORK_OWNER)
        .update_by(NETWORK_OWNER)
        .parts(&[Part::new("ip_address", NETWORK_OWNER), Part::new("mac_address", NETWORK_OWNER)])
        .preset(Preset::List),
    Attribute::new("extra_dhcp_opts", OPTIONS, "What DHCP tells it beyond the subnet; a null value removes.")
        .create()
        .update()
        .preset(Preset::List),
    Attribute::new("binding:host_id", Shape::Nullable(&binding::HOST), "The host it is to be on.")
        .create_by(policy::ADMIN_OR_SERVICE)
        .update_by(policy::ADMIN_OR_SERVICE)
        .preset(Preset::Text(""))
        .shown(Audience::Service),
    Attribute::new("binding:vnic_type", Shape::OneOf(binding::VNIC_TYPES), "The kind of interface.")
        .create_by(OWN)
        .update_by(OWN)
        .preset(Preset::Text("normal")),
    Attribute::new(
        "binding:profile",
        Shape::Nullable(&Shape::Free),
        "What the caller wants to tell the switch.",
    )
    .create_by(policy::SERVICE)
    .update_by(policy::SERVICE)
    .preset(Preset::Object)
    .shown(Audience::Service),
    Attribute::new("binding:vif_type", Shape::Text { max: 64 }, "How the host plugs it.")
        .shown(Audience::Service),
    Attribute::new("binding:vif_details", Shape::Free, "What the host needs to know to plug it.")
        .shown(Audience::Service),
    Attribute::new("dns_name", Shape::Word { format: "hostname", parse: names::parse }, "Its host name.")
        .create()
        .update()
        .preset(Preset::Text("")),
    Attribute::new("dns_assignment", NAMES, "What each of its addresses is called."),
    Attribute::new("ip_allocation", Shape::OneOf(&["immediate", "none"]), "Whether it was given addresses."),
    DESCRIPTION,
    TAGS,
    REVISION_NUMBER,
    CREATED_AT,
    UPDATED_AT,
];

impl Resource for Ports {
    type Entity = Port;
    const DIALECT: &'static dyn Dialect = &Neutron;
    const NAME: &'static str = "port";
    const COLLECTION: &'static str = "ports";
    const PATH: &'static str = "ports";
    const ABSENT: (&'static str, &'static str) = ("PortNotFound", "Port");
    const GET: Rule =
        Rule(&[Term::Admin, Term::Service, Term::Reader(Party::Owner), Term::Reader(Party::Network)]);
    const CREATE: Rule = ON_NETWORK;
    const UPDATE: Rule = OWN;
    const DELETE: Rule =
        Rule(&[Term::Admin, Term::Service, Term::Member(Party::Owner), Term::Member(Party::Network)]);

    fn attributes() -> &'static [Attribute] {
        ATTRIBUTES
    }

    fn actions() -> &'static [Action] {
        binding::ACTIONS
    }

    fn project(port: &Port) -> &str {
        &port.project
    }

    fn standard(port: &Port) -> Option<&Standard> {
        Some(&port.standard)
    }

    fn standard_mut(port: &mut Port) -> Option<&mut Standard> {
        Some(&mut port.standard)
    }

    fn target<'w>(port: &'w Port, world: &'w World) -> PolicyTarget<'w> {
        match world.get::<Network>(&port.network_id) {
            Some(network) => PolicyTarget::on(&port.project, world, network),
            None => PolicyTarget::of(&port.project),
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
        // An empty value selects ports without a device, which no link contains.
        let devices = filters.values("device_id").filter(|ids| ids.iter().all(|id| !id.is_empty()));
        if let Some(devices) = devices {
            return Some(devices.iter().map(|id| Link::PortsOfDevice(id.as_str().into())).collect());
        }
        let ids = |values: &[String], link: fn(Uuid) -> Link| {
            values.iter().filter_map(|id| Uuid::try_parse(id).ok()).map(link).collect()
        };
        if let Some(subnets) = filters.element("fixed_ips", "subnet_id") {
            return Some(ids(subnets, Link::PortsOfSubnet));
        }
        if let Some(groups) = filters.values("security_groups") {
            return Some(ids(groups, Link::PortsOfGroup));
        }
        filters.values("network_id").map(|networks| ids(networks, Link::PortsOfNetwork))
    }

    fn view(port: &Port, scene: &Scene<'_>, view: &mut View<'_>) {
        view.identity(port.id, &port.project);
        view.put("name", &port.name);
        view.text("network_id", &port.network_id);
        view.put("admin_state_up", port.admin_state_up);
        view.put_with("status", || scene.report.port_status(port).as_str());
        view.text("mac_address", &port.mac);
        view.list("fixed_ips", port.fixed_ips.iter().map(ShownAddress::of));
        view.put("device_id", &port.device_id);
        view.put("device_owner", &port.device_owner);
        view.texts("security_groups", &port.security_groups);
        view.put("port_security_enabled", port.port_security_enabled);
        view.put_with("allowed_address_pairs", || pairs::show(port));
        view.put_with("extra_dhcp_opts", || dhcp_opts::show(port));
        view.put_with("binding:host_id", || binding::host(port, scene.report));
        view.text("binding:vnic_type", &port.binding.vnic_type);
        view.put("binding:profile", &port.binding.profile);
        view.put_with("binding:vif_type", || binding::vif_type(port, scene.report).as_str());
        view.put_with("binding:vif_details", || binding::vif_details(port, scene));
        view.put("dns_name", &port.dns_name);
        view.list("dns_assignment", names::assignment(port, &scene.outside.settings.dns_domain));
        view.put("ip_allocation", if port.fixed_ips.is_empty() { "none" } else { "immediate" });
        view.standard(&port.standard);
    }

    fn create(txn: &mut Txn, caller: &Caller, new: &Checked) -> Result<Uuid, Fault> {
        let outside = txn.outside();
        let network = network::visible(txn, caller, new.uuid("network_id").unwrap_or_default())?.clone();
        let device_owner = new.text("device_owner").unwrap_or_default();
        let device_id = new.text("device_id").unwrap_or_default();
        device::check_device(txn, device_id, device_owner)?;
        quota::check(txn, Kind::Port, new.project(), 1)?;
        let mac = mac::choose(txn, network.id, asked_mac(new)?)?;
        let request: Option<Vec<FixedIpRequest>> = asked_addresses(new);
        let asked = request.as_ref().map_or(0, Vec::len);
        quota::check_growth(txn, "port_fixed_ip", new.project(), 0, asked)?;
        let fixed_ips = ipam::allocate(txn, network.id, request.as_deref(), device_owner, mac)?;
        let port_security_enabled = security::of_new(new, &network, device_owner);
        let security_groups = security::groups_of_new(txn, caller, new, port_security_enabled, device_owner)?;
        let mut port = Port {
            id: txn.new_id(),
            project: new.project().to_owned(),
            name: new.text("name").unwrap_or_default().to_owned(),
            network_id: network.id,
            admin_state_up: new.bool("admin_state_up").unwrap_or(true),
            mac,
            fixed_ips,
            device_id: device_id.to_owned(),
            device_owner: device_owner.to_owned(),
            security_groups,
            port_security_enabled,
            allowed_address_pairs: Vec::new(),
            extra_dhcp_opts: Vec::new(),
            binding: Binding::default(),
            dns_name: new.text("dns_name").unwrap_or_default().to_owned(),
            gateway_ordinal: None,
            standard: new.standard(txn.now()),
        };
        lists(&mut port, new, outside.settings.max_allowed_address_pair)?;
        pairs::check(txn, &port)?;
        names::check(&port.dns_name, &outside.settings.dns_domain)?;
        security::check(&port, true)?;
        binding::set(&mut port.binding, new, &outside.fleet, &network)?;
        let id = port.id;
        let taken = quota::shared_addresses(txn, &port.project, &port);
        let project = port.project.clone();
        txn.put(port);
        quota::check_shared_addresses(txn, &project, 0, taken)?;
        Ok(id)
    }

    fn update(txn: &mut Txn, caller: &Caller, id: Uuid, change: &Checked) -> Result<(), Fault> {
        let outside = txn.outside();
        let before = Arc::clone(found(txn, id)?);
        let network = network::found(txn, before.network_id)?.clone();
        let mut port = Port::clone(&before);
        change.set_text("name", &mut port.name);
        change.set_bool("admin_state_up", &mut port.admin_state_up);
        change.set_text("device_id", &mut port.device_id);
        change.set_text("device_owner", &mut port.device_owner);
        change.set_text("dns_name", &mut port.dns_name);
        if change.has("dns_name") {
            names::check(&port.dns_name, &outside.settings.dns_domain)?;
        }
        change.set_bool("port_security_enabled", &mut port.port_security_enabled);
        if (&port.device_id, &port.device_owner) != (&before.device_id, &before.device_owner) {
            device::check_device(txn, &port.device_id, &port.device_owner)?;
        }
        if change.has("security_groups") {
            port.security_groups = security::asked_groups(txn, caller, change)?;
        }
        lists(&mut port, change, outside.settings.max_allowed_address_pair)?;
        if change.has("allowed_address_pairs") {
            pairs::check(txn, &port)?;
        }
        security::check(&port, change.has("security_groups"))?;
        if change.has("mac_address") {
            port.mac = new_mac(txn, &before, asked_mac(change)?)?;
        }
        let request = asked_addresses(change);
        if request.is_some() || port.mac != before.mac {
            let kept = || before.fixed_ips.iter().copied().map(FixedIpRequest::from).collect();
            let request = request.unwrap_or_else(kept);
            let counted_in = counted_in(txn, &before);
            quota::check_growth(txn, "port_fixed_ip", &counted_in, before.fixed_ips.len(), request.len())?;
            port.fixed_ips = ipam::reallocate(txn, &before, &request, &port.device_owner, port.mac)?;
        }
        binding::set(&mut port.binding, change, &outside.fleet, &network)?;
        device::check_update(txn, &before, &port)?;
        device::check_floating(txn, &before, &port)?;
        let counted_in = counted_in(txn, &before);
        let addresses = |port| quota::shared_addresses(txn, &counted_in, port);
        let (had, has) = (addresses(&before), addresses(&port));
        txn.edit::<Port>(&id, |slot| *slot = port);
        quota::check_shared_addresses(txn, &counted_in, had, has)
    }

    fn delete(txn: &mut Txn, _caller: &Caller, id: Uuid, _: &Checked) -> Result<(), Fault> {
        let port = Arc::clone(found(txn, id)?);
        device::check_delete(txn, &port)?;
        remove(txn, id);
        Ok(())
    }
}

/// Deletes a port and what depends on it, and ends the association of floating IPs. The caller checks whether the port may be deleted.
pub fn remove(txn: &mut Txn, id: Uuid) {
    floating_ip::release_port(txn, id);
    txn.remove::<Placement>(&id);
    txn.remove::<Port>(&id);
}

/// The port with this id, or 404.
pub fn found(world: &World, id: Uuid) -> Result<&Arc<Port>, Fault> {
    world.get::<Port>(&id).ok_or_else(|| super::absent::<Ports>(id))
}

/// The project whose quota limits a port's addresses: its own, or that of the router whose gateway it is.
fn counted_in(world: &World, port: &Port) -> String {
    let router = port.router_id().and_then(|id| world.get::<Router>(&id));
    match router {
        Some(router) if port.project.is_empty() => router.project.clone(),
        _ => port.project.clone(),
    }
}

fn asked_addresses(request: &Checked) -> Option<Vec<FixedIpRequest>> {
    let list = request.get("fixed_ips")?.as_array()?;
    let read = |element: &Value| {
        let text = |key: &str| element.get(key).and_then(Value::as_str);
        FixedIpRequest {
            subnet_id: text("subnet_id").and_then(|id| id.parse().ok()),
            ip_address: text("ip_address").and_then(|address| address.parse().ok()),
        }
    };
    Some(list.iter().map(read).collect())
}

fn asked_mac(request: &Checked) -> Result<Option<MacAddr>, Fault> {
    let mac: Option<MacAddr> = request.parsed("mac_address");
    match mac {
        Some(mac) if mac.is_multicast() || mac == MacAddr::default() => {
            Err(Fault::invalid("mac_address", format!("'{mac}' is not a MAC address that a port can have")))
        }
        mac => Ok(mac),
    }
}

/// The MAC that an update requests; `None` requests a new one. Refused while an instance uses the port, because it would not learn of it.
fn new_mac(txn: &mut Txn, before: &Port, asked: Option<MacAddr>) -> Result<MacAddr, Fault> {
    if asked == Some(before.mac) {
        return Ok(before.mac);
    }
    let mac = mac::choose(txn, before.network_id, asked)?;
    if binding::is_plugged(&before.binding) {
        let message = format!(
            "Unable to complete operation on port {}, port is already bound, port type: {}, old_mac {}, new_mac {mac}.",
            before.id,
            before.binding.vif_type.as_str(),
            before.mac
        );
        return Err(Fault::conflict("PortBound", message));
    }
    Ok(mac)
}

/// Applies the address pairs and DHCP options of a request.
fn lists(port: &mut Port, request: &Checked, most_pairs: usize) -> Result<(), Fault> {
    if request.has("allowed_address_pairs") {
        let asked = request.get("allowed_address_pairs").cloned().unwrap_or_else(|| json!([]));
        port.allowed_address_pairs = pairs::read_all(&asked, most_pairs)?;
    }
    if let Some(asked) = request.get("extra_dhcp_opts") {
        port.extra_dhcp_opts = dhcp_opts::merge(std::mem::take(&mut port.extra_dhcp_opts), asked)?;
    }
    Ok(())
}

/// An address in the key order of responses; the stored type has another order.
#[derive(Serialize)]
struct ShownAddress {
    ip_address: IpAddr,
    subnet_id: Uuid,
}

impl ShownAddress {
    fn of(fixed: &FixedIp) -> Self {
        ShownAddress { ip_address: fixed.ip_address, subnet_id: fixed.subnet_id }
    }
}

#[cfg(test)]
mod tests;
