//! OVN's reports: where ports are, whether they are up, which next hops answer, which agents are alive.
//!
//! A [`Report`] is a value like the [`World`](crate::World): a copy costs nothing and never changes under its holder. Changes of the
//! Northbound and Southbound replicas update it (`follow`); nothing reads the replicas on demand, so that views and `desired` need no
//! database. A report is not stored. [`Report::default`] is empty: every port is down and no chassis hosts a gateway, which is also the
//! truth before OVN answered.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod agent;
mod balancer;
mod follow;
mod plugging;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use smol_str::SmolStr;
use uuid::Uuid;

use crate::model::{Port, owner};

pub use agent::{Agent, AgentKind, Judgement, agents, fleet};
pub use balancer::{AppliedGeneration, ProbeResult, ProbedBackend, Refusal};
pub use follow::{northbound_model, southbound_model};
pub use plugging::Claim;

/// OVN's reports at one instant.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Ports whose switch port is up.
    pub(crate) up: OrdSet<Uuid>,
    /// Ports whose switch port is down. A port in neither set has no row, or one that northd has not seen yet.
    down: OrdSet<Uuid>,
    /// The chassis of bound VIFs.
    pub(crate) bound: OrdMap<Uuid, Place>,
    /// The chassis that have a VIF, and since when. There are two while its instance migrates.
    claims: OrdMap<(Uuid, SmolStr), Claim>,
    /// Networks whose metadata service is ready, by chassis.
    metadata: OrdMap<SmolStr, OrdSet<Uuid>>,
    /// The port that claimed a virtual port.
    pub(crate) parents: OrdMap<Uuid, Uuid>,
    /// The chassis that hosts a gateway port.
    pub(crate) gateways: OrdMap<Uuid, Place>,
    /// Floating IPs with a NAT row.
    pub(crate) nat: OrdSet<Uuid>,
    /// BFD sessions by router port and peer.
    pub(crate) bfd: OrdMap<(SmolStr, IpAddr), BfdState>,
    /// Rows of gateway default routes, and the BFD session of each.
    pub(crate) routes: OrdMap<Uuid, Option<Uuid>>,
    /// Present default routes, by gateway port and next hop.
    pub(crate) installed: OrdSet<(Uuid, IpAddr)>,
    /// Generations of load balancers, by load balancer and row.
    balancers: OrdMap<(Uuid, Uuid), u64>,
    /// Results of the probes of backends.
    pub(crate) probes: OrdMap<ProbedBackend, ProbeResult>,
    /// The last results of members by id, as the Northbound's rows have them. Empty once the Southbound was read.
    pub(crate) last_results: OrdMap<Uuid, ProbeResult>,
    /// Whether the Southbound was read since the start.
    pub(crate) has_southbound: bool,
    /// Load balancers whose rows the Northbound refuses.
    refusals: Arc<BTreeMap<Uuid, Refusal>>,
    /// Whether the Northbound was read since the start.
    has_northbound: bool,
    /// Generations of load balancers at the start of the server. Empty once the Northbound was read.
    at_start: OrdMap<Uuid, u64>,
    /// The one row of `NB_Global`, if it exists.
    pub(crate) nb_global: Option<Uuid>,
    /// Chassis by row, for rows that refer to them.
    places: OrdMap<Uuid, Place>,
    /// Bindings by chassis row, so that a renamed chassis keeps its ports.
    bindings: OrdMap<Uuid, follow::Binding>,
    agents: Arc<Vec<Agent>>,
}

/// The properties of a chassis that matter for ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Its `system-id`.
    pub chassis: SmolStr,
    /// Its host name.
    pub host: SmolStr,
}

/// The state of a BFD session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BfdState {
    /// No row refers to the session.
    AdminDown,
    /// No packets from the peer arrive.
    Down,
    /// Packets from the peer arrive, but it receives none of ours.
    Init,
    /// Both sides receive packets.
    Up,
}

impl BfdState {
    /// OVN's name of the state.
    pub fn as_str(self) -> &'static str {
        match self {
            BfdState::AdminDown => "admin_down",
            BfdState::Down => "down",
            BfdState::Init => "init",
            BfdState::Up => "up",
        }
    }
}

/// The `status` of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PortStatus {
    /// The port forwards.
    Active,
    /// The port does not forward.
    Down,
    /// The port only holds an address.
    NotApplicable,
}

impl PortStatus {
    /// The value in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            PortStatus::Active => "ACTIVE",
            PortStatus::Down => "DOWN",
            PortStatus::NotApplicable => "N/A",
        }
    }
}

impl Report {
    /// Whether OVN reports the port's switch port as up.
    pub fn port_up(&self, port: Uuid) -> bool {
        self.up.contains(&port)
    }

    /// The `status` of a port. A gateway is active if a chassis hosts it, whatever its switch port reports.
    pub fn port_status(&self, port: &Port) -> PortStatus {
        let active = match port.device_owner.as_str() {
            owner::FLOATING_IP => return PortStatus::NotApplicable,
            owner::ROUTER_GATEWAY => self.gateways.contains_key(&port.id),
            _ => self.port_up(port.id),
        };
        if active && port.admin_state_up { PortStatus::Active } else { PortStatus::Down }
    }

    /// The host name of the chassis that hosts a gateway port.
    pub fn gateway_host(&self, port: Uuid) -> Option<&str> {
        self.gateways.get(&port).map(|place| place.host.as_str())
    }

    /// The name of the chassis that hosts a gateway port.
    pub fn gateway_chassis(&self, port: Uuid) -> Option<&str> {
        self.gateways.get(&port).map(|place| place.chassis.as_str())
    }

    /// The host name of the chassis that a VIF is bound to.
    pub fn bound_host(&self, port: Uuid) -> Option<&str> {
        self.bound.get(&port).map(|place| place.host.as_str())
    }

    /// The port that has claimed a virtual port.
    pub fn virtual_parent(&self, port: Uuid) -> Option<Uuid> {
        self.parents.get(&port).copied()
    }

    /// The state of the BFD session from a router port (`lrp-<port>`) to a next hop.
    pub fn bfd(&self, router_port: &str, nexthop: IpAddr) -> Option<BfdState> {
        self.bfd.get(&(SmolStr::new(router_port), nexthop)).copied()
    }

    /// Whether the default route of a gateway port through a next hop is in the Northbound.
    pub fn route_installed(&self, gateway_port: Uuid, nexthop: IpAddr) -> bool {
        self.installed.contains(&(gateway_port, nexthop))
    }

    /// Whether a floating IP's NAT row is in the Northbound.
    pub fn fip_active(&self, floating_ip: Uuid) -> bool {
        self.nat.contains(&floating_ip)
    }

    /// All agents, sorted by id.
    pub fn agents(&self) -> &[Agent] {
        &self.agents
    }

    /// Whether two reports are equal. The cost grows with the number of differences only.
    pub fn is_same(&self, other: &Report) -> bool {
        fn alike<K: Ord + Clone, V: Clone + PartialEq>(a: &OrdMap<K, V>, b: &OrdMap<K, V>) -> bool {
            a.diff(b).next().is_none()
        }
        self.up.diff(&other.up).next().is_none()
            && self.nat.diff(&other.nat).next().is_none()
            && self.installed.diff(&other.installed).next().is_none()
            && self.down.diff(&other.down).next().is_none()
            && alike(&self.bound, &other.bound)
            && alike(&self.claims, &other.claims)
            && alike(&self.metadata, &other.metadata)
            && alike(&self.parents, &other.parents)
            && alike(&self.gateways, &other.gateways)
            && alike(&self.bfd, &other.bfd)
            && alike(&self.routes, &other.routes)
            && alike(&self.balancers, &other.balancers)
            && alike(&self.probes, &other.probes)
            && alike(&self.last_results, &other.last_results)
            && self.has_southbound == other.has_southbound
            && self.has_northbound == other.has_northbound
            && self.nb_global == other.nb_global
            && (Arc::ptr_eq(&self.agents, &other.agents) || self.agents == other.agents)
    }

    /// Records whether a port is up.
    pub fn set_up(&mut self, port: Uuid, up: bool) {
        match up {
            true => drop(self.up.insert(port)),
            false => drop(self.up.remove(&port)),
        }
    }

    /// Records the chassis that a VIF is bound to.
    pub fn set_bound(&mut self, port: Uuid, place: Option<Place>) {
        set(&mut self.bound, port, place);
    }

    /// Records the chassis that hosts a gateway port.
    pub fn set_gateway(&mut self, port: Uuid, place: Option<Place>) {
        set(&mut self.gateways, port, place);
    }

    /// Records the state of a BFD session.
    pub fn set_bfd(&mut self, router_port: impl Into<SmolStr>, nexthop: IpAddr, state: Option<BfdState>) {
        set(&mut self.bfd, (router_port.into(), nexthop), state);
    }

    /// Records whether a floating IP has its NAT row.
    pub fn set_nat(&mut self, floating_ip: Uuid, present: bool) {
        match present {
            true => drop(self.nat.insert(floating_ip)),
            false => drop(self.nat.remove(&floating_ip)),
        }
    }

    /// Records all agents.
    pub fn set_agents(&mut self, agents: Vec<Agent>) {
        if *self.agents != agents {
            self.agents = Arc::new(agents);
        }
    }
}

fn set<K: Ord + Clone, V: Clone>(map: &mut OrdMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => drop(map.insert(key, value)),
        None => drop(map.remove(&key)),
    }
}

#[cfg(test)]
mod tests;
