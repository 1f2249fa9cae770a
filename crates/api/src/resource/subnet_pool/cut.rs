//! The allocation of a prefix from a pool.

use ipnet::IpNet;

use super::prefixes::{address, cover, overlap, span};
use crate::fault::Fault;
use crate::model::{Subnet, SubnetPool};
use crate::world::{Link, World};

/// The prefix for a project: the requested one, or the lowest free one of a length.
pub fn cut(
    world: &World,
    pool: &SubnetPool,
    project: &str,
    asked: Option<IpNet>,
    length: Option<u8>,
) -> Result<IpNet, Fault> {
    let length = asked.map(|cidr| cidr.prefix_len()).or(length).unwrap_or(pool.default_prefixlen);
    check_length(pool, length)?;
    check_quota(world, pool, project, length)?;
    let taken: Vec<IpNet> = world.linked::<Subnet>(Link::SubnetsOfPool(pool.id)).map(|it| it.cidr).collect();
    match asked {
        Some(cidr) => {
            if !cover(&pool.prefixes, &cidr) || taken.iter().any(|other| overlap(*other, cidr)) {
                return Err(refused("Cannot allocate requested subnet from the available set of prefixes"));
            }
            Ok(cidr)
        }
        None => lowest(pool, length, &taken)
            .ok_or_else(|| refused(&format!("Insufficient prefix space to allocate subnet size /{length}"))),
    }
}

/// The first aligned block of a length that overlaps with no used one.
fn lowest(pool: &SubnetPool, length: u8, taken: &[IpNet]) -> Option<IpNet> {
    let v4 = pool.ip_version == 4;
    let width: u8 = if v4 { 32 } else { 128 };
    let size = 1u128.checked_shl(u32::from(width.checked_sub(length)?))?;
    let mut taken: Vec<(u128, u128)> = taken.iter().map(|cidr| span(*cidr)).collect();
    taken.sort_unstable();
    pool.prefixes.iter().filter(|prefix| prefix.prefix_len() <= length).find_map(|prefix| {
        let (first, last) = span(*prefix);
        let mut start = first;
        for (low, high) in &taken {
            if *high < start {
                continue;
            }
            if *low > start + (size - 1) {
                break;
            }
            start = align(high.checked_add(1)?, size)?;
        }
        let fits = start.checked_add(size - 1).is_some_and(|end| end <= last);
        if fits { IpNet::new(address(v4, start), length).ok() } else { None }
    })
}

/// The next multiple of a power of two.
fn align(number: u128, size: u128) -> Option<u128> {
    Some(number.checked_add(size - 1)? & !(size - 1))
}

fn check_length(pool: &SubnetPool, length: u8) -> Result<(), Fault> {
    let refused = |kind, word: &str, bound: u8| {
        let message = format!(
            "Unable to allocate subnet with prefix length {length}, {word} allowed prefix is {bound}."
        );
        Err(Fault::new(400, kind, message))
    };
    if length < pool.min_prefixlen {
        return refused("MinPrefixSubnetAllocationError", "minimum", pool.min_prefixlen);
    }
    if length > pool.max_prefixlen {
        return refused("MaxPrefixSubnetAllocationError", "maximum", pool.max_prefixlen);
    }
    Ok(())
}

/// Checks the pool's quota per project. It counts IPv4 addresses and IPv6 /64 networks; a smaller IPv6 prefix counts as a fraction.
fn check_quota(world: &World, pool: &SubnetPool, project: &str, length: u8) -> Result<(), Fault> {
    let Some(quota) = pool.default_quota else { return Ok(()) };
    let (width, unit) = if pool.ip_version == 4 { (32u8, 1u128) } else { (128, 1 << 64) };
    let size = |length: u8| 1u128.checked_shl(u32::from(width.saturating_sub(length))).unwrap_or(u128::MAX);
    let own = world.linked::<Subnet>(Link::SubnetsOfPool(pool.id)).filter(|subnet| subnet.project == project);
    let used = own.map(|subnet| size(subnet.cidr.prefix_len())).fold(0u128, u128::saturating_add);
    if used.saturating_add(size(length)) > u128::from(quota).saturating_mul(unit) {
        let message = "Per-tenant subnet pool prefix quota exceeded.";
        return Err(Fault::conflict("SubnetPoolQuotaExceeded", message));
    }
    Ok(())
}

fn refused(reason: &str) -> Fault {
    Fault::conflict("SubnetAllocationError", format!("Failed to allocate subnet: {reason}."))
}
