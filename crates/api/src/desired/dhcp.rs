//! `DHCP_Options`: the answers of OVN's DHCP server. One row per subnet, and one per port with options of its own.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};
use ovn::ident::row_uuid;
use ovn::nb::DhcpOptions;
use ovn::text::Text;
use ovn::text::dhcp::{
    AddressList, DhcpError, DhcpOption, DhcpOptionSet, DhcpValue, DhcpVersion, StaticRoutes,
};
use ovn::text::neutron::key;
use ovn::text::quoted::QuotedString;
use ovsdb::Str;
use reconcile::{Class, Problem};
use uuid::Uuid;

use super::look::Look;
use super::{Compiled, map, metadata_route, object, text};
use crate::model::{ExtraDhcpOpt, Ipv6Mode, Network, Port, Subnet};

/// The metadata service.
const METADATA: Ipv4Net = Ipv4Net::new_assert(metadata_route::METADATA, 32);
const ANYWHERE: Ipv4Net = Ipv4Net::new_assert(std::net::Ipv4Addr::UNSPECIFIED, 0);

const STATIC_ROUTES: &str = "classless_static_route";

/// The options of a row, and those that could not be included.
struct Draft {
    options: DhcpOptionSet,
    left_out: Vec<(String, DhcpError)>,
}

impl Draft {
    fn new(version: DhcpVersion) -> Self {
        Draft { options: DhcpOptionSet::new(version), left_out: Vec::new() }
    }

    fn put(&mut self, name: &str, value: DhcpValue) {
        let put = self.options.put(name, value);
        self.note(name, put);
    }

    fn note(&mut self, name: &str, put: Result<(), DhcpError>) {
        if let Err(error) = put {
            self.left_out.push((name.to_owned(), error));
        }
    }
}

/// The row of a subnet.
pub(super) fn row(look: &Look<'_, '_>, subnet: Uuid) -> Uuid {
    look.row(row_uuid("subnet", &subnet.to_string(), "dhcp"))
}

pub(super) fn compile(look: &Look<'_, '_>, id: Uuid, to: &mut Compiled) {
    let Some(subnet) = look.subnet(id).filter(|subnet| answers(subnet)) else { return };
    let Some(network) = look.network(subnet.network_id) else { return };
    let Draft { options, left_out } = options(look, subnet, network);
    let options = DhcpOptions {
        cidr: Text::from(subnet.cidr),
        options: options.to_map(),
        external_ids: map(external_ids(subnet)),
    };
    to.part.own(object("subnet", id), row(look, id), options);
    for (name, error) in left_out {
        let text = format!("DHCP option {name} is skipped: {error}");
        to.problems.push(Problem::error(object("subnet", id), Class::Refused, "dhcp-option", text));
    }
}

/// The rows of a port for IPv4 and IPv6. Creates the port's own row if it has options of its own.
pub(super) fn of_port(look: &Look<'_, '_>, port: &Port, to: &mut Compiled) -> (Option<Uuid>, Option<Uuid>) {
    if ["network:", "neutron:"].iter().any(|prefix| port.device_owner.starts_with(prefix)) {
        return (None, None);
    }
    (of_family(look, port, 4, to), of_family(look, port, 6, to))
}

fn of_family(look: &Look<'_, '_>, port: &Port, version: u8, to: &mut Compiled) -> Option<Uuid> {
    let extra = port.extra_dhcp_opts.iter().filter(|extra| extra.ip_version == version);
    if extra.clone().any(ExtraDhcpOpt::disables_dhcp) {
        return None;
    }
    let subnets = port.fixed_ips.iter().filter_map(|fixed| look.subnet(fixed.subnet_id));
    let subnets = subnets.filter(|subnet| subnet.ip_version() == version).filter(|subnet| answers(subnet));
    // A subnet with DHCPv6 addresses takes precedence over a stateless one.
    let subnet = subnets.min_by_key(|subnet| subnet.ipv6_address_mode == Some(Ipv6Mode::Dhcpv6Stateless))?;
    let network = look.network(subnet.network_id)?;
    let mut own = false;
    // The unit of the subnet reports the options that it cannot include, so this one does not.
    let mut draft = Draft { left_out: Vec::new(), ..options(look, subnet, network) };
    for extra in extra.filter(|extra| !extra.is_boot_stage() || port.binding.vnic_type == "baremetal") {
        let Some((option, value)) = extra.typed() else { continue };
        // Routes are added to the subnet's; any other option replaces the subnet's.
        let put = value.and_then(|value| match value {
            DhcpValue::Routes(routes) if option.name() == STATIC_ROUTES => {
                draft.options.add_routes(STATIC_ROUTES, routes)
            }
            value => draft.options.put(option.name(), value),
        });
        own |= put.is_ok();
        draft.note(&extra.opt_name, put);
    }
    for (name, error) in draft.left_out {
        let text = format!(
            "DHCP option {name:?} of extra_dhcp_opts is skipped: {error}. Correct it, or remove it with a null value"
        );
        to.problems.push(Problem::error(object("port", port.id), Class::Refused, "dhcp-option", text));
    }
    if !own {
        return Some(row(look, subnet.id));
    }
    let row =
        look.row(row_uuid("port", &port.id.to_string(), if version == 4 { "dhcpv4" } else { "dhcpv6" }));
    let mut ids = external_ids(subnet);
    ids.push((key::DHCP_PORT_ID, text(port.id)));
    let options = DhcpOptions {
        cidr: Text::from(subnet.cidr),
        options: draft.options.to_map(),
        external_ids: map(ids),
    };
    to.part.own(object("port", port.id), row, options);
    Some(row)
}

/// Whether a subnet uses DHCP.
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

fn options(look: &Look<'_, '_>, subnet: &Subnet, network: &Network) -> Draft {
    let settings = look.settings();
    let (version, mut draft, global) = match subnet.cidr {
        IpNet::V4(_) => {
            (DhcpVersion::V4, options_v4(look, subnet, network), &settings.ovn_dhcp4_global_options)
        }
        IpNet::V6(_) => (DhcpVersion::V6, options_v6(look, subnet), &settings.ovn_dhcp6_global_options),
    };
    if !draft.options.is_empty() {
        for (name, value) in global {
            if draft.options.contains(name) {
                continue;
            }
            let value = DhcpOption::named(version, name).and_then(|option| option.parse(value));
            let put = value.and_then(|value| draft.options.put(name, value));
            draft.note(name, put);
        }
    }
    draft
}

fn options_v4(look: &Look<'_, '_>, subnet: &Subnet, network: &Network) -> Draft {
    let settings = look.settings();
    let metadata = look.metadata_ip(subnet);
    let mut draft = Draft::new(DhcpVersion::V4);
    // Without a gateway and a metadata port, no address is left for the server.
    let Some(server) = subnet.gateway_ip.or(metadata) else { return draft };
    draft.put("server_id", DhcpValue::Address(server));
    draft.put("server_mac", DhcpValue::Mac(subnet.dhcp_server_mac));
    draft.put("lease_time", DhcpValue::Number(settings.dhcp_default_lease_time));
    draft.put("mtu", DhcpValue::Number(network.mtu));
    if let Some(gateway) = subnet.gateway_ip {
        draft.put("router", DhcpValue::Address(gateway));
    }
    if let Some(servers) = resolvers(look, subnet) {
        draft.put("dns_server", DhcpValue::Addresses(servers));
    }
    if !settings.dns_domain.is_empty() && settings.dns_domain != "openstacklocal" {
        match QuotedString::new(&settings.dns_domain) {
            Ok(domain) => draft.put("domain_name", DhcpValue::Text(domain)),
            Err(error) => draft.note("domain_name", Err(error.into())),
        }
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
        // A client that gets this option ignores the router option (RFC 3442), so the default route is repeated here.
        if let Some(IpAddr::V4(gateway)) = subnet.gateway_ip {
            routes.push((ANYWHERE, gateway));
        }
        draft.put(STATIC_ROUTES, DhcpValue::Routes(StaticRoutes(routes)));
    }
    draft
}

fn options_v6(look: &Look<'_, '_>, subnet: &Subnet) -> Draft {
    let mut draft = Draft::new(DhcpVersion::V6);
    draft.put("server_id", DhcpValue::Mac(subnet.dhcp_server_mac));
    if let Some(servers) = resolvers(look, subnet) {
        draft.put("dns_server", DhcpValue::Addresses(servers));
    }
    if subnet.ipv6_address_mode == Some(Ipv6Mode::Dhcpv6Stateless) {
        draft.put("dhcpv6_stateless", DhcpValue::Flag(true));
    }
    draft
}

/// The subnet's resolvers, or else the operator's. An unspecified address means none at all.
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
