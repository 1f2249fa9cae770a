//! The assignment of egress addresses to nodes.
//!
//! An address stays where it is as long as it may: each move breaks the connections that use it. A new one goes to the node with the
//! fewest addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::address::DualNet;

/// A node as a place for egress addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EgressNode {
    /// Whether users allow it, it is ready, and it answers.
    pub is_available: bool,
    /// Its addresses on the network of the cluster's nodes, with prefix lengths.
    pub primary: DualNet,
    /// All its addresses.
    pub addresses: BTreeSet<IpAddr>,
}

/// An object that asks for addresses. The caller passes them from the oldest to the newest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EgressRequest {
    /// The object's name.
    pub name: String,
    /// The addresses, in the order of the object.
    pub addresses: Vec<IpAddr>,
    /// The present assignment: the node of each address.
    pub assigned: BTreeMap<IpAddr, String>,
}

/// Why an address has no node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A node has the address itself.
    #[error("egress address {address} is an address of node {node}; choose another one")]
    HostAddress {
        /// The address.
        address: IpAddr,
        /// The node.
        node: String,
    },
    /// An older object, or this one a second time, has the address.
    #[error("egress address {address} belongs to EgressIP {other} already; choose another one")]
    Taken {
        /// The address.
        address: IpAddr,
        /// The other object.
        other: String,
    },
    /// No node may have it.
    #[error(
        "no node can have egress address {address}: it must be in the subnet of a ready node with the label \
         k8s.ovn.org/egress-assignable that has no other address of this object; label another node or change the address"
    )]
    NoNode {
        /// The address.
        address: IpAddr,
    },
}

impl Refusal {
    /// The reason of the event about it.
    pub fn reason(&self) -> &'static str {
        match self {
            Refusal::HostAddress { .. } => "EgressIPConflict",
            Refusal::Taken { .. } => "UnsupportedRequest",
            Refusal::NoNode { .. } => "NoMatchingNodeFound",
        }
    }
}

/// The nodes of one object's addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    /// The node of each address that has one.
    pub nodes: BTreeMap<IpAddr, String>,
    /// The addresses without a node.
    pub refusals: Vec<Refusal>,
}

/// Assigns the addresses of all objects, one assignment for each request. `nodes` holds all nodes of the cluster, because the addresses
/// of unavailable ones are in use as well.
pub fn assign(nodes: &BTreeMap<String, EgressNode>, requests: &[EgressRequest]) -> Vec<Assignment> {
    let host: BTreeMap<IpAddr, &str> = nodes
        .iter()
        .flat_map(|(name, node)| node.addresses.iter().map(move |address| (*address, name.as_str())))
        .collect();
    let mut owners: BTreeMap<IpAddr, &str> = BTreeMap::new();
    let mut out: Vec<Assignment> = Vec::with_capacity(requests.len());
    let mut waiting: Vec<Vec<IpAddr>> = Vec::with_capacity(requests.len());
    // First everything that stays, so that a new address of an old object does not push away what is in use.
    for request in requests {
        let mut assignment = Assignment::default();
        let mut used: BTreeSet<&str> = BTreeSet::new();
        let mut nodeless = Vec::new();
        for address in &request.addresses {
            if let Some(node) = host.get(address) {
                let refusal = Refusal::HostAddress { address: *address, node: (*node).to_owned() };
                assignment.refusals.push(refusal);
                continue;
            }
            if let Some(other) = owners.get(address) {
                assignment.refusals.push(Refusal::Taken { address: *address, other: (*other).to_owned() });
                continue;
            }
            owners.insert(*address, &request.name);
            let stays = request.assigned.get(address).filter(|name| {
                nodes.get(*name).is_some_and(|node| may_have(node, *address)) && used.insert(name.as_str())
            });
            match stays {
                Some(node) => drop(assignment.nodes.insert(*address, node.clone())),
                None => nodeless.push(*address),
            }
        }
        waiting.push(nodeless);
        out.push(assignment);
    }
    let mut load: BTreeMap<&str, usize> = nodes.keys().map(|name| (name.as_str(), 0)).collect();
    for node in out.iter().flat_map(|it| it.nodes.values()) {
        if let Some(count) = load.get_mut(node.as_str()) {
            *count += 1;
        }
    }
    for (addresses, assignment) in waiting.into_iter().zip(&mut out) {
        for address in addresses {
            let is_free = |name: &str| assignment.nodes.values().all(|used| used != name);
            let candidates = nodes.iter().filter(|(name, node)| may_have(node, address) && is_free(name));
            let best = candidates.min_by_key(|(name, _)| (load.get(name.as_str()), name.as_str()));
            match best {
                Some((name, _)) => {
                    if let Some(count) = load.get_mut(name.as_str()) {
                        *count += 1;
                    }
                    assignment.nodes.insert(address, name.clone());
                }
                None => assignment.refusals.push(Refusal::NoNode { address }),
            }
        }
    }
    out
}

/// Whether a node may have an address: it is available, and the address is one of its primary subnet that a machine can have.
fn may_have(node: &EgressNode, address: IpAddr) -> bool {
    let subnet = node.primary.of_family(address);
    node.is_available
        && subnet.is_some_and(|net| {
            let is_broadcast = address.is_ipv4() && address == net.broadcast() && net.prefix_len() < 31;
            net.contains(&address) && address != net.network() && !is_broadcast
        })
}
