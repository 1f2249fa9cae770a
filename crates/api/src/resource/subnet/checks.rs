//! Checks that the attributes of a subnet are consistent.

use crate::fault::Fault;
use crate::model::Subnet;
use crate::settings::Settings;

use super::pools::wrong_family;

/// Parses a service type: the device owner of the ports that a subnet is for.
pub(super) fn service_type(text: &str) -> Result<String, String> {
    // Neutron's own tests use the last one.
    const PREFIXES: [&str; 6] = ["network:", "compute:", "neutron:", "baremetal:", "manila:", "test:"];
    if text.len() <= 255 && PREFIXES.iter().any(|prefix| text.starts_with(prefix)) {
        return Ok(text.to_owned());
    }
    Err(format!("'{text}' is not a device owner; one begins with {}", PREFIXES.join(", ")))
}

/// Checks a subnet without regard to other objects.
pub(super) fn whole(subnet: &Subnet, settings: &Settings) -> Result<(), Fault> {
    ipv6_modes(subnet)?;
    let version = subnet.ip_version();
    let v4 = version == 4;
    // The broadcast address and the server's own would leave no address for clients.
    let too_long = if v4 { 30 } else { 126 };
    if subnet.enable_dhcp && subnet.cidr.prefix_len() > too_long {
        return Err(Fault::input(format!(
            "Subnet {} has a prefix length that is incompatible with DHCP service enabled",
            subnet.cidr
        )));
    }
    if subnet.dns_nameservers.len() > settings.max_dns_nameservers {
        return Err(too_many(
            subnet,
            "DNSNameServersExhausted",
            "DNS nameservers",
            settings.max_dns_nameservers,
        ));
    }
    if let Some(server) = subnet.dns_nameservers.iter().find(|server| server.is_ipv4() != v4) {
        return Err(wrong_family("dns_nameserver", server, version));
    }
    if subnet.host_routes.len() > settings.max_subnet_host_routes {
        return Err(too_many(subnet, "HostRoutesExhausted", "host routes", settings.max_subnet_host_routes));
    }
    for (at, route) in subnet.host_routes.iter().enumerate() {
        if route.destination.addr().is_ipv4() != v4 {
            return Err(wrong_family("destination", route.destination, version));
        }
        if route.nexthop.is_ipv4() != v4 {
            return Err(wrong_family("nexthop", route.nexthop, version));
        }
        if route.nexthop.is_unspecified() || route.nexthop.is_multicast() {
            return Err(Fault::input(format!("'{}' is no next hop of a host route", route.nexthop)));
        }
        if subnet.host_routes[..at].contains(route) {
            return Err(Fault::input(format!(
                "Duplicate host route to {} via {}",
                route.destination, route.nexthop
            )));
        }
    }
    Ok(())
}

fn ipv6_modes(subnet: &Subnet) -> Result<(), Fault> {
    let (ra, address) = (subnet.ipv6_ra_mode, subnet.ipv6_address_mode);
    if ra.is_none() && address.is_none() {
        return Ok(());
    }
    if subnet.ip_version() == 4 {
        return Err(Fault::input("ipv6_ra_mode and ipv6_address_mode are not valid when ip_version is 4"));
    }
    if !subnet.enable_dhcp {
        return Err(Fault::input(
            "ipv6_ra_mode or ipv6_address_mode cannot be set when enable_dhcp is set to False",
        ));
    }
    if let (Some(ra), Some(address)) = (ra, address)
        && ra != address
    {
        return Err(Fault::input(format!(
            "ipv6_ra_mode set to '{}' with ipv6_address_mode set to '{}' is not valid. If both attributes are set, \
             they must be the same value",
            ra.as_str(),
            address.as_str()
        )));
    }
    if subnet.is_autoconfigured() && subnet.cidr.prefix_len() != 64 {
        return Err(Fault::input(format!(
            "Invalid CIDR {} for IPv6 address mode. OpenStack uses the EUI-64 address format, which requires the \
             prefix to be /64",
            subnet.cidr
        )));
    }
    Ok(())
}

fn too_many(subnet: &Subnet, kind: &'static str, what: &str, limit: usize) -> Fault {
    let message = format!(
        "Unable to complete operation for subnet {}. The number of {what} exceeds the limit {limit}.",
        subnet.id
    );
    Fault::new(400, kind, message)
}
