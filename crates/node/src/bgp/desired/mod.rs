//! The decision: the addresses that must be reachable through this node, each with its reasons.
//!
//! [`decide`] is one pure function from a [`Snapshot`] to a [`Decision`]. Its rules have the numbers by which the
//! documentation and `meridian explain` name them:
//!
//! | rule | exposes | file |
//! |---|---|---|
//! | D1 | ports of provider networks that are bound here | `provider_ports.rs` |
//! | D2 | gateway ports of routers that are bound here | `gateways.rs` |
//! | D3 | addresses that routers translate, where the port that they stand for is bound here | `nat.rs` |
//! | D4 | subnets behind the routers of D2 | `subnets.rs` |
//! | D5 | ports in the subnets of D4, wherever they are bound | `tenant_ports.rs` |
//! | D6 | load balancers on provider networks, behind the gateways of D2 | `load_balancers.rs` |
//! | D7 | an address stays while any rule wants it | `draft.rs` |
//! | D8 | what its owner opted out is left out of D1, D3, D4 and D5 | each of them |
//! | D9 | of two that cannot be had together the older is kept, and the conflict reported | `conflicts.rs` |
//!
//! `networks.rs` finds the networks and their devices; `wire.rs` derives the desired state of kernel, switch and FRR from a
//! decision. [`IncrementalDecision`] is a decision that the next one is made from, where little has changed.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod address;
mod conflicts;
mod decided;
mod draft;
mod gateways;
mod inherited;
mod load_balancers;
mod malformed;
mod nat;
mod networks;
mod provider_ports;
mod reason;
mod router_ports;
mod subnets;
mod tenant_ports;
mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

use imbl::{OrdMap, OrdSet};
use ipnet::IpNet;
use ovn::MacAddr;
use ovsdb::{Str, Uuid};
use reconcile::{Class, ObjectId, Outcome, Problem};

use super::snapshot::Snapshot;
use crate::ProblemCode;
use crate::connections::OvnDatabase;
use crate::kernel::Dev;
use draft::Draft;
use networks::Networks;

pub use address::{is_gua, is_of_its_link};
pub use decided::IncrementalDecision;
pub use inherited::Inherited;
pub use networks::{Network, device_name};
pub use reason::{NamedRow, Reason};
pub use router_ports::RouterPort;
pub use wire::{rewire, wire};

/// The addresses that must be reachable through this node, each with its reasons. A copy costs little, and the cost of comparing two
/// decisions depends on their differences only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The provider bridges that are there, in the order of their numbers.
    pub bridges: BTreeMap<Dev, ProviderBridge>,
    /// The provider networks, by the device that the kernel meets them on.
    pub networks: OrdMap<Dev, Network>,
    /// The addresses.
    pub addresses: OrdMap<IpAddr, Address>,
    /// The subnets behind routers.
    pub subnets: OrdMap<IpNet, Subnet>,
    /// The parsed ports of routers behind the gateways bound here, and these gateways themselves.
    pub router_ports: OrdMap<Str, RouterPort>,
    /// Addresses that the kernel answers for on a device.
    pub proxies: OrdSet<(Dev, Ipv6Addr)>,
    /// Whether the gateway of some router is bound here: then load balancers matter.
    pub has_gateway: bool,
    /// Switches whose ports matter wherever they are bound: those behind the routers of gateways that are bound here.
    pub tenant_switches: OrdSet<Uuid>,
    /// The reason why the agent announces nothing although rules and routes exist, if so.
    pub silence: Option<Silence>,
    /// The announcements from before the first decision.
    pub inherited: Inherited,
}

/// The reason why the agent announces nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// OVN does not know this node any more.
    ChassisGone,
    /// The agent is about to end.
    Stopping,
}

/// A provider bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderBridge {
    /// Its place among the bridge mappings, from 1.
    pub index: usize,
    /// Its own Ethernet address, once the switch has told one.
    pub mac: Option<MacAddr>,
    /// Whether somebody else writes its flows: it has a controller, or is to forward nothing without one.
    pub controlled: bool,
    /// Its patch ports, by their rows in `Interface`.
    pub patch_ports: BTreeMap<Uuid, PatchPort>,
}

/// A patch port that leads from a provider bridge into the overlay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchPort {
    /// Its OpenFlow number, once the switch has told one.
    pub number: Option<u32>,
    /// The device on which the kernel meets its network.
    pub dev: Dev,
}

/// An exposed address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The rule and route that carry its packets.
    pub place: Place,
    /// The Ethernet address that has it, where the network does not tell.
    pub neighbour: Option<MacAddr>,
    /// The reasons for exposing it.
    pub reasons: Vec<Reason>,
}

impl Address {
    /// Whether it has a rule and a route of its own.
    pub fn is_wired(&self) -> bool {
        matches!(self.place, Place::Wired { .. })
    }
}

/// The rule and route that carry the packets to an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A rule and a route of its own.
    Wired {
        /// The bridge whose table it is in.
        bridge: Dev,
        /// The device it is met on.
        dev: Dev,
    },
    /// Those of the subnet that it is in.
    Subnet(IpNet),
}

/// An exposed subnet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// The bridge whose table it is in.
    pub bridge: Dev,
    /// The device the gateway is met on.
    pub dev: Dev,
    /// The router's address on the provider network.
    pub via: IpAddr,
    /// The router's port in the subnet.
    pub port: NamedRow,
    /// The gateway port.
    pub gateway: NamedRow,
}

/// Decides. Nothing that is wrong with one row keeps others from being decided.
pub fn decide(snapshot: &Snapshot) -> Outcome<Decision> {
    match snapshot.me() {
        Some(me) => with_chassis(snapshot, me).0,
        None => without_chassis(snapshot),
    }
}

/// Decides, and tells which networks there are.
fn with_chassis(snapshot: &Snapshot, me: Uuid) -> (Outcome<Decision>, Networks) {
    let mut draft = Draft::new(snapshot);
    let networks = networks::find(&mut draft);
    let gateways = gateways::expose(&mut draft, &networks, me);
    provider_ports::expose(&mut draft, &networks, me);
    nat::expose(&mut draft, &networks, me);
    let switches = subnets::expose(&mut draft, &networks, &gateways);
    tenant_ports::expose(&mut draft, &switches);
    load_balancers::expose(&mut draft, &gateways);
    if snapshot.rebinding {
        draft.carry_networks();
        draft.carry_all();
    }
    (draft.finish(silence(snapshot, false)), networks)
}

/// The rows that matter because of gateways bound here, beyond the rows bound here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Switches behind them.
    pub switches: BTreeSet<Uuid>,
    /// Whether there are any.
    pub has_gateway: bool,
}

/// Finds out what must be known before all can be decided. `None` while OVN does not know us, and so nothing is bound here.
pub fn reach(snapshot: &Snapshot) -> Option<Reach> {
    let me = snapshot.me()?;
    let mut draft = Draft::new(snapshot);
    let networks = networks::find(&mut draft);
    let gateways = gateways::expose(&mut draft, &networks, me);
    subnets::expose(&mut draft, &networks, &gateways);
    let Decision { tenant_switches: switches, has_gateway, .. } = draft.decision;
    Some(Reach { switches: switches.into_iter().collect(), has_gateway })
}

/// OVN does not know us: what was exposed stays as it is, and after a while it is not announced any more.
fn without_chassis(snapshot: &Snapshot) -> Outcome<Decision> {
    let mut draft = Draft::new(snapshot);
    networks::find(&mut draft);
    draft.carry_networks();
    draft.carry_all();
    let gone = snapshot.chassis_missing >= snapshot.config.chassis_grace;
    let name = snapshot.system_id().map_or("", |name| name.as_str());
    let missing = match snapshot.config.source {
        OvnDatabase::Southbound => format!("Chassis row {name:?}; check that ovn-controller is running here"),
        OvnDatabase::Northbound => {
            "NB_Global row; check that it is the right database, and that ovn-northd uses it".into()
        }
    };
    let what = format!(
        "OVN's {} database has no {missing}. Exposed addresses stay{}",
        snapshot.config.source,
        if gone { " wired, but are no longer announced" } else { " for now" }
    );
    draft.report(Problem::error(
        ObjectId::new("chassis", name),
        Class::Transient,
        ProblemCode::NoChassis,
        what,
    ));
    draft.finish(silence(snapshot, gone))
}

fn silence(snapshot: &Snapshot, gone: bool) -> Option<Silence> {
    if snapshot.silent {
        return Some(Silence::Stopping);
    }
    gone.then_some(Silence::ChassisGone)
}

#[cfg(test)]
pub(super) mod tests;
