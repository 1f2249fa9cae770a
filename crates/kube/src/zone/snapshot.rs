//! The inputs of a zone at one instant.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::NameProfile;
use super::migration::PodTraffic;
use crate::address::{DualNet, PeerSubnet, join_addresses};
use crate::annotation::{
    ChassisId, GatewayPortKeys, L3GatewayConfig, PodNetwork, TopologyVersion, TunnelKeys,
};
use crate::ident::{NetworkId, NodeId};
use crate::network::{AttachmentKey, ClusterNetwork, Layer2Network};

/// Everything that the rows of a zone follow from.
#[derive(Clone, Debug)]
pub struct ZoneSnapshot {
    /// The node whose zone it is.
    pub local: String,
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
}

/// A node that is ready for rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneNode {
    /// The number.
    pub id: NodeId,
    /// The chassis.
    pub chassis: ChassisId,
    /// The subnets between the node's gateway router and transit routers, where the node's annotation has them.
    pub peers: Option<DualNet>,
    /// The gateway; none if the node has switched it off.
    pub gateway: Option<L3GatewayConfig>,
    /// The node's own addresses.
    pub addresses: DualNet,
    /// Whether router ports may have `gateway_mtu`.
    pub has_gateway_mtu: bool,
    /// The topology of its networks.
    pub topology: Topology,
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

impl Topology {
    /// The topology that a node's annotations tell. Keys of the old topology make a node an old one until it has the mark of the
    /// new one; a node without such keys never had a port of the old topology.
    pub fn of_annotations(version: Option<TopologyVersion>, old_keys: &GatewayPortKeys) -> Topology {
        match version {
            None if !old_keys.0.is_empty() => Topology::Old,
            _ => Topology::New,
        }
    }
}

/// A network with its allocated numbers.
#[derive(Clone, Debug)]
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
}

impl ZoneNode {
    /// The subnets between this node's gateway router and the transit router of a network. A network whose transit subnet is not
    /// the cluster's derives its own.
    pub fn peer_subnet(&self, network: &Layer2Network, cluster: &ClusterNetwork) -> PeerSubnet {
        let annotated =
            self.peers.filter(|_| network.transit == cluster.transit.only_families_of(&network.transit));
        let subnets = annotated.unwrap_or_else(|| cluster.peers.derive(network.transit, self.id));
        PeerSubnet(subnets.only_families_of(&network.subnets))
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
