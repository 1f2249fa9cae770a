//! Rows as the loop's target, which also records the state of the store up to which they are written.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use reconcile::{Applied, ObjectId, Plan, Scope, StepResult, Target, TargetError};
use tokio::sync::watch;

use super::fence::Fence;
use super::{Removals, Revision};
use crate::target::{ClientDatabase, Desired, Op, Ownership, RowTarget, Rules, SnapshotView, deletions};

/// The desired rows, and the state of the store that they follow from.
#[derive(Clone, Debug, Default)]
pub struct WriterDesired {
    /// The rows.
    pub rows: Desired,
    /// The state of the store that they follow from.
    pub revision: Revision,
    /// Whether rows that are not desired may be deleted.
    pub removals: Removals,
}

/// The Northbound's rows, which only the elected writer changes.
pub struct WriterTarget {
    rows: RowTarget<ClientDatabase>,
    /// The state of the store that the last plan was for.
    planned: Arc<Mutex<Revision>>,
    fence: Fence,
    /// The objects that the server rejected in the last run. Requests that wait for other objects do not wait for these.
    refused: BTreeSet<ObjectId>,
    /// Whether the last plan settles that rows may be deleted.
    settles: bool,
    /// Whether nothing of the last plan is to be waited for.
    is_applied: bool,
    applied: watch::Sender<Revision>,
}

impl WriterTarget {
    pub(super) fn new(
        database: ClientDatabase,
        ownership: Ownership,
        lock: &str,
        applied: watch::Sender<Revision>,
        planned: Arc<Mutex<Revision>>,
        fence: Fence,
    ) -> Self {
        let (guard, mark, noted) = (fence.clone(), fence.clone(), Arc::clone(&planned));
        let rows = RowTarget::new(database, ownership, Rules::northbound())
            .with_lock(lock)
            .with_guard(move |txn| {
                guard.guard(txn);
            })
            .with_note(move |txn| {
                mark.note(*noted.lock().unwrap_or_else(PoisonError::into_inner), txn);
            });
        let refused = BTreeSet::new();
        WriterTarget { rows, planned, fence, refused, settles: false, is_applied: false, applied }
    }

    /// Tells how far the rows have come.
    fn announce(&self) {
        let planned = *self.planned.lock().unwrap_or_else(PoisonError::into_inner);
        self.applied.send_if_modified(|applied| std::mem::replace(applied, planned) != planned);
    }
}

impl Target for WriterTarget {
    type Desired = WriterDesired;
    type Observed = SnapshotView;
    type Op = Op;

    fn plan(&mut self, want: &WriterDesired, keep: &BTreeSet<ObjectId>, have: &SnapshotView) -> Plan<Op> {
        let mut plan = self.rows.plan(&want.rows, keep, have);
        if want.removals != Removals::Allowed {
            let made = plan.steps.iter().filter(|step| matches!(step.op, Op::Insert { .. })).count();
            let rows = want.rows.len().saturating_sub(made) + deletions(&plan);
            self.settles = want.removals.admit(&mut plan, rows);
        }
        self.is_applied = plan.steps.iter().all(|step| self.refused.contains(&step.object));
        plan
    }

    fn publish(&mut self, want: &WriterDesired, _: &SnapshotView) {
        if std::mem::take(&mut self.settles) {
            self.fence.settle();
        }
        *self.planned.lock().unwrap_or_else(PoisonError::into_inner) = want.revision;
        if self.is_applied {
            self.announce();
        }
    }

    async fn observe(&mut self, scope: Scope) -> Result<SnapshotView, TargetError> {
        self.rows.observe(scope).await
    }

    async fn apply(&mut self, plan: &Plan<Op>) -> Result<Applied, TargetError> {
        let applied = self.rows.apply(plan).await?;
        let failed = plan.steps.iter().zip(&applied.results);
        let failed = failed.filter(|(_, result)| matches!(result, StepResult::Failed(_)));
        self.refused = failed.map(|(step, _)| step.object.clone()).collect();
        self.announce();
        Ok(applied)
    }
}
