//! Rows as the loop's target, which also tells up to which change of the world they are written.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ovn::target::{ClientDatabase, Op, Ownership, RowTarget, Rules, SnapshotView};
use reconcile::{Applied, ObjectId, Plan, Scope, StepResult, Target, TargetError, TextId};
use tokio::sync::watch;
use uuid::Uuid;

use crate::desired::Wanted;

/// The Northbound's rows.
pub(super) struct NorthboundTarget {
    rows: RowTarget<ClientDatabase>,
    /// The change of the world that the last plan was for.
    planned: Arc<AtomicU64>,
    /// Objects that the server refused last time: they hold up nobody who waits for others.
    refused: BTreeSet<ObjectId>,
    applied: watch::Sender<u64>,
    /// Whether everything is looked at.
    whole: bool,
    spent: watch::Sender<Vec<Uuid>>,
}

impl NorthboundTarget {
    pub(super) fn new(
        database: ClientDatabase,
        ownership: Ownership,
        lock: &str,
        applied: watch::Sender<u64>,
    ) -> Self {
        let rows = RowTarget::new(database, ownership, Rules::northbound()).with_lock(lock);
        let spent = watch::Sender::default();
        NorthboundTarget {
            rows,
            planned: Arc::default(),
            refused: BTreeSet::new(),
            applied,
            whole: false,
            spent,
        }
    }

    /// Records of rows that were taken over ([`Adopted::ours`](crate::model::Adopted)) which nothing hangs on any more, as of
    /// the last look at everything.
    pub(super) fn spent(&self) -> watch::Receiver<Vec<Uuid>> {
        self.spent.subscribe()
    }

    pub(super) fn guarded(self, guard: impl FnMut() -> Option<serde_json::Value> + Send + 'static) -> Self {
        NorthboundTarget { rows: self.rows.with_guard(guard), ..self }
    }

    /// Writes with every transaction what this gives for the change of the world that it is for.
    pub(super) fn noting(self, note: impl Fn(u64) -> Option<serde_json::Value> + Send + 'static) -> Self {
        let planned = Arc::clone(&self.planned);
        let rows = self.rows.with_note(move || note(planned.load(Ordering::Relaxed)));
        NorthboundTarget { rows, ..self }
    }

    fn publish(&self) {
        let seq = self.planned.load(Ordering::Relaxed);
        self.applied.send_if_modified(|applied| {
            let newer = seq > *applied;
            *applied = seq.max(*applied);
            newer
        });
    }
}

impl Target for NorthboundTarget {
    type Desired = Wanted;
    type Observed = SnapshotView;
    type Op = Op;

    fn plan(&self, want: &Wanted, keep: &BTreeSet<ObjectId>, have: &SnapshotView) -> Plan<Op> {
        let plan = self.rows.plan(&want.rows, keep, have);
        self.planned.store(want.seq, Ordering::Relaxed);
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
