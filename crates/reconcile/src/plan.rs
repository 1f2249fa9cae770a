//! Plans: the ordered steps from the observed to the desired state, and the result of each.
//!
//! A plan leaves no choice to the code that applies it. Its steps are idempotent: creating an existing object, or deleting a
//! missing one, succeeds. So a plan may be cut off anywhere, and the next pass plans the rest. Each step names its object, so
//! that a failure counts against the object and not against the loop.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::problem::{ObjectId, Problem};
use crate::reconciler::TargetError;

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step<Op> {
    /// The object of the step.
    pub object: ObjectId,
    /// The operation, in the target's own type.
    pub op: Op,
}

/// Ordered steps, and the distance between observed and desired state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan<Op> {
    /// The steps, in order.
    pub steps: Vec<Step<Op>>,
    /// The number of desired objects.
    pub want: usize,
    /// The number of desired objects that exist exactly as desired.
    pub have: usize,
    /// Problems of objects that this target, in its current state, would refuse.
    pub problems: Vec<Problem>,
    /// Steps that need an operator's permission. `meridian plan` shows them; the loop never applies them.
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    pub withheld: Vec<Step<Op>>,
}

impl<Op> Plan<Op> {
    /// Creates a plan without steps; `have` of `want` objects are already in place.
    pub fn new(want: usize, have: usize) -> Self {
        Self { steps: Vec::new(), want, have, problems: Vec::new(), withheld: Vec::new() }
    }

    /// Adds a step at the end.
    pub fn push(&mut self, object: ObjectId, op: Op) {
        self.steps.push(Step { object, op });
    }

    /// Reports an object that cannot be planned.
    pub fn report(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// Moves the steps for which `holds` is true from the plan to the withheld ones.
    pub fn withhold(&mut self, mut holds: impl FnMut(&Op) -> bool) {
        let (withheld, steps) =
            std::mem::take(&mut self.steps).into_iter().partition(|step: &Step<Op>| holds(&step.op));
        self.steps = steps;
        self.withheld.extend(withheld);
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

impl<Op: fmt::Display> fmt::Display for Plan<Op> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("nothing to do");
        }
        for (n, step) in self.steps.iter().enumerate() {
            if n > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{}: {}", step.object, step.op)?;
        }
        Ok(())
    }
}

/// The result of one step.
#[derive(Debug, Clone)]
pub enum StepResult {
    /// The target is now as the step intended.
    Done,
    /// The step was attempted and failed.
    Failed(TargetError),
    /// The step was not attempted.
    Skipped,
}

/// The result of each step of a plan, in the plan's order.
#[derive(Debug, Clone)]
pub struct Applied {
    /// One result per step.
    pub results: Vec<StepResult>,
}

impl Applied {
    /// Every step of `plan` is done. For targets that commit a plan as one transaction.
    pub fn all_done<Op>(plan: &Plan<Op>) -> Self {
        Self { results: plan.steps.iter().map(|_| StepResult::Done).collect() }
    }
}

/// Walks a plan step by step, for targets that apply one op at a time.
///
/// A failed step does not stop the walk, but the later steps of the same object are skipped: planners make before they
/// break, so after a failed *make* the *break* must not run.
///
/// ```
/// # use reconcile::{ObjectId, Plan, TargetError, Walk, StepResult, Class};
/// # let mut plan = Plan::new(2, 0);
/// # plan.push(ObjectId::new("route", "a"), "make a");
/// # plan.push(ObjectId::new("route", "b"), "make b");
/// # plan.push(ObjectId::new("route", "a"), "break a");
/// # let run = |op: &str| match op { "make a" => Err(TargetError::new(Class::Refused, "make a")), _ => Ok(()) };
/// let mut walk = Walk::new(&plan);
/// while let Some(op) = walk.next_op() {
///     walk.record(run(op)); // in a target: `self.run(op).await`
/// }
/// let applied = walk.finish();
/// # assert!(matches!(applied.results[..], [StepResult::Failed(_), StepResult::Done, StepResult::Skipped]));
/// ```
#[derive(Debug)]
pub struct Walk<'p, Op> {
    plan: &'p Plan<Op>,
    results: Vec<StepResult>,
    failed: BTreeSet<&'p ObjectId>,
}

impl<'p, Op> Walk<'p, Op> {
    /// Starts before the first step.
    pub fn new(plan: &'p Plan<Op>) -> Self {
        Self { plan, results: Vec::with_capacity(plan.steps.len()), failed: BTreeSet::new() }
    }

    /// The next op to apply; call [`record`](Self::record) with its result before the next call.
    pub fn next_op(&mut self) -> Option<&'p Op> {
        loop {
            let step = self.plan.steps.get(self.results.len())?;
            if !self.failed.contains(&step.object) {
                return Some(&step.op);
            }
            self.results.push(StepResult::Skipped);
        }
    }

    /// Records the result of the op that [`next_op`](Self::next_op) returned.
    pub fn record(&mut self, result: Result<(), TargetError>) {
        let Some(step) = self.plan.steps.get(self.results.len()) else { return };
        self.results.push(match result {
            Ok(()) => StepResult::Done,
            Err(error) => {
                self.failed.insert(&step.object);
                StepResult::Failed(error)
            }
        });
    }

    /// Ends the walk; steps it did not reach count as skipped.
    pub fn finish(mut self) -> Applied {
        self.results.resize_with(self.plan.steps.len(), || StepResult::Skipped);
        Applied { results: self.results }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Class;

    fn plan(steps: &[(&str, &'static str)]) -> Plan<&'static str> {
        let mut plan = Plan::new(steps.len(), 0);
        for (object, op) in steps {
            plan.push(ObjectId::new("thing", *object), *op);
        }
        plan
    }

    #[test]
    fn text_has_one_line_per_step_and_says_when_there_is_none() {
        assert_eq!(plan(&[]).to_string(), "nothing to do");
        assert_eq!(plan(&[("a", "add"), ("b", "drop")]).to_string(), "thing/a: add\nthing/b: drop");
    }

    #[test]
    fn json_keeps_steps_and_counts() {
        let mut owned = Plan::new(3, 2);
        owned.push(ObjectId::new("thing", "a"), "add".to_string());
        owned.report(Problem::warning(
            ObjectId::new("thing", "a"),
            Class::Refused,
            "no-colour",
            "stays grey",
        ));
        let text = serde_json::to_string(&owned).unwrap();
        assert_eq!(serde_json::from_str::<Plan<String>>(&text).unwrap(), owned);
    }

    #[test]
    fn a_failed_make_skips_the_break_of_the_same_object_only() {
        let plan = plan(&[("a", "make"), ("b", "make"), ("a", "break"), ("b", "break")]);
        let mut walk = Walk::new(&plan);
        let mut ran = 0;
        while walk.next_op().is_some() {
            ran += 1;
            walk.record(if ran == 1 { Err(TargetError::new(Class::Refused, "make a")) } else { Ok(()) });
        }
        use StepResult::*;
        assert!(matches!(walk.finish().results[..], [Failed(_), Done, Skipped, Done]));
        assert_eq!(ran, 3);
    }

    #[test]
    fn a_walk_cut_off_leaves_the_rest_skipped() {
        let plan = plan(&[("a", "make"), ("b", "make")]);
        let mut walk = Walk::new(&plan);
        walk.next_op();
        walk.record(Ok(()));
        assert!(matches!(walk.finish().results[..], [StepResult::Done, StepResult::Skipped]));
    }
}
