//! What the outside sees of a component: state, counts, last error, next try, problems, timings.
//!
//! Plain data on a watch channel, for `meridian status`, the console and health checks. Rendering as text is theirs.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::problem::{Class, Problem};

/// Where a component stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It has not had a full look yet, because it just started or an input is not there.
    Starting,
    /// It is ready, and another process does the work.
    Standby,
    /// It looked and found nothing left to do.
    Converged,
    /// It is changing the target, or has just done so and looks again.
    Working,
    /// Something failed that time may cure; it is tried again.
    BackingOff,
    /// Something failed that needs someone to act; it is still tried again.
    Stuck,
    /// It was stopped.
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

    /// Whether two states tell an operator the same. Working and converged alternate with every change of the world.
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
    /// Deciding what should be.
    Desire,
    /// Reading what is.
    Observe,
    /// Comparing the two.
    Plan,
    /// Changing what is.
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

/// How long a stage of the last run took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StageTime {
    /// Which one.
    pub stage: Stage,
    /// In seconds.
    pub seconds: f64,
}

/// A failure of the component as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastError {
    /// When.
    pub at: Timestamp,
    /// What was tried, why it failed, what to do.
    pub message: String,
}

/// Everything the outside sees of one component.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Its name.
    pub component: SmolStr,
    /// Where it stands.
    pub state: State,
    /// The input it waits for, when it waits for one.
    pub waiting_for: Option<String>,
    /// Objects wanted at the last look.
    pub want: usize,
    /// Wanted objects that were there at the last look, exactly as wanted.
    pub have: usize,
    /// Steps the last look planned.
    pub planned: usize,
    /// Objects held back after a failure of theirs.
    pub held: usize,
    /// Finished runs; grows by one each time this is published at the end of a run.
    pub generation: u64,
    /// When the last run ended.
    pub last_run: Option<Timestamp>,
    /// When a run last went through: the target could be read, and changed where needed. Single objects may have failed.
    pub last_success: Option<Timestamp>,
    /// The last failure of the component as a whole; stays after it is overcome.
    pub last_error: Option<LastError>,
    /// When something that failed is tried again.
    pub next_try: Option<Timestamp>,
    /// The stages of the last run, in order.
    pub stages: Vec<StageTime>,
    /// What is wrong now, worst first.
    pub problems: Vec<Problem>,
}

impl Status {
    /// The status of a component that has done nothing yet.
    pub(crate) fn starting(component: SmolStr) -> Self {
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
