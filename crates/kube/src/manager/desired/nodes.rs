//! Ids and peer subnets of nodes.

use std::collections::BTreeSet;

use super::super::numbers::Numbers;
use super::super::settings::ManagerSettings;
use super::super::state::ObjectRef;
use super::Decision;
use super::peers::PeerLedger;
use crate::annotation::{Annotation, TransitPeerSubnet};
use crate::cluster::kind::Kind;
use crate::cluster::snapshot::{NodeObject, ObjectName, Snapshot, by_age};
use crate::ident::NodeId;

/// The ids that nodes have.
#[derive(Debug)]
pub(super) struct NodeLedger {
    ids: Numbers<ObjectName>,
    /// The nodes whose annotation has shown the ledger's id.
    confirmed: BTreeSet<ObjectName>,
    peers: PeerLedger,
}

impl Default for NodeLedger {
    fn default() -> Self {
        NodeLedger {
            ids: Numbers::new(NodeId::MIN.get().into(), NodeId::MAX.get().into()),
            confirmed: BTreeSet::new(),
            peers: PeerLedger::default(),
        }
    }
}

impl NodeLedger {
    pub(super) fn decide(&mut self, snapshot: &Snapshot, settings: &ManagerSettings, out: &mut Decision) {
        self.ids.retain(|name| snapshot.nodes.contains_key(name));
        self.confirmed.retain(|name| snapshot.nodes.contains_key(name));
        let nodes = by_age(&snapshot.nodes);
        for node in &nodes {
            self.reserve(node, out);
        }
        let mut ids = Vec::with_capacity(nodes.len());
        for node in nodes {
            let name = node.meta.object_name();
            match self.ids.allocate(&name).and_then(NodeId::new) {
                Some(id) => ids.push((node.as_ref(), id)),
                None => out.problem(
                    Kind::Node,
                    &node.meta,
                    "NodeIDsExhausted",
                    format!(
                        "cannot give node {name} an id: all of {} to {} are in use; remove nodes",
                        NodeId::MIN,
                        NodeId::MAX
                    ),
                ),
            }
        }
        for (node, id) in &ids {
            let values = out.desired.annotations.entry(ObjectRef::new(Kind::Node, &node.meta)).or_default();
            values.insert(NodeId::KEY, id.format());
        }
        for (node, subnet) in self.peers.decide(&ids, snapshot.now, settings, out) {
            let values = out.desired.annotations.entry(ObjectRef::new(Kind::Node, &node.meta)).or_default();
            values.insert(TransitPeerSubnet::KEY, subnet.format());
        }
    }

    /// Takes a node's annotated id into the ledger, or notes that it differs from the ledger.
    fn reserve(&mut self, node: &NodeObject, out: &mut Decision) {
        let name = node.meta.object_name();
        let annotated = NodeId::read(&node.meta.annotations);
        if let Some(known) = self.ids.get(&name) {
            if matches!(&annotated, Ok(Some(id)) if u32::from(id.get()) == known) {
                self.confirmed.insert(name);
            } else if self.confirmed.contains(&name) {
                let message = format!("somebody changed the id of node {name}; the manager restores {known}");
                out.notice(Kind::Node, &node.meta, "NodeIDRestored", message);
            }
            return;
        }
        match annotated {
            Ok(None) => {}
            Ok(Some(id)) => {
                if self.ids.reserve(&name, id.get().into()) {
                    self.confirmed.insert(name);
                } else if let Some(other) = self.ids.owner(id.get().into()) {
                    let message = format!("id {id} belongs to node {other}; node {name} gets another one");
                    out.notice(Kind::Node, &node.meta, "NodeIDConflict", message);
                }
            }
            Err(error) => {
                let message = format!("{}: {}; node {name} gets another one", NodeId::KEY, error.cause);
                out.notice(Kind::Node, &node.meta, "NodeIDInvalid", message);
            }
        }
    }

    /// The number of nodes with an allocated subnet, deleted ones with their grace included.
    #[cfg(test)]
    pub(super) fn allocated_peers(&self) -> usize {
        self.peers.allocated_count()
    }
}
