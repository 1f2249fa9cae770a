//! The API as the target of the manager's loop.

use std::collections::BTreeSet;

use reconcile::{Applied, ObjectId, Plan, Scope, Target, TargetError};

use super::plan;
use super::state::{Desired, Observed};
use crate::cluster::ApiWriter;
use crate::cluster::write::Write;

/// The name under which the API records our writes.
pub(super) const PROGRAM: &str = "meridian-kube-manager";

/// The API as a target.
pub(super) struct ApiTarget(pub(super) ApiWriter);

impl Target for ApiTarget {
    type Desired = Desired;
    type Observed = Observed;
    type Op = Write;

    fn plan(&mut self, want: &Desired, _keep: &BTreeSet<ObjectId>, have: &Observed) -> Plan<Write> {
        plan::plan(want, have)
    }

    async fn observe(&mut self, _scope: Scope) -> Result<Observed, TargetError> {
        Ok(Observed { objects: self.0.inventory().snapshot(), events: self.0.events().clone() })
    }

    async fn apply(&mut self, plan: &Plan<Write>) -> Result<Applied, TargetError> {
        Ok(self.0.apply(plan).await)
    }
}
