//! The health of members, from the results of OVN's probes.
//!
//! Views compute it from the world, `desired` from facts. Both use this module, so they always agree.

use std::net::IpAddr;

use uuid::Uuid;

use super::monitor_port;
use crate::model::{LbProtocol, Member, Port};
use crate::report::{ProbeResult, ProbedBackend, Report};
use crate::world::World;

/// The state of a member, as its health monitor observes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberHealth {
    /// Its pool has no enabled health monitor.
    Unmonitored,
    /// OVN cannot probe it, and so sends it no connections.
    Unprobeable(ProbeObstacle),
    /// There is no result yet.
    Unknown,
    /// The member answers.
    Online,
    /// The member does not answer.
    Offline,
}

impl MemberHealth {
    /// Whether OVN sends it no connections.
    pub fn is_failed(self) -> bool {
        matches!(self, MemberHealth::Unprobeable(_) | MemberHealth::Offline)
    }
}

/// The reason why OVN cannot probe a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeObstacle {
    /// No port has its address.
    NoPort,
    /// Its port is disabled.
    PortDisabled,
    /// Its subnet has no port that the probes could come from.
    NoSource,
}

impl ProbeObstacle {
    /// The reason, and the remedy.
    pub fn as_str(self) -> &'static str {
        match self {
            ProbeObstacle::NoPort => {
                "no port of its subnet has its address, so that OVN cannot probe it. Create the port, or remove the member or the \
                 health monitor"
            }
            ProbeObstacle::PortDisabled => "its port is disabled. Enable the port",
            ProbeObstacle::NoSource => {
                "its subnet has no port that probes could come from. Delete the health monitor and create it again"
            }
        }
    }
}

/// The path of the probes to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbePath {
    /// The member's port.
    pub port_id: Uuid,
    /// The source address of the probes.
    pub source: IpAddr,
}

/// The ports and results that determine health.
pub trait ProbeFacts {
    /// The port that has an address of a subnet.
    fn holder(&self, subnet: Uuid, address: IpAddr) -> Option<&Port>;
    /// The source address of probes in a subnet.
    fn source(&self, subnet: Uuid) -> Option<IpAddr>;
    /// The result of probing the backend of a member.
    fn result(&self, member: Uuid, backend: &ProbedBackend) -> Option<ProbeResult>;
}

impl ProbeFacts for (&World, &Report) {
    fn holder(&self, subnet: Uuid, address: IpAddr) -> Option<&Port> {
        let port = self.0.address_holder(subnet, address)?;
        self.0.get::<Port>(&port).map(|port| &**port)
    }

    fn source(&self, subnet: Uuid) -> Option<IpAddr> {
        monitor_port::of(self.0, subnet).map(|(_, address)| address)
    }

    fn result(&self, member: Uuid, backend: &ProbedBackend) -> Option<ProbeResult> {
        self.1.probe_result(member, backend)
    }
}

/// The path of the probes to a member, or the reason why there is none.
pub fn path(facts: &impl ProbeFacts, member: &Member) -> Result<ProbePath, ProbeObstacle> {
    let address = member.address.value;
    let port = facts.holder(member.subnet(), address).ok_or(ProbeObstacle::NoPort)?;
    if !port.admin_state_up {
        return Err(ProbeObstacle::PortDisabled);
    }
    let source = facts.source(member.subnet()).filter(|source| source.is_ipv4() == address.is_ipv4());
    Ok(ProbePath { port_id: port.id, source: source.ok_or(ProbeObstacle::NoSource)? })
}

/// The health of a member of a pool with an enabled health monitor.
pub fn of_monitored(facts: &impl ProbeFacts, member: &Member, protocol: LbProtocol) -> MemberHealth {
    let path = match path(facts, member) {
        Ok(path) => path,
        Err(obstacle) => return MemberHealth::Unprobeable(obstacle),
    };
    let (address, protocol_port) = (member.address.value, member.protocol_port);
    let backend = ProbedBackend { port_id: path.port_id, address, protocol_port, protocol };
    match facts.result(member.id, &backend) {
        None | Some(ProbeResult::Unknown) => MemberHealth::Unknown,
        Some(ProbeResult::Online) => MemberHealth::Online,
        Some(ProbeResult::Offline) => MemberHealth::Offline,
    }
}
