//! Whether this node keeps its promises: whether its instances are reached, as an operator means it.
//!
//! There is one line for each promise: the databases are followed, FRR carries announcements, peers hear them, addresses are
//! announced, and packets reach OVN and return. A row that cannot be read, or a single address that the kernel refuses, is
//! that object's problem: it is reported, and the node is as good as the rest of it.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::time::Duration;

use reconcile::{LoopCode, Problem, Severity, State, Status};
use serde::{Deserialize, Serialize};

use super::desired::Silence;
use crate::flows::{self, NormalFlow, Seen};
use crate::frr::{self, Zebra};
use crate::kernel::Dev;
use crate::part::kind::Count;

/// So long a question to FRR may be open before it counts as not answered.
const OPEN: Duration = Duration::from_secs(3);

/// One promise, and whether it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promise {
    /// Whether it is kept.
    pub kept: bool,
    /// A promise of the agent and its state, as a sentence.
    pub text: String,
    /// Whether one of the problems says why it is not kept.
    #[serde(skip)]
    is_reported: bool,
}

impl Promise {
    fn kept(text: impl Into<String>) -> Self {
        Promise { kept: true, text: text.into(), is_reported: false }
    }

    fn broken(text: impl Into<String>) -> Self {
        Promise { kept: false, text: text.into(), is_reported: false }
    }
}

/// A database that is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseState {
    /// Its name.
    pub name: String,
    /// The time since it lost its sync, and the reason, if it did.
    pub lost: Option<(Duration, String)>,
}

/// The data plane as of the last observation.
#[derive(Clone, Debug)]
pub struct PlaneState<'a> {
    /// FRR.
    pub frr: &'a frr::Observed,
    /// The time since FRR's last reply.
    pub answered: Option<Duration>,
    /// The age of the open request to FRR, if there is one.
    pub open: Option<Duration>,
    /// The announcements.
    pub announced: Count,
    /// The provider bridges with patch ports into the overlay, and what is seen of their flows.
    pub bridges: BTreeMap<&'a Dev, Option<&'a Seen>>,
}

/// All that health is computed from.
#[derive(Clone, Debug)]
pub struct Inputs<'a> {
    /// The loop.
    pub status: &'a Status,
    /// The reason why the agent announces nothing, if it decided so.
    pub silence: Option<Silence>,
    /// The databases.
    pub databases: Vec<DatabaseState>,
    /// The data plane, once there was a look at it.
    pub plane: Option<PlaneState<'a>>,
}

/// Every promise, and how it stands.
pub fn promises(inputs: &Inputs<'_>) -> Vec<Promise> {
    let mut promises: Vec<Promise> = inputs.databases.iter().map(database).collect();
    let Some(plane) = &inputs.plane else { return promises };
    promises.push(frr(inputs, plane));
    promises.extend(sessions(plane));
    promises.push(announcements(inputs, plane));
    promises.extend(plane.bridges.iter().map(|(bridge, seen)| way_into_ovn(inputs, bridge, *seen)));
    promises
}

/// The reasons why the agent is not healthy; empty while it is.
pub fn trouble(inputs: &Inputs<'_>) -> Vec<String> {
    let status = inputs.status;
    let wide = status.problems.iter().filter(|problem| is_wide(problem, inputs.silence));
    let mut why: Vec<String> = wide.map(ToString::to_string).collect();
    let waiting = status.waiting_for.as_ref().map(|what| format!("the agent waits for {what}"));
    match waiting {
        Some(waiting) => why.push(waiting),
        None if status.state == State::Starting && why.is_empty() => {
            why.push("the agent has not observed everything yet".into());
        }
        None => {}
    }
    if status.state == State::Stopped {
        why.push("the agent is stopped".into());
    }
    let broken = promises(inputs).into_iter().filter(|promise| !promise.kept && !promise.is_reported);
    why.extend(broken.map(|promise| promise.text));
    why
}

/// Whether a problem is one of everything, or of everything that stands on a device.
fn is_wide(problem: &Problem, silence: Option<Silence>) -> bool {
    problem.severity == Severity::Error
        && match problem.object.kind.as_str() {
            "component" | "device" | "flows" | "frr" | "process" => true,
            // For a while nothing is withdrawn.
            "chassis" => silence == Some(Silence::ChassisGone),
            _ => false,
        }
}

fn database(database: &DatabaseState) -> Promise {
    let name = &database.name;
    match &database.lost {
        None => Promise::kept(format!("{name} is in sync")),
        Some((since, why)) => {
            let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
            Promise::broken(format!(
                "{name} has been out of sync for {} s{why}: announcements stay as they are, and changes have no effect",
                since.as_secs()
            ))
        }
    }
}

fn frr(inputs: &Inputs<'_>, plane: &PlaneState<'_>) -> Promise {
    let age =
        plane.answered.map_or("never answered".into(), |age| format!("answered {} s ago", age.as_secs()));
    let problem = inputs
        .status
        .problems
        .iter()
        .find(|problem| problem.object.kind.as_str() == "frr" && problem.severity == Severity::Error);
    if let Some(open) = plane.open.filter(|open| *open >= OPEN) {
        let text =
            format!("FRR has not replied for {} s: bgpd {age}; check whether it hangs", open.as_secs());
        return Promise::broken(text);
    }
    if let Some(problem) = problem {
        let text = format!("FRR does not carry announcements ({}): bgpd {age}", problem.code);
        return Promise { is_reported: true, ..Promise::broken(text) };
    }
    match plane.frr {
        frr::Observed::Silent(why) => Promise::broken(format!("bgpd does not answer ({why})")),
        frr::Observed::Bgpd(state) => match state.zebra {
            Zebra::Unknown => Promise::kept(format!("FRR carries announcements: bgpd {age}")),
            _ => Promise::kept(format!("FRR carries announcements: bgpd {age}, zebra serves it")),
        },
    }
}

fn sessions(plane: &PlaneState<'_>) -> Option<Promise> {
    let frr::Observed::Bgpd(state) = plane.frr else { return None };
    let (total, up) = (state.sessions.len(), state.sessions.values().filter(|up| **up).count());
    let down = || {
        let down = state.sessions.iter().filter(|(_, up)| !**up).map(|(peer, _)| peer.as_str());
        down.collect::<Vec<_>>().join(", ")
    };
    Some(match (total, up) {
        (0, _) => Promise::broken(
            "FRR has no BGP neighbour, so no address reaches the fabric; configure one in FRR's default instance",
        ),
        (_, 0) => Promise::broken(format!(
            "no BGP session is established, so no address reaches the fabric; down: {}",
            down()
        )),
        (total, up) if total == up => Promise::kept(format!("BGP sessions: {up} of {total} established")),
        (total, up) => Promise::kept(format!("BGP sessions: {up} of {total} established; down: {}", down())),
    })
}

fn announcements(inputs: &Inputs<'_>, plane: &PlaneState<'_>) -> Promise {
    let Count { want, have, .. } = plane.announced;
    let text = format!("announced: {have} of {want} addresses and prefixes");
    match inputs.silence {
        Some(Silence::ChassisGone) => {
            return Promise::broken("nothing is announced: OVN does not know this chassis");
        }
        Some(Silence::Stopping) => return Promise::broken("nothing is announced: the agent is stopping"),
        None => {}
    }
    let refused = |problem: &&Problem| {
        let kind = problem.object.kind.as_str();
        matches!(kind, "address" | "subnet" | "base") && problem.code == LoopCode::ApplyFailed
    };
    let denied = inputs.status.problems.iter().find(|problem| is_denied(problem));
    match (denied, inputs.status.problems.iter().find(refused)) {
        (Some(_), _) => Promise::broken(format!(
            "{text}: the kernel does not permit changes; run the agent as root or with CAP_NET_ADMIN"
        )),
        (None, Some(first)) if want > 0 && have == 0 => {
            Promise::broken(format!("{text}; every one is refused, as {first}"))
        }
        _ if have < want => Promise::kept(format!("{text}; problems name the rest")),
        _ => Promise::kept(text),
    }
}

/// Whether the kernel refused something for want of a privilege, which it then refuses for everything.
fn is_denied(problem: &Problem) -> bool {
    problem.code == LoopCode::ApplyFailed && problem.message.contains("Operation not permitted")
}

fn way_into_ovn(inputs: &Inputs<'_>, bridge: &Dev, seen: Option<&Seen>) -> Promise {
    let kept = |text: &str| Promise::kept(format!("{bridge}: {text}"));
    let broken = |text: &str| Promise::broken(format!("{bridge}: {text}"));
    let reported = |promise: Promise| {
        let of_it = |problem: &Problem| {
            let name = problem.object.id.to_string();
            name == *bridge || name.strip_prefix(bridge.as_str()).is_some_and(|rest| rest.starts_with(':'))
        };
        let mut problems = inputs.status.problems.iter();
        let is_reported = problems.any(|problem| problem.severity == Severity::Error && of_it(problem));
        Promise { is_reported, ..promise }
    };
    match seen {
        None => reported(broken("its flows were not observed, so the path into OVN is not known")),
        Some(Seen::Silent(why)) => {
            reported(broken(&format!("the path into OVN is not known: Open vSwitch does not reply ({why})")))
        }
        Some(Seen::Flows(flows::BridgeFlows { normal: NormalFlow::There, ours })) if ours.is_empty() => {
            reported(broken("no flow hands packets of the overlay to the kernel"))
        }
        Some(Seen::Flows(flows::BridgeFlows { normal: NormalFlow::There, .. })) => {
            kept("packets reach OVN and return")
        }
        Some(Seen::Flows(_)) => reported(broken("no NORMAL flow, so packets into OVN are dropped")),
    }
}

#[cfg(test)]
mod tests;
