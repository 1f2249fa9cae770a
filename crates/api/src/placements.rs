//! Keeps gateways on chassis that can carry them, as chassis come and go.
//!
//! A request that creates a gateway places it at once. This loop handles later events: a chassis is gone or has lost a bridge, or a new one
//! has appeared. [`scheduler::reschedule`] decides, and the store is the target. Only the server that writes the Northbound runs this loop;
//! otherwise two servers would react to one event.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use ovsdb::client::LockState;
use ovsdb::session::Progress;
use reconcile::{
    Applied, Class, Desire, Driver, Handle, ObjectId, Outcome, Plan, Scope, Target, TargetError, Timing,
    Waiting,
};
use serde::Serialize;
use tokio::sync::watch;

use crate::model::{Placement, Port};
use crate::scheduler;
use crate::store::Store;
use crate::world::{Outside, Txn, World};

/// Builds the loop without running it. Returns its handle and its driver.
pub fn start(
    store: Store,
    outside: watch::Receiver<Arc<Outside>>,
    northbound: &ovsdb::Client,
    writer: watch::Receiver<LockState>,
) -> (Handle, impl Future<Output = ()> + Send + use<>) {
    let inputs = {
        let (store, outside, writer) = (store.clone(), outside.clone(), writer.clone());
        let nb = northbound.status();
        move || {
            if let Some(waiting) = waits_for(nb.borrow().progress, &writer.borrow()) {
                return Err(waiting);
            }
            Ok(Inputs { world: store.world(), outside: Arc::clone(&outside.borrow()) })
        }
    };
    let driver = Driver::new(
        "placing",
        Timing::default(),
        inputs,
        Reschedule,
        Placements { store, planned: Basis::default() },
    );
    let handle = driver.handle();
    handle.follow(outside);
    handle.follow(writer);
    (handle, driver.run())
}

/// The reason why this server does not write, if it does not. A server without a connection does not know whether others write.
pub(crate) fn waits_for(northbound: Progress, lock: &LockState) -> Option<Waiting> {
    match (lock, northbound) {
        (LockState::Held, _) => None,
        (LockState::Refused(why), _) => Some(Waiting(format!("the writer's lock, refused: {why}"))),
        (LockState::Waiting, Progress::Synced) => {
            Some(Waiting("the writer's lock, which another server holds".into()))
        }
        (LockState::Waiting, _) => Some(Waiting("the Northbound database".into())),
    }
}

struct Inputs {
    world: World,
    outside: Arc<Outside>,
}

/// Decides which placements change. Only the scheduler `chance` uses the seed; a fixed one keeps this pure.
struct Reschedule;

impl Desire for Reschedule {
    type Snapshot = Inputs;
    type Desired = LastDecision;

    fn desire(&mut self, inputs: &Inputs) -> Outcome<LastDecision> {
        let moves = moves(&inputs.world, &inputs.outside);
        Outcome::new(LastDecision { moves, of: (inputs.world.seq(), Arc::clone(&inputs.outside)) })
    }
}

/// The placements to change, and the inputs of that decision.
#[derive(Default)]
struct LastDecision {
    moves: Vec<Move>,
    of: Basis,
}

/// The inputs of a decision: the sequence number of the world, and the outside.
type Basis = (u64, Arc<Outside>);

fn moves(world: &World, outside: &Outside) -> Vec<Move> {
    scheduler::reschedule(world, outside, world.seq()).into_iter().map(Move).collect()
}

/// The placement of one port as it should become.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Move(Placement);

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chassis: Vec<_> = self.0.chassis.iter().map(|placed| placed.chassis.as_str()).collect();
        write!(f, "put gateway {} on {}", self.0.port_id, chassis.join(", "))
    }
}

struct Placements {
    store: Store,
    /// The inputs of the last plan.
    planned: Basis,
}

impl Target for Placements {
    type Desired = LastDecision;
    type Observed = usize;
    type Op = Move;

    fn plan(&mut self, want: &LastDecision, _keep: &BTreeSet<ObjectId>, placed: &usize) -> Plan<Move> {
        self.planned = want.of.clone();
        let mut plan = Plan::new(placed + want.moves.len(), *placed);
        for wanted in &want.moves {
            plan.push(ObjectId::new("port", wanted.0.port_id.to_string()), wanted.clone());
        }
        plan
    }

    async fn observe(&mut self, _scope: Scope) -> Result<usize, TargetError> {
        Ok(self.store.world().table::<Placement>().len())
    }

    async fn apply(&mut self, plan: &Plan<Move>) -> Result<Applied, TargetError> {
        let (seq, seen) = self.planned.clone();
        let planned: Vec<Move> = plan.steps.iter().map(|step| step.op.clone()).collect();
        let stored = self.store.execute(move |txn: &mut Txn| {
            // The world may have changed since the decision, so the transaction decides again on the present one.
            let outside = txn.outside();
            let moves = match txn.seq() == seq && Arc::ptr_eq(&outside, &seen) {
                true => planned.clone(),
                false => moves(txn, &outside),
            };
            for Move(placement) in moves {
                if txn.get::<Port>(&placement.port_id).is_some_and(|port| port.is_gateway()) {
                    txn.put(placement);
                }
            }
            Ok(())
        });
        match stored.await {
            Ok(_) => Ok(Applied::all_done(plan)),
            Err(fault) => {
                Err(TargetError::new(Class::Transient, "store the placement of gateways").because(fault))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_speaks_of_others_only_if_it_knows_of_them() {
        let waits = |progress, lock| waits_for(progress, &lock).map(|Waiting(why)| why);
        assert_eq!(waits(Progress::Synced, LockState::Held), None);
        let away = waits(Progress::Waiting, LockState::Waiting).unwrap();
        assert_eq!(away, "the Northbound database");
        let standby = waits(Progress::Synced, LockState::Waiting).unwrap();
        assert!(standby.contains("another server"), "{standby}");
        let refused = waits(Progress::Synced, LockState::Refused("no".into())).unwrap();
        assert_eq!(refused, "the writer's lock, refused: no");
    }
}
