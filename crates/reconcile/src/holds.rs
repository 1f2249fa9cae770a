//! Objects whose steps failed, each with its own delay, so that none delays the others.
//!
//! The loop remembers an object's steps from one run to the next.
//!
//! - Failed steps wait until the object's delay is over. If the object's plan changes meanwhile, because the input was
//!   corrected, the loop retries at once.
//! - Steps that succeed and come back unchanged in the next plan had no effect: either another program undoes them, or
//!   observing and planning disagree. The loop repeats them with growing delays and reports them, instead of repeating them in
//!   a hot loop.
//! - An object that reaches its desired state and needs the same steps again and again has another program that undoes them.
//!   The loop restores it each time, and reports it.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::backoff::{Backoff, Delays};
use crate::loop_code::LoopCode;
use crate::plan::{Applied, Plan, StepResult};
use crate::problem::{Class, ObjectId, Problem, chain};
use crate::reconciler::TargetError;

/// The number of successes without effect in a row that an outdated observation may explain. The next one is reported.
const PATIENCE: u32 = 2;

/// The window in which undone steps are counted.
const WINDOW: Duration = Duration::from_secs(10);
/// The number of times within the window that the same steps restore an object before the loop reports another program.
const UNDONE: usize = 4;

#[derive(Debug)]
struct Attempt<Op> {
    steps: Vec<Op>,
    failed: bool,
    backoff: Backoff,
    until: Option<Instant>,
    problem: Option<Problem>,
}

/// The result of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tally {
    /// Successful steps.
    pub(crate) done: usize,
    /// Failed steps.
    pub(crate) failed: usize,
}

/// The attempts of the last runs, object by object.
#[derive(Debug)]
pub(crate) struct Holds<Op> {
    delays: Delays,
    attempts: BTreeMap<ObjectId, Attempt<Op>>,
    /// Objects that reached their desired state recently.
    settled: BTreeMap<ObjectId, Settled<Op>>,
}

/// The steps that brought an object to its desired state, and the times when they were needed.
#[derive(Debug)]
struct Settled<Op> {
    steps: Vec<Op>,
    times: Vec<Instant>,
    problem: Option<Problem>,
}

impl<Op: PartialEq> Holds<Op> {
    pub(crate) fn new(delays: Delays) -> Self {
        Self { delays, attempts: BTreeMap::new(), settled: BTreeMap::new() }
    }

    /// The objects of `plan` that must wait.
    pub(crate) fn held(&self, now: Instant, plan: &Plan<Op>) -> BTreeSet<ObjectId> {
        let waiting = |object: &ObjectId| {
            self.attempts.get(object).is_some_and(|attempt| attempt.until.is_some_and(|until| until > now))
        };
        let mut planned: BTreeMap<&ObjectId, Vec<&Op>> = BTreeMap::new();
        for step in plan.steps.iter().filter(|step| waiting(&step.object)) {
            planned.entry(&step.object).or_default().push(&step.op);
        }
        let same = |object: &ObjectId, steps: &[&Op]| {
            self.attempts.get(object).is_some_and(|attempt| attempt.steps.iter().eq(steps.iter().copied()))
        };
        planned.into_iter().filter(|(object, steps)| same(object, steps)).map(|(o, _)| o.clone()).collect()
    }

    /// Forgets objects that `plan` does not name: they are as desired, or no longer desired.
    pub(crate) fn forget_settled(&mut self, now: Instant, plan: &Plan<Op>) {
        let recent = |at: &Instant| now.saturating_duration_since(*at) < WINDOW;
        self.settled.retain(|_, settled| settled.times.last().is_some_and(recent));
        if self.attempts.is_empty() {
            return;
        }
        let planned: BTreeSet<&ObjectId> = plan.steps.iter().map(|step| &step.object).collect();
        let (kept, gone): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.attempts).into_iter().partition(|(object, _)| planned.contains(object));
        self.attempts = kept;
        for (object, Attempt { steps, .. }) in gone.into_iter().filter(|(_, attempt)| !attempt.failed) {
            let times = self.settled.remove(&object).filter(|before| before.steps == steps);
            let mut times = times.map_or_else(Vec::new, |before| before.times);
            times.retain(recent);
            times.push(now);
            let problem = (times.len() >= UNDONE).then(|| undone(&object, times.len() - 1));
            self.settled.insert(object, Settled { steps, times, problem });
        }
    }

    /// Ends all waits.
    pub(crate) fn release(&mut self) {
        self.attempts.values_mut().for_each(|attempt| attempt.until = None);
    }

    /// Records the results of the attempted steps.
    pub(crate) fn record(
        &mut self,
        now: Instant,
        tried: Plan<Op>,
        applied: Applied,
        mut jitter: impl FnMut() -> f64,
    ) -> Tally {
        let mut tally = Tally::default();
        let mut objects: BTreeMap<ObjectId, (Vec<Op>, Option<TargetError>, bool)> = BTreeMap::new();
        // If a target returns too few results, the missing steps count as skipped.
        let results = applied.results.into_iter().chain(std::iter::repeat(StepResult::Skipped));
        for (step, result) in tried.steps.into_iter().zip(results) {
            let (steps, error, skipped) = objects.entry(step.object).or_default();
            steps.push(step.op);
            match result {
                StepResult::Done => tally.done += 1,
                StepResult::Skipped => *skipped = true,
                StepResult::Failed(why) => {
                    tally.failed += 1;
                    error.get_or_insert(why);
                }
            }
        }
        for (object, (steps, error, skipped)) in objects {
            let last = self.attempts.remove(&object);
            let mut backoff = last.as_ref().map_or_else(Backoff::default, |last| last.backoff);
            let attempt = if let Some(error) = error {
                let delay = backoff.fail(error.class(), &self.delays, jitter());
                // A conflict that is retried at once is no problem yet.
                let problem = (!delay.is_zero()).then(|| failure(&object, &error));
                Attempt { steps, failed: true, backoff, until: Some(now + delay), problem }
            } else if skipped {
                continue;
            } else if last.is_some_and(|last| !last.failed && last.steps == steps) {
                let delay = backoff.fail(Class::Bug, &self.delays, jitter());
                let problem = (backoff.failures() > PATIENCE).then(|| fruitless(&object, backoff.failures()));
                Attempt { steps, failed: false, backoff, until: Some(now + delay), problem }
            } else {
                Attempt { steps, failed: false, backoff: Backoff::default(), until: None, problem: None }
            };
            self.attempts.insert(object, attempt);
        }
        tally
    }

    /// The end of the first delay that is not over or has not led to a run yet.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.attempts.values().filter_map(|attempt| attempt.until).min()
    }

    /// The number of waiting objects.
    pub(crate) fn waiting(&self, now: Instant) -> usize {
        self.attempts.values().filter(|attempt| attempt.until.is_some_and(|until| until > now)).count()
    }

    /// The problems of the held objects.
    pub(crate) fn problems(&self) -> impl Iterator<Item = &Problem> {
        self.attempts.values().filter_map(|attempt| attempt.problem.as_ref())
    }

    /// The problems of objects that do not stay as desired.
    pub(crate) fn undone(&self) -> impl Iterator<Item = &Problem> {
        self.settled.values().filter_map(|settled| settled.problem.as_ref())
    }
}

fn failure(object: &ObjectId, error: &TargetError) -> Problem {
    let message = format!("could not {}; {}", chain(error), error.class().advice());
    Problem::error(object.clone(), error.class(), LoopCode::ApplyFailed, message)
}

fn fruitless(object: &ObjectId, repeats: u32) -> Problem {
    let message = format!(
        "its steps succeeded {} times and are planned again each time; look for another program that undoes them, and if \
         there is none report a bug in Meridian",
        repeats + 1
    );
    Problem::error(object.clone(), Class::Bug, LoopCode::DoesNotConverge, message)
}

fn undone(object: &ObjectId, times: usize) -> Problem {
    let message = format!(
        "its steps succeeded, and were undone {times} times in {} s; look for another program that changes it",
        WINDOW.as_secs()
    );
    Problem::error(object.clone(), Class::Conflict, LoopCode::UndoneAgain, message)
}

#[cfg(test)]
mod tests;
