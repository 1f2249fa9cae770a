//! When the loop runs next. Pure: told of wakes, ends of runs and the time, it answers with a deadline.
//!
//! The rules:
//! - Wakes are **coalesced**: a run starts when none has come for [`Timing::window`], and at the latest
//!   [`Timing::max_delay`] after the first, so a steady stream of wakes delays a run but never starves it.
//! - A run that changed the target is followed by another look, by way of the same window: only a look that finds nothing
//!   to do proves convergence.
//! - After a **failure of the target** the component backs off, and wakes do not shorten the wait: new input does not mend a
//!   broken target, and a busy input would turn back-off into a hot loop. They are remembered for the next run.
//! - After a **failure of a pure step** wakes do shorten it: it failed because of its input, and new input is a new chance.
//! - [`Wake::Now`] ends any wait: an operator asked, or a target knows that it is back.
//! - A full resync comes [`Timing::resync`] after the last full look.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::{Duration, Instant};

use crate::backoff::{Backoff, Delays};
use crate::problem::Class;
use crate::reconciler::Scope;

/// The loop's delays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How long the inputs must be quiet before a run.
    pub window: Duration,
    /// How long a run is put off at most when they are not.
    pub max_delay: Duration,
    /// How often the world is read in full though nothing happened.
    pub resync: Duration,
    /// Waiting after failures.
    pub backoff: Delays,
    /// How long one observation, or carrying out one plan, may take before it is dropped and counts as failed. No target
    /// that went silent holds up its component for ever.
    pub limit: Duration,
    /// How long a stop waits for a plan that is being carried out.
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

/// Why the loop is woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// An input changed.
    Changed,
    /// Someone wants everything tried at once, whatever failed before.
    Now,
}

/// Why a run starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It is the first.
    Start,
    /// An input changed, or the last run changed the target.
    Wake,
    /// Someone asked for it.
    Asked,
    /// A wait after a failure of the component or of an object is over.
    Retry,
    /// The periodic full look is due.
    Resync,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// An input is not there yet.
    Waiting,
    /// The component as a whole failed.
    Failed {
        /// What will help.
        class: Class,
        /// Whether it was a pure step, so that new input is a new chance.
        pure: bool,
    },
    /// It ran through.
    Ran {
        /// Whether it changed the target.
        changed: bool,
        /// Whether any step failed.
        failed: bool,
        /// When the first held object is to be tried again.
        retry: Option<Instant>,
    },
}

/// The component waits after a failure.
#[derive(Debug, Clone, Copy)]
struct Wait {
    until: Instant,
    pure: bool,
}

/// Decides when to run.
#[derive(Debug)]
pub struct Schedule {
    timing: Timing,
    /// First and last of the wakes that no run has answered yet.
    wakes: Option<(Instant, Instant)>,
    /// A run wanted at once.
    prompt: Option<(Instant, Cause)>,
    backoff: Backoff,
    wait: Option<Wait>,
    objects: Option<Instant>,
    resync: Instant,
    /// Something failed since the last full look, so that what is remembered of the world may be wrong.
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

    /// Notes a wake.
    pub fn wake(&mut self, now: Instant, wake: Wake) {
        match wake {
            Wake::Changed => {
                let first = self.wakes.map_or(now, |(first, _)| first);
                self.wakes = Some((first, now));
            }
            Wake::Now => self.prompt = Some((now, Cause::Asked)),
        }
    }

    /// When the next run is due, and why.
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

    /// Starts the run that is due, if one is: the wakes so far are answered by it.
    pub fn begin(&mut self, now: Instant) -> Option<(Cause, Scope)> {
        let (at, cause) = self.due();
        if at > now {
            return None;
        }
        // A wake that was due earlier does not make less of what was asked for.
        let cause = self.prompt.take().map_or(cause, |(_, why)| why);
        self.wakes = None;
        self.wait = None;
        self.scope = if self.distrust || cause != Cause::Wake { Scope::Full } else { Scope::Cached };
        Some((cause, self.scope))
    }

    /// Notes how the run that [`begin`](Self::begin) started ended. `jitter` is a random number in 0..1.
    pub fn finish(&mut self, now: Instant, ended: Ended, jitter: f64) {
        match ended {
            // The input will wake the loop when it is there; until then no object can be tried.
            Ended::Waiting => self.objects = None,
            Ended::Failed { class, pure } => {
                let delay = self.backoff.fail(class, &self.timing.backoff, jitter);
                self.wait = Some(Wait { until: now + delay, pure });
                self.distrust = true;
            }
            Ended::Ran { changed, failed, retry } => {
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
        // While an input is missing or the target is broken the resync has nothing to look at; it must not fall due at once.
        if self.resync <= now {
            self.resync = now + self.timing.resync;
        }
    }

    /// When something that failed is tried again, if anything failed.
    pub fn next_try(&self) -> Option<Instant> {
        self.wait.map(|wait| wait.until).or(self.objects)
    }
}

#[cfg(test)]
mod tests;
