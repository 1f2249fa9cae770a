//! `Logical_Switch_Port`: a port of a network. Ports of routers have a router port as well, see `router_port`.

use ovn::PortType;
use ovn::ident::name;
use ovn::nb::{LogicalSwitch, LogicalSwitchPort, PortGroup};
use ovn::text::chassis::{ChassisName, ChassisNameError, RequestedChassis};
use ovn::text::neutron::{Spaced, key};
use ovsdb::{Ref, Str};
use reconcile::{Class, Problem};
use serde_json::Value;
use uuid::Uuid;

use super::look::Look;
use super::{
    Compiled, chassis_group, dhcp, map, object, port_addresses, port_group, router_port, switch, text, word,
};
use crate::model::{FixedIp, Network, Port, owner};
use crate::resource::metadata_port;

/// Kinds of interface outside of OVN's switches.
const EXTERNAL: [&str; 4] = ["direct", "direct-physical", "macvtap", "baremetal"];

/// The switch port's row.
pub(super) fn row(look: &Look<'_, '_>, port: Uuid) -> Uuid {
    look.row(port)
}

/// Whether a port is an interface outside of OVN's switches, for which a chassis must answer.
pub fn is_external(port: &Port) -> bool {
    EXTERNAL.contains(&port.binding.vnic_type.as_str()) && !capabilities(port).any(|word| word == "switchdev")
}

/// Whether a port belongs to the network itself, so that OVN does not check its packets.
pub(super) fn is_trusted(port: &Port) -> bool {
    port.device_owner.starts_with("network:") || port.device_owner == owner::LB_HEALTH_MONITOR
}

/// Whether a port may send only with its own addresses.
pub(super) fn is_secured(port: &Port) -> bool {
    port.port_security_enabled && !is_trusted(port)
}

pub(super) fn compile(look: &Look<'_, '_>, id: Uuid, to: &mut Compiled) {
    let Some(port) = look.port(id).filter(|port| port.device_owner != owner::FLOATING_IP) else { return };
    if look.is_leaving_vip_port(id) {
        return;
    }
    let Some(network) = look.network(port.network_id) else { return };
    let (kind, options) = kind(look, port, &mut to.problems);
    let (parent_name, tag_request) = nested(port, &mut to.problems);
    let (dhcpv4, dhcpv6) = dhcp::of_port(look, port, to);
    let to = &mut to.part;
    let group = match kind {
        PortType::External => chassis_group::compile_external_port(look, port, to),
        _ => None,
    };
    let port_security = port_addresses::port_security(port, &kind, look.ability());
    let guarded = !port_security.is_empty();
    let switch_port = LogicalSwitchPort {
        name: text(id),
        addresses: match port.binding.host_id.is_empty() && look.is_vip_port(id) {
            true => ovsdb::Set::default(),
            false => port_addresses::addresses(port, &kind, dhcpv4.or(dhcpv6).is_some()),
        },
        port_security,
        external_ids: map(external_ids(look, port, network, &kind)),
        kind,
        options: map(options),
        parent_name,
        tag_request,
        enabled: Some(port.admin_state_up),
        dhcpv4_options: dhcpv4.map(ovsdb::Weak::new),
        dhcpv6_options: dhcpv6.map(ovsdb::Weak::new),
        ha_chassis_group: group.map(Ref::new),
        ..Default::default()
    };
    let (object, row) = (object("port", id), row(look, id));
    to.own(object.clone(), row, switch_port);
    to.member::<LogicalSwitch>(object.clone(), switch::row(look, network.id), LogicalSwitch::PORTS, row);
    if is_secured(port) {
        let groups = port.security_groups.iter().map(|group| port_group::row(look, *group));
        for group in groups.chain(guarded.then(|| port_group::drop_row(look))) {
            to.member::<PortGroup>(object.clone(), group, PortGroup::PORTS, row);
        }
    }
    router_port::compile(look, port, network, to);
}

type Options = Vec<(&'static str, Str)>;

/// The type of the switch port and its options.
fn kind(look: &Look<'_, '_>, port: &Port, problems: &mut Vec<Problem>) -> (PortType, Options) {
    if port.router_id().is_some() {
        let mut options = vec![("router-port", text(name::router_port(port.id)))];
        if port.is_gateway() {
            options.push(("nat-addresses", Str::new_static("router")));
            options.push(("exclude-lb-vips-from-garp", word(true)));
        }
        return (PortType::Router, options);
    }
    // The port of a DHCP agent is an ordinary one: instances on other chassis must reach it.
    let is_local = [owner::DISTRIBUTED, owner::LB_HEALTH_MONITOR].contains(&port.device_owner.as_str());
    if is_local || metadata_port::is_metadata(port) {
        return (PortType::Localport, Vec::new());
    }
    let vtep = ["vtep-physical-switch", "vtep-logical-switch"].map(|key| (key, profile(port, key)));
    if let [(physical_key, Some(physical)), (logical_key, Some(logical))] = vtep {
        return (PortType::Vtep, vec![(physical_key, Str::new(physical)), (logical_key, Str::new(logical))]);
    }
    let options = requested_chassis(port).unwrap_or_else(|error| {
        let text = format!("the port is not bound: {error}");
        problems.push(Problem::error(object("port", port.id), Class::Refused, "host-name", text));
        Vec::new()
    });
    if is_external(port) {
        return (PortType::External, options);
    }
    match virtual_options(look, port) {
        Some(options) => (PortType::Virtual, options),
        None => (PortType::Vif, options),
    }
}

fn requested_chassis(port: &Port) -> Result<Options, ChassisNameError> {
    let host = port.binding.host_id.as_str();
    if host.is_empty() {
        return Ok(Vec::new());
    }
    let next = profile(port, "migrating_to").filter(|next| *next != host);
    let names = [host].into_iter().chain(next).map(ChassisName::new).collect::<Result<_, _>>()?;
    let mut options = vec![("requested-chassis", text(RequestedChassis(names)))];
    if next.is_some() {
        // While the instance migrates, the port is on both chassis until the first RARP from the new one.
        options.push(("activation-strategy", Str::new_static("rarp")));
    }
    Ok(options)
}

/// The parent port of a nested port, and its VLAN tag there.
fn nested(port: &Port, problems: &mut Vec<Problem>) -> (Option<Str>, Option<i64>) {
    let mut refuse = |what: &str| {
        let text = format!("{what} in binding:profile; the port is not nested");
        problems.push(Problem::error(object("port", port.id), Class::Refused, "binding-profile", text));
        (None, None)
    };
    let Some(parent) = profile(port, "parent_name") else { return (None, None) };
    let Ok(parent) = Uuid::try_parse(parent) else { return refuse("parent_name is not the id of a port") };
    match port.binding.profile.get("tag").map(Value::as_i64) {
        None => (Some(text(parent)), None),
        Some(Some(tag @ 0..=4095)) => (Some(text(parent)), Some(tag)),
        Some(_) => refuse("tag is not a number from 0 to 4095"),
    }
}

/// The options of a virtual port: it has no instance, and other ports may send with its address, so the one that does claims it. VIPs of
/// load balancers are never claimed, because OVN itself answers for them.
fn virtual_options(look: &Look<'_, '_>, port: &Port) -> Option<Options> {
    if !port.binding.host_id.is_empty()
        || port.device_owner.starts_with("compute:")
        || look.is_vip_port(port.id)
    {
        return None;
    }
    port.fixed_ips.iter().find_map(|fixed| {
        let parents = look.ports_with_pair(port.network_id, fixed.ip_address, port.id);
        if parents.is_empty() {
            return None;
        }
        let parents: Vec<String> = parents.iter().map(Uuid::to_string).collect();
        Some(vec![("virtual-ip", text(fixed.ip_address)), ("virtual-parents", text(parents.join(",")))])
    })
}

fn external_ids(look: &Look<'_, '_>, port: &Port, network: &Network, kind: &PortType) -> Options {
    // The addresses behind a physical switch belong to other machines.
    let fixed_ips: &[FixedIp] = if *kind == PortType::Vtep { &[] } else { &port.fixed_ips };
    let cidrs = fixed_ips.iter().map(|fixed| cidr(look, fixed));
    let cidrs: Vec<String> = cidrs.collect();
    let (mut scope4, mut scope6) = (Str::default(), Str::default());
    for fixed in fixed_ips {
        let pool = look.subnet(fixed.subnet_id).and_then(|subnet| subnet.subnetpool_id);
        let scope = pool.and_then(|pool| look.pool(pool)).and_then(|pool| pool.address_scope_id);
        if let Some(scope) = scope {
            *(if fixed.ip_address.is_ipv4() { &mut scope4 } else { &mut scope6 }) = text(scope);
        }
    }
    let capabilities: Vec<&str> = capabilities(port).collect();
    // Read by the agent that creates the device; instances get the MTU by DHCP.
    let mtu = if *kind == PortType::Localport { text(network.mtu) } else { Str::default() };
    let mut ids = vec![
        (key::PORT_NAME, text(&port.name)),
        (key::DEVICE_ID, text(&port.device_id)),
        (key::PROJECT_ID, text(&port.project)),
        (key::CIDRS, text(Spaced(&cidrs))),
        (key::DEVICE_OWNER, text(&port.device_owner)),
        (key::NETWORK_NAME, text(name::switch(network.id))),
        (key::SECURITY_GROUP_IDS, text(Spaced(&port.security_groups))),
        (key::REVISION, text(port.standard.revision)),
        (key::ADDRESS_SCOPE4, scope4),
        (key::ADDRESS_SCOPE6, scope6),
        (key::VNIC_TYPE, text(&port.binding.vnic_type)),
        (key::PORT_CAPABILITIES, text(capabilities.join(","))),
        (key::MTU, mtu),
    ];
    let host = match port.is_gateway() {
        true => look.gateway_host(port.id),
        false if port.router_id().is_some() => None,
        false => look.bound_host(port.id).filter(|_| look.is_up(port.id)),
    };
    ids.extend(host.map(|host| (key::HOST_ID, Str::new(host))));
    if let Some(floating_ip) = look.floating_ips_of(port.id).first() {
        ids.push((key::PORT_FIP, text(floating_ip.floating_ip_address)));
    }
    let parent = look.virtual_parent(port.id).and_then(|parent| look.bound_host(parent));
    ids.extend(parent.map(|host| (key::PARENT_HOSTNAME, Str::new(host))));
    ids
}

/// An address with the prefix length of its subnet.
pub(super) fn cidr(look: &Look<'_, '_>, fixed: &FixedIp) -> String {
    match look.subnet(fixed.subnet_id) {
        Some(subnet) => format!("{}/{}", fixed.ip_address, subnet.cidr.prefix_len()),
        None => fixed.ip_address.to_string(),
    }
}

fn profile<'p>(port: &'p Port, key: &str) -> Option<&'p str> {
    port.binding.profile.get(key).and_then(Value::as_str).filter(|value| !value.is_empty())
}

fn capabilities(port: &Port) -> impl Iterator<Item = &str> {
    let list = port.binding.profile.get("capabilities").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str)
}
