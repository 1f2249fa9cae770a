//! The decision as the loop takes it, and as its readers see it: published, and told in the log.

use std::net::IpAddr;
use std::sync::Arc;

use imbl::ordmap::DiffItem;
use reconcile::{Class, Desire, ObjectId, Outcome, Problem};
use tokio::sync::watch;
use tracing::{debug, info};

use super::desired::{Address, Decision, IncrementalDecision, rewire, wire};
use super::rivals::FORMER;
use super::snapshot::Snapshot;
use crate::ProblemCode;
use crate::plane;

/// Decides, and then publishes what was decided.
#[derive(Debug)]
pub struct Decider {
    decision: watch::Sender<Arc<Decision>>,
    first: bool,
    /// The decision before the last one, and the last one, until it is published.
    next: Option<(Arc<Decision>, Decision)>,
    /// The last decision and its desired state. They save work and never change the result.
    last: Option<(IncrementalDecision, plane::Desired)>,
}

impl Decider {
    /// Publishes to `decision`.
    pub fn new(decision: watch::Sender<Arc<Decision>>) -> Self {
        Self { decision, first: true, next: None, last: None }
    }
}

impl Desire for Decider {
    type Snapshot = Snapshot;
    type Desired = plane::Desired;

    fn desire(&mut self, snapshot: &Snapshot) -> Outcome<plane::Desired> {
        let (decided, desired) = match self.last.take() {
            None => {
                let decided = IncrementalDecision::new(snapshot);
                let desired = wire(snapshot, &decided.outcome.value);
                (decided, desired)
            }
            Some((last, wired)) => {
                let before = last.outcome.value.clone();
                let decided = last.next(snapshot);
                let desired = rewire(snapshot, (&before, wired), &decided.outcome.value);
                (decided, desired)
            }
        };
        self.next = Some((Arc::clone(&snapshot.before), decided.outcome.value.clone()));
        let Outcome { mut problems, keep, .. } = decided.outcome.clone();
        problems.extend(rivals(snapshot));
        self.last = Some((decided, desired.clone()));
        Outcome { value: desired, problems, keep }
    }

    fn publish(&mut self) {
        let Some((before, decision)) = self.next.take() else { return };
        if std::mem::take(&mut self.first) {
            info!("Ensuring VRF configuration for advertising routes");
            for bridge in decision.bridges.keys() {
                info!("Configuring {bridge} default rule and routing tables for each provider network");
            }
            info!("Sync current routes.");
        }
        tell(&before, &decision);
        if *before != decision {
            self.decision.send_replace(Arc::new(decision));
        }
    }

    fn forget(&mut self) {
        self.last = None;
    }
}

/// A word about ovn-bgp-agent: it takes away what it did not write.
fn rivals(snapshot: &Snapshot) -> Option<Problem> {
    let pids: Vec<String> = snapshot.rivals.iter().map(ToString::to_string).collect();
    let what = format!(
        "ovn-bgp-agent runs in this network namespace (process {}), and each of the two removes the other's changes; stop and \
         disable it",
        pids.join(", ")
    );
    let object = ObjectId::new("process", FORMER);
    (!pids.is_empty()).then(|| Problem::error(object, Class::Refused, ProblemCode::AnotherAgent, what))
}

/// Maximum number of address changes of one run that are logged one by one; of more, the agent logs the number.
const TOLD: usize = 100;

/// One line for each address that comes or goes, in words that operators know.
fn tell(before: &Decision, after: &Decision) {
    let mut lines = 0;
    let mut line = |verb: &str, ip: &IpAddr, address: &Address| {
        let Some(reason) = address.reasons.first() else { return };
        lines += 1;
        if lines <= TOLD {
            info!(rule = reason.rule(), port = %reason.row().name, "{verb} BGP route for {} {ip}", reason.noun());
        } else {
            debug!(rule = reason.rule(), port = %reason.row().name, "{verb} BGP route for {} {ip}", reason.noun());
        }
    };
    for difference in before.addresses.diff(&after.addresses) {
        match difference {
            DiffItem::Add(ip, address) => line("Add", ip, address),
            DiffItem::Remove(ip, address) => line("Delete", ip, address),
            DiffItem::Update { .. } => {}
        }
    }
    if lines > TOLD {
        info!("Add or delete {} more BGP routes, each logged at level debug", lines - TOLD);
    }
}
