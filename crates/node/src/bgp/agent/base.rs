//! The desired state before OVN's database is read: the VRF, the announcing device in it, and FRR's stanzas.
//!
//! A node that starts while that database is away has on it what it had before. That stays as it is, and with the base in place it
//! goes on being announced, though FRR may have been started anew as well. Only what covers the node's own way to that database
//! goes (see [`reserved`](crate::plane::reserved)).

use std::sync::Arc;
use std::time::Duration;

use ovsdb::replica::Replica;
use reconcile::{Desire, Outcome};

use super::AgentState;
use crate::bgp::decider::Decider;
use crate::bgp::desired::{Decision, wire};
use crate::bgp::snapshot::{Snapshot, southbound_model};
use crate::connections::switch;
use crate::plane;

/// The decider, with a base to begin from.
#[derive(Debug)]
pub(super) struct BaseDecider {
    decider: Decider,
    base: plane::Desired,
    shared: Arc<AgentState>,
}

impl BaseDecider {
    pub(super) fn new(decider: Decider, shared: Arc<AgentState>) -> Self {
        let nothing = Snapshot {
            sb: Replica::new(southbound_model()).snapshot(),
            vswitch: Replica::new(switch::model()).snapshot(),
            config: Arc::clone(&shared.config),
            chassis_missing: Duration::ZERO,
            guard: false,
            rebinding: false,
            silent: false,
            reserved: Arc::default(),
            rivals: Default::default(),
            before: Arc::default(),
        };
        let base = plane::Desired { partial: true, ..wire(&nothing, &Decision::default()) };
        Self { decider, base, shared }
    }
}

impl Desire for BaseDecider {
    type Snapshot = Snapshot;
    type Desired = plane::Desired;

    fn desire(&mut self, snapshot: &Snapshot) -> Outcome<plane::Desired> {
        self.decider.desire(snapshot)
    }

    fn publish(&mut self) {
        self.decider.publish();
    }

    fn meanwhile(&mut self) -> Option<plane::Desired> {
        let ovn = self.shared.ovn.client().map(|ovn| self.shared.inputs_now(&ovn).sb);
        let reserved = self.shared.reserved(ovn.as_ref());
        Some(plane::Desired { reserved, ..self.base.clone() })
    }

    fn forget(&mut self) {
        self.decider.forget();
    }
}
