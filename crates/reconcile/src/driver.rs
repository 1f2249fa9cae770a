//! The loop itself: wait, observe, plan, apply, report.
//!
//! This module holds only tokio, the clock and the order of calls. [`Schedule`] decides when to run and `Holds` decides which
//! objects must wait; both are pure.

mod thread;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::pin::pin;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::Serialize;
use smol_str::SmolStr;
use task::contain::{self, Panicked};
use tokio::sync::{mpsc, watch};
use tracing::{debug, info, warn};

use crate::handle::{Handle, NoPlan, Preview, PreviewReply, PreviewStep, Signals};
use crate::holds::Holds;
use crate::loop_code::LoopCode;
use crate::metrics::Metrics;
use crate::outcome::Outcome;
use crate::plan::{Plan, Step};
use crate::problem::{Class, ObjectId, Problem, chain};
use crate::reconciler::{Desire, Scope, Target, TargetError};
use crate::schedule::{Cause, RunEnd, Schedule, Timing, Wake};
use crate::status::{LastError, Stage, StageTime, State, Status};

/// An input is not available yet; the string names it (`the Southbound database`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting(pub String);

/// The reason why a pass ended without a plan.
enum Halt {
    Waiting(String),
    Failed { problem: Problem, pure: bool },
    Stopped,
}

/// The plan of a pass, and the input that is still missing for the rest.
struct PlannedRun<Op> {
    plan: Plan<Op>,
    waiting_for: Option<String>,
}

/// One component: its inputs, its decider, its target, and the loop around them.
pub struct Driver<I, D, T: Target> {
    component: SmolStr,
    timing: Timing,
    inputs: I,
    desire: D,
    target: T,
    metrics: Metrics,
    schedule: Schedule,
    holds: Holds<T::Op>,
    random: fastrand::Rng,
    handle: Handle,
    signals: watch::Receiver<Signals>,
    seen: Signals,
    previews: mpsc::Receiver<PreviewReply>,
    publish: watch::Sender<Status>,
    /// The status under construction; published at the end of a run.
    status: Status,
    /// The last reading of the clock. The loop reads it only where time may have passed, because a kernel may be slow to
    /// answer.
    at: Instant,
    /// The problems of the last decision.
    decided: Vec<Problem>,
    /// The problems of the last plan.
    planned: Vec<Problem>,
}

impl<I, D, T> Driver<I, D, T>
where
    I: FnMut() -> Result<D::Snapshot, Waiting> + Send,
    D: Desire,
    T: Target<Desired = D::Desired>,
{
    /// Creates a component that takes its newest inputs from `inputs` for each run. It does nothing before [`run`](Self::run).
    pub fn new(component: impl Into<SmolStr>, timing: Timing, inputs: I, desire: D, target: T) -> Self {
        let component = component.into();
        let status = Status::starting(component.clone());
        let (publish, subscribed) = watch::channel(status.clone());
        let (signal, signals) = watch::channel(Signals::default());
        let (ask, previews) = mpsc::channel(8);
        let at = now();
        Self {
            timing,
            inputs,
            desire,
            target,
            metrics: Metrics::default(),
            schedule: Schedule::new(timing, at),
            holds: Holds::new(timing.backoff),
            random: fastrand::Rng::new(),
            handle: Handle {
                component: component.clone(),
                signals: signal,
                previews: ask,
                status: subscribed,
            },
            signals,
            seen: Signals::default(),
            previews,
            publish,
            status,
            at,
            decided: Vec::new(),
            planned: Vec::new(),
            component,
        }
    }

    /// Counts in `metrics`.
    pub fn with_metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// The component's handle.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Runs until [`Handle::stop`]. Never gives up on a failure.
    pub async fn run(mut self) {
        loop {
            self.at = now();
            let signals = *self.signals.borrow_and_update();
            if signals.stop {
                break;
            }
            if signals.asked != self.seen.asked {
                self.schedule.wake(self.at, Wake::Now);
            }
            if signals.changed != self.seen.changed {
                self.schedule.wake(self.at, Wake::Changed);
            }
            self.seen = signals;
            if let Some((cause, scope)) = self.schedule.begin(self.at) {
                self.reconcile(cause, scope).await;
                // A change that this run caused may just be arriving. Yielding lets the next run include it, instead of the one after that.
                tokio::task::yield_now().await;
                continue;
            }
            let (due, _) = self.schedule.due();
            tokio::select! {
                // The driver holds a sender itself, so the channel does not close.
                _ = self.signals.changed() => {}
                () = tokio::time::sleep_until(due.into()) => {}
                Some(reply) = self.previews.recv() => {
                    let preview = self.plan_once().await;
                    // The target does not report again what it observed for the preview, so the loop runs if there is work.
                    if preview.as_ref().is_ok_and(|shown| shown.steps.iter().any(|step| !step.held)) {
                        self.schedule.wake(self.at, Wake::Changed);
                    }
                    let _ = reply.send(preview);
                }
            }
        }
        self.status.next_try = None;
        self.enter(State::Stopped);
        self.publish.send_replace(self.status.clone());
        self.metrics.stopped(&self.component);
    }

    /// Observes and plans without changing anything: the dry run.
    pub async fn plan_once(&mut self) -> Result<Preview, NoPlan> {
        // A preview is no run, so the stages of the last run stay in the status.
        let stages = std::mem::take(&mut self.status.stages);
        self.at = now();
        let looked = self.look(Scope::Full).await;
        self.status.stages = stages;
        let plan = match looked {
            Ok(PlannedRun { plan, waiting_for: None }) => plan,
            Ok(PlannedRun { waiting_for: Some(what), .. }) | Err(Halt::Waiting(what)) => {
                return Err(NoPlan::Waiting(what));
            }
            Err(Halt::Failed { problem, .. }) => return Err(NoPlan::Failed(problem)),
            Err(Halt::Stopped) => return Err(NoPlan::Stopped),
        };
        let held = self.holds.held(self.at, &plan);
        // `Display` of an op is the target's code, so a panic in it is contained like any other.
        let shown = contain::sync(|| {
            let steps = plan.steps.iter().map(|step| shown(step, held.contains(&step.object)));
            steps.chain(plan.withheld.iter().map(|step| shown(step, true))).collect()
        });
        let steps = shown.map_err(|panic| NoPlan::Failed(self.panicked(Stage::Plan, panic)))?;
        Ok(Preview {
            component: self.component.clone(),
            want: plan.want,
            have: plan.have,
            steps,
            problems: self.problems(None),
        })
    }

    /// One run, from the inputs to the published status.
    async fn reconcile(&mut self, cause: Cause, scope: Scope) {
        debug!(component = %self.component, ?cause, ?scope, "run");
        if cause == Cause::Asked {
            self.holds.release();
        }
        self.status.stages.clear();
        let (ended, state, failure) = match self.attempt(scope).await {
            Ok(RunEnd::Waiting) => (RunEnd::Waiting, State::Starting, None),
            Ok(ended) => (ended, self.state_after(ended), None),
            Err(Halt::Stopped) => return,
            Err(Halt::Waiting(what)) => {
                self.status.waiting_for = Some(what);
                (RunEnd::Waiting, State::Starting, None)
            }
            Err(Halt::Failed { problem, pure }) => {
                let class = problem.class;
                let state = State::after([class]).unwrap_or(State::Stuck);
                (RunEnd::Failed { class, pure }, state, Some(problem))
            }
        };
        self.schedule.finish(self.at, ended, self.random.f64());
        self.report(ended, state, failure);
    }

    /// Observes, plans and applies.
    async fn attempt(&mut self, scope: Scope) -> Result<RunEnd, Halt> {
        let PlannedRun { mut plan, waiting_for } = self.look(scope).await?;
        let waits = waiting_for.is_some();
        (self.status.want, self.status.have) = (plan.want, plan.have);
        self.status.planned = plan.steps.len();
        self.status.waiting_for = waiting_for;
        self.holds.forget_settled(self.at, &plan);
        let held = self.holds.held(self.at, &plan);
        plan.steps.retain(|step| !held.contains(&step.object));
        self.status.held = held.len();
        if plan.is_empty() {
            let ran = RunEnd::Ran { changed: false, failed: false, retry: self.holds.next() };
            return Ok(if waits { RunEnd::Waiting } else { ran });
        }
        debug!(component = %self.component, steps = plan.steps.len(), held = held.len(), "apply");
        // A retry after a failure does not change the status; only its success does.
        if !waits && !matches!(self.status.state, State::BackingOff | State::Stuck) {
            self.enter(State::Working);
        }
        self.publish.send_replace(self.status.clone());
        let applied = {
            // After the time limit the outcome of the op is unknown, so the loop observes again.
            let late = TargetError::new(Class::Conflict, "apply the plan");
            let mut apply = pin!(within(self.at, self.timing.limit, late, self.target.apply(&plan)));
            tokio::select! {
                applied = &mut apply => Some(applied),
                () = stopped(&mut self.signals) => {
                    tokio::time::timeout(self.timing.stop_grace, apply).await.ok()
                }
            }
        };
        self.took(Stage::Apply);
        let applied = applied.ok_or(Halt::Stopped)?;
        let applied = self.checked(Stage::Apply, applied)?;
        let tally = self.holds.record(self.at, plan, applied, || self.random.f64());
        self.status.held = self.holds.waiting(self.at);
        let ran = RunEnd::Ran { changed: tally.done > 0, failed: tally.failed > 0, retry: self.holds.next() };
        Ok(if waits { RunEnd::Waiting } else { ran })
    }

    /// Reads the inputs, decides, observes and plans.
    async fn look(&mut self, scope: Scope) -> Result<PlannedRun<T::Op>, Halt> {
        let snapshot = contain::sync(&mut self.inputs);
        self.took(Stage::Snapshot);
        let snapshot = self.decision(Stage::Snapshot, snapshot)?;
        // The snapshot is dropped here, because observing and applying may take long.
        let (outcome, waiting_for) = match snapshot {
            Ok(snapshot) => (contain::sync(|| Some(self.desire.desire(&snapshot))), None),
            Err(Waiting(what)) => (contain::sync(|| self.desire.meanwhile().map(Outcome::new)), Some(what)),
        };
        self.took(Stage::Desire);
        let Some(outcome) = self.decision(Stage::Desire, outcome)? else {
            return Err(Halt::Waiting(waiting_for.unwrap_or_default()));
        };
        let published = contain::sync(|| self.desire.publish());
        self.decision(Stage::Desire, published)?;
        self.decided = outcome.problems;

        let late = TargetError::new(Class::Transient, "read the target");
        let observed = tokio::select! {
            observed = within(self.at, self.timing.limit, late, self.target.observe(scope)) => observed,
            () = stopped(&mut self.signals) => return Err(Halt::Stopped),
        };
        self.took(Stage::Observe);
        let observed = self.checked(Stage::Observe, observed)?;

        let plan = contain::sync(|| {
            let plan = self.target.plan(&outcome.value, &outcome.keep, &observed);
            self.target.publish(&outcome.value, &observed);
            plan
        });
        self.took(Stage::Plan);
        let mut plan = self.pure(Stage::Plan, plan)?;
        plan.steps.retain(|step| !outcome.keep.contains(&step.object));
        self.planned = std::mem::take(&mut plan.problems);
        Ok(PlannedRun { plan, waiting_for })
    }

    /// Recovers from a panic in a pure step, which may have lost a change or left the decider's memory half-written.
    fn decision<V>(&mut self, stage: Stage, result: Result<V, Panicked>) -> Result<V, Halt> {
        if result.is_err() {
            // A second panic adds nothing to the first one, which is reported.
            let _ = contain::sync(|| self.desire.forget());
        }
        self.pure(stage, result)
    }

    fn pure<V>(&self, stage: Stage, result: Result<V, Panicked>) -> Result<V, Halt> {
        result.map_err(|panic| Halt::Failed { problem: self.panicked(stage, panic), pure: true })
    }

    fn checked<V>(&self, stage: Stage, result: Result<Result<V, TargetError>, Panicked>) -> Result<V, Halt> {
        let problem = match result {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => {
                let message = format!("could not {}; {}", chain(&error), error.class().advice());
                let code =
                    if stage == Stage::Apply { LoopCode::ApplyFailed } else { LoopCode::ObserveFailed };
                Problem::error(self.itself(), error.class(), code, message)
            }
            Err(panic) => self.panicked(stage, panic),
        };
        Err(Halt::Failed { problem, pure: false })
    }

    fn panicked(&self, stage: Stage, Panicked(text): Panicked) -> Problem {
        let message = format!("panicked in {}: {text}; {}", stage.as_str(), Class::Bug.advice());
        Problem::error(self.itself(), Class::Bug, LoopCode::Panicked, message)
    }

    fn itself(&self) -> ObjectId {
        ObjectId::new("component", self.component.clone())
    }

    /// Records the end of a stage that began at the last reading of the clock.
    fn took(&mut self, stage: Stage) {
        let started = std::mem::replace(&mut self.at, now());
        let seconds = self.at.duration_since(started).as_secs_f64();
        self.status.stages.push(StageTime { stage, seconds });
    }

    fn state_after(&self, ended: RunEnd) -> State {
        let changed = matches!(ended, RunEnd::Ran { changed: true, .. });
        let done = if changed { State::Working } else { State::Converged };
        State::after(self.holds.problems().map(|problem| problem.class)).unwrap_or(done)
    }

    /// All current problems: from the decision, the plan, the held objects, and the error that ended the run.
    fn problems(&self, failure: Option<&Problem>) -> Vec<Problem> {
        let looked = self.decided.iter().chain(&self.planned);
        let mut all: Vec<Problem> =
            looked.chain(self.holds.problems()).chain(self.holds.undone()).chain(failure).cloned().collect();
        all.sort();
        all.dedup();
        all
    }

    fn report(&mut self, ended: RunEnd, state: State, failure: Option<Problem>) {
        let wall = Timestamp::now();
        let class = failure.as_ref().map(|failure| failure.class);
        // A conflict that is retried at once is normal with several writers: it is counted, but no problem yet.
        let (state, failure) = match self.schedule.next_try() {
            Some(at) if class == Some(Class::Conflict) && at <= self.at => (self.status.state, None),
            _ => (state, failure),
        };
        let problems = self.problems(failure.as_ref());
        log_problems(&self.component, &self.status.problems, &problems);
        self.status.problems = problems;
        self.status.generation += 1;
        self.status.last_run = Some(wall);
        if matches!(ended, RunEnd::Ran { .. }) {
            self.status.last_success = Some(wall);
        }
        if let Some(failure) = failure {
            self.status.last_error = Some(LastError { at: wall, message: failure.message });
        }
        self.status.next_try = self.schedule.next_try().map(|at| later(wall, at.duration_since(self.at)));
        self.enter(state);
        self.metrics.ran(&self.status, class);
        self.publish.send_replace(self.status.clone());
    }

    fn enter(&mut self, state: State) {
        let before = std::mem::replace(&mut self.status.state, state);
        if !before.alike(state) {
            info!(
                component = %self.component,
                from = ?before,
                to = ?state,
                want = self.status.want,
                have = self.status.have,
                problems = self.status.problems.len(),
                "state"
            );
        }
    }
}

fn shown<Op: Display + Serialize>(step: &Step<Op>, held: bool) -> PreviewStep {
    PreviewStep {
        object: step.object.clone(),
        text: step.op.to_string(),
        // An op without a JSON form still has its string.
        op: serde_json::to_value(&step.op).unwrap_or(serde_json::Value::Null),
        held,
    }
}

/// Logs one line when a problem appears and one when it is gone. Logs nothing while it lasts, even if its wording changes.
fn log_problems(component: &str, before: &[Problem], after: &[Problem]) {
    if before == after {
        return;
    }
    let keys = |problems: &[Problem]| -> BTreeSet<(ObjectId, SmolStr)> {
        problems.iter().map(|problem| (problem.object.clone(), problem.code.clone())).collect()
    };
    let (known, present) = (keys(before), keys(after));
    for problem in after.iter().filter(|p| !known.contains(&(p.object.clone(), p.code.clone()))) {
        warn!(component, object = %problem.object, class = %problem.class, code = %problem.code, "{}", problem.message);
    }
    for (object, code) in known.difference(&present) {
        info!(component, %object, %code, "problem resolved");
    }
}

/// The runtime's clock, which tests can move.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

fn later(wall: Timestamp, by: Duration) -> Timestamp {
    wall.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// Runs an asynchronous step of the target from `start` on. Past the limit, the step is dropped and fails with `late`.
async fn within<V>(
    start: Instant,
    limit: Duration,
    late: TargetError,
    step: impl Future<Output = Result<V, TargetError>>,
) -> Result<Result<V, TargetError>, Panicked> {
    match tokio::time::timeout_at((start + limit).into(), contain::future(step)).await {
        Ok(result) => result,
        Err(_) => Ok(Err(late.because(format!("no answer within {} s", limit.as_secs())))),
    }
}

async fn stopped(signals: &mut watch::Receiver<Signals>) {
    let _ = signals.wait_for(|signals| signals.stop).await;
}

#[cfg(test)]
mod tests;
