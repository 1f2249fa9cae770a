//! A target that logs the steps of its plans, and takes none of them: the dry run of an agent.

use std::collections::BTreeSet;

use tracing::info;

use crate::plan::{Applied, Plan, StepResult};
use crate::problem::ObjectId;
use crate::reconciler::{Scope, Target, TargetError};

/// Observes and plans as the wrapped target does, and changes nothing.
#[derive(Debug)]
pub struct DryRun<T> {
    target: T,
    told: BTreeSet<String>,
    is_logged: bool,
}

impl<T> DryRun<T> {
    /// Keeps a target from changing anything.
    pub fn new(target: T) -> Self {
        Self { target, told: BTreeSet::new(), is_logged: true }
    }

    /// Keeps a target from changing anything, without a log of the steps: the caller prints the plan.
    pub fn unlogged(target: T) -> Self {
        Self { is_logged: false, ..Self::new(target) }
    }
}

impl<T: Target> Target for DryRun<T> {
    type Desired = T::Desired;
    type Observed = T::Observed;
    type Op = T::Op;

    fn plan(&mut self, want: &T::Desired, keep: &BTreeSet<ObjectId>, have: &T::Observed) -> Plan<T::Op> {
        self.target.plan(want, keep, have)
    }

    fn publish(&mut self, want: &T::Desired, have: &T::Observed) {
        self.target.publish(want, have);
    }

    async fn observe(&mut self, scope: Scope) -> Result<T::Observed, TargetError> {
        self.target.observe(scope).await
    }

    async fn apply(&mut self, plan: &Plan<T::Op>) -> Result<Applied, TargetError> {
        let steps: BTreeSet<String> =
            plan.steps.iter().map(|step| format!("{}: {}", step.object, step.op)).collect();
        for step in steps.difference(&self.told).filter(|_| self.is_logged) {
            info!("would do {step}");
        }
        self.told = steps;
        Ok(Applied { results: plan.steps.iter().map(|_| StepResult::Skipped).collect() })
    }
}
