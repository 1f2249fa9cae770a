//! `DHCP_Options`: what OVN's DHCP server tells. One row per subnet, and one per port that has options of its own.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};
use ovn::ident::row_uuid;
use ovn::nb::DhcpOptions;
use ovn::target::Part;
use ovn::text::Text;
use ovn::text::dhcp::{AddressList, QuotedText, StaticRoutes};
use ovn::text::neutron::key;
use ovsdb::Str;
use uuid::Uuid;

use super::look::Look;
use super::{dhcp_option, map, object, text, word};
use crate::model::{Ipv6Mode, Network, Port, Subnet};

/// Where instances ask for their metadata.
const METADATA: Ipv4Net = Ipv4Net::new_assert(std::net::Ipv4Addr::new(169, 254, 169, 254), 32);
const ANYWHERE: Ipv4Net = Ipv4Net::new_assert(std::net::Ipv4Addr::UNSPECIFIED, 0);

pub(super) const STATIC_ROUTES: &str = "classless_static_route";

type Options = BTreeMap<Str, Str>;

/// The row of a subnet's options.
pub(super) fn row(look: &Look<'_, '_>, subnet: Uuid) -> Uuid {
    look.row(row_uuid("subnet", &subnet.to_string(), "dhcp"))
}

pub(super) fn compile(look: &Look<'_, '_>, id: Uuid, to: &mut Part) {
    let Some(subnet) = look.subnet(id).filter(|subnet| answers(subnet)) else { return };
    let Some(network) = look.network(subnet.network_id) else { return };
    let options = DhcpOptions {
        cidr: Text::from(subnet.cidr),
        options: map(options(look, subnet, network)),
        external_ids: map(external_ids(subnet)),
    };
    to.own(object("subnet", id), row(look, id), options);
}

/// The rows that answer a port, for either family; makes the port's own where it has some.
pub(super) fn of_port(look: &Look<'_, '_>, port: &Port, to: &mut Part) -> (Option<Uuid>, Option<Uuid>) {
    if ["network:", "neutron:"].iter().any(|prefix| port.device_owner.starts_with(prefix)) {
        return (None, None);
    }
    (of_family(look, port, 4, to), of_family(look, port, 6, to))
}

fn of_family(look: &Look<'_, '_>, port: &Port, version: u8, to: &mut Part) -> Option<Uuid> {
    let extra = dhcp_option::of_port(port, version)?;
    let subnets = port.fixed_ips.iter().filter_map(|fixed| look.subnet(fixed.subnet_id));
    let subnets = subnets.filter(|subnet| subnet.ip_version() == version).filter(|subnet| answers(subnet));
    // Where one of them gives addresses, that one is asked.
    let subnet = subnets.min_by_key(|subnet| subnet.ipv6_address_mode == Some(Ipv6Mode::Dhcpv6Stateless))?;
    if extra.is_empty() {
        return Some(row(look, subnet.id));
    }
    let network = look.network(subnet.network_id)?;
    let mut all = options(look, subnet, network);
    for (name, value) in extra {
        // Routes come on top of the subnet's; anything else takes its place.
        let before = all.get(&name).filter(|_| name == STATIC_ROUTES);
        let value = before.and_then(|before| joined(before, &value)).unwrap_or(value);
        all.insert(name, value);
    }
    let row =
        look.row(row_uuid("port", &port.id.to_string(), if version == 4 { "dhcpv4" } else { "dhcpv6" }));
    let mut ids = external_ids(subnet);
    ids.push((key::DHCP_PORT_ID, text(port.id)));
    let options = DhcpOptions { cidr: Text::from(subnet.cidr), options: map(all), external_ids: map(ids) };
    to.own(object("port", port.id), row, options);
    Some(row)
}

/// Two lists in braces as one.
fn joined(first: &str, second: &str) -> Option<Str> {
    let inner = |list: &str| Some(list.trim().strip_prefix('{')?.strip_suffix('}')?.trim().to_owned());
    Some(text(format_args!("{{{}, {}}}", inner(first)?, inner(second)?)))
}

/// Whether DHCP has anything to say on a subnet.
fn answers(subnet: &Subnet) -> bool {
    subnet.enable_dhcp && subnet.ipv6_address_mode != Some(Ipv6Mode::Slaac)
}

fn external_ids(subnet: &Subnet) -> Vec<(&'static str, Str)> {
    vec![
        (key::DHCP_SUBNET_ID, text(subnet.id)),
        (key::NETWORK_ID, text(subnet.network_id)),
        (key::REVISION, text(subnet.standard.revision)),
    ]
}

fn options(look: &Look<'_, '_>, subnet: &Subnet, network: &Network) -> Options {
    let settings = look.settings();
    let (mut options, global) = match subnet.cidr {
        IpNet::V4(_) => (options_v4(look, subnet, network), &settings.ovn_dhcp4_global_options),
        IpNet::V6(_) => (options_v6(look, subnet), &settings.ovn_dhcp6_global_options),
    };
    if !options.is_empty() {
        for (name, value) in global {
            options.entry(Str::new(name)).or_insert_with(|| Str::new(value));
        }
    }
    options
}

fn options_v4(look: &Look<'_, '_>, subnet: &Subnet, network: &Network) -> Options {
    let settings = look.settings();
    let metadata = look.metadata_ip(subnet);
    let mut options = Options::new();
    // Somebody must be the server.
    let Some(server) = subnet.gateway_ip.or(metadata) else { return options };
    let mut put = |name: &'static str, value: Str| drop(options.insert(Str::new_static(name), value));
    put("server_id", text(server));
    put("server_mac", text(subnet.dhcp_server_mac));
    put("lease_time", text(settings.dhcp_default_lease_time));
    put("mtu", text(network.mtu));
    if let Some(gateway) = subnet.gateway_ip {
        put("router", text(gateway));
    }
    if let Some(servers) = resolvers(look, subnet) {
        put("dns_server", text(servers));
    }
    if !settings.dns_domain.is_empty() && settings.dns_domain != "openstacklocal" {
        put("domain_name", text(QuotedText(settings.dns_domain.clone())));
    }
    let mut routes = Vec::new();
    if let Some(IpAddr::V4(metadata)) = metadata {
        routes.push((METADATA, metadata));
    }
    for route in &subnet.host_routes {
        if let (IpNet::V4(destination), IpAddr::V4(nexthop)) = (route.destination, route.nexthop) {
            routes.push((destination, nexthop));
        }
    }
    if !routes.is_empty() {
        // Who gets this option ignores the router option (RFC 3442), so the default route is in it again.
        if let Some(IpAddr::V4(gateway)) = subnet.gateway_ip {
            routes.push((ANYWHERE, gateway));
        }
        put(STATIC_ROUTES, text(StaticRoutes(routes)));
    }
    options
}

fn options_v6(look: &Look<'_, '_>, subnet: &Subnet) -> Options {
    let mut options = Options::from([(Str::new_static("server_id"), text(subnet.dhcp_server_mac))]);
    if let Some(servers) = resolvers(look, subnet) {
        options.insert(Str::new_static("dns_server"), text(servers));
    }
    if subnet.ipv6_address_mode == Some(Ipv6Mode::Dhcpv6Stateless) {
        options.insert(Str::new_static("dhcpv6_stateless"), word(true));
    }
    options
}

/// The subnet's resolvers, else the operator's. An unspecified address means none at all.
fn resolvers(look: &Look<'_, '_>, subnet: &Subnet) -> Option<AddressList> {
    let fits = |ip: &&IpAddr| ip.is_ipv4() == subnet.cidr.addr().is_ipv4();
    let of = |list: &[IpAddr]| -> Vec<IpAddr> { list.iter().filter(fits).copied().collect() };
    let mut servers = of(&subnet.dns_nameservers);
    if servers.is_empty() {
        servers = of(&look.settings().dns_servers);
    }
    if servers.is_empty() || servers.iter().any(IpAddr::is_unspecified) {
        return None;
    }
    Some(AddressList(servers))
}
