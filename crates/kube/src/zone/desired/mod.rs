//! The rows of one layer-2 network in one zone. Pure.
//!
//! | file | rows |
//! |---|---|
//! | `switch` | the layer-2 switch, its ports to router, management port and pods |
//! | `transit` | the transit router, its port to the switch, its ports to all gateway routers |
//! | `gateway` | the node's gateway router, the external switch |
//! | `old` | the ports between switch and gateway routers of the old topology |
//! | `scaffold` | the port through which nodes of the old topology reach a node of the new one |
//! | `egress` | the ways out of pods with an EgressIP |
//! | `routes`, `policies`, `nat` | what both routers do with packets |
//! | `identity` | the objects of rows: what is refused, kept or reported as one |
//! | `chassis` | the Southbound rows of remote nodes, which remote ports need |
//!
//! All UUIDs follow from the network and the row's role, so that a lost Northbound is rebuilt with the same ones.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod chassis;
mod egress;
mod gateway;
pub mod identity;
mod nat;
mod old;
mod policies;
mod routes;
mod scaffold;
mod switch;
mod transit;

use std::fmt::{self, Display};
use std::net::IpAddr;

use ipnet::IpNet;
use ovn::ident::{marked_uuid, row_uuid};
use ovn::target::{Part, Writable};
use ovn::text::{HostAddr, Text};
use ovsdb::{Map, Ref, Set, Str, Table, Uuid};
use reconcile::{Class, ObjectId, Outcome, Problem};

use super::{RowNames, Topology, ZoneNetwork, ZoneNode, ZoneSnapshot};
use crate::address::{DualAddress, DualNet, PeerSubnet};

pub use chassis::{ChassisSeen, compile_chassis, name_chassis};
pub use identity::name_row;

/// The rows of a network in the zone of `snapshot.local`. Without a ready local node there are none, and existing rows stay.
pub fn compile(snapshot: &ZoneSnapshot, network: &ZoneNetwork, owner: &str) -> Outcome<Part> {
    let object = identity::of_network(network.network.name.as_str());
    let names = RowNames::new(&network.network.name, snapshot.profile);
    let local = snapshot.nodes.get(&snapshot.local);
    // The old topology has no peer subnets.
    let none = PeerSubnet(DualNet::default());
    let peers_of = |node: &ZoneNode| match snapshot.topology {
        Topology::New => node.peer_subnet(&network.network, snapshot),
        Topology::Old => Some(none),
    };
    let ready = local.and_then(|node| Some((node, peers_of(node)?)));
    let Some((local, peers)) = ready else {
        let mut out = Outcome::new(Part::new());
        let message = format!(
            "node {} has no node id, no chassis, no gateway or no peer subnets yet, so nothing changes here; see that the \
             manager and ovn-controller run",
            snapshot.local
        );
        out.undecided(Problem::error(object, Class::Transient, "node-not-ready", message));
        let pods =
            network.pods.iter().map(|pod| identity::pod_port(&pod.attachment, &pod.namespace, &pod.name));
        out.keep.extend(identity::of_parts(snapshot, &network.network.name, pods));
        return out;
    };
    let out = Outcome::new(Part::new());
    let mut draft = Draft { snapshot, network, local, peers, names, owner, object, out };
    draft.keep_unreadable();
    let mut router_ports = match snapshot.topology {
        Topology::New => transit::compile(&mut draft),
        Topology::Old => vec![old::switch_to_gateway(&mut draft)],
    };
    router_ports.extend(old::remote_gateways(&mut draft));
    switch::compile(&mut draft, router_ports);
    gateway::compile(&mut draft);
    draft.out
}

/// The rows of a network while they are put together.
struct Draft<'z> {
    snapshot: &'z ZoneSnapshot,
    network: &'z ZoneNetwork,
    local: &'z ZoneNode,
    peers: PeerSubnet,
    names: RowNames,
    owner: &'z str,
    object: ObjectId,
    out: Outcome<Part>,
}

impl<'z> Draft<'z> {
    /// The name of the zone's node.
    fn node(&self) -> &'z str {
        &self.snapshot.local
    }

    /// The other nodes of the cluster, in order of name.
    fn remote_nodes(&self) -> impl Iterator<Item = (&'z str, &'z ZoneNode)> + use<'z> {
        let (nodes, local) = (&self.snapshot.nodes, &self.snapshot.local);
        nodes.iter().filter(move |(name, _)| *name != local).map(|(name, node)| (name.as_str(), node))
    }

    /// Whether the zone's node is still on the old topology.
    fn is_old(&self) -> bool {
        self.snapshot.topology == Topology::Old
    }

    /// The router port with the addresses of the pods' gateway.
    fn gateway_port(&self) -> String {
        match self.snapshot.topology {
            Topology::Old => self.names.old_gateway_to_switch(),
            Topology::New => self.names.router_to_switch(),
        }
    }

    /// Whether the Southbound has a remote node's chassis. If it lacks it, the node's ports must wait: OVN would make local ones.
    fn is_reachable(&self, node: &ZoneNode) -> bool {
        self.snapshot.remote_chassis.contains(node.chassis.as_str())
    }

    /// The peer subnet of a remote node that has the transit router and is reachable.
    fn remote_peers(&self, node: &ZoneNode) -> Option<PeerSubnet> {
        let is_ready = node.is_new && self.is_reachable(node);
        node.peer_subnet(&self.network.network, self.snapshot).filter(|_| is_ready)
    }

    /// The addresses at which the pods' router reaches a remote node's gateway router. While one of both nodes is old, they meet on
    /// the switch.
    fn remote_hops(&self, node: &ZoneNode) -> Option<DualAddress> {
        if self.is_old() || node.is_old() {
            let is_ready = self.is_reachable(node) && node.old_key(&self.network.network).is_some();
            return is_ready.then(|| node.join(&self.network.network).addresses());
        }
        self.remote_peers(node).map(|peers| peers.gateway_side().addresses())
    }

    /// Keeps the rows of remote nodes whose annotations do not parse, and of the pods there.
    fn keep_unreadable(&mut self) {
        for name in self.snapshot.unreadable.iter().filter(|name| **name != self.snapshot.local) {
            self.out.keep.insert(identity::of_remote_gateway(&self.names, name));
        }
    }

    /// Wants a row, whose UUID follows from its role.
    fn own<T: Writable + fmt::Debug>(&mut self, role: &str, row: T) -> Ref<T> {
        self.own_for(self.object.clone(), role, row)
    }

    /// Wants a row of a part of the network that is refused, kept and reported on its own.
    fn own_for<T: Writable + fmt::Debug>(&mut self, object: ObjectId, role: &str, row: T) -> Ref<T> {
        let derived = || row_uuid("udn", self.network.network.name.as_str(), &format!("{} {role}", T::TABLE));
        let there = identity::lasting_name(&row).and_then(|name| self.snapshot.lasting.get(T::TABLE, name));
        let uuid = there.unwrap_or_else(derived);
        self.out.value.own(object, uuid, row);
        Ref::new(uuid)
    }

    /// Wants a row of a table without `external_ids`, which carries the owner's mark in its UUID.
    fn own_marked<T: Writable + fmt::Debug>(&mut self, object: ObjectId, role: &str, row: T) -> Uuid {
        let name = self.network.network.name.as_str();
        let uuid = marked_uuid(self.owner, "udn", name, &format!("{} {role}", T::TABLE));
        self.out.value.own(object, uuid, row);
        uuid
    }

    /// Reports something about the network as a whole. Its rows are wanted without it.
    fn report(&mut self, class: Class, code: &'static str, message: String) {
        let problem = Problem::error(self.object.clone(), class, code, message);
        self.out.problems.push(problem);
    }

    /// The keys by which rows of a network are found.
    fn external_ids(&self) -> Map<Str, Str> {
        map([(identity::NETWORK, self.network.network.name.as_str()), ("k8s.ovn.org/topology", "layer2")])
    }

    /// The same for a switch or a router.
    fn datapath_ids(&self) -> Map<Str, Str> {
        let mut ids = self.external_ids();
        ids.insert("k8s.ovn.org/role".into(), "primary".into());
        ids
    }

    /// The same for a row that stands for a remote node.
    fn remote_ids(&self, node: &str) -> Map<Str, Str> {
        let mut ids = self.external_ids();
        ids.insert(identity::NODE.into(), node.into());
        ids
    }

    fn mtu(&self) -> u32 {
        self.network.network.mtu.unwrap_or(self.snapshot.default_mtu)
    }

    /// `gateway_mtu`, unless the node's kernel cannot check packet lengths.
    fn gateway_mtu(&self) -> Option<(&'static str, Str)> {
        self.local.has_gateway_mtu.then(|| ("gateway_mtu", text(self.mtu())))
    }
}

fn map<K: Into<Str>, V: Into<Str>>(pairs: impl IntoIterator<Item = (K, V)>) -> Map<Str, Str> {
    pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect()
}

/// The string of anything that prints itself.
fn text(value: impl Display) -> Str {
    Str::from(value.to_string())
}

/// The addresses of a router port.
fn networks(nets: impl IntoIterator<Item = DualNet>) -> Set<Text<IpNet>> {
    nets.into_iter().flat_map(DualNet::nets).map(Text::from).collect()
}

/// An address with the full prefix length of its family: `100.65.0.2/32`.
fn host(address: IpAddr) -> IpNet {
    IpNet::from(address)
}

fn host_cell(net: IpNet) -> Text<HostAddr> {
    Text::from(HostAddr::from(net))
}

/// The references to rows of one kind.
fn refs<T: Table>(rows: Vec<Ref<T>>) -> Set<Ref<T>> {
    rows.into_iter().collect()
}

#[cfg(test)]
pub(crate) mod tests;
