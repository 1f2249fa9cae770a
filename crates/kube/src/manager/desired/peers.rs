//! Peer subnets of nodes: derived from the id, or allocated.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::{Ipv4Net, Ipv6Net};

use super::super::numbers::Numbers;
use super::super::settings::{ManagerSettings, PeerSource};
use super::Decision;
use crate::address::{DualNet, DualStack, PeerScheme};
use crate::annotation::{Annotation, TransitPeerSubnet};
use crate::cluster::kind::Kind;
use crate::cluster::snapshot::{NodeObject, ObjectName};
use crate::ident::NodeId;

/// Seconds until an allocated subnet of a deleted node may be used again: other nodes may still have a port with its address.
const GRACE: i64 = 30;
/// The largest number of an allocated subnet. A larger cluster has no ids.
const MOST: u32 = 16_383;

/// The peer subnets that nodes have.
#[derive(Debug)]
pub(super) struct PeerLedger {
    /// The nodes whose annotation has shown the ledger's subnets.
    confirmed: BTreeSet<ObjectName>,
    /// Whether the annotations were compared with the settings. The answer: the transit subnet or the scheme has changed.
    has_changed: Option<bool>,
    allocated: DualStack<Numbers<ObjectName>, Numbers<ObjectName>>,
    /// Deleted nodes, and the time since when.
    leaving: BTreeMap<ObjectName, i64>,
}

impl Default for PeerLedger {
    fn default() -> Self {
        PeerLedger {
            confirmed: BTreeSet::new(),
            has_changed: None,
            allocated: DualStack::both(Numbers::new(1, MOST), Numbers::new(1, MOST)),
            leaving: BTreeMap::new(),
        }
    }
}

impl PeerLedger {
    /// The subnets of the nodes with ids.
    pub(super) fn decide<'n>(
        &mut self,
        ids: &[(&'n NodeObject, NodeId)],
        now: i64,
        settings: &ManagerSettings,
        out: &mut Decision,
    ) -> Vec<(&'n NodeObject, TransitPeerSubnet)> {
        let (scheme, transit) = (settings.cluster.peers, settings.cluster.transit);
        let wanted: Vec<DualNet> = match settings.peers {
            PeerSource::Derived => ids.iter().map(|(_, id)| scheme.derive(transit, *id)).collect(),
            PeerSource::Allocated => self.allocate(ids, now, scheme, transit),
        };
        if self.refuses(ids, &wanted, settings, out) {
            return Vec::new();
        }
        let mut decided = Vec::new();
        for ((node, _), subnets) in ids.iter().zip(wanted) {
            let name = node.meta.object_name();
            let missing = transit.nets().filter(|net| match net {
                ipnet::IpNet::V4(_) => subnets.ipv4.is_none(),
                ipnet::IpNet::V6(_) => subnets.ipv6.is_none(),
            });
            for net in missing {
                let message =
                    format!("transit subnet {net} has no peer subnet for node {name}; use a larger one");
                out.problem(Kind::Node, &node.meta, "TransitSubnetTooSmall", message);
            }
            if subnets.is_empty() {
                continue;
            }
            let subnet = TransitPeerSubnet(subnets);
            self.compare(node, subnet, out);
            decided.push((*node, subnet));
        }
        let present: BTreeSet<ObjectName> = ids.iter().map(|(node, _)| node.meta.object_name()).collect();
        self.confirmed.retain(|name| present.contains(name));
        decided
    }

    /// Notes that a confirmed annotation was edited.
    fn compare(&mut self, node: &NodeObject, subnet: TransitPeerSubnet, out: &mut Decision) {
        let name = node.meta.object_name();
        if TransitPeerSubnet::read(&node.meta.annotations) == Ok(Some(subnet)) {
            self.confirmed.insert(name);
        } else if self.confirmed.contains(&name) {
            let text = subnet.format();
            let message =
                format!("somebody changed the peer subnets of node {name}; the manager restores {text}");
            out.notice(Kind::Node, &node.meta, "PeerSubnetRestored", message);
        }
    }

    /// True if the settings contradict what the nodes have. The addresses are on the wire, so nobody may change them at once.
    ///
    /// One node that differs was edited. If all differ, it was the settings.
    fn refuses(
        &mut self,
        ids: &[(&NodeObject, NodeId)],
        wanted: &[DualNet],
        settings: &ManagerSettings,
        out: &mut Decision,
    ) -> bool {
        let differs = |node: &NodeObject, id: NodeId, wanted: &DualNet| {
            // A node that has lost its id gets another subnet for that reason alone.
            NodeId::read(&node.meta.annotations).ok()?.filter(|annotated| *annotated == id)?;
            let had = TransitPeerSubnet::read(&node.meta.annotations).ok()??.0;
            let v4 = had.ipv4.zip(wanted.ipv4).map(|(had, wanted)| had != wanted);
            let v6 = had.ipv6.zip(wanted.ipv6).map(|(had, wanted)| had != wanted);
            Some(v4 == Some(true) || v6 == Some(true))
        };
        let has_changed = *self.has_changed.get_or_insert_with(|| {
            let answers: Vec<bool> = ids
                .iter()
                .zip(wanted)
                .filter_map(|((node, id), wanted)| differs(node, *id, wanted))
                .collect();
            !answers.is_empty() && answers.iter().all(|differs| *differs)
        });
        if has_changed {
            let mut still = 0;
            for ((node, id), wanted) in ids.iter().zip(wanted) {
                if differs(node, *id, wanted) == Some(true) {
                    still += 1;
                    let nets: Vec<String> =
                        settings.cluster.transit.nets().map(|net| net.to_string()).collect();
                    let message = format!(
                        "cannot change the peer subnets of node {}: they do not follow from the transit subnets {}; restore \
                         the settings, or remove the annotation {} of every node to change its addresses",
                        node.meta.name,
                        nets.join(" and "),
                        TransitPeerSubnet::KEY
                    );
                    out.problem(Kind::Node, &node.meta, "TransitSubnetChanged", message);
                }
            }
            // Without any old annotation the new settings hold.
            self.has_changed = Some(still > 0);
            return still > 0;
        }
        false
    }

    fn allocate(
        &mut self,
        ids: &[(&NodeObject, NodeId)],
        now: i64,
        scheme: PeerScheme,
        transit: DualNet,
    ) -> Vec<DualNet> {
        let present: BTreeSet<ObjectName> = ids.iter().map(|(node, _)| node.meta.object_name()).collect();
        let DualStack { ipv4: Some(ipv4), ipv6: Some(ipv6) } = &mut self.allocated else { return Vec::new() };
        for owner in ipv4.owners().chain(ipv6.owners()).filter(|owner| !present.contains(*owner)) {
            self.leaving.entry(owner.clone()).or_insert(now);
        }
        self.leaving.retain(|name, since| !present.contains(name) && now - *since < GRACE);
        let stays = |name: &ObjectName| present.contains(name) || self.leaving.contains_key(name);
        ipv4.retain(stays);
        ipv6.retain(stays);
        for (node, _) in ids {
            let Ok(Some(had)) = TransitPeerSubnet::read(&node.meta.annotations) else { continue };
            let name = node.meta.object_name();
            if let Some(number) =
                had.0.ipv4.zip(transit.ipv4).and_then(|(net, all)| number4(scheme, net, all))
            {
                ipv4.reserve(&name, number);
            }
            if let Some(number) =
                had.0.ipv6.zip(transit.ipv6).and_then(|(net, all)| number6(scheme, net, all))
            {
                ipv6.reserve(&name, number);
            }
        }
        let mut subnets = Vec::with_capacity(ids.len());
        for (node, _) in ids {
            let name = node.meta.object_name();
            let first = transit.ipv4.and_then(|all| scheme.ipv4_subnet(all, ipv4.allocate(&name)?));
            let second = transit.ipv6.and_then(|all| scheme.ipv6_subnet(all, ipv6.allocate(&name)?.into()));
            subnets.push(DualStack { ipv4: first, ipv6: second });
        }
        subnets
    }

    #[cfg(test)]
    pub(super) fn allocated_count(&self) -> usize {
        self.allocated.ipv4.as_ref().map_or(0, |numbers| numbers.owners().count())
    }
}

/// The number of a subnet in its transit subnet; `None` if it is not one of the scheme's.
fn number4(scheme: PeerScheme, net: Ipv4Net, transit: Ipv4Net) -> Option<u32> {
    let offset = u32::from(net.network()).checked_sub(u32::from(transit.network()))?;
    let number = offset >> (32 - scheme.ipv4_prefix());
    ((1..=MOST).contains(&number) && scheme.ipv4_subnet(transit, number) == Some(net)).then_some(number)
}

/// The same for IPv6.
fn number6(scheme: PeerScheme, net: Ipv6Net, transit: Ipv6Net) -> Option<u32> {
    let offset = u128::from(net.network()).checked_sub(u128::from(transit.network()))?;
    let number = u32::try_from(offset / 2).ok()?;
    ((1..=MOST).contains(&number) && scheme.ipv6_subnet(transit, number.into()) == Some(net))
        .then_some(number)
}
