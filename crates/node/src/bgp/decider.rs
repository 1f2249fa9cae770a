//! The decision as the loop takes it, and as its readers see it: published, and told in the log.

use std::net::IpAddr;
use std::sync::Arc;

use reconcile::{Desire, Outcome};
use tokio::sync::watch;
use tracing::info;

use super::desired::{Address, Decision, decide, wire};
use super::snapshot::Snapshot;
use crate::plane;

/// Decides, and publishes what was decided.
#[derive(Debug)]
pub struct Decider {
    decision: watch::Sender<Arc<Decision>>,
    first: bool,
}

impl Decider {
    /// Publishes to `decision`.
    pub fn new(decision: watch::Sender<Arc<Decision>>) -> Self {
        Self { decision, first: true }
    }
}

impl Desire for Decider {
    type Snapshot = Snapshot;
    type Desired = plane::Desired;

    fn desire(&mut self, snapshot: &Snapshot) -> Outcome<plane::Desired> {
        let outcome = decide(snapshot);
        let mut desired = wire(snapshot, &outcome.value);
        // Only what was there before the first look is left over from somebody.
        desired.kernel.own.clear_vrf &= self.first;
        if self.first {
            info!("Ensuring VRF configuration for advertising routes");
            for bridge in outcome.value.bridges.keys() {
                info!("Configuring {bridge} default rule and routing tables for each provider network");
            }
            info!("Sync current routes.");
        }
        self.first = false;
        tell(&snapshot.before, &outcome.value);
        if *snapshot.before != outcome.value {
            self.decision.send_replace(Arc::new(outcome.value.clone()));
        }
        outcome.map(|_| desired)
    }
}

/// One line for each address that comes or goes, in words that operators know.
fn tell(before: &Decision, after: &Decision) {
    let line = |verb: &str, ip: &IpAddr, address: &Address| {
        let Some(reason) = address.reasons.first() else { return };
        info!(rule = reason.rule(), port = %reason.row().name, "{verb} BGP route for {} {ip}", reason.noun());
    };
    for (ip, address) in before.addresses.iter().filter(|(ip, _)| !after.addresses.contains_key(ip)) {
        line("Delete", ip, address);
    }
    for (ip, address) in after.addresses.iter().filter(|(ip, _)| !before.addresses.contains_key(ip)) {
        line("Add", ip, address);
    }
}
