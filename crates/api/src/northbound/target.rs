//! The writer's target, which also reports records of adopted rows that are gone.

use std::collections::BTreeSet;

use ovn::target::{Op, SnapshotView};
use ovn::writer::{WriterDesired, WriterTarget};
use reconcile::{Applied, ObjectId, Plan, Scope, Target, TargetError, TextId};
use tokio::sync::watch;
use uuid::Uuid;

/// The Northbound's rows as a target.
pub(super) struct NorthboundTarget {
    rows: WriterTarget,
    /// Whether the present run is a full resync.
    whole: bool,
    spent: watch::Sender<Vec<Uuid>>,
}

impl NorthboundTarget {
    pub(super) fn new(rows: WriterTarget) -> Self {
        NorthboundTarget { rows, whole: false, spent: watch::Sender::default() }
    }

    /// The records of adopted rows ([`Adopted::ours`](crate::model::Adopted)) that no row or object needs any more, as of the last full
    /// resync.
    pub(super) fn spent(&self) -> watch::Receiver<Vec<Uuid>> {
        self.spent.subscribe()
    }
}

impl Target for NorthboundTarget {
    type Desired = WriterDesired;
    type Observed = SnapshotView;
    type Op = Op;

    fn plan(&mut self, want: &WriterDesired, keep: &BTreeSet<ObjectId>, have: &SnapshotView) -> Plan<Op> {
        self.rows.plan(want, keep, have)
    }

    fn publish(&mut self, want: &WriterDesired, have: &SnapshotView) {
        self.rows.publish(want, have);
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
    }

    async fn observe(&mut self, scope: Scope) -> Result<SnapshotView, TargetError> {
        self.whole = scope == Scope::Full;
        self.rows.observe(scope).await
    }

    async fn apply(&mut self, plan: &Plan<Op>) -> Result<Applied, TargetError> {
        self.rows.apply(plan).await
    }
}
