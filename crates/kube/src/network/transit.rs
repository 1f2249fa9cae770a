//! The choice of a network's transit subnets.
//!
//! Most networks share the cluster's. A network whose own subnets overlap with them gets others, which follow from the network
//! and the cluster alone.

use ipnet::IpNet;

use super::ClusterNetwork;
use crate::address::{DualNet, nets_overlap, next_block};

/// The number of candidates before the choice fails.
const TRIES: usize = 10;

/// No free transit subnet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no free transit subnet after {TRIES} tries: the last one, {candidate}, overlaps with {other}; use other subnets"
)]
pub struct TransitError {
    candidate: IpNet,
    other: IpNet,
}

/// Chooses the transit subnets of a network with these subnets and join subnets.
pub fn choose_transit(
    cluster: &ClusterNetwork,
    subnets: DualNet,
    join: DualNet,
) -> Result<DualNet, TransitError> {
    let taken: Vec<IpNet> = (cluster.pod_subnets.iter().chain(&cluster.service_subnets).copied())
        .chain(cluster.default_join.nets())
        .chain(cluster.masquerade.nets())
        .chain(subnets.nets())
        .chain(join.nets())
        .collect();
    let mut chosen = Vec::new();
    for first in cluster.transit.only_families_of(&subnets).nets() {
        chosen.push(free_block(first, &taken)?);
    }
    Ok(DualNet::from_nets(chosen).unwrap_or_default())
}

fn free_block(first: IpNet, taken: &[IpNet]) -> Result<IpNet, TransitError> {
    let mut candidate = first;
    for tries in 0.. {
        let Some(other) = taken.iter().copied().find(|other| nets_overlap(candidate, *other)) else { break };
        let larger = if other.contains(&candidate) { other } else { candidate };
        candidate = match next_block(larger, first.prefix_len()) {
            Some(next) if tries + 1 < TRIES => next,
            _ => return Err(TransitError { candidate, other }),
        };
    }
    Ok(candidate)
}
