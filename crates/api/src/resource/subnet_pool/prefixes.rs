//! Sets of prefixes: merging, comparison and subtraction.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, IpSubnets, Ipv4Subnets, Ipv6Subnets};

use crate::fault::Fault;

/// The prefixes of a pool in stored form: one family, without host bits, merged, sorted.
pub(super) fn merged(prefixes: Vec<IpNet>) -> Result<Vec<IpNet>, Fault> {
    let Some(first) = prefixes.first() else {
        return Err(Fault::new(400, "EmptySubnetPoolPrefixList", "Empty subnet pool prefix list."));
    };
    let v4 = first.addr().is_ipv4();
    if prefixes.iter().any(|prefix| prefix.addr().is_ipv4() != v4) {
        let message = "Cannot mix IPv4 and IPv6 prefixes in a subnet pool.";
        return Err(Fault::new(400, "PrefixVersionMismatch", message));
    }
    if let Some(all) = prefixes.iter().find(|prefix| prefix.prefix_len() == 0) {
        let version = if v4 { 4 } else { 6 };
        let message = format!("Prefix '{all}' not supported in IPv{version} pool.");
        return Err(Fault::new(400, "UnsupportedMinSubnetPoolPrefix", message));
    }
    Ok(aggregate(prefixes.iter().map(IpNet::trunc).collect()))
}

/// Whether one of the prefixes contains another.
pub(super) fn cover(prefixes: &[IpNet], other: &IpNet) -> bool {
    prefixes.iter().any(|prefix| prefix.contains(other))
}

/// Whether two prefixes overlap.
pub(crate) fn overlap(one: IpNet, two: IpNet) -> bool {
    one.contains(&two.network()) || two.contains(&one.network())
}

/// The prefixes minus the removed ones.
pub(super) fn without(prefixes: &[IpNet], removed: &[IpNet]) -> Vec<IpNet> {
    let mut left: Vec<IpNet> = prefixes.to_vec();
    for hole in removed.iter().map(IpNet::trunc) {
        left = left.into_iter().flat_map(|prefix| around(prefix, hole)).collect();
    }
    aggregate(left)
}

/// A prefix without the hole, as smaller prefixes.
fn around(prefix: IpNet, hole: IpNet) -> Vec<IpNet> {
    if !overlap(prefix, hole) {
        return vec![prefix];
    }
    let (first, last) = span(prefix);
    let (start, end) = span(hole);
    let v4 = prefix.addr().is_ipv4();
    let mut left = Vec::new();
    if first < start {
        left.extend(range(v4, first, start - 1));
    }
    if end < last {
        left.extend(range(v4, end + 1, last));
    }
    left
}

/// The first and the last address of a prefix, as numbers.
pub(super) fn span(prefix: IpNet) -> (u128, u128) {
    let number = |address| match address {
        IpAddr::V4(v4) => u128::from(u32::from(v4)),
        IpAddr::V6(v6) => u128::from(v6),
    };
    (number(prefix.network()), number(prefix.broadcast()))
}

/// The address of a number; beyond IPv4's range, its last address.
pub(super) fn address(v4: bool, number: u128) -> IpAddr {
    if v4 {
        IpAddr::V4(Ipv4Addr::from(u32::try_from(number).unwrap_or(u32::MAX)))
    } else {
        IpAddr::V6(Ipv6Addr::from(number))
    }
}

fn range(v4: bool, first: u128, last: u128) -> Vec<IpNet> {
    match (address(v4, first), address(v4, last)) {
        (IpAddr::V4(first), IpAddr::V4(last)) => IpSubnets::V4(Ipv4Subnets::new(first, last, 0)).collect(),
        (IpAddr::V6(first), IpAddr::V6(last)) => IpSubnets::V6(Ipv6Subnets::new(first, last, 0)).collect(),
        _ => Vec::new(),
    }
}

fn aggregate(prefixes: Vec<IpNet>) -> Vec<IpNet> {
    let mut merged = IpNet::aggregate(&prefixes);
    merged.sort_unstable();
    merged
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn nets(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn neighbours_are_merged_and_families_are_not_mixed() {
        let merged =
            super::merged(nets(&["10.0.1.0/24", "10.0.0.5/24", "10.9.0.0/16", "10.9.1.0/24"])).unwrap();
        assert_eq!(merged, nets(&["10.0.0.0/23", "10.9.0.0/16"]));
        for (prefixes, kind) in [
            (nets(&[]), "EmptySubnetPoolPrefixList"),
            (nets(&["10.0.0.0/8", "2001:db8::/32"]), "PrefixVersionMismatch"),
            (nets(&["0.0.0.0/0"]), "UnsupportedMinSubnetPoolPrefix"),
        ] {
            assert_eq!(super::merged(prefixes).unwrap_err().kind, kind);
        }
    }

    #[test]
    fn a_hole_leaves_what_is_around_it() {
        let left = without(&nets(&["10.0.0.0/24"]), &nets(&["10.0.0.64/26"]));
        assert_eq!(left, nets(&["10.0.0.0/26", "10.0.0.128/25"]));
        assert_eq!(without(&nets(&["10.0.0.0/24"]), &nets(&["10.0.0.0/8"])), Vec::new());
        assert_eq!(without(&nets(&["10.0.0.0/24"]), &nets(&["10.1.0.0/24"])), nets(&["10.0.0.0/24"]));
        let v6 = without(&nets(&["2001:db8::/32"]), &nets(&["2001:db8:8000::/33"]));
        assert_eq!(v6, nets(&["2001:db8::/33"]));
        assert_eq!(without(&nets(&["ff00::/8"]), &nets(&["ff80::/9"])), nets(&["ff00::/9"]));
    }

    proptest! {
        #[test]
        fn exactly_the_hole_is_gone(start: u8, len in 24..=32u8, hole: u8, hole_len in 24..=32u8) {
            let net = |host: u8, len| IpNet::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)), len).unwrap().trunc();
            let (prefix, hole) = (net(start, len), net(hole, hole_len));
            let left = without(&[prefix], &[hole]);
            for host in 0..=255u8 {
                let address = IpAddr::V4(Ipv4Addr::new(10, 0, 0, host));
                let want = prefix.contains(&address) && !hole.contains(&address);
                prop_assert_eq!(left.iter().any(|it| it.contains(&address)), want, "{}", address);
            }
        }
    }
}
