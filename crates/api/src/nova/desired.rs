//! Decides which events to send to Nova. Pure.
//!
//! | a port of an instance | event |
//! |---|---|
//! | is up on a host without a notice, and the metadata service of all networks of the instance is ready there | `network-vif-plugged` |
//! | the same, but the metadata service is not ready | none before `metadata_ready_timeout`, then `network-vif-plugged` with a warning |
//! | is down, and has a notice of being plugged in | `network-vif-unplugged` |
//! | is deleted, and has a notice of being plugged in | `network-vif-deleted` |
//!
//! A switch port without a row, or with one that northd has not processed yet, is neither up nor down. So a lost Northbound that is being
//! rebuilt causes no events.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;
use reconcile::{Class, Desire, ObjectId, Outcome, Problem};
use serde::Serialize;
use smol_str::SmolStr;
use uuid::Uuid;

use super::instance_of;
use crate::desired::port::is_external;
use crate::model::{PlugNotice, Port};
use crate::report::{AgentKind, Claim, Report};
use crate::resource::metadata_port;
use crate::world::{Link, World};

/// The code of the problem of a port that waits.
pub(super) const METADATA_NOT_READY: &str = "metadata-not-ready";

/// The inputs at one instant.
pub(super) struct EventInputs {
    pub(super) world: World,
    pub(super) report: Report,
    /// Seconds that a port waits for the metadata service.
    pub(super) timeout: u32,
    pub(super) now: Timestamp,
}

/// The events to send to Nova, and the number of plugged ports.
#[derive(Debug, Default)]
pub(super) struct DueEvents {
    pub(super) notifications: Vec<Notification>,
    pub(super) plugged: usize,
}

/// An event of Nova's API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum NovaEvent {
    /// The port forwards on a chassis.
    #[serde(rename = "network-vif-plugged")]
    Plugged,
    /// The port forwards nowhere.
    #[serde(rename = "network-vif-unplugged")]
    Unplugged,
    /// The port is gone.
    #[serde(rename = "network-vif-deleted")]
    Deleted,
}

impl NovaEvent {
    /// The name in Nova's API.
    pub fn name(self) -> &'static str {
        match self {
            NovaEvent::Plugged => "network-vif-plugged",
            NovaEvent::Unplugged => "network-vif-unplugged",
            NovaEvent::Deleted => "network-vif-deleted",
        }
    }
}

/// A port of an instance whose notice changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Notification {
    pub(super) port: Uuid,
    pub(super) instance: Uuid,
    /// The event that Nova gets first. None if only the notice changes, as when an instance has moved.
    pub(super) event: Option<NovaEvent>,
    /// The hosts of the notice afterwards; without any there is no notice.
    pub(super) hosts: BTreeSet<String>,
    /// Networks whose metadata service was not ready in time.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) unready: BTreeSet<Uuid>,
}

impl fmt::Display for Notification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (port, instance) = (self.port, self.instance);
        match self.event {
            Some(event) => write!(f, "send {} of port {port} to instance {instance}", event.name()),
            None => write!(f, "note the hosts of port {port} of instance {instance}"),
        }
    }
}

/// The decider.
pub(super) struct DecideEvents;

impl Desire for DecideEvents {
    type Snapshot = EventInputs;
    type Desired = DueEvents;

    fn desire(&mut self, inputs: &EventInputs) -> Outcome<DueEvents> {
        let mut out = Outcome::new(DueEvents::default());
        let agents = metadata_agents(&inputs.report);
        let ports = inputs.world.table::<Port>().iter();
        for (port, instance) in ports.filter_map(|port| Some((port, instance_of(port)?))) {
            decide(inputs, &agents, port, instance, &mut out);
        }
        for notice in inputs.world.table::<PlugNotice>().iter() {
            let port = inputs.world.get::<Port>(&notice.port_id);
            let event = match port {
                None => Some(NovaEvent::Deleted),
                // Nova has taken the port from the instance itself.
                Some(port) if instance_of(port).is_none() => None,
                Some(_) => continue,
            };
            out.value.notifications.push(Notification {
                port: notice.port_id,
                instance: notice.instance,
                event,
                hosts: BTreeSet::new(),
                unready: BTreeSet::new(),
            });
        }
        out
    }
}

/// The chassis with a live metadata agent.
fn metadata_agents(report: &Report) -> BTreeSet<&str> {
    let agents = report.agents().iter().filter(|agent| agent.kind == AgentKind::Metadata && agent.alive);
    agents.map(|agent| agent.chassis.as_str()).collect()
}

fn decide(
    inputs: &EventInputs,
    agents: &BTreeSet<&str>,
    port: &Port,
    instance: Uuid,
    out: &mut Outcome<DueEvents>,
) {
    let notice = inputs.world.get::<PlugNotice>(&port.id).filter(|notice| notice.instance == instance);
    let told = notice.map(|notice| notice.hosts.clone()).unwrap_or_default();
    let change = |event, hosts, unready| Notification { port: port.id, instance, event, hosts, unready };
    if !inputs.report.port_up(port.id) {
        if inputs.report.is_known_down(port.id) && !told.is_empty() {
            let event = Some(NovaEvent::Unplugged);
            out.value.notifications.push(change(event, BTreeSet::new(), BTreeSet::new()));
        }
        return;
    }
    out.value.plugged += 1;
    let hosts = hosts_of(inputs, port);
    let mut next: BTreeSet<String> = told.iter().filter(|host| hosts.contains_key(*host)).cloned().collect();
    let mut event = None;
    let mut late = BTreeSet::new();
    let mut waits = BTreeSet::new();
    for (host, claim) in hosts.iter().filter(|(host, _)| !told.contains(*host)) {
        let unready = unready_networks(inputs, agents, instance, host, claim.as_ref());
        let waited = claim.as_ref().map_or(i64::MAX, |(_, claim)| seconds_since(claim.since, inputs.now));
        if unready.is_empty() || waited >= i64::from(inputs.timeout) {
            event = Some(NovaEvent::Plugged);
            next.insert(host.clone());
            late.extend(unready);
        } else {
            waits.extend(unready.into_iter().map(|network| (host.clone(), network)));
        }
    }
    for (host, network) in waits {
        let message = format!(
            "the server has not reported it to Nova as plugged in yet: the metadata service of network {network} is not ready \
             on {host}. \
             `meridian status` of the metadata agent there names the reason"
        );
        let object = ObjectId::new("port", port.id.to_string());
        out.report(Problem::warning(object, Class::Transient, METADATA_NOT_READY, message));
    }
    // A port without a known host is between two reports; its notice stays.
    if event.is_some() || (!next.is_empty() && next != told) {
        out.value.notifications.push(change(event, next, late));
    }
}

fn seconds_since(since: Timestamp, now: Timestamp) -> i64 {
    now.as_second().saturating_sub(since.as_second())
}

/// The hosts on which a port is plugged in, with the claims of their chassis. An external port is bound to a chassis other than its
/// instance's host, so the host of its binding counts.
fn hosts_of<'i>(inputs: &'i EventInputs, port: &Port) -> BTreeMap<String, Option<(&'i SmolStr, &'i Claim)>> {
    if is_external(port) {
        let host = Some(port.binding.host_id.clone()).filter(|host| !host.is_empty());
        return host.into_iter().map(|host| (host, None)).collect();
    }
    let claims = inputs.report.claims(port.id);
    claims.map(|(chassis, claim)| (claim.host.to_string(), Some((chassis, claim)))).collect()
}

/// The networks of an instance whose metadata service is not ready on the chassis. None if the chassis has no agent to make it ready.
fn unready_networks(
    inputs: &EventInputs,
    agents: &BTreeSet<&str>,
    instance: Uuid,
    host: &str,
    claim: Option<&(&SmolStr, &Claim)>,
) -> BTreeSet<Uuid> {
    let Some((chassis, _)) = claim.filter(|(chassis, _)| agents.contains(chassis.as_str())) else {
        return BTreeSet::new();
    };
    let device = Link::PortsOfDevice(instance.to_string().as_str().into());
    let ports = inputs.world.linked::<Port>(device).filter(|port| {
        port.binding.host_id == host || inputs.report.claims(port.id).any(|(_, claim)| claim.host == host)
    });
    let needs = ports.filter(|port| needs_metadata(&inputs.world, port));
    let networks = needs.map(|port| port.network_id);
    networks.filter(|network| !inputs.report.is_metadata_ready(chassis, *network)).collect()
}

/// Whether an instance reaches the metadata service through this port: over IPv6 always, over IPv4 if the service has an address.
fn needs_metadata(world: &World, port: &Port) -> bool {
    let Some(service) = metadata_port::of(world, port.network_id) else { return false };
    let has_ipv4 = |port: &Port| port.fixed_ips.iter().any(|fixed| fixed.ip_address.is_ipv4());
    let has_ipv6 = port.fixed_ips.iter().any(|fixed| fixed.ip_address.is_ipv6());
    has_ipv6 || (has_ipv4(port) && has_ipv4(service))
}
