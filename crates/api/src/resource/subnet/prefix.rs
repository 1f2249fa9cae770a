//! The prefix of a new subnet, from the request or from a subnet pool.

use std::net::IpAddr;

use ipnet::IpNet;
use uuid::Uuid;

use super::pools::wrong_family;
use crate::caller::Caller;
use crate::fault::Fault;
use crate::model::{Subnet, SubnetPool};
use crate::resource::{Checked, subnet_pool};
use crate::world::{Link, Txn, World};

/// The pool id of prefix delegation, which is not supported.
const DELEGATED: &str = "prefix_delegation";

/// Parses a pool's id.
pub(super) fn pool_id(text: &str) -> Result<String, String> {
    if text == DELEGATED {
        return Err("prefix delegation is not supported: name a subnet pool or give a cidr".into());
    }
    let id = Uuid::try_parse(text).map_err(|_| format!("'{text}' is not a valid UUID"))?;
    Ok(id.to_string())
}

/// The prefix of a new subnet, and the pool that it comes from.
pub(super) fn choose(
    txn: &Txn,
    caller: &Caller,
    network: Uuid,
    new: &Checked,
) -> Result<(IpNet, Option<Uuid>), Fault> {
    let version: u8 = new.integer("ip_version").unwrap_or(4);
    if version == 5 {
        return Err(Fault::invalid("ip_version", "'5' is not in (4, 6)"));
    }
    let asked: Option<IpNet> = new.parsed("cidr");
    let length: Option<u8> = new.integer("prefixlen");
    let pool = pool_of(txn, caller, version, new)?;
    if asked.is_some() && length.is_some() {
        return Err(Fault::senseless("subnets", "cidr and prefixlen must not be supplied together"));
    }
    if let Some(cidr) = asked {
        check(cidr, version)?;
    }
    let (cidr, pool) = match (pool, asked) {
        (Some(id), asked) => {
            let pool = subnet_pool::usable(txn, caller, id)?;
            if pool.ip_version != version {
                return Err(wrong_family("subnetpool_id", id, version));
            }
            let cidr = subnet_pool::cut(txn, pool, new.project(), asked.map(|cidr| cidr.trunc()), length)?;
            (cidr, Some(pool))
        }
        (None, Some(_)) if length.is_some() => {
            return Err(Fault::senseless("subnets", "prefixlen can only be given with a subnet pool"));
        }
        (None, Some(cidr)) => (cidr.trunc(), None),
        (None, None) => {
            return Err(Fault::senseless(
                "subnets",
                "a subnetpool must be specified in the absence of a cidr",
            ));
        }
    };
    let mut others = txn.linked::<Subnet>(Link::SubnetsOfNetwork(network));
    if others.any(|other| overlap(other.cidr, cidr)) {
        return Err(Fault::input(format!(
            "Requested subnet with cidr: {cidr} for network: {network} overlaps with another subnet"
        )));
    }
    check_affinity(txn, network, version, pool)?;
    Ok((cidr, pool.map(|pool| pool.id)))
}

/// Whether two prefixes overlap.
pub(super) fn overlap(one: IpNet, two: IpNet) -> bool {
    one.contains(&two.network()) || two.contains(&one.network())
}

fn pool_of(world: &World, caller: &Caller, version: u8, new: &Checked) -> Result<Option<Uuid>, Fault> {
    let named = new.uuid("subnetpool_id");
    if !new.bool("use_default_subnetpool").unwrap_or(false) {
        return Ok(named);
    }
    if named.is_some() {
        return Err(Fault::senseless(
            "subnets",
            "subnetpool_id and use_default_subnetpool cannot both be specified",
        ));
    }
    match subnet_pool::default_of(world, version).filter(|pool| subnet_pool::is_usable(world, caller, pool)) {
        Some(pool) => Ok(Some(pool.id)),
        None => Err(Fault::senseless("subnets", format!("No default subnetpool found for IPv{version}"))),
    }
}

/// Refuses prefixes that are impossible on a network.
fn check(cidr: IpNet, version: u8) -> Result<(), Fault> {
    if cidr.addr().is_ipv4() != (version == 4) {
        return Err(wrong_family("cidr", cidr, version));
    }
    if cidr.prefix_len() == 0 {
        return Err(Fault::input("0 is not allowed as CIDR prefix length"));
    }
    let network = cidr.network();
    let reason = match network {
        _ if network.is_multicast() => "Multicast IP subnet is not supported",
        _ if network.is_loopback() => "Loopback IP subnet is not supported",
        IpAddr::V4(v4) if v4.octets()[0] == 0 => "First IP '0.0.0.0' of network is not supported",
        IpAddr::V6(v6) if v6.is_unicast_link_local() => "Link-local IP subnet is not supported",
        IpAddr::V6(v6) if v6.is_unspecified() => "First IP '::' of network is not supported",
        _ => return Ok(()),
    };
    Err(Fault::input(reason))
}

/// Checks that subnets of one family on one network share an address scope or, without one, a pool. Otherwise the routing between them
/// would depend on which of them a port is in.
fn check_affinity(world: &World, network: Uuid, version: u8, pool: Option<&SubnetPool>) -> Result<(), Fault> {
    let others = || {
        world.linked::<Subnet>(Link::SubnetsOfNetwork(network)).filter(|other| other.ip_version() == version)
    };
    let scope_of = |pool: Uuid| world.get::<SubnetPool>(&pool).and_then(|pool| pool.address_scope_id);
    if let Some(scope) = others().find_map(|other| other.subnetpool_id.and_then(scope_of)) {
        return match pool {
            Some(pool) if pool.address_scope_id == Some(scope) => Ok(()),
            _ => Err(Fault::new(
                400,
                "NetworkAddressScopeAffinityError",
                "Subnets of the same address family hosted on the same network must all be in the same address scope.",
            )),
        };
    }
    if others().any(|other| other.subnetpool_id != pool.map(|pool| pool.id)) {
        let message = "Subnets hosted on the same network must be allocated from the same subnet pool.";
        return Err(Fault::new(400, "NetworkSubnetPoolAffinityError", message));
    }
    Ok(())
}
