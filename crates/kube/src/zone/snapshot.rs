//! The inputs of a zone at one instant.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::NameProfile;
use super::migration::PodTraffic;
use crate::address::{DualNet, PeerSubnet, join_addresses};
use crate::annotation::{ChassisId, GatewayPortKeys, L3GatewayConfig, PodNetwork, TunnelKeys};
use crate::eip::PodEgress;
use crate::ident::{NetworkId, NodeId};
use crate::network::{AttachmentKey, ClusterNetwork, Layer2Network};
use crate::upgrade::LastingRows;

/// Everything that the rows of a zone follow from.
#[derive(Clone, Debug, PartialEq)]
pub struct ZoneSnapshot {
    /// The node whose zone it is.
    pub local: String,
    /// The topology of the node's own networks. The annotations of the other nodes say theirs.
    pub topology: Topology,
    /// The addresses of the cluster.
    pub cluster: ClusterNetwork,
    /// The MTU of networks without one of their own.
    pub default_mtu: u32,
    /// How rows are named.
    pub profile: NameProfile,
    /// The nodes that have a node id and a chassis, by name. All others get no rows.
    pub nodes: BTreeMap<String, ZoneNode>,
    /// Services of the default network that pods of all networks may use: `kube-system/kube-dns` with its addresses.
    pub shared_services: BTreeMap<String, Vec<IpAddr>>,
    /// Names of the remote chassis in the Southbound. A remote port without its chassis would become a local one.
    pub remote_chassis: BTreeSet<String>,
    /// Rows that keep their UUIDs: another program wrote them, or the node was on the old topology.
    pub lasting: LastingRows,
    /// Nodes whose annotations do not parse. Their rows stay as they are.
    pub unreadable: BTreeSet<String>,
}

/// A node that is ready for rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneNode {
    /// The number.
    pub id: NodeId,
    /// The chassis.
    pub chassis: ChassisId,
    /// The addresses of its tunnels.
    pub encaps: BTreeSet<IpAddr>,
    /// Whether the node says that it has the transit router. The node of the zone itself always gets one.
    pub is_new: bool,
    /// The subnets between the node's gateway router and transit routers, where the node's annotation has them.
    pub peers: Option<DualNet>,
    /// The gateway; none if the node has switched it off.
    pub gateway: Option<L3GatewayConfig>,
    /// The node's own addresses.
    pub addresses: DualNet,
    /// Whether router ports may have `gateway_mtu`.
    pub has_gateway_mtu: bool,
    /// The keys of its gateway routers' ports on the switches of the old topology. Nodes on the new topology need theirs while
    /// another node is on the old one.
    pub old_keys: GatewayPortKeys,
}

/// The routers of a node's layer-2 networks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topology {
    /// The gateway router is connected to the switch, as in ovn-kubernetes before it had transit routers.
    Old,
    /// The transit router is connected to the switch, and to all gateway routers.
    #[default]
    New,
}

/// A network with its allocated numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct ZoneNetwork {
    /// Its subnets and addresses.
    pub network: Layer2Network,
    /// Its number.
    pub id: NetworkId,
    /// The datapath keys of its switch and its transit router.
    pub keys: TunnelKeys,
    /// The pods on it that have addresses.
    pub pods: Vec<ZonePod>,
}

/// A pod on a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZonePod {
    /// The attachment definition that put it there.
    pub attachment: AttachmentKey,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The pod's UID.
    pub uid: String,
    /// The node that it runs on.
    pub node: String,
    /// Its addresses and its tunnel key.
    pub addresses: PodNetwork,
    /// Whether its port has the addresses; during a live migration one of two pods has them.
    pub traffic: PodTraffic,
    /// The EgressIP that it uses.
    pub egress: Option<PodEgress>,
}

impl ZoneNode {
    /// The subnets between this node's gateway router and the transit router of a network. A network whose transit subnet is not
    /// the cluster's derives its own.
    ///
    /// `None` without the annotation: another node may have the subnet that would be derived, if the manager allocates them.
    /// ovn-kubernetes writes no annotation and always derives.
    pub fn peer_subnet(&self, network: &Layer2Network, snapshot: &ZoneSnapshot) -> Option<PeerSubnet> {
        let cluster = &snapshot.cluster;
        let is_own = network.transit != cluster.transit.only_families_of(&network.transit);
        let derived = || cluster.peers.derive(network.transit, self.id);
        let subnets = match self.peers.filter(|_| !is_own) {
            Some(annotated) => annotated,
            None if is_own || snapshot.profile == NameProfile::Upstream => derived(),
            None => return None,
        };
        Some(PeerSubnet(subnets.only_families_of(&network.subnets)))
    }

    /// Whether the node is on the old topology: it has keys of it, and does not say that it has the transit router. A node without such
    /// keys never had a port of the old topology.
    pub fn is_old(&self) -> bool {
        !self.is_new && !self.old_keys.0.is_empty()
    }

    /// The key of this node's gateway router on the switch of a network, in the old topology.
    pub fn old_key(&self, network: &Layer2Network) -> Option<u16> {
        self.old_keys.0.get(network.name.as_str()).copied()
    }

    /// The join addresses of this node's gateway router.
    pub fn join(&self, network: &Layer2Network) -> DualNet {
        join_addresses(network.join, self.id).only_families_of(&network.subnets)
    }
}
