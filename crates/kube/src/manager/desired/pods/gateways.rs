//! Tunnel keys of gateway routers on the switches of the old topology.
//!
//! Nodes without transit routers reach each other's gateway routers by these keys, which are numbers of the same pool as the pods'.
//! While any node is old, every node has one for every network: new nodes keep answering at theirs. Afterwards the keys are free.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

use super::super::super::state::ObjectRef;
use super::super::Decision;
use super::super::networks::ActiveNetwork;
use super::pool::NetworkPool;
use crate::address::{join_addresses, mac_of};
use crate::annotation::{Annotation, GatewayPortKeys, TopologyVersion};
use crate::cluster::kind::Kind;
use crate::cluster::snapshot::{NodeObject, Snapshot, by_age};
use crate::ident::NodeId;
use crate::network::{Layer2Network, NetworkName};

/// The nodes and the keys that they have.
pub(super) struct OldGateways<'s> {
    nodes: Vec<(&'s NodeObject, Option<GatewayPortKeys>)>,
    old: BTreeMap<&'s str, Option<NodeId>>,
}

impl<'s> OldGateways<'s> {
    /// Reads the annotations. A node is old if it has keys and does not say that it has the transit router; so is one whose keys nobody
    /// can read, because to take them for none would take its keys away.
    pub(super) fn read(snapshot: &'s Snapshot, out: &mut Decision) -> OldGateways<'s> {
        let mut nodes = Vec::with_capacity(snapshot.nodes.len());
        let mut old = BTreeMap::new();
        for node in by_age(&snapshot.nodes) {
            let annotations = &node.meta.annotations;
            let is_new = matches!(TopologyVersion::read(annotations), Ok(Some(TopologyVersion)));
            let keys = match GatewayPortKeys::read(annotations) {
                Ok(keys) => Some(keys.unwrap_or_default()),
                Err(error) => {
                    out.problem(Kind::Node, &node.meta, "GatewayKeysInvalid", error.to_string());
                    None
                }
            };
            if !is_new && keys.as_ref().is_none_or(|keys| !keys.0.is_empty()) {
                old.insert(node.meta.name.as_str(), NodeId::read(annotations).ok().flatten());
            }
            nodes.push((node.as_ref(), keys));
        }
        OldGateways { nodes, old }
    }

    fn is_mixed(&self) -> bool {
        !self.old.is_empty()
    }

    /// The link-local address of a pod's gateway, if its node is old: there the gateway has the MAC address of the node's join address.
    pub(super) fn gateway_of(&self, node: Option<&str>, network: &Layer2Network) -> Option<Ipv6Addr> {
        let id = (*self.old.get(node?)?)?;
        let join = join_addresses(network.join, id).only_families_of(&network.subnets);
        mac_of(join.addresses()).map(|mac| mac.link_local())
    }

    /// The nodes whose gateway routers need keys.
    pub(super) fn owners(&self) -> BTreeSet<&'s str> {
        let nodes = self.nodes.iter().filter(|_| self.is_mixed());
        nodes.map(|(node, _)| node.meta.name.as_str()).collect()
    }

    /// Takes annotated keys into the pools, before any new number is given.
    pub(super) fn reserve(&self, pools: &mut BTreeMap<NetworkName, NetworkPool>, out: &mut Decision) {
        for (node, keys) in self.nodes.iter().filter(|_| self.is_mixed()) {
            for (network, key) in keys.iter().flat_map(|keys| &keys.0) {
                let Some(pool) = network.parse().ok().and_then(|name: NetworkName| pools.get_mut(&name))
                else {
                    continue;
                };
                if !pool.reserve_gateway(&node.meta.name, *key) {
                    let message = format!(
                        "tunnel key {key} of node {} in network {network} is not the one that the manager gave it, or belongs to \
                         somebody else; the node gets another one",
                        node.meta.name
                    );
                    out.notice(Kind::Node, &node.meta, "GatewayKeyConflict", message);
                }
            }
        }
    }

    /// Wants the keys of all nodes in their annotations. Entries of networks that are not ours stay.
    pub(super) fn publish(
        &self,
        pools: &mut BTreeMap<NetworkName, NetworkPool>,
        active: &BTreeMap<String, ActiveNetwork>,
        out: &mut Decision,
    ) {
        let networks: BTreeSet<&NetworkName> = active.values().map(|active| &active.network.name).collect();
        for (node, annotated) in &self.nodes {
            let Some(annotated) = annotated else { continue };
            let mut keys = annotated.clone();
            keys.0.retain(|network, _| {
                self.is_mixed() || !networks.iter().any(|name| name.as_str() == network)
            });
            for name in networks.iter().filter(|_| self.is_mixed()) {
                let Some(pool) = pools.get_mut(*name) else { continue };
                match pool.gateway_key(&node.meta.name) {
                    Some(key) => drop(keys.0.insert(name.to_string(), key)),
                    None => out.problem(
                        Kind::Node,
                        &node.meta,
                        "GatewayKeysExhausted",
                        format!(
                            "no free tunnel key for node {} in network {name}; delete pods",
                            node.meta.name
                        ),
                    ),
                }
            }
            if keys != *annotated {
                let object = ObjectRef::new(Kind::Node, &node.meta);
                let values = out.desired.annotations.entry(object).or_default();
                values.insert(GatewayPortKeys::KEY, keys.format());
            }
        }
    }
}
