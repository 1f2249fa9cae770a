//! The handle of a running component: wake it, stop it, read its status, request its plan.
//!
//! A handle knows nothing of the component's types, so the handles of all components fit in one list.

use std::fmt;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use tokio::sync::{mpsc, oneshot, watch};

use crate::problem::{ObjectId, Problem};
use crate::status::Status;

/// The signals so far. Counters and a flag, not a queue: the driver compares them, so nothing fills up or gets lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Signals {
    pub(crate) changed: u64,
    pub(crate) asked: u64,
    pub(crate) stop: bool,
}

pub(crate) type PreviewReply = oneshot::Sender<Result<Preview, NoPlan>>;

/// Controls one component. Cheap to clone; dropping all handles does not stop it.
#[derive(Debug, Clone)]
pub struct Handle {
    pub(crate) component: SmolStr,
    pub(crate) signals: watch::Sender<Signals>,
    pub(crate) previews: mpsc::Sender<PreviewReply>,
    pub(crate) status: watch::Receiver<Status>,
}

impl Handle {
    /// The component's name.
    pub fn component(&self) -> &str {
        &self.component
    }

    /// An input changed: run soon. Cheap; call it as often as needed.
    pub fn wake(&self) {
        self.signals.send_modify(|signals| signals.changed += 1);
    }

    /// Runs at once, observes everything and retries everything, including objects that wait after a failure.
    pub fn run_now(&self) {
        self.signals.send_modify(|signals| signals.asked += 1);
    }

    /// Stop. A plan being applied gets a short time to finish.
    pub fn stop(&self) {
        self.signals.send_modify(|signals| signals.stop = true);
    }

    /// Wakes the component whenever `input` changes, until either ends.
    pub fn follow<T: Send + Sync + 'static>(&self, mut input: watch::Receiver<T>) {
        let handle = self.clone();
        task::spawn("input", async move {
            loop {
                tokio::select! {
                    changed = input.changed() => match changed {
                        Ok(()) => handle.wake(),
                        Err(_) => return,
                    },
                    () = handle.signals.closed() => return,
                }
            }
        });
    }

    /// The component's status, now and as it changes.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.status.clone()
    }

    /// The plan that the component would apply now. Changes nothing.
    pub async fn plan(&self) -> Result<Preview, NoPlan> {
        let (reply, answer) = oneshot::channel();
        self.previews.send(reply).await.map_err(|_| NoPlan::Stopped)?;
        answer.await.map_err(|_| NoPlan::Stopped)?
    }
}

/// A plan for display: the steps in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preview {
    /// The component.
    pub component: SmolStr,
    /// Desired objects.
    pub want: usize,
    /// Desired objects that exist exactly as desired.
    pub have: usize,
    /// The steps.
    pub steps: Vec<PreviewStep>,
    /// Problems of objects that could not be decided or planned, worst first.
    pub problems: Vec<Problem>,
}

/// One step of a [`Preview`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviewStep {
    /// The object of the step.
    pub object: ObjectId,
    /// The step as text.
    pub text: String,
    /// The step as data.
    pub op: serde_json::Value,
    /// Whether it waits because it failed before.
    pub held: bool,
}

impl fmt::Display for Preview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} of {} objects in place", self.component, self.have, self.want)?;
        if self.steps.is_empty() {
            f.write_str(", nothing to do")?;
        }
        for step in &self.steps {
            let held = if step.held { " (waits after a failure)" } else { "" };
            write!(f, "\n  {}: {}{held}", step.object, step.text)?;
        }
        for problem in &self.problems {
            write!(f, "\n  ! {problem}")?;
        }
        Ok(())
    }
}

/// The reason why there is no plan to show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoPlan {
    /// An input is not available yet.
    #[error("the component waits for {0}")]
    Waiting(String),
    /// Deciding, observing or planning failed.
    #[error("{0}")]
    Failed(Problem),
    /// The component was stopped.
    #[error("the component is stopped")]
    Stopped,
}
