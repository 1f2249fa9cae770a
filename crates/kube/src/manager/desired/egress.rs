//! Marks and nodes of EgressIPs.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::super::numbers::Numbers;
use super::super::state::ObjectRef;
use super::Decision;
use crate::annotation::{Annotation, HostCidrs, NodePrimaryAddress};
use crate::cluster::kind::Kind;
use crate::cluster::snapshot::{EgressIpObject, NodeObject, Snapshot, by_age};
use crate::crd::EgressIPStatusItem;
use crate::eip::{EgressNode, EgressRequest, assign};
use crate::ident::EgressMark;

/// The label of nodes that may have egress addresses.
pub(crate) const ASSIGNABLE: &str = "k8s.ovn.org/egress-assignable";

/// The marks that EgressIPs have, by name.
#[derive(Debug)]
pub(super) struct EgressLedger {
    marks: Numbers<String>,
}

impl Default for EgressLedger {
    fn default() -> Self {
        EgressLedger { marks: Numbers::new(EgressMark::MIN.get().into(), EgressMark::MAX.get().into()) }
    }
}

impl EgressLedger {
    pub(super) fn decide(&mut self, snapshot: &Snapshot, out: &mut Decision) {
        let objects: Vec<&EgressIpObject> =
            by_age(&snapshot.egress_ips).into_iter().map(|object| object.as_ref()).collect();
        self.mark(&objects, out);
        self.assign(&objects, snapshot, out);
    }

    /// Gives each object a mark.
    fn mark(&mut self, objects: &[&EgressIpObject], out: &mut Decision) {
        let names: BTreeSet<&str> = objects.iter().map(|object| object.meta.name.as_str()).collect();
        self.marks.retain(|name| names.contains(name.as_str()));
        for object in objects {
            let meta = &object.meta;
            match EgressMark::read(&meta.annotations) {
                Ok(None) => {}
                Ok(Some(mark)) if self.marks.reserve(&meta.name, mark.get().into()) => {}
                Ok(Some(mark)) => {
                    let message =
                        format!("mark {mark} is not that of EgressIP {}; the manager restores it", meta.name);
                    out.notice(Kind::EgressIp, meta, "EgressMarkRestored", message);
                }
                Err(error) => {
                    let message = format!("{}: {}; the manager replaces it", EgressMark::KEY, error.cause);
                    out.notice(Kind::EgressIp, meta, "EgressMarkInvalid", message);
                }
            }
        }
        for object in objects {
            let meta = &object.meta;
            let Some(mark) = self.marks.allocate(&meta.name).and_then(EgressMark::new) else {
                let message =
                    format!("cannot give EgressIP {} a mark: all are in use; remove EgressIPs", meta.name);
                out.problem(Kind::EgressIp, meta, "EgressMarksExhausted", message);
                continue;
            };
            let values = out.desired.annotations.entry(ObjectRef::new(Kind::EgressIp, meta)).or_default();
            values.insert(EgressMark::KEY, mark.format());
        }
    }

    /// Gives each address a node.
    fn assign(&self, objects: &[&EgressIpObject], snapshot: &Snapshot, out: &mut Decision) {
        let nodes = snapshot.nodes.values().map(|node| (node.meta.name.clone(), place(node))).collect();
        let mut readable = Vec::new();
        let mut requests = Vec::new();
        for object in objects {
            // Its addresses are free while it waits for its finalizers.
            let addresses = match &object.addresses {
                _ if object.meta.is_deleting => continue,
                Ok(addresses) => addresses.clone(),
                Err(error) => {
                    out.problem(Kind::EgressIp, &object.meta, "UnsupportedRequest", error.clone());
                    continue;
                }
            };
            let items = object.items.iter();
            let assigned =
                items.filter_map(|item| Some((item.egress_ip.parse::<IpAddr>().ok()?, item.node.clone())));
            requests.push(EgressRequest {
                name: object.meta.name.clone(),
                addresses,
                assigned: assigned.collect::<BTreeMap<_, _>>(),
            });
            readable.push(*object);
        }
        for (object, assignment) in readable.into_iter().zip(assign(&nodes, &requests)) {
            for refusal in &assignment.refusals {
                out.problem(Kind::EgressIp, &object.meta, refusal.reason(), refusal.to_string());
            }
            let item = |(address, node): (&IpAddr, &String)| EgressIPStatusItem {
                node: node.clone(),
                egress_ip: address.to_string(),
            };
            let items = assignment.nodes.iter().map(item).collect();
            out.desired.egress.insert(ObjectRef::new(Kind::EgressIp, &object.meta), items);
        }
    }
}

/// A node as a place for egress addresses. A node whose annotations nobody can read has no subnet and so gets none.
fn place(node: &NodeObject) -> EgressNode {
    let annotations = &node.meta.annotations;
    let primary = NodePrimaryAddress::read(annotations).ok().flatten().map(|it| it.0).unwrap_or_default();
    let others = HostCidrs::read(annotations).ok().flatten().map(|it| it.0).unwrap_or_default();
    EgressNode {
        is_available: node.is_ready && !node.meta.is_deleting && node.meta.labels.contains_key(ASSIGNABLE),
        primary,
        addresses: primary.addresses().all().chain(others.iter().map(|net| net.addr())).collect(),
    }
}
