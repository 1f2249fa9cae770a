//! What can be wanted and seen of the bridges' flows, and what marks them ours.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use ovn::MacAddr;
use serde::Serialize;

use crate::kernel::{Dev, Family};

/// The cookie that marks a flow ours, the one ovn-bgp-agent uses.
pub const COOKIE: u64 = 999;
/// The priority of our flows.
pub const PRIORITY: u16 = 900;

/// The flows wanted on one bridge: for each patch port two, one a family, that give packets the bridge's own Ethernet
/// address and let the bridge deliver them, to itself.
///
/// While the switch does not tell all that flows are made from, those that are there stay, and what needs the others waits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bridge {
    /// The bridge's own Ethernet address, once it was told.
    pub mac: Option<MacAddr>,
    /// Patch ports to the overlay by OpenFlow number, each with the device on which the kernel meets that network: the
    /// bridge itself, or the VLAN device.
    pub ports: BTreeMap<u32, Dev>,
    /// The devices of patch ports whose number was not told yet.
    pub unnumbered: BTreeSet<Dev>,
    /// Whether the flow that switches packets as usual is made again where it is missing. It is not where somebody else writes the
    /// bridge's flows: then it may be missing on purpose.
    pub restore_normal: bool,
}

impl Bridge {
    /// The flows of one port.
    pub fn flows_of(&self, in_port: u32) -> impl Iterator<Item = Flow> + use<> {
        let flows = move |mac| Family::BOTH.map(|family| Flow { in_port, family, mac });
        self.mac.into_iter().flat_map(flows)
    }

    /// The flows by which packets of a network come back; nothing while it is not known which they are.
    pub fn flows_to(&self, dev: &Dev) -> Option<Vec<Flow>> {
        let mut ports = self.ports.iter().filter(|(_, of)| *of == dev).map(|(port, _)| *port).peekable();
        let untold = self.unnumbered.contains(dev) || self.mac.is_none() && ports.peek().is_some();
        (!untold).then(|| ports.flat_map(|port| self.flows_of(port)).collect())
    }

    /// Whether all is told that flows are made from.
    pub fn is_told(&self) -> bool {
        self.mac.is_some() && self.unnumbered.is_empty()
    }
}

/// The flows wanted, bridge by bridge. On a bridge that is named without ports, stale flows of ours are removed.
pub type Desired = BTreeMap<Dev, Bridge>;

/// A flow that we make: packets of a family from a port get an Ethernet address and are switched as usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Flow {
    /// The port they come from.
    pub in_port: u32,
    /// IPv4 or IPv6.
    pub family: Family,
    /// The address they get.
    pub mac: MacAddr,
}

/// A flow with our cookie.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SeenFlow {
    /// What it does; nothing where it is not as we make them.
    pub flow: Option<Flow>,
    /// The flow table it is in.
    pub table: u8,
    /// Its priority.
    pub priority: u16,
    /// What it matches, in the switch's encoding, by which exactly this one is deleted. Empty in models.
    #[serde(skip)]
    pub matched: Matched,
}

impl SeenFlow {
    /// A flow as we make it.
    pub fn plain(flow: Flow) -> Self {
        SeenFlow { flow: Some(flow), table: 0, priority: PRIORITY, matched: Matched::default() }
    }
}

/// A flow's match on the wire.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Matched(pub Arc<[u8]>);

impl fmt::Debug for Matched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// The flows of a bridge that matter: those with our cookie, and whether packets are switched as usual otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BridgeFlows {
    /// The flows with our cookie.
    pub ours: BTreeSet<SeenFlow>,
    /// The bridge's own way of forwarding.
    pub normal: NormalFlow,
}

impl From<BTreeSet<SeenFlow>> for BridgeFlows {
    fn from(ours: BTreeSet<SeenFlow>) -> Self {
        BridgeFlows { ours, normal: NormalFlow::There }
    }
}

impl Deref for BridgeFlows {
    type Target = BTreeSet<SeenFlow>;

    fn deref(&self) -> &BTreeSet<SeenFlow> {
        &self.ours
    }
}

impl DerefMut for BridgeFlows {
    fn deref_mut(&mut self) -> &mut BTreeSet<SeenFlow> {
        &mut self.ours
    }
}

/// The flow `actions=NORMAL` that matches every packet. Without it a bridge drops what our flows do not match: ARP, and all that the
/// kernel sends into the overlay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NormalFlow {
    /// It is there.
    #[default]
    There,
    /// It is not there, and nor is any other flow but ours.
    Missing,
    /// It is not there, and others have flows on the bridge.
    Replaced,
}

/// What is seen of a bridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// Its flows.
    Flows(BridgeFlows),
    /// Open vSwitch did not answer, and why.
    Silent(String),
}

/// What is seen, bridge by bridge. Bridges that were not asked are not in it.
pub type Observed = BTreeMap<Dev, Seen>;

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Make a flow, or correct the one with the same match.
    Add {
        /// The bridge.
        bridge: Dev,
        /// The flow.
        flow: Flow,
    },
    /// Make the flow that switches packets as usual.
    AddNormal {
        /// The bridge.
        bridge: Dev,
    },
    /// Delete a flow.
    Delete {
        /// The bridge.
        bridge: Dev,
        /// The flow.
        seen: SeenFlow,
    },
}

impl Op {
    /// The bridge it is about.
    pub fn bridge(&self) -> &Dev {
        match self {
            Op::Add { bridge, .. } | Op::AddNormal { bridge } | Op::Delete { bridge, .. } => bridge,
        }
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = match self.family {
            Family::V4 => "ip",
            Family::V6 => "ipv6",
        };
        write!(f, "{family},in_port={} actions=mod_dl_dst:{},NORMAL", self.in_port, self.mac)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Add { bridge, flow } => write!(f, "add flow {flow} to {bridge}"),
            Op::AddNormal { bridge } => write!(f, "add flow priority=0 actions=NORMAL to {bridge}"),
            Op::Delete { bridge, seen: SeenFlow { flow: Some(flow), .. } } => {
                write!(f, "delete flow {flow} from {bridge}")
            }
            Op::Delete { bridge, seen } => {
                write!(f, "delete a flow of priority {} from {bridge}", seen.priority)
            }
        }
    }
}
