//! What can be wanted of FRR: the leak of what is connected in the exposure VRF into the default instance.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use serde::Serialize;
use smol_str::SmolStr;

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
    /// The word in FRR's configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Redistribute::Connected => "connected",
            Redistribute::Kernel => "kernel",
        }
    }
}
