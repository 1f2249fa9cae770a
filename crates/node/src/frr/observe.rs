//! FRR on this node, as the loop sees it: the last answer, and changes that are entered beside it.
//!
//! The daemons are followed in [`follow`](super::follow) and asked in [`asker`](super::asker).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reconcile::Scope;
use smol_str::SmolStr;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::adrift;
use super::asker::{Answer, Asker, Change, Question, look_again};
use super::follow;
use super::state::{Observed, Op};
use super::vty::VtyError;
use crate::kernel;

/// FRR's sockets, and the interface to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The directory of the daemons' sockets (`frr_vty_dir`).
    pub dir: PathBuf,
    /// The interface to use (`frr_backend`).
    pub backend: Backend,
    /// Interval between reads of the configuration without an event (`frr_reconcile_interval`).
    pub check: Duration,
    /// The program to fall back to.
    pub vtysh: PathBuf,
    /// Time limit of an observation for a reply, and of a change for its outcome; after it the loop continues without.
    pub glance: Duration,
    /// The exposure VRF (`bgp_vrf`): what bgpd has of it is compared with what the kernel has.
    pub vrf: SmolStr,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            dir: "/run/frr".into(),
            backend: Backend::Vty,
            check: Duration::from_secs(15),
            vtysh: "vtysh".into(),
            glance: Duration::from_millis(500),
            vrf: "bgp-vrf".into(),
        }
    }
}

/// The interface to FRR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Backend {
    /// To bgpd's socket; through vtysh only what bgpd does not know.
    #[default]
    Vty,
    /// Through vtysh.
    Vtysh,
}

/// The times of FRR's replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FrrReplies {
    /// The time of its last reply.
    pub last: Option<Instant>,
    /// Since when a question or a change waits for its answer, if one does.
    pub open_since: Option<Instant>,
}

/// FRR on this node. It is asked beside the loop, one question at a time: a bgpd that hangs delays nothing else.
#[derive(Debug)]
pub struct Frr {
    config: Config,
    /// Counts reasons to look again.
    reasons: watch::Sender<u64>,
    /// Whether the last answer is no longer true.
    forgotten: bool,
    /// The addresses at the last look: after they have changed, bgpd is asked what it has made of that.
    addresses: Option<imbl::OrdSet<kernel::Address>>,
    /// The last question.
    question: watch::Sender<Question>,
    answer: watch::Receiver<Option<Answer>>,
    /// The last answer that a change was made by.
    acted_on: u64,
    changes: mpsc::Sender<Change>,
    /// The outcome of a change that takes longer than a moment.
    under_way: Option<oneshot::Receiver<Result<(), VtyError>>>,
    /// Counts answers that came too late for those who asked.
    late: watch::Receiver<u64>,
    answering: watch::Receiver<FrrReplies>,
    tasks: [JoinHandle<()>; 3],
}

impl Frr {
    /// Begins to follow bgpd and zebra. Must be called within a tokio runtime.
    pub fn open(config: Config) -> Self {
        let (reasons, question) = (watch::Sender::new(0), watch::Sender::new(Question::default()));
        let (answers, answer) = watch::channel(None);
        let (late_answers, late) = watch::channel(0);
        let (tell, answering) = watch::channel(FrrReplies::default());
        let (changes, entered) = mpsc::channel(1);
        let asker = Asker::new(config.clone(), reasons.clone(), tell);
        let tasks = [
            task::spawn("frr", follow::bgpd(config.dir.clone(), config.check, reasons.clone())),
            task::spawn("frr-zebra", follow::zebra(config.dir.clone(), reasons.clone())),
            task::spawn("frr-questions", asker.run(question.subscribe(), entered, answers, late_answers)),
        ];
        Frr {
            config,
            reasons,
            forgotten: false,
            addresses: None,
            question,
            answer,
            acted_on: 0,
            changes,
            under_way: None,
            late,
            answering,
            tasks,
        }
    }

    /// Changes whenever there is a reason to look again.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.reasons.subscribe()
    }

    /// Changes whenever an answer came that nobody waited for any more.
    pub fn late_answers(&self) -> watch::Receiver<u64> {
        self.late.clone()
    }

    /// The times of its replies.
    pub fn answering(&self) -> watch::Receiver<FrrReplies> {
        self.answering.clone()
    }

    /// The state of FRR, given the kernel's. If bgpd does not reply soon, this is its last known state.
    pub async fn observe(&mut self, scope: Scope, kernel: &Arc<kernel::Observed>) -> Arc<Observed> {
        if !self.addresses.as_ref().is_some_and(|before| before.ptr_eq(&kernel.addresses)) {
            let before = self.addresses.replace(kernel.addresses.clone());
            // Not at once: zebra tells bgpd in a moment, and more may change meanwhile.
            if before.is_some_and(|before| before != kernel.addresses) {
                look_again(self.reasons.clone(), adrift::TOLD);
            }
        }
        let (reasons, vrfs) = (*self.reasons.borrow(), kernel.vrfs());
        let asked = self.question.borrow().clone();
        let last = self.answer.borrow().clone();
        let open = last.as_ref().is_none_or(|last| last.question < asked.number) && asked.number > 0;
        let fits = asked.reasons == reasons && asked.vrfs == vrfs && asked.number > 0 && !self.forgotten;
        match last {
            Some(last) if !open && fits && scope == Scope::Cached => return last.observed,
            // It has had its moment, and is not asked again before it has answered.
            last if open => return self.told(last),
            _ => {}
        }
        let number = asked.number + 1;
        self.forgotten = false;
        self.question.send_replace(Question { number, reasons, vrfs, kernel: Arc::clone(kernel) });
        let is_it = |answer: &Option<Answer>| answer.as_ref().is_some_and(|a| a.question >= number);
        // Whether it came in time or not, the last answer is what is known.
        let _ = timeout(self.config.glance, self.answer.wait_for(is_it)).await;
        let last = self.answer.borrow().clone();
        self.told(last)
    }

    /// Carries out an op. One that takes longer than a moment goes on beside the loop, and no other is begun before it has ended.
    pub async fn apply(&mut self, op: &Op) -> Result<(), VtyError> {
        if let Some(outcome) = &mut self.under_way {
            if let Err(oneshot::error::TryRecvError::Empty) = outcome.try_recv() {
                return Err(VtyError::UnderWay);
            }
            self.under_way = None;
        }
        self.act_on_last();
        let (tell, mut outcome) = oneshot::channel();
        let change = Change { op: op.clone(), outcome: tell };
        self.changes.try_send(change).map_err(|_| VtyError::UnderWay)?;
        match timeout(self.config.glance, &mut outcome).await {
            Ok(result) => result.unwrap_or(Err(VtyError::UnderWay)),
            Err(_) => {
                self.under_way = Some(outcome);
                Err(VtyError::UnderWay)
            }
        }
    }

    /// Something is done because of the last answer: it is no longer true, and what was due by it is due no more.
    pub fn act_on_last(&mut self) {
        self.forgotten = true;
        self.acted_on = self.answer.borrow().as_ref().map_or(0, |answer| answer.question);
    }

    /// The state from a reply, or the last known state without one. A cure runs once, so one that was applied is not due any more.
    fn told(&self, answer: Option<Answer>) -> Arc<Observed> {
        match answer {
            None => Arc::new(Observed::Silent("it has not answered yet".into())),
            Some(answer) if answer.question > self.acted_on => answer.observed,
            Some(answer) => Arc::new((*answer.observed).clone().without_cures()),
        }
    }
}

impl Drop for Frr {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}
