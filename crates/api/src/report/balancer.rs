//! Load balancers as OVN reports them: which of their changes the Northbound has, and which members answer probes.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ovn::text::neutron;
use ovn::text::octavia;
use ovn::{nb, sb};
use ovsdb::replica::Delta;
use uuid::Uuid;

use super::{Report, set};
use crate::World;
use crate::model::{LbProtocol, LoadBalancer};

/// A backend that a chassis probes. All load balancers with this backend share the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProbedBackend {
    /// The port of the backend.
    pub port_id: Uuid,
    /// Its address.
    pub address: IpAddr,
    /// The port number that it listens on.
    pub protocol_port: u16,
    /// The protocol of the probes.
    pub protocol: LbProtocol,
}

/// The result of probing a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProbeResult {
    /// No probe has finished yet.
    Unknown,
    /// The backend answers.
    Online,
    /// The backend does not answer, or cannot be probed.
    Offline,
}

/// The refusal of a load balancer's rows by the Northbound. Only the server that writes receives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The refused generation.
    pub generation: u64,
    /// The reason, for people.
    pub reason: Arc<str>,
}

/// The generation of a load balancer that the Northbound has applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppliedGeneration {
    /// The server has not read the Northbound since its start.
    Unknown {
        /// The generation that the load balancer had when the server started; none if it is newer.
        at_start: Option<u64>,
    },
    /// The generation of its rows; none without rows.
    At(Option<u64>),
    /// The generation of its rows; the Northbound has refused a newer one.
    Refused(Option<u64>),
}

impl Report {
    /// The report of a server that starts with this world and has heard nothing of OVN.
    pub fn starting(world: &World) -> Self {
        let balancers = world.table::<LoadBalancer>().iter();
        let at_start = balancers.map(|balancer| (balancer.id, balancer.generation)).collect();
        Report { at_start, ..Report::default() }
    }

    /// The generation of a load balancer that the Northbound has applied.
    pub fn applied_generation(&self, load_balancer: Uuid) -> AppliedGeneration {
        match self.has_northbound {
            true => AppliedGeneration::At(self.balancer(load_balancer)),
            false => AppliedGeneration::Unknown { at_start: self.at_start.get(&load_balancer).copied() },
        }
    }

    /// The lowest generation among a load balancer's rows in the Northbound; none if it has no row.
    pub fn balancer(&self, load_balancer: Uuid) -> Option<u64> {
        let rows = self.balancers.range((load_balancer, Uuid::nil())..=(load_balancer, Uuid::max()));
        rows.map(|(_, generation)| *generation).min()
    }

    /// The last refusal of a load balancer's rows, if the Northbound refuses them.
    pub fn refusal(&self, load_balancer: Uuid) -> Option<&Refusal> {
        self.refusals.get(&load_balancer)
    }

    /// Records all refusals. Returns whether there is a difference.
    pub fn set_refusals(&mut self, refusals: BTreeMap<Uuid, Refusal>) -> bool {
        let differs = *self.refusals != refusals;
        if differs {
            self.refusals = Arc::new(refusals);
        }
        differs
    }

    /// Copies the refusals of another report, because they come from the writer's loop and not from a database.
    pub(crate) fn with_refusals_of(mut self, other: &Report) -> Self {
        self.refusals = Arc::clone(&other.refusals);
        self
    }

    /// Whether the server has read the Northbound since its start. Before that, a missing row means nothing.
    pub fn has_northbound(&self) -> bool {
        self.has_northbound
    }

    /// The result of probing the backend of a member; none if there is no probe.
    ///
    /// A server that starts without the Southbound uses the last results, which the member's row contains. Otherwise it would take backup
    /// members out of service while the members that they replace still fail.
    pub fn probe_result(&self, member: Uuid, backend: &ProbedBackend) -> Option<ProbeResult> {
        self.probes.get(backend).or_else(|| self.last_results.get(&member)).copied()
    }

    /// Records the generation of a load balancer's row, or that the row is gone.
    pub fn set_balancer(&mut self, load_balancer: Uuid, row: Uuid, generation: Option<u64>) {
        set(&mut self.balancers, (load_balancer, row), generation);
    }

    /// Records the result of probing a backend, or that there is no probe.
    pub fn set_probe(&mut self, backend: ProbedBackend, result: Option<ProbeResult>) {
        set(&mut self.probes, backend, result);
    }

    /// Records that the Northbound was read.
    pub fn set_northbound_read(&mut self) {
        self.has_northbound = true;
        self.at_start.clear();
    }

    /// Records the last result of a member, as its row has it.
    pub fn set_last_result(&mut self, member: Uuid, result: Option<ProbeResult>) {
        set(&mut self.last_results, member, result);
    }

    /// Records that the server has read the Southbound, and drops the last results.
    pub fn set_southbound_read(&mut self) {
        self.has_southbound = true;
        self.last_results.clear();
    }

    pub(super) fn balancers_changed(&mut self, delta: &Delta) {
        for change in delta.table::<nb::LoadBalancer>() {
            if let Some((balancer, _)) = change.before.as_ref().and_then(|row| generation(row)) {
                self.set_balancer(balancer, change.uuid, None);
            }
            if let Some((balancer, generation)) = change.after.as_ref().and_then(|row| generation(row)) {
                self.set_balancer(balancer, change.uuid, Some(generation));
            }
            if !self.has_southbound
                && let Some(row) = &change.after
            {
                last_results(row).into_iter().for_each(|(member, last)| self.set_last_result(member, last));
            }
        }
    }

    pub(super) fn probes_changed(&mut self, delta: &Delta) {
        // Removals come first: a rebuilt Southbound has another row for the same backend in the same delta.
        for change in delta.table::<sb::ServiceMonitor>() {
            if let Some(backend) = change.before.as_ref().and_then(|row| backend(row)) {
                self.set_probe(backend, None);
            }
        }
        for change in delta.table::<sb::ServiceMonitor>() {
            if let Some(row) = &change.after
                && let Some(backend) = backend(row)
            {
                self.set_probe(backend, Some(result(row)));
            }
        }
    }
}

/// The load balancer of a row, and its generation. A row without the key has generation 0.
fn generation(row: &nb::LoadBalancer) -> Option<(Uuid, u64)> {
    row.external_ids.get(octavia::key::VIP_PORT_ID)?;
    let balancer = Uuid::try_parse(&row.name).ok()?;
    let generation = row.external_ids.get(neutron::key::BALANCER_GENERATION);
    Some((balancer, generation.and_then(|text| text.parse().ok()).unwrap_or(0)))
}

/// The results that a row contains for other programs. A member in any other state has none.
fn last_results(row: &nb::LoadBalancer) -> Vec<(Uuid, Option<ProbeResult>)> {
    let text = row.external_ids.get(octavia::key::MEMBER_STATUS);
    let statuses: BTreeMap<String, String> =
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let result = |status: &str| match status {
        "ONLINE" => Some(ProbeResult::Online),
        "ERROR" => Some(ProbeResult::Offline),
        _ => None,
    };
    let members =
        statuses.iter().filter_map(|(id, status)| Some((Uuid::try_parse(id).ok()?, result(status))));
    members.collect()
}

fn backend(row: &sb::ServiceMonitor) -> Option<ProbedBackend> {
    let protocol = match row.protocol.as_ref() {
        // northd omits it if the load balancer has no protocol, which means TCP.
        None | Some(sb::MonitorProtocol::Tcp) => LbProtocol::Tcp,
        Some(sb::MonitorProtocol::Udp) => LbProtocol::Udp,
        Some(_) => return None,
    };
    Some(ProbedBackend {
        port_id: Uuid::try_parse(&row.logical_port).ok()?,
        address: *row.ip.value()?,
        protocol_port: u16::try_from(row.port).ok()?,
        protocol,
    })
}

fn result(row: &sb::ServiceMonitor) -> ProbeResult {
    match &row.status {
        None => ProbeResult::Unknown,
        Some(sb::MonitorStatus::Online) => ProbeResult::Online,
        Some(_) => ProbeResult::Offline,
    }
}
