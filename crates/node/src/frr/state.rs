//! What can be wanted and seen of FRR: the leak of what is connected in the exposure VRF into the default instance.
//!
//! Ours are these lines, and no others: `import vrf VRF` in both families of the default instance; the router id and plain
//! `redistribute` lines in the VRF's. Peers, filters and everything else are the operator's.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use serde::Serialize;
use smol_str::SmolStr;

use super::adrift::Adrift;
use super::config::Node;

/// The two stanzas. Lines of the operator in them, and everything else, stay as they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Desired {
    /// The autonomous system of both instances (`bgp_AS`), as the operator wrote it: a number or dotted.
    pub asn: SmolStr,
    /// The exposure VRF (`bgp_vrf`).
    pub vrf: SmolStr,
    /// The router id of the VRF's instance; without one it is the default instance's.
    pub router_id: Option<Ipv4Addr>,
    /// What the VRF's instance redistributes, in both families.
    pub redistribute: BTreeSet<Redistribute>,
}

/// A source of routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Redistribute {
    /// Addresses on devices.
    Connected,
    /// Routes in the VRF's table (`advertisement_method_tenant_networks=subnet`).
    Kernel,
}

impl Redistribute {
    /// Both.
    pub const ALL: [Redistribute; 2] = [Redistribute::Connected, Redistribute::Kernel];

    /// The word in FRR's configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Redistribute::Connected => "connected",
            Redistribute::Kernel => "kernel",
        }
    }
}

/// What is seen of bgpd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observed {
    /// Its running configuration.
    Config {
        /// The stanzas.
        tree: Vec<Node>,
        /// The router id of the default instance, where it has one.
        router_id: Option<Ipv4Addr>,
        /// Instances that are not tied to their VRF, though it is there.
        adrift: BTreeMap<SmolStr, Adrift>,
    },
    /// It does not answer, and why.
    Silent(String),
}

impl Observed {
    /// The BGP neighbours of all instances, as far as the configuration names their addresses.
    pub fn neighbours(&self) -> BTreeSet<IpAddr> {
        let Observed::Config { tree, .. } = self else { return BTreeSet::new() };
        let instances = tree.iter().filter(|node| node.line.starts_with("router bgp"));
        let lines = instances.flat_map(|node| &node.children).map(|node| node.line.as_str());
        lines.filter_map(|line| line.strip_prefix("neighbor ")?.split(' ').next()?.parse().ok()).collect()
    }
}

/// Lines to be entered in configuration mode, one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Op {
    /// The lines.
    pub lines: Vec<String>,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.lines.iter().filter(|line| !line.starts_with("exit"));
        write!(f, "configure FRR: {}", shown.map(String::as_str).collect::<Vec<_>>().join("; "))
    }
}
