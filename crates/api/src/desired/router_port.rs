//! `Logical_Router_Port`: the router's side of a port.

use ipnet::IpNet;
use ovn::ident::name;
use ovn::nb::{LogicalRouter, LogicalRouterPort};
use ovn::target::Part;
use ovn::text::Text;
use ovn::text::neutron::{Spaced, key, python_bool};
use ovsdb::{Ref, Set, Str};
use uuid::Uuid;

use super::look::Look;
use super::{chassis_group, map, object, router, text, word};
use crate::model::{Ipv6Mode, Network, Port};

/// The router port's row.
pub(super) fn row(look: &Look<'_, '_>, port: Uuid) -> Uuid {
    // The switch port has the same UUID in another table, so the role distinguishes them among adopted rows.
    match look.row(ovn::ident::row_uuid("port", &port.to_string(), "router-port")) {
        row if row == ovn::ident::row_uuid("port", &port.to_string(), "router-port") => port,
        theirs => theirs,
    }
}

pub(super) fn compile(look: &Look<'_, '_>, port: &Port, network: &Network, to: &mut Part) {
    let Some(router) = port.router_id() else { return };
    if !is_there(look, port) {
        return;
    }
    let siblings = look.router_ports(router);
    let networks = port.fixed_ips.iter().filter_map(|fixed| {
        let length = look.subnet(fixed.subnet_id)?.cidr.prefix_len();
        IpNet::new(fixed.ip_address, length).ok().map(Text::from)
    });
    let networks: Set<Text<IpNet>> = networks.collect();
    let group = (is_placed(port, network) && look.has_placement(port.id))
        .then(|| chassis_group::gateway_row(look, port.id));
    let router_port = LogicalRouterPort {
        name: text(name::router_port(port.id)),
        mac: Text::from(port.mac),
        networks,
        ha_chassis_group: group.map(Ref::new),
        options: map(options(look, port, network, &siblings)),
        ipv6_ra_configs: map(advertisements(look, port, network)),
        external_ids: map(external_ids(port, router)),
        ..Default::default()
    };
    let (object, row) = (object("port", port.id), row(look, port.id));
    to.own(object.clone(), row, router_port);
    to.member::<LogicalRouter>(object, router::row(look, router), LogicalRouter::PORTS, row);
}

/// Whether a port of a router has a router port.
pub(super) fn is_there(look: &Look<'_, '_>, port: &Port) -> bool {
    // A port may outlive its router for a moment, and then has no router to be on.
    port.router_id().is_some_and(|router| look.router(router).is_some())
        && (!port.fixed_ips.is_empty() || look.ability().bare_router_port)
}

/// Whether chassis compete for a port. They do so only on physical networks; elsewhere the router as a whole is bound to a chassis.
pub(super) fn is_placed(port: &Port, network: &Network) -> bool {
    port.is_gateway() && network.segment.is_physical()
}

fn external_ids(port: &Port, router: Uuid) -> Vec<(&'static str, Str)> {
    let mut subnets: Vec<Uuid> = port.fixed_ips.iter().map(|fixed| fixed.subnet_id).collect();
    subnets.dedup();
    vec![
        (key::REVISION, text(port.standard.revision)),
        (key::SUBNET_IDS, text(Spaced(&subnets))),
        (key::NETWORK_NAME, text(name::switch(port.network_id))),
        (key::ROUTER_NAME, text(name::router(router))),
        (key::IS_EXT_GW, Str::new_static(python_bool(port.is_gateway()))),
    ]
}

fn options(
    look: &Look<'_, '_>,
    port: &Port,
    network: &Network,
    siblings: &[&Port],
) -> Vec<(&'static str, Str)> {
    let mut options = Vec::new();
    let networks = || siblings.iter().filter_map(|sibling| look.network(sibling.network_id));
    if port.is_gateway() {
        let mtu = networks().map(|network| network.mtu).chain([network.mtu]).min();
        options.extend(mtu.map(|mtu| ("gateway_mtu", text(mtu))));
    }
    let Some(centralised) = is_centralised(look, network, siblings) else { return options };
    options.push(("reside-on-redirect-chassis", word(centralised)));
    if port.is_gateway() && !centralised {
        options.push(("redirect-type", Str::new_static("bridged")));
    }
    options
}

/// Whether the gateway's chassis routes for a port on this network. `None` where OVN ignores the option: on virtual networks, and on
/// routers with several gateway ports.
pub(super) fn is_centralised(look: &Look<'_, '_>, network: &Network, siblings: &[&Port]) -> Option<bool> {
    let gateways = siblings.iter().filter(|sibling| sibling.is_gateway()).count();
    if gateways > 1 || !network.segment.is_physical() {
        return None;
    }
    let tenant = siblings.iter().filter(|sibling| !sibling.is_gateway());
    let mut tenant = tenant.filter_map(|sibling| look.network(sibling.network_id));
    let distributed =
        look.settings().enable_distributed_floating_ip && tenant.all(|network| network.segment.is_physical());
    Some(!distributed)
}

/// The router advertisements of a port. Hosts accept any router that advertises itself as their default router. So on a shared network,
/// only the subnet's gateway and routers of the network's own project advertise themselves.
fn advertisements(look: &Look<'_, '_>, port: &Port, network: &Network) -> Vec<(&'static str, Str)> {
    let router = port.router_id().and_then(|id| look.router(id));
    let mode = port.fixed_ips.iter().find_map(|fixed| {
        let subnet = look.subnet(fixed.subnet_id)?;
        let is_gateway = subnet.gateway_ip == Some(fixed.ip_address);
        let is_own =
            router.is_some_and(|router| [&network.project, &subnet.project].contains(&&router.project));
        subnet.ipv6_address_mode.filter(|_| is_gateway || is_own)
    });
    let Some(mode) = mode else { return Vec::new() };
    let mode = match mode {
        Ipv6Mode::Slaac => "slaac",
        Ipv6Mode::Dhcpv6Stateful => "dhcpv6_stateful",
        Ipv6Mode::Dhcpv6Stateless => "dhcpv6_stateless",
    };
    let mut configs = vec![
        ("address_mode", Str::new_static(mode)),
        ("send_periodic", word(!port.is_gateway())),
        ("mtu", text(network.mtu)),
    ];
    if look.settings().ovn_metadata_enabled && !port.is_gateway() {
        configs.push(("route_info", Str::new_static("MEDIUM-fe80::a9fe:a9fe/128")));
    }
    configs
}
