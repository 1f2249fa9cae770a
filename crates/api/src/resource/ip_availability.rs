//! The number of total and used addresses of networks.
//!
//! An IPv6 subnet has up to 2^128 addresses, so responses contain JSON numbers beyond 64 bits.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::net::IpAddr;

use serde_json::{Map, Value, json};

use super::view::numeral;
use super::{Attribute, Computed, Field, Filters, Scene, Shape, attribute};
use crate::dialect::{Dialect, Neutron};
use crate::model::{Network, Subnet};
use crate::world::Link;

/// The noun `network_ip_availability`.
#[derive(Debug)]
pub struct NetworkIpAvailabilities;

const DETAILS: Shape = Shape::List {
    of: &Shape::Object(&[
        Field::required("subnet_id", Shape::Uuid),
        Field::required("subnet_name", Shape::Text { max: 255 }),
        Field::required("cidr", Shape::Cidr),
        Field::required("ip_version", Shape::Integer { min: 4, max: 6 }),
        Field::required("total_ips", Shape::Count),
        Field::required("used_ips", Shape::Count),
    ]),
    max: usize::MAX,
    unique: false,
};

static ATTRIBUTES: &[Attribute] = &[
    Attribute::new("network_id", Shape::Uuid, "The network."),
    Attribute::new("network_name", Shape::Text { max: 255 }, "Its name."),
    Attribute { create: super::Permission::Nobody, ..attribute::TENANT_ID },
    Attribute { create: super::Permission::Nobody, ..attribute::PROJECT_ID },
    Attribute::new("ip_version", Shape::Integer { min: 4, max: 6 }, "Counts only subnets of this family.")
        .shown(super::Audience::Never),
    Attribute::new("total_ips", Shape::Count, "Addresses in the allocation pools of its subnets."),
    Attribute::new("used_ips", Shape::Count, "Addresses that ports have."),
    Attribute::new("subnet_ip_availability", DETAILS, "The same for each subnet."),
];

impl Computed for NetworkIpAvailabilities {
    const DIALECT: &'static dyn Dialect = &Neutron;
    const NAME: &'static str = "network_ip_availability";
    const COLLECTION: &'static str = "network_ip_availabilities";
    const PATH: &'static str = "network-ip-availabilities";
    const KEY: Option<&'static str> = Some("network_id");
    const ABSENT: (&'static str, &'static str) = ("NetworkNotFound", "Network");

    fn attributes() -> &'static [Attribute] {
        ATTRIBUTES
    }

    fn rows(scene: &Scene<'_>) -> Vec<Map<String, Value>> {
        counted(scene, None)
    }

    /// `ip_version` selects the subnets to count, and only networks that have some.
    fn listed(scene: &Scene<'_>, filters: &mut Filters) -> Vec<Map<String, Value>> {
        let families: Option<Vec<u8>> = filters
            .take("ip_version")
            .map(|values| values.iter().filter_map(|value| value.parse().ok()).collect());
        counted(scene, families.as_deref())
    }
}

fn counted(scene: &Scene<'_>, families: Option<&[u8]>) -> Vec<Map<String, Value>> {
    if !scene.caller.admin && !scene.caller.service {
        return Vec::new();
    }
    let networks = scene.world.table::<Network>().iter();
    networks.filter_map(|network| row(network, scene, families)).collect()
}

fn row(network: &Network, scene: &Scene<'_>, families: Option<&[u8]>) -> Option<Map<String, Value>> {
    let (mut total, mut used) = (0u128, 0u128);
    let asked = |subnet: &Subnet| families.is_none_or(|families| families.contains(&subnet.ip_version()));
    let subnets = scene.world.linked::<Subnet>(Link::SubnetsOfNetwork(network.id)).filter(|it| asked(it));
    let details: Vec<Value> = subnets
        .map(|subnet| {
            let pools = subnet.allocation_pools.iter().map(|pool| between(pool.start, pool.end));
            let all = pools.fold(0u128, u128::saturating_add);
            let runs = scene.world.taken_runs(subnet.id).map(|(first, last)| between(first, last));
            let taken = runs.fold(0u128, u128::saturating_add);
            total = total.saturating_add(all);
            used = used.saturating_add(taken);
            json!({
                "subnet_id": subnet.id.to_string(),
                "subnet_name": subnet.name,
                "cidr": subnet.cidr,
                "ip_version": subnet.ip_version(),
                "total_ips": numeral(all),
                "used_ips": numeral(taken),
            })
        })
        .collect();
    if families.is_some() && details.is_empty() {
        return None;
    }
    let row = json!({
        "network_id": network.id.to_string(),
        "network_name": network.name,
        "tenant_id": network.project,
        "project_id": network.project,
        "total_ips": numeral(total),
        "used_ips": numeral(used),
        "subnet_ip_availability": details,
    });
    row.as_object().cloned()
}

/// The number of addresses in a range, both ends included.
fn between(first: IpAddr, last: IpAddr) -> u128 {
    let number = |address| match address {
        IpAddr::V4(v4) => u128::from(u32::from(v4)),
        IpAddr::V6(v6) => u128::from(v6),
    };
    number(last).saturating_sub(number(first)).saturating_add(1)
}

#[cfg(test)]
mod tests;
