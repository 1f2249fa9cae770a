//! The desired and the observed state of FRR: the leak of connected routes of the exposure VRF into the default instance.
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
use super::behind::Behind;
use super::config::Node;
use crate::kernel::Family;

/// The two stanzas. Lines of the operator in them, and everything else, stay as they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Desired {
    /// The autonomous system of both instances (`bgp_AS`), as the operator wrote it: a number or dotted.
    pub asn: SmolStr,
    /// The exposure VRF (`bgp_vrf`).
    pub vrf: SmolStr,
    /// The router id of the VRF's instance; without one it is the default instance's.
    pub router_id: Option<Ipv4Addr>,
    /// The sources that the VRF's instance redistributes, in both families.
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

/// The address families that carry announcements, as the configuration names them; in the order of `Family::BOTH`.
pub(super) const FAMILIES: [&str; 2] = ["address-family ipv4 unicast", "address-family ipv6 unicast"];

/// The observed state of FRR.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observed {
    /// bgpd answers.
    Bgpd(BgpdState),
    /// bgpd does not answer, and why.
    Silent(String),
}

/// bgpd's configuration and routes, and zebra's connection to bgpd.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BgpdState {
    /// The stanzas of its running configuration.
    pub tree: Vec<Node>,
    /// The router id of the default instance, where it has one.
    pub router_id: Option<Ipv4Addr>,
    /// Instances that are not tied to their VRF, though it is there.
    pub adrift: BTreeMap<SmolStr, Adrift>,
    /// VRFs of which bgpd does not have what the kernel has.
    pub behind: BTreeMap<SmolStr, Behind>,
    /// Its neighbours in the default instance, and whether each has an established session.
    pub sessions: BTreeMap<String, bool>,
    /// Whether zebra serves it.
    pub zebra: Zebra,
    /// The families in which it has learned a default route, and the kernel has none.
    pub no_default: BTreeSet<Family>,
}

/// Whether bgpd has a zebra to learn addresses from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Zebra {
    /// It could not be asked.
    #[default]
    Unknown,
    /// It answers, and bgpd is its client.
    Connected,
    /// It answers, and bgpd is not its client.
    Apart,
    /// It does not answer, and why.
    Silent(String),
}

impl Observed {
    /// The same after all that was due was done.
    pub(super) fn without_cures(mut self) -> Self {
        if let Observed::Bgpd(state) = &mut self {
            state.adrift.values_mut().for_each(|adrift| *adrift = Adrift::Tried);
            state.behind.values_mut().for_each(|behind| behind.cure = None);
        }
        self
    }

    /// The BGP neighbours of all instances: those whose addresses the configuration names, and those that have a session
    /// because of `bgp listen range`. Such a range itself is not taken, because it is often as wide as a tenant's network.
    /// Nothing while bgpd is silent.
    pub fn neighbours(&self) -> Option<BTreeSet<IpAddr>> {
        let Observed::Bgpd(state) = self else { return None };
        let instances = state.tree.iter().filter(|node| node.line.starts_with("router bgp"));
        let lines = instances.flat_map(|node| &node.children).map(|node| node.line.as_str());
        let named = lines.filter_map(|line| line.strip_prefix("neighbor ")?.split(' ').next()?.parse().ok());
        // Sessions of unnumbered neighbours are listed by interface, which is no address.
        let connected = state.sessions.keys().filter_map(|neighbour| neighbour.parse().ok());
        Some(named.chain(connected).collect())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frr::config;

    #[test]
    fn neighbours_are_those_of_the_configuration_and_those_with_a_session() {
        let tree = config::parse(
            "router bgp 64999\n neighbor 10.10.0.254 remote-as external\n neighbor uplink interface remote-as external\n \
             bgp listen range 10.10.1.0/24 peer-group leaf\n!\nrouter bgp 64999 vrf red\n neighbor 2001:db8::1 remote-as 7\n!\n",
        );
        let sessions = [("10.10.1.9", false), ("eth0", true), ("10.10.0.254", true)];
        let sessions = sessions.map(|(neighbour, up)| (neighbour.to_owned(), up)).into();
        let observed = Observed::Bgpd(BgpdState { tree, sessions, ..Default::default() });
        let found: Vec<String> = observed.neighbours().unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(found, ["10.10.0.254", "10.10.1.9", "2001:db8::1"]);
        assert_eq!(Observed::Silent("gone".into()).neighbours(), None);
    }
}
