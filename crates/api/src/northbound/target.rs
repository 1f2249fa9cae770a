//! Rows as the loop's target, which also tells up to which change of the world they are written.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use ovn::target::{ClientDatabase, Op, Ownership, RowTarget, Rules, SnapshotView, deletions};
use reconcile::{Applied, ObjectId, Plan, Scope, StepResult, Target, TargetError, TextId};
use tokio::sync::watch;
use uuid::Uuid;

use super::Removals;
use super::fence::Fence;
use crate::desired::Wanted;
use crate::world::Revision;

/// The Northbound's rows.
pub(super) struct NorthboundTarget {
    rows: RowTarget<ClientDatabase>,
    /// The state of the store that the last plan was for.
    planned: Arc<Mutex<Revision>>,
    fence: Fence,
    /// Objects that the server refused last time: they hold up nobody who waits for others.
    refused: BTreeSet<ObjectId>,
    applied: watch::Sender<Revision>,
    /// Whether everything is looked at.
    whole: bool,
    spent: watch::Sender<Vec<Uuid>>,
}

impl NorthboundTarget {
    pub(super) fn new(
        database: ClientDatabase,
        ownership: Ownership,
        lock: &str,
        applied: watch::Sender<Revision>,
        fence: Fence,
    ) -> Self {
        let planned = Arc::<Mutex<Revision>>::default();
        let (guard, mark, noted) = (fence.clone(), fence.clone(), Arc::clone(&planned));
        let rows = RowTarget::new(database, ownership, Rules::northbound())
            .with_lock(lock)
            .with_guard(move || guard.guard())
            .with_note(move || mark.note(*noted.lock().unwrap_or_else(PoisonError::into_inner)));
        let spent = watch::Sender::default();
        NorthboundTarget { rows, planned, fence, refused: BTreeSet::new(), applied, whole: false, spent }
    }

    /// Records of rows that were taken over ([`Adopted::ours`](crate::model::Adopted)) which nothing hangs on any more, as of
    /// the last look at everything.
    pub(super) fn spent(&self) -> watch::Receiver<Vec<Uuid>> {
        self.spent.subscribe()
    }

    fn publish(&self) {
        let planned = *self.planned.lock().unwrap_or_else(PoisonError::into_inner);
        self.applied.send_if_modified(|applied| std::mem::replace(applied, planned) != planned);
    }
}

impl Target for NorthboundTarget {
    type Desired = Wanted;
    type Observed = SnapshotView;
    type Op = Op;

    fn plan(&self, want: &Wanted, keep: &BTreeSet<ObjectId>, have: &SnapshotView) -> Plan<Op> {
        let mut plan = self.rows.plan(&want.rows, keep, have);
        if want.removals != Removals::Allowed {
            let made = plan.steps.iter().filter(|step| matches!(step.op, Op::Insert { .. })).count();
            let rows = want.rows.len().saturating_sub(made) + deletions(&plan);
            if want.removals.admit(&mut plan, rows) {
                self.fence.settle();
            }
        }
        *self.planned.lock().unwrap_or_else(PoisonError::into_inner) = want.revision;
        if plan.steps.iter().all(|step| self.refused.contains(&step.object)) {
            self.publish();
        }
        if self.whole {
            let records = want.rows.spent(have).filter_map(|(_, object)| match object.id {
                TextId::Hyphenated(id) => Some(id),
                _ => None,
            });
            let records: Vec<Uuid> = records.collect();
            if !records.is_empty() {
                self.spent.send_replace(records);
            }
        }
        plan
    }

    async fn observe(&mut self, scope: Scope) -> Result<SnapshotView, TargetError> {
        self.whole = scope == Scope::Full;
        self.rows.observe(scope).await
    }

    async fn apply(&mut self, plan: &Plan<Op>) -> Result<Applied, TargetError> {
        let applied = self.rows.apply(plan).await?;
        let failed = plan.steps.iter().zip(&applied.results);
        let failed = failed.filter(|(_, result)| matches!(result, StepResult::Failed(_)));
        self.refused = failed.map(|(step, _)| step.object.clone()).collect();
        self.publish();
        Ok(applied)
    }
}
