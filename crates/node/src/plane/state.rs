//! The desired and the observed state of a node's data plane, and its operations.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::reserved::ReservedPrefixes;
use super::unclaimed::UnclaimedAnnouncements;
use super::vlans::VlanDevice;
use crate::flows::Flow;
use crate::kernel::paths::OurRules;
use crate::kernel::{Dev, Hop};
use crate::part::kind::Kind;
use crate::part::phase::Phase;
use crate::{flows, frr, kernel, ports};

/// The desired data plane.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Desired {
    /// Devices, addresses, rules, routes, neighbours.
    pub kernel: kernel::Desired,
    /// The program that creates the devices of VLANs ([`kernel::Link::Vlan`]).
    pub vlan_device: VlanDevice,
    /// Flows of the provider bridges.
    pub flows: flows::Desired,
    /// FRR's stanzas; without them FRR is left alone.
    pub frr: Option<frr::Desired>,
    /// Delay between the withdrawal of an address and the removal of its rule and route (`withdraw_drain_ms`).
    pub drain: Duration,
    /// Whether a plan that withdraws more than half of what is announced, and more than [`MASS`] addresses, is to wait: its
    /// withdrawals are left out and reported. A decider sets it for a while after its inputs came back
    /// (`mass_withdraw_hold`).
    pub guard: bool,
    /// Whether this is not all that should be, as not all is known yet: whatever else is there stays.
    pub partial: bool,
    /// Announcements that nobody is known to want, and that stay all the same.
    pub unclaimed: Option<UnclaimedAnnouncements>,
    /// Prefixes of which nothing may stay, whatever else does.
    pub reserved: Arc<ReservedPrefixes>,
}

/// The number of addresses that a plan may withdraw even after a reconnect.
pub const MASS: usize = 20;

/// The data plane as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// The kernel.
    pub kernel: Arc<kernel::Observed>,
    /// The ports of bridges.
    pub ports: Arc<ports::Observed>,
    /// The flows of bridges.
    pub flows: Arc<flows::Observed>,
    /// FRR.
    pub frr: Arc<frr::Observed>,
    /// Recently withdrawn addresses whose packets are still forwarded; a prefix is represented by its first address.
    pub draining: Arc<BTreeSet<IpAddr>>,
}

/// One change, with what must hold before it is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Op {
    /// The change.
    #[serde(flatten)]
    pub act: Act,
    /// Its precondition.
    #[serde(skip)]
    pub needs: Needs,
    /// Its phase.
    #[serde(skip)]
    pub phase: Phase,
    /// For how long what it withdraws is still carried.
    #[serde(skip)]
    pub drain: Duration,
}

impl Op {
    /// The kind of object that it changes; nothing for the name of a table, which is not counted.
    pub fn kind(&self) -> Option<Kind> {
        let announces = matches!(self.phase, Phase::Announce | Phase::AnnouncePrefix);
        Some(match &self.act {
            Act::Kernel(_) if announces || self.phase.withdraws() => Kind::Announcement,
            Act::Kernel(change) => match change {
                kernel::Op::NameTable { .. } => return None,
                kernel::Op::AddLink { .. }
                | kernel::Op::SetUp { .. }
                | kernel::Op::SetMaster { .. }
                | kernel::Op::DelLink { .. } => Kind::Link,
                kernel::Op::AddAddress(_) | kernel::Op::DelAddress(_) => Kind::Address,
                kernel::Op::SetSysctl(_) => Kind::Sysctl,
                kernel::Op::SetRoute { .. } | kernel::Op::DelRoute(_) => Kind::Route,
                kernel::Op::AddRule { .. } | kernel::Op::DelRule(_) => Kind::Rule,
                kernel::Op::SetNeighbour { .. } | kernel::Op::DelNeighbour { .. } => Kind::Neighbour,
                kernel::Op::AddProxy { .. } | kernel::Op::DelProxy { .. } => Kind::Proxy,
            },
            Act::Port(_) => Kind::Port,
            Act::Flow(_) => Kind::Flow,
            Act::Frr(_) => Kind::Stanza,
        })
    }

    /// The address that it withdraws; of a prefix the first.
    pub fn withdrawn(&self) -> Option<IpAddr> {
        match &self.act {
            Act::Kernel(op) if self.phase.withdraws() => announcement(op),
            _ => None,
        }
    }

    /// The address that it announces; of a prefix the first.
    pub fn announced(&self) -> Option<IpAddr> {
        match &self.act {
            Act::Kernel(op) if matches!(self.phase, Phase::Announce | Phase::AnnouncePrefix) => {
                announcement(op)
            }
            _ => None,
        }
    }
}

fn announcement(op: &kernel::Op) -> Option<IpAddr> {
    match op {
        kernel::Op::AddAddress(address) | kernel::Op::DelAddress(address) => Some(address.net.addr()),
        kernel::Op::SetRoute { dst, .. } => Some(dst.network()),
        kernel::Op::DelRoute(route) => Some(route.dst.network()),
        _ => None,
    }
}

/// A change of one of the parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// Of the kernel.
    Kernel(kernel::Op),
    /// Of a bridge's ports.
    Port(ports::Op),
    /// Of a bridge's flows.
    Flow(flows::Op),
    /// Of FRR.
    Frr(frr::Op),
}

/// The precondition of a change, checked when its turn comes: earlier changes may have failed or wait.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Needs {
    /// Nothing.
    #[default]
    Nothing,
    /// For a rule: the route to which it leads.
    Route(OurRules),
    /// For an announcement: a rule, the route that is wanted, and these flows.
    Way {
        /// Our rules.
        rules: OurRules,
        /// The required next hop of the route.
        hop: Option<Hop>,
        /// The flows, with their bridge.
        flows: Vec<(Dev, Flow)>,
    },
    /// For a removal: that no address which is still announced needs it.
    Idle {
        /// The device of announcements.
        announce: Dev,
        /// Our rules.
        rules: OurRules,
    },
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.act {
            Act::Kernel(op) => op.fmt(f),
            Act::Port(op) => op.fmt(f),
            Act::Flow(op) => op.fmt(f),
            Act::Frr(op) => op.fmt(f),
        }?;
        match self.drain.as_millis() {
            0 => Ok(()),
            milliseconds => write!(f, ", and carry it for {milliseconds} ms more"),
        }
    }
}
