//! The objects of rows: each is refused by the server, kept in doubt and reported on its own.
//!
//! A network is one object, and so are each of its pods and each gateway router of another node: one of them that cannot be
//! written or decided stops no other. The object of an existing row follows from the row itself, so rows need no key for it.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;

use ovn::nb::{
    LogicalRouter, LogicalRouterPort, LogicalRouterStaticRoute, LogicalSwitch, LogicalSwitchPort,
    StaticMacBinding,
};
use ovn::target::Row;
use ovsdb::{Map, Str, Uuid};
use reconcile::ObjectId;

use crate::network::{AttachmentKey, NetworkName};
use crate::zone::{RowNames, ZoneSnapshot};

/// The keys by which rows of a network, and of a remote node in it, are found.
pub(in crate::zone) const NETWORK: &str = "k8s.ovn.org/network";
pub(super) const NODE: &str = "k8s.ovn.org/node";
/// The key of a port that belongs to a pod.
pub(super) const POD: &str = "pod";
/// The start of the name of a transit router's port to a gateway router.
const TO_GATEWAY: &str = "trtor-";

/// A network: its switch, its routers, and everything that is the same for all pods.
pub fn of_network(name: &str) -> ObjectId {
    ObjectId::new("network", name)
}

/// The port of a pod, by its name.
pub fn of_pod(port: &str) -> ObjectId {
    ObjectId::new("pod", port)
}

/// The gateway router of a remote node as this zone knows it: a port of the transit router, routes to it and its neighbours.
pub(super) fn of_remote_gateway(names: &RowNames, node: &str) -> ObjectId {
    ObjectId::new("remote-gateway", names.transit_to_gateway(node))
}

/// The neighbours of a router's port.
pub(super) fn of_neighbours(port: &str) -> ObjectId {
    ObjectId::new(if port.starts_with(TO_GATEWAY) { "remote-gateway" } else { "neighbours" }, port)
}

/// The objects of a network with these ports of pods.
pub fn of_parts(
    snapshot: &ZoneSnapshot,
    network: &NetworkName,
    pods: impl Iterator<Item = String>,
) -> BTreeSet<ObjectId> {
    let names = RowNames::new(network, snapshot.profile);
    let nodes = snapshot.nodes.keys().chain(&snapshot.unreadable);
    let gateways = nodes.map(|node| of_remote_gateway(&names, node));
    let neighbours = of_neighbours(&names.gateway_to_external(&snapshot.local));
    let pods = pods.map(|port| of_pod(&port));
    gateways.chain(pods).chain([of_network(network.as_str()), neighbours]).collect()
}

/// The name of a pod's port.
pub fn pod_port(attachment: &AttachmentKey, namespace: &str, name: &str) -> String {
    format!("{}{namespace}_{name}", attachment.row_prefix())
}

/// The name by which a row is found again whose identity traffic depends on.
pub(super) fn lasting_name(row: &dyn Row) -> Option<&str> {
    let row = row.as_any();
    let switch = row.downcast_ref::<LogicalSwitch>().map(|row| row.name.as_str());
    let router = || row.downcast_ref::<LogicalRouter>().map(|row| row.name.as_str());
    let port = || row.downcast_ref::<LogicalSwitchPort>().map(|row| row.name.as_str());
    switch.or_else(router).or_else(port)
}

/// The object of a row of ours in the Northbound.
pub fn name_row(_: Uuid, row: &dyn Row) -> Option<ObjectId> {
    if let Some(row) = row.as_any().downcast_ref::<StaticMacBinding>() {
        return Some(of_neighbours(&row.logical_port));
    }
    let ids = row.external_ids()?;
    let network = ids.get(NETWORK)?;
    if let Some(port) = row.as_any().downcast_ref::<LogicalSwitchPort>().filter(|_| ids.contains_key(POD)) {
        return Some(of_pod(&port.name));
    }
    if row.as_any().is::<LogicalSwitchPort>() && ids.contains_key(NODE) {
        return remote_of(network, ids);
    }
    if let Some(port) = row.as_any().downcast_ref::<LogicalRouterPort>().filter(|_| ids.contains_key(NODE)) {
        return Some(ObjectId::new("remote-gateway", port.name.as_str()));
    }
    match row.as_any().downcast_ref::<LogicalRouterStaticRoute>().and_then(|_| remote_of(network, ids)) {
        Some(object) => Some(object),
        None => Some(of_network(network)),
    }
}

/// The remote gateway router that a row names by its keys.
fn remote_of(network: &str, ids: &Map<Str, Str>) -> Option<ObjectId> {
    let name: NetworkName = network.parse().ok()?;
    let node = ids.get(NODE)?;
    Some(ObjectId::new("remote-gateway", format!("{TO_GATEWAY}GR_{}{node}", name.row_prefix())))
}
