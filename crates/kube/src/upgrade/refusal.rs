//! Reasons against the switch of a node.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::address::upgrade_join_addresses;
use crate::network::Layer2Network;
use crate::zone::ZoneNode;

/// A join subnet without room for the address of a mixed topology.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the join subnet of network {network} is too small for a rolling upgrade: node {node} has its last address {address}, which \
     the transit router needs; take that node out of the cluster, or create the network with a larger join subnet"
)]
pub struct JoinConflict {
    network: String,
    node: String,
    address: IpAddr,
}

impl JoinConflict {
    /// Any conflict.
    #[cfg(test)]
    pub(super) fn example() -> JoinConflict {
        let (network, node) = ("net".to_owned(), "node14".to_owned());
        JoinConflict { network, node, address: std::net::Ipv4Addr::new(100, 65, 0, 14).into() }
    }

    /// The reason of the event about it.
    pub const REASON: &'static str = "JoinSubnetTooSmall";
}

/// The first node that has the address which transit routers of a mixed cluster have on the switch.
pub fn join_conflict(network: &Layer2Network, nodes: &BTreeMap<String, ZoneNode>) -> Option<JoinConflict> {
    let reserved = upgrade_join_addresses(network.join).only_families_of(&network.subnets).addresses();
    nodes.iter().find_map(|(name, node)| {
        let taken = node.join(network).addresses().all().find(|it| reserved.of_family(*it) == Some(*it))?;
        Some(JoinConflict { network: network.name.to_string(), node: name.clone(), address: taken })
    })
}
