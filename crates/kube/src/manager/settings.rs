//! The settings of the manager.

use crate::network::ClusterNetwork;

/// Where a node's peer subnet comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PeerSource {
    /// It follows from the node's id.
    #[default]
    Derived,
    /// The manager allocates it.
    Allocated,
}

/// The program that gives EgressIPs their marks and nodes. Two of them would undo each other's work for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EgressAssigner {
    /// Another one, such as the cluster manager of ovn-kubernetes.
    #[default]
    Other,
    /// The manager.
    Manager,
}

/// The settings of the manager.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManagerSettings {
    /// The cluster's addresses. The families of its transit subnets are those of the cluster.
    pub cluster: ClusterNetwork,
    /// Where peer subnets come from.
    pub peers: PeerSource,
    /// The program that gives EgressIPs their nodes.
    pub egress: EgressAssigner,
}
