//! The inputs of a zone at one instant.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::NameProfile;
use crate::address::{DualNet, PeerSubnet, join_addresses};
use crate::annotation::{ChassisId, L3GatewayConfig, PodNetwork, TunnelKeys};
use crate::ident::{NetworkId, NodeId};
use crate::network::{AttachmentKey, ClusterNetwork, Layer2Network};

/// Everything that the rows of a zone follow from.
#[derive(Clone, Debug, PartialEq)]
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

    /// The join addresses of this node's gateway router.
    pub fn join(&self, network: &Layer2Network) -> DualNet {
        join_addresses(network.join, self.id).only_families_of(&network.subnets)
    }
}
