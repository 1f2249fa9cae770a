//! The gateway and the allocation pools of a subnet: defaults and checks.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::fault::Fault;
use crate::model::AddressRange;
use crate::resource::ipam::is_usable;
use crate::world::{after, before};

/// The default gateway: the first host address for IPv4, and the subnet-router anycast address (the very first) for IPv6, as in Neutron. A
/// prefix of one address has none.
pub fn default_gateway(cidr: IpNet) -> Option<IpAddr> {
    let second = after(cidr.network()).filter(|address| cidr.contains(address))?;
    Some(if cidr.addr().is_ipv4() { second } else { cidr.network() })
}

/// Refuses an impossible gateway. Outside of the prefix it may be any host address.
pub fn check_gateway(cidr: IpNet, gateway: IpAddr) -> Result<(), Fault> {
    let version = if cidr.addr().is_ipv4() { 4 } else { 6 };
    if gateway.is_ipv4() != cidr.addr().is_ipv4() {
        return Err(wrong_family("gateway_ip", gateway, version));
    }
    let broadcast = matches!(gateway, IpAddr::V4(v4) if v4.is_broadcast());
    let unfit = gateway.is_unspecified() || gateway.is_multicast() || gateway.is_loopback() || broadcast;
    if unfit || (cidr.contains(&gateway) && !is_usable(cidr, gateway)) {
        return Err(Fault::input("Gateway is not valid on subnet"));
    }
    Ok(())
}

/// The default pools: all host addresses except the gateway.
pub fn default_pools(cidr: IpNet, gateway: Option<IpAddr>) -> Vec<AddressRange> {
    let Some((first, last)) = hosts(cidr) else { return Vec::new() };
    let Some(gateway) = gateway.filter(|gateway| (first..=last).contains(gateway)) else {
        return vec![AddressRange { start: first, end: last }];
    };
    let below = before(gateway).map(|end| AddressRange { start: first, end });
    let above = after(gateway).map(|start| AddressRange { start, end: last });
    below.into_iter().chain(above).filter(|pool| pool.start <= pool.end).collect()
}

/// The pools in stored form: sorted, inside of the prefix, without overlap and without the gateway.
pub fn check_pools(
    cidr: IpNet,
    gateway: Option<IpAddr>,
    mut pools: Vec<AddressRange>,
) -> Result<Vec<AddressRange>, Fault> {
    for pool in &pools {
        let one_family = pool.start.is_ipv4() == pool.end.is_ipv4();
        if !one_family || pool.start > pool.end || pool.start.is_ipv4() != cidr.addr().is_ipv4() {
            let message = format!("The allocation pool {} is not valid.", text(pool));
            return Err(Fault::new(400, "InvalidAllocationPool", message));
        }
        if !hosts(cidr).is_some_and(|(first, last)| first <= pool.start && pool.end <= last) {
            let message = format!("The allocation pool {} spans beyond the subnet cidr {cidr}.", text(pool));
            return Err(Fault::new(400, "OutOfBoundsAllocationPool", message));
        }
    }
    pools.sort_unstable();
    if let Some([one, two]) = pools.array_windows().find(|[one, two]| two.start <= one.end) {
        let message =
            format!("Found overlapping allocation pools: {} {} for subnet {cidr}.", text(one), text(two));
        return Err(Fault::conflict("OverlappingAllocationPools", message));
    }
    keep_gateway_out(gateway, &pools)?;
    Ok(pools)
}

/// Fails with 409 if the gateway is in a pool.
pub fn keep_gateway_out(gateway: Option<IpAddr>, pools: &[AddressRange]) -> Result<(), Fault> {
    let Some(gateway) = gateway else { return Ok(()) };
    match pools.iter().find(|pool| (pool.start..=pool.end).contains(&gateway)) {
        Some(pool) => {
            let message = format!("Gateway ip {gateway} conflicts with allocation pool {}.", text(pool));
            Err(Fault::conflict("GatewayConflictWithAllocationPools", message))
        }
        None => Ok(()),
    }
}

/// The fault for an address or prefix of the other family: 400.
pub fn wrong_family(name: &str, value: impl std::fmt::Display, version: u8) -> Fault {
    Fault::input(format!("{name} '{value}' does not match the ip_version '{version}'"))
}

/// The first and the last address that allocation may choose. The first of an IPv6 prefix means "any router".
fn hosts(cidr: IpNet) -> Option<(IpAddr, IpAddr)> {
    let (network, last) = (cidr.network(), cidr.broadcast());
    match cidr {
        IpNet::V4(v4) if v4.prefix_len() >= 31 => Some((network, last)),
        IpNet::V4(_) => Some((after(network)?, before(last)?)),
        IpNet::V6(v6) if v6.prefix_len() >= 127 => Some((network, last)),
        IpNet::V6(_) => Some((after(network)?, last)),
    }
}

fn text(pool: &AddressRange) -> String {
    format!("{}-{}", pool.start, pool.end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::fixture::ip;

    fn ranges(texts: &[(&str, &str)]) -> Vec<AddressRange> {
        texts.iter().map(|(start, end)| AddressRange { start: ip(start), end: ip(end) }).collect()
    }

    #[test]
    fn a_subnet_that_says_nothing() {
        for (cidr, gateway, pools) in [
            ("10.0.0.0/24", Some("10.0.0.1"), ranges(&[("10.0.0.2", "10.0.0.254")])),
            ("10.0.0.0/30", Some("10.0.0.1"), ranges(&[("10.0.0.2", "10.0.0.2")])),
            ("10.0.0.0/31", Some("10.0.0.1"), ranges(&[("10.0.0.0", "10.0.0.0")])),
            ("10.0.0.0/32", None, ranges(&[("10.0.0.0", "10.0.0.0")])),
            (
                "2001:db8::/64",
                Some("2001:db8::"),
                ranges(&[("2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff")]),
            ),
            ("2001:db8::/128", None, ranges(&[("2001:db8::", "2001:db8::")])),
        ] {
            let cidr = cidr.parse().unwrap();
            assert_eq!(default_gateway(cidr), gateway.map(ip), "{cidr}");
            assert_eq!(default_pools(cidr, gateway.map(ip)), pools, "{cidr}");
        }
    }

    #[test]
    fn pools_go_around_a_gateway_in_the_middle() {
        let cidr = "10.0.0.0/24".parse().unwrap();
        let around = ranges(&[("10.0.0.1", "10.0.0.99"), ("10.0.0.101", "10.0.0.254")]);
        assert_eq!(default_pools(cidr, Some(ip("10.0.0.100"))), around);
        assert_eq!(default_pools(cidr, Some(ip("10.0.0.254"))), ranges(&[("10.0.0.1", "10.0.0.253")]));
        for elsewhere in [None, Some(ip("192.0.2.1")), Some(ip("10.0.0.0"))] {
            assert_eq!(default_pools(cidr, elsewhere), ranges(&[("10.0.0.1", "10.0.0.254")]));
        }
    }

    #[test]
    fn gateways_that_cannot_be() {
        for (cidr, gateway, fits) in [
            ("10.0.0.0/24", "10.0.0.254", true),
            ("10.0.0.0/24", "192.0.2.1", true),
            ("10.0.0.0/24", "10.0.0.0", false),
            ("10.0.0.0/24", "10.0.0.255", false),
            ("10.0.0.0/31", "10.0.0.0", true),
            ("10.0.0.0/24", "2001:db8::1", false),
            ("10.0.0.0/24", "0.0.0.0", false),
            ("10.0.0.0/24", "224.0.0.1", false),
            ("10.0.0.0/24", "127.0.0.1", false),
            ("10.0.0.0/24", "255.255.255.255", false),
            ("2001:db8::/64", "2001:db8::", true),
            ("2001:db8::/64", "fe80::1", true),
            ("2001:db8::/64", "ff02::1", false),
            ("2001:db8::/64", "10.0.0.1", false),
        ] {
            let checked = check_gateway(cidr.parse().unwrap(), ip(gateway));
            assert_eq!(checked.is_ok(), fits, "{gateway} of {cidr}");
        }
        let fault = check_gateway("10.0.0.0/24".parse().unwrap(), ip("10.0.0.0")).unwrap_err();
        assert!(fault.message.contains("Gateway is not valid on subnet"), "{fault}");
    }

    #[test]
    fn pools_that_cannot_be() {
        let gateway = Some(ip("10.0.0.1"));
        for (pools, status, kind) in [
            (&[("10.0.0.9", "10.0.0.5")][..], 400, "InvalidAllocationPool"),
            (&[("10.0.0.5", "2001:db8::1")], 400, "InvalidAllocationPool"),
            (&[("2001:db8::1", "2001:db8::2")], 400, "InvalidAllocationPool"),
            (&[("10.0.0.0", "10.0.0.9")], 400, "OutOfBoundsAllocationPool"),
            (&[("10.0.0.9", "10.0.0.255")], 400, "OutOfBoundsAllocationPool"),
            (&[("10.0.1.2", "10.0.1.5")], 400, "OutOfBoundsAllocationPool"),
            (&[("10.0.0.20", "10.0.0.30"), ("10.0.0.10", "10.0.0.20")], 409, "OverlappingAllocationPools"),
            (&[("10.0.0.2", "10.0.0.9"), ("10.0.0.4", "10.0.0.5")], 409, "OverlappingAllocationPools"),
            (&[("10.0.0.1", "10.0.0.9")], 409, "GatewayConflictWithAllocationPools"),
        ] {
            let fault = check_pools("10.0.0.0/24".parse().unwrap(), gateway, ranges(pools)).unwrap_err();
            assert_eq!((fault.status, fault.kind), (status, kind), "{pools:?}");
        }
        let two = ranges(&[("10.0.0.20", "10.0.0.30"), ("10.0.0.2", "10.0.0.19")]);
        let kept = check_pools("10.0.0.0/24".parse().unwrap(), gateway, two).unwrap();
        assert_eq!(kept, ranges(&[("10.0.0.2", "10.0.0.19"), ("10.0.0.20", "10.0.0.30")]));
    }
}
