//! The time of the next run. Pure: its inputs are wakes, ends of runs and the time; its output is a deadline.
//!
//! The rules:
//! - Wakes are **coalesced**: a run starts when none has come for [`Timing::window`], and at the latest
//!   [`Timing::max_delay`] after the first, so a steady stream of wakes delays a run but never starves it.
//! - After a run that changed the target, the loop observes again, after the same window: only an observation that finds
//!   nothing to do proves convergence.
//! - After a **failure of the target** the component backs off, and wakes do not shorten the delay: new input does not repair a
//!   broken target, and a busy input would turn back-off into a hot loop. The schedule remembers the wakes for the next run.
//! - After a **failure of a pure step** wakes do shorten the delay: the step failed because of its input, and new input may
//!   succeed.
//! - [`Wake::Now`] ends any delay: an operator requested a run, or a target knows that it is back.
//! - A full resync is due [`Timing::resync`] after the last full observation.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::{Duration, Instant};

use crate::backoff::{Backoff, Delays};
use crate::problem::Class;
use crate::reconciler::Scope;

/// The loop's delays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Time without wakes before a run starts.
    pub window: Duration,
    /// Maximum delay of a run under a steady stream of wakes.
    pub max_delay: Duration,
    /// Interval between full observations without any event.
    pub resync: Duration,
    /// Delays after failures.
    pub backoff: Delays,
    /// Timeout of one observation, or of applying one plan. Past it, the step is dropped and counts as failed, so that a silent
    /// target cannot block its component forever.
    pub limit: Duration,
    /// Maximum time that a stop waits for the plan being applied.
    pub stop_grace: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            window: Duration::from_millis(20),
            max_delay: Duration::from_millis(200),
            resync: Duration::from_secs(300),
            backoff: Delays::default(),
            limit: Duration::from_secs(120),
            stop_grace: Duration::from_secs(5),
        }
    }
}

/// The reason of a wake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// An input changed.
    Changed,
    /// An operator or a target requests a retry of everything at once, regardless of earlier failures.
    Now,
}

/// The reason of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The first run.
    Start,
    /// An input changed, or the last run changed the target.
    Wake,
    /// An explicit request.
    Asked,
    /// The delay after a failure of the component or of an object is over.
    Retry,
    /// The periodic full observation is due.
    Resync,
}

/// The end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    /// An input is not available yet.
    Waiting,
    /// The component as a whole failed.
    Failed {
        /// The remedy.
        class: Class,
        /// Whether a pure step failed, so that new input may help.
        pure: bool,
    },
    /// The run completed.
    Ran {
        /// Whether the run changed the target.
        changed: bool,
        /// Whether any step failed.
        failed: bool,
        /// The time to retry the first held object.
        retry: Option<Instant>,
    },
}

/// The delay of the component after a failure.
#[derive(Debug, Clone, Copy)]
struct Wait {
    until: Instant,
    pure: bool,
}

/// Decides when to run.
#[derive(Debug)]
pub struct Schedule {
    timing: Timing,
    /// First and last of the wakes that no run has served yet.
    wakes: Option<(Instant, Instant)>,
    /// A run requested at once.
    prompt: Option<(Instant, Cause)>,
    backoff: Backoff,
    wait: Option<Wait>,
    objects: Option<Instant>,
    resync: Instant,
    /// Whether a step failed since the last full observation, so that remembered state may be wrong.
    distrust: bool,
    scope: Scope,
}

impl Schedule {
    /// A schedule whose first run is due at once.
    pub fn new(timing: Timing, now: Instant) -> Self {
        Self {
            timing,
            wakes: None,
            prompt: Some((now, Cause::Start)),
            backoff: Backoff::default(),
            wait: None,
            objects: None,
            resync: now + timing.resync,
            distrust: true,
            scope: Scope::Full,
        }
    }

    /// Records a wake.
    pub fn wake(&mut self, now: Instant, wake: Wake) {
        match wake {
            Wake::Changed => {
                let first = self.wakes.map_or(now, |(first, _)| first);
                self.wakes = Some((first, now));
            }
            Wake::Now => self.prompt = Some((now, Cause::Asked)),
        }
    }

    /// The time of the next run, and its reason.
    pub fn due(&self) -> (Instant, Cause) {
        let woken = self.wakes.map(|(first, last)| {
            ((last + self.timing.window).min(first + self.timing.max_delay), Cause::Wake)
        });
        let after_wait = self.wait.map(|wait| (wait.until, Cause::Retry));
        let candidates = match self.wait {
            Some(Wait { pure: false, .. }) => [self.prompt, after_wait, None, None],
            Some(Wait { pure: true, .. }) => [self.prompt, after_wait, woken, None],
            None => [
                self.prompt,
                woken,
                self.objects.map(|at| (at, Cause::Retry)),
                Some((self.resync, Cause::Resync)),
            ],
        };
        candidates.into_iter().flatten().min_by_key(|(at, _)| *at).unwrap_or((self.resync, Cause::Resync))
    }

    /// Starts the run that is due, if one is. It serves all wakes so far.
    pub fn begin(&mut self, now: Instant) -> Option<(Cause, Scope)> {
        let (at, cause) = self.due();
        if at > now {
            return None;
        }
        // A wake that was due earlier must not hide an explicit request, which demands a full scope.
        let cause = self.prompt.take().map_or(cause, |(_, why)| why);
        self.wakes = None;
        self.wait = None;
        self.scope = if self.distrust || cause != Cause::Wake { Scope::Full } else { Scope::Cached };
        Some((cause, self.scope))
    }

    /// Records the end of the run that [`begin`](Self::begin) started. `jitter` is a random number in 0..1.
    pub fn finish(&mut self, now: Instant, ended: RunEnd, jitter: f64) {
        match ended {
            // The missing input wakes the loop when it arrives. Until then no object can be retried.
            RunEnd::Waiting => self.objects = None,
            RunEnd::Failed { class, pure } => {
                let delay = self.backoff.fail(class, &self.timing.backoff, jitter);
                self.wait = Some(Wait { until: now + delay, pure });
                self.distrust = true;
            }
            RunEnd::Ran { changed, failed, retry } => {
                self.backoff.reset();
                self.objects = retry;
                self.distrust = failed;
                if self.scope == Scope::Full {
                    self.resync = now + self.timing.resync;
                }
                if changed {
                    self.wake(now, Wake::Changed);
                }
            }
        }
        // While an input is missing or the target is broken, the resync cannot run. It is postponed, so that it does not fall due at once.
        if self.resync <= now {
            self.resync = now + self.timing.resync;
        }
    }

    /// The time of the next retry, if any step failed.
    pub fn next_try(&self) -> Option<Instant> {
        self.wait.map(|wait| wait.until).or(self.objects)
    }
}

#[cfg(test)]
mod tests;
