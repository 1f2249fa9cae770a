//! Address scopes, subnet pools and subnets.

use std::net::IpAddr;

use ipnet::IpNet;
use jiff::Timestamp;
use ovn::MacAddr;
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use super::{Common, Identity, Objects, or_default, says_something};
use crate::model::{AddressRange, AddressScope, HostRoute, Ipv6Mode, Subnet, SubnetPool};

#[derive(Debug, Deserialize)]
pub(super) struct ScopeRead {
    #[serde(flatten)]
    common: Common,
    ip_version: u8,
    #[serde(default, deserialize_with = "or_default")]
    shared: bool,
}

pub(super) fn scope(_: &mut Objects, read: ScopeRead, now: Timestamp) -> Result<AddressScope, String> {
    let Identity { id, project, name, .. } = read.common.told(now);
    Ok(AddressScope { id, project, name, ip_version: read.ip_version, shared: read.shared })
}

#[derive(Debug, Deserialize)]
pub(super) struct PoolRead {
    #[serde(flatten)]
    common: Common,
    prefixes: Vec<IpNet>,
    ip_version: u8,
    min_prefixlen: Number,
    max_prefixlen: Number,
    default_prefixlen: Number,
    #[serde(default)]
    default_quota: Option<u64>,
    #[serde(default)]
    address_scope_id: Option<Uuid>,
    #[serde(default, deserialize_with = "or_default")]
    shared: bool,
    #[serde(default, deserialize_with = "or_default")]
    is_default: bool,
}

/// Neutron writes prefix lengths of pools as strings.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Number {
    Plain(u8),
    Text(String),
}

impl Number {
    fn value(&self) -> Result<u8, String> {
        match self {
            Number::Plain(number) => Ok(*number),
            Number::Text(text) => text.parse().map_err(|_| format!("{text:?} is no prefix length")),
        }
    }
}

pub(super) fn pool(objects: &mut Objects, read: PoolRead, now: Timestamp) -> Result<SubnetPool, String> {
    read.address_scope_id.map_or(Ok(()), |scope| objects.needs("address_scope", scope))?;
    let mut prefixes: Vec<IpNet> = read.prefixes.iter().map(IpNet::trunc).collect();
    prefixes.sort();
    let Identity { id, project, name, standard } = read.common.told(now);
    Ok(SubnetPool {
        id,
        project,
        name,
        prefixes,
        ip_version: read.ip_version,
        min_prefixlen: read.min_prefixlen.value()?,
        max_prefixlen: read.max_prefixlen.value()?,
        default_prefixlen: read.default_prefixlen.value()?,
        default_quota: read.default_quota,
        address_scope_id: read.address_scope_id,
        shared: read.shared,
        is_default: read.is_default,
        standard,
    })
}

#[derive(Debug, Deserialize)]
pub(super) struct SubnetRead {
    #[serde(flatten)]
    common: Common,
    network_id: Uuid,
    cidr: IpNet,
    #[serde(default)]
    gateway_ip: Option<IpAddr>,
    #[serde(default, deserialize_with = "or_default")]
    allocation_pools: Vec<AddressRange>,
    enable_dhcp: bool,
    #[serde(default, deserialize_with = "or_default")]
    dns_nameservers: Vec<IpAddr>,
    #[serde(default, deserialize_with = "or_default")]
    host_routes: Vec<HostRoute>,
    #[serde(default)]
    ipv6_ra_mode: Option<Ipv6Mode>,
    #[serde(default)]
    ipv6_address_mode: Option<Ipv6Mode>,
    #[serde(default, deserialize_with = "or_default")]
    service_types: Vec<String>,
    #[serde(default)]
    subnetpool_id: Option<String>,
    #[serde(default)]
    segment_id: Value,
}

pub(super) fn subnet(objects: &mut Objects, read: SubnetRead, now: Timestamp) -> Result<Subnet, String> {
    objects.needs("network", read.network_id)?;
    if says_something(&read.segment_id) {
        return Err("it belongs to one segment of a routed network".into());
    }
    let subnetpool_id = match read.subnetpool_id.as_deref() {
        None => None,
        Some(text) => {
            let pool = Uuid::try_parse(text).map_err(|_| format!("its prefix comes from {text}"))?;
            objects.needs("subnetpool", pool)?;
            Some(pool)
        }
    };
    let mut allocation_pools = read.allocation_pools;
    allocation_pools.sort();
    let Identity { id, project, name, standard } = read.common.told(now);
    Ok(Subnet {
        id,
        project,
        name,
        network_id: read.network_id,
        cidr: read.cidr.trunc(),
        gateway_ip: read.gateway_ip,
        allocation_pools,
        enable_dhcp: read.enable_dhcp,
        dns_nameservers: read.dns_nameservers,
        host_routes: read.host_routes,
        ipv6_ra_mode: read.ipv6_ra_mode,
        ipv6_address_mode: read.ipv6_address_mode,
        service_types: read.service_types,
        subnetpool_id,
        // Filled in from the Northbound.
        dhcp_server_mac: MacAddr::default(),
        standard,
    })
}
