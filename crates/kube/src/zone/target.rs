//! The databases of a zone as targets: rows as wanted, and no deletions in doubt.

use std::collections::BTreeSet;

use ovn::target::{ClientDatabase, Op, RowTarget, SnapshotView, deletions, withhold_deletions};
use reconcile::{Applied, Class, ObjectId, Plan, Problem, Scope, Target, TargetError};

use super::decider::ZoneRows;

/// A database of a zone.
pub(super) struct ZoneTarget(pub(super) RowTarget<ClientDatabase>);

impl Target for ZoneTarget {
    type Desired = ZoneRows;
    type Observed = SnapshotView;
    type Op = Op;

    fn plan(&mut self, want: &ZoneRows, keep: &BTreeSet<ObjectId>, have: &SnapshotView) -> Plan<Op> {
        let mut plan = self.0.plan(&want.rows, keep, have);
        if let Some(doubt) = &want.doubt {
            let rows = deletions(&plan);
            if rows > 0 {
                withhold_deletions(&mut plan);
                let message = format!(
                    "{rows} rows are not wanted any more and stay, because {}; if that is right, \
                     `meridian allow-deletions --yes` deletes them",
                    doubt.reason
                );
                let object = ObjectId::new("zone", "deletions");
                plan.problems.push(Problem::error(object, Class::Refused, "deletions-withheld", message));
            }
        }
        plan
    }

    async fn observe(&mut self, scope: Scope) -> Result<SnapshotView, TargetError> {
        self.0.observe(scope).await
    }

    async fn apply(&mut self, plan: &Plan<Op>) -> Result<Applied, TargetError> {
        self.0.apply(plan).await
    }
}
