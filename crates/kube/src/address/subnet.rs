//! Arithmetic on subnets of either family.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// The first address of a subnet as a number.
fn base(net: IpNet) -> u128 {
    match net {
        IpNet::V4(net) => u128::from(u32::from(net.network())),
        IpNet::V6(net) => u128::from(net.network()),
    }
}

/// The last address of a subnet as a number.
fn last(net: IpNet) -> u128 {
    match net {
        IpNet::V4(net) => u128::from(u32::from(net.broadcast())),
        IpNet::V6(net) => u128::from(net.broadcast()),
    }
}

/// A number as an address of the subnet's family.
fn address(net: IpNet, number: u128) -> Option<IpAddr> {
    match net {
        IpNet::V4(_) => u32::try_from(number).ok().map(|number| Ipv4Addr::from(number).into()),
        IpNet::V6(_) => Some(Ipv6Addr::from(number).into()),
    }
}

/// The n-th address of a subnet, counted from its network address. `None` beyond its end.
pub fn nth_address(net: IpNet, n: u128) -> Option<IpAddr> {
    let number = base(net).checked_add(n).filter(|number| *number <= last(net))?;
    address(net, number)
}

/// The network address of a subnet.
pub fn first_address(net: IpNet) -> IpAddr {
    net.network()
}

/// The number of addresses in a subnet, saturating.
pub fn host_count(net: IpNet) -> u128 {
    (last(net) - base(net)).saturating_add(1)
}

/// The address before the last one of a subnet.
pub fn last_usable(net: IpNet) -> IpAddr {
    let number = last(net).saturating_sub(1).max(base(net));
    address(net, number).unwrap_or_else(|| net.network())
}

/// True if two subnets have an address in common.
pub fn nets_overlap(a: IpNet, b: IpNet) -> bool {
    a.contains(&b) || b.contains(&a)
}

/// The first subnet of this length after the given one.
pub fn next_block(after: IpNet, prefix: u8) -> Option<IpNet> {
    let number = last(after).checked_add(1)?;
    let aligned = IpNet::new(address(after, number)?, prefix).ok()?;
    let width = u32::from(after.max_prefix_len() - prefix);
    // A shorter prefix than that of `after` may begin before the end of it.
    if base(aligned) >= number {
        return Some(aligned.trunc());
    }
    let up = base(aligned).checked_add(1u128.checked_shl(width)?)?;
    IpNet::new(address(after, up)?, prefix).ok()
}
