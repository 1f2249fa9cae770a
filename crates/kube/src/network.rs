//! One primary layer-2 network: its name, its subnets, the rules they keep, and the text of its attachment definitions.
//!
//! A network comes from a custom resource or from a definition that somebody wrote by hand. Both end in the same
//! [`Layer2Network`], and the same rules check both: an API server without CEL checks nothing, and none checks a definition.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod config;
mod input;
mod layer2;
mod name;
mod transit;

pub use config::{ConfigError, parse_config, render_config};
pub use input::{FieldProblem, Layer2Input, describe_problems};
pub use layer2::Layer2Network;
pub use name::{AttachmentKey, NameError, NetworkName};
pub use transit::{TransitError, choose_transit};

use crate::address::{DualNet, PeerScheme};

/// The addresses that a cluster uses outside of its layer-2 networks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNetwork {
    /// The subnets of the default network's pods.
    pub pod_subnets: Vec<ipnet::IpNet>,
    /// The subnets of services.
    pub service_subnets: Vec<ipnet::IpNet>,
    /// The join subnets of the default network.
    pub default_join: DualNet,
    /// The masquerade subnets of all nodes.
    pub masquerade: DualNet,
    /// The transit subnets of networks that overlap with none of them.
    pub transit: DualNet,
    /// The join subnets of networks that name none.
    pub join: DualNet,
    /// The scheme of peer subnets.
    pub peers: PeerScheme,
}

impl Default for ClusterNetwork {
    fn default() -> Self {
        let dual = |ipv4: [u8; 4], len4, ipv6: u16, len6| {
            let ipv6 = std::net::Ipv6Addr::new(ipv6, 0, 0, 0, 0, 0, 0, 0);
            DualNet {
                ipv4: ipnet::Ipv4Net::new(ipv4.into(), len4).ok(),
                ipv6: ipnet::Ipv6Net::new(ipv6, len6).ok(),
            }
        };
        ClusterNetwork {
            pod_subnets: Vec::new(),
            service_subnets: Vec::new(),
            default_join: dual([100, 64, 0, 0], 16, 0xfd98, 64),
            masquerade: dual([169, 254, 0, 0], 17, 0xfd69, 112),
            transit: dual([100, 88, 0, 0], 16, 0xfd97, 64),
            join: dual([100, 65, 0, 0], 16, 0xfd99, 64),
            peers: PeerScheme::Seed,
        }
    }
}

#[cfg(test)]
mod tests;
