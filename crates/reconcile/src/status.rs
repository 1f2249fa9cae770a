//! The public state of a component: state, counts, last error, next retry, problems, timings.
//!
//! Plain data on a watch channel, for `meridian status`, the console and health checks, which render it.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::problem::{Class, Problem};

/// The state of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// The component has not completed a full observation yet, because it just started or an input is missing.
    Starting,
    /// The component is ready, and another process does the work.
    Standby,
    /// The component's last observation found nothing to do.
    Converged,
    /// The component is changing the target, or has just done so and observes again.
    Working,
    /// A failure that time may cure; the loop retries.
    BackingOff,
    /// A failure that needs an operator; the loop still retries.
    Stuck,
    /// The component was stopped.
    Stopped,
}

impl State {
    /// The state that failures of these classes put a component in; none without failures.
    pub(crate) fn after(failures: impl IntoIterator<Item = Class>) -> Option<State> {
        failures.into_iter().fold(None, |worst, class| match (worst, class.heals()) {
            (Some(State::Stuck), _) | (_, false) => Some(State::Stuck),
            _ => Some(State::BackingOff),
        })
    }

    /// Whether two states mean the same to an operator. Working and converged alternate with every change of the world.
    pub(crate) fn alike(self, other: State) -> bool {
        let fine = |state| matches!(state, State::Working | State::Converged);
        self == other || (fine(self) && fine(other))
    }
}

/// One stage of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Taking the inputs.
    Snapshot,
    /// Computing the desired state.
    Desire,
    /// Observing the actual state.
    Observe,
    /// Comparing both.
    Plan,
    /// Applying the difference.
    Apply,
}

impl Stage {
    /// The lower-case name used in metrics and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Stage::Snapshot => "snapshot",
            Stage::Desire => "desire",
            Stage::Observe => "observe",
            Stage::Plan => "plan",
            Stage::Apply => "apply",
        }
    }
}

/// The duration of a stage in the last run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StageTime {
    /// The stage.
    pub stage: Stage,
    /// The duration in seconds.
    pub seconds: f64,
}

/// A failure of the component as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastError {
    /// The time of the failure.
    pub at: Timestamp,
    /// The attempt, the cause and the advice.
    pub message: String,
}

/// The public state of one component.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The component's name.
    pub component: SmolStr,
    /// The state.
    pub state: State,
    /// The missing input, if any.
    pub waiting_for: Option<String>,
    /// Desired objects at the last observation.
    pub want: usize,
    /// Desired objects that existed exactly as desired at the last observation.
    pub have: usize,
    /// Steps in the last plan.
    pub planned: usize,
    /// Objects that wait after a failure of their own.
    pub held: usize,
    /// Finished runs; grows by one with each publication at the end of a run.
    pub generation: u64,
    /// The end of the last run.
    pub last_run: Option<Timestamp>,
    /// The end of the last run in which the target could be read, and changed where needed. Single objects may have failed.
    pub last_success: Option<Timestamp>,
    /// The last failure of the component as a whole; it stays after recovery.
    pub last_error: Option<LastError>,
    /// The time of the next retry.
    pub next_try: Option<Timestamp>,
    /// The stages of the last run, in order.
    pub stages: Vec<StageTime>,
    /// The current problems, worst first.
    pub problems: Vec<Problem>,
}

impl Status {
    /// The status of a component that has done nothing yet.
    pub fn starting(component: SmolStr) -> Self {
        Self {
            component,
            state: State::Starting,
            waiting_for: None,
            want: 0,
            have: 0,
            planned: 0,
            held: 0,
            generation: 0,
            last_run: None,
            last_success: None,
            last_error: None,
            next_try: None,
            stages: Vec::new(),
            problems: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_failure_decides_the_state() {
        use Class::*;
        let table: [(&[Class], Option<State>); 5] = [
            (&[], None),
            (&[Transient], Some(State::BackingOff)),
            (&[Conflict, Transient], Some(State::BackingOff)),
            (&[Refused, Transient], Some(State::Stuck)),
            (&[Transient, Bug], Some(State::Stuck)),
        ];
        for (classes, state) in table {
            assert_eq!(State::after(classes.iter().copied()), state, "{classes:?}");
        }
    }

    #[test]
    fn json_round_trip_keeps_a_status() {
        let mut status = Status::starting("bgp".into());
        status.state = State::BackingOff;
        status.next_try = Some(Timestamp::UNIX_EPOCH);
        status.stages.push(StageTime { stage: Stage::Desire, seconds: 0.25 });
        let text = serde_json::to_string(&status).unwrap();
        assert!(text.contains(r#""state":"backing-off""#) && text.contains("1970-01-01T00:00:00Z"), "{text}");
        assert_eq!(serde_json::from_str::<Status>(&text).unwrap(), status);
    }
}
