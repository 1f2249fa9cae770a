//! The names of a network's rows.
//!
//! Names are local to a zone's Northbound and never reach the wire. Two dialects exist: the one of the design, and the one that
//! ovn-kubernetes has today, for clusters in which both programs write rows.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use serde::{Deserialize, Serialize};

use crate::network::NetworkName;

/// How rows are named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NameProfile {
    /// `ovn_cluster_router`, `rtos-` and `stor-`, as in the design.
    #[default]
    Seed,
    /// `transit_router`, `trtos-` and `stotr-`, as in ovn-kubernetes.
    Upstream,
}

/// The names of one network's rows.
#[derive(Clone, Debug)]
pub struct RowNames {
    prefix: String,
    switch: String,
    profile: NameProfile,
}

impl RowNames {
    /// The names of a network.
    pub fn new(network: &NetworkName, profile: NameProfile) -> RowNames {
        RowNames { prefix: network.row_prefix(), switch: network.switch_name(), profile }
    }

    /// The layer-2 switch.
    pub fn switch(&self) -> &str {
        &self.switch
    }

    /// The transit router.
    pub fn transit_router(&self) -> String {
        let name = match self.profile {
            NameProfile::Seed => "ovn_cluster_router",
            NameProfile::Upstream => "transit_router",
        };
        format!("{}{name}", self.prefix)
    }

    /// The switch's port to the transit router.
    pub fn switch_to_router(&self) -> String {
        let start = match self.profile {
            NameProfile::Seed => "stor-",
            NameProfile::Upstream => "stotr-",
        };
        format!("{start}{}", self.switch)
    }

    /// The transit router's port to the switch, which has the gateway's addresses.
    pub fn router_to_switch(&self) -> String {
        let start = match self.profile {
            NameProfile::Seed => "rtos-",
            NameProfile::Upstream => "trtos-",
        };
        format!("{start}{}", self.switch)
    }

    /// The switch's port to the gateway router, in the old topology.
    pub fn old_switch_to_gateway(&self) -> String {
        format!("stor-{}", self.switch)
    }

    /// The gateway router's port to the switch, in the old topology. It has the pods' gateway addresses.
    pub fn old_gateway_to_switch(&self) -> String {
        format!("rtos-{}", self.switch)
    }

    /// The switch's port that stands for the gateway router of another node, while one of both nodes has the old topology.
    pub fn remote_gateway_on_switch(&self, node: &str) -> String {
        format!("stor-{}_{node}", self.switch)
    }

    /// The transit router's second port to the switch, through which nodes of the old topology reach the gateway router.
    pub fn upgrade_router_to_switch(&self, node: &str) -> String {
        match self.profile {
            NameProfile::Seed => format!("rtos-{}", self.gateway_router(node)),
            NameProfile::Upstream => format!("trtos-{}-upgrade", self.switch),
        }
    }

    /// The switch's port to it.
    pub fn upgrade_switch_to_router(&self, node: &str) -> String {
        match self.profile {
            NameProfile::Seed => format!("stor-{}", self.gateway_router(node)),
            NameProfile::Upstream => format!("stotr-{}-upgrade", self.switch),
        }
    }

    /// A node's gateway router.
    pub fn gateway_router(&self, node: &str) -> String {
        format!("GR_{}{node}", self.prefix)
    }

    /// The transit router's port to a node's gateway router.
    pub fn transit_to_gateway(&self, node: &str) -> String {
        format!("trtor-{}", self.gateway_router(node))
    }

    /// A gateway router's port to the transit router.
    pub fn gateway_to_transit(&self, node: &str) -> String {
        format!("rtotr-{}", self.gateway_router(node))
    }

    /// A node's management port.
    pub fn management_port(&self, node: &str) -> String {
        format!("k8s-{}{node}", self.prefix)
    }

    /// The switch between a gateway router and the external bridge.
    pub fn external_switch(&self, node: &str) -> String {
        format!("ext_{}{node}", self.prefix)
    }

    /// The external switch's port to the external bridge.
    pub fn bridge_port(&self, bridge: &str, node: &str) -> String {
        format!("{bridge}_{}{node}", self.prefix)
    }

    /// The external switch's port to the gateway router.
    pub fn external_to_gateway(&self, node: &str) -> String {
        format!("etor-{}", self.gateway_router(node))
    }

    /// The gateway router's port to the external switch.
    pub fn gateway_to_external(&self, node: &str) -> String {
        format!("rtoe-{}", self.gateway_router(node))
    }
}
