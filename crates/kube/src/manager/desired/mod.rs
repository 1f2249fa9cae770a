//! The decision of the manager: which object gets which number and address.
//!
//! A number that was given once must not change, and must not be given twice, so the decider remembers what it gave: its ledger
//! is a copy of annotations that this process has read or is about to write. The ledger decides only where the API and the
//! memory disagree, that is, after somebody else edited an annotation. Without it (after a start) annotated values win, and
//! new ones are given only after all annotated ones are known.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod addresses;
mod egress;
mod networks;
mod nodes;
mod peers;
mod pods;

use std::collections::BTreeSet;

use reconcile::{Class, Desire, ObjectId, Outcome, Problem};

use super::settings::{EgressAssigner, ManagerSettings};
use super::state::{Desired, Notice, ObjectRef};
use crate::cluster::kind::Kind;
use crate::cluster::snapshot::{Meta, Snapshot};
use egress::EgressLedger;
use networks::NetworkLedger;
use nodes::NodeLedger;
use pods::PodLedger;

/// The decider of the manager.
#[derive(Debug)]
pub struct ManagerDecider {
    settings: ManagerSettings,
    nodes: NodeLedger,
    networks: NetworkLedger,
    pods: PodLedger,
    egress: EgressLedger,
}

impl ManagerDecider {
    /// A decider with an empty ledger.
    pub fn new(settings: ManagerSettings) -> ManagerDecider {
        ManagerDecider {
            settings,
            nodes: NodeLedger::default(),
            networks: NetworkLedger::default(),
            pods: PodLedger::default(),
            egress: EgressLedger::default(),
        }
    }
}

impl Desire for ManagerDecider {
    type Snapshot = Snapshot;
    type Desired = Desired;

    fn desire(&mut self, snapshot: &Snapshot) -> Outcome<Desired> {
        let mut out = Decision::default();
        self.nodes.decide(snapshot, &self.settings, &mut out);
        let active = self.networks.decide(snapshot, &self.settings.cluster, &mut out);
        self.pods.decide(snapshot, &self.settings.cluster, &active, &mut out);
        if self.settings.egress == EgressAssigner::Manager {
            self.egress.decide(snapshot, &mut out);
        }
        Outcome { value: out.desired, problems: out.problems, keep: BTreeSet::new() }
    }

    fn forget(&mut self) {
        *self = ManagerDecider::new(self.settings.clone());
    }
}

/// The desired state and the problems, under construction.
#[derive(Debug, Default)]
struct Decision {
    desired: Desired,
    problems: Vec<Problem>,
}

impl Decision {
    /// Reports a problem of an object, in the log and the status and as an event for the object's users.
    fn problem(&mut self, kind: Kind, meta: &Meta, reason: &'static str, message: String) {
        let object = ObjectId::new(kind.as_str().to_lowercase(), meta.object_name().to_string());
        self.problems.push(Problem::error(object, Class::Refused, reason, message.clone()));
        self.notice(kind, meta, reason, message);
    }

    /// Writes an event for the users of an object.
    fn notice(&mut self, kind: Kind, meta: &Meta, reason: &'static str, message: String) {
        self.desired.notices.insert(Notice { about: ObjectRef::new(kind, meta), reason, message });
    }
}

#[cfg(test)]
mod tests;
