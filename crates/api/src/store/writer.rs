//! The writer: the one task that changes the world.
//!
//! Requests queue up here. The writer takes all that are queued, runs them one after another, each on the world that the previous one left,
//! and writes their changes in one SQL transaction. While the disk syncs, the next requests queue up: more clients make larger
//! transactions, not a longer queue. After answering a batch, the writer waits up to 1 ms for the same clients' next requests, but only if
//! others are already queued. Without this wait two clients would alternate, one SQL transaction each.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::engine::{Contents, Engine, MissedChanges, StoreError, Url};
use super::pulse::Pulse;
use crate::fault::Fault;
use crate::world::{Change, Outside, Revision, Txn, World};

/// The maximum number of requests in one transaction.
const BATCH: usize = 64;
/// Time limit of retries of a request while the database does not reply.
const PATIENCE: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_millis(100);
/// Time limit for the next requests of the clients that the writer has just answered.
const MOMENT: Duration = Duration::from_millis(1);
/// After they sent none in time, the writer does not wait for so many transactions.
const UNWAITED: usize = 32;
/// Interval between queries of a shared database without a notification.
const LOOK: Duration = Duration::from_secs(1);

pub(super) type Run = Box<dyn FnMut(&mut Txn) -> Result<(), Fault> + Send>;
type Answer = oneshot::Sender<Result<World, Fault>>;

pub(super) enum Job {
    /// Change the world.
    Run { run: Run, answer: Answer },
    /// Take in the changes of other servers.
    Refresh { answer: Answer },
    /// Check whether a state is in the store's past.
    Contains { revision: Revision, answer: oneshot::Sender<Result<bool, Fault>> },
    /// Close the database and stop.
    Close { answer: oneshot::Sender<Result<(), Fault>> },
}

pub(super) struct Writer {
    engine: Engine,
    world: watch::Sender<World>,
    outside: watch::Receiver<Arc<Outside>>,
    trouble: watch::Sender<Option<String>>,
    /// The reason why the database accepts no changes, while it does not. A successful read does not reset it.
    unwritable: Option<String>,
    /// Whether the last use of the database succeeded.
    answers: bool,
    /// The time of the last check whether the database accepts changes.
    checked: Instant,
    pulse: Pulse,
}

/// The observable state of the writer.
pub(super) struct WriterState {
    pub(super) world: watch::Receiver<World>,
    /// The reason why the database is unusable, if it is.
    pub(super) trouble: watch::Receiver<Option<String>>,
    pub(super) pulse: Pulse,
}

/// A request that has run, and its answer if the transaction succeeds.
struct Ran {
    run: Run,
    answer: Answer,
    outcome: Result<World, Fault>,
}

/// Waits up to `MOMENT` until there are `all` jobs. Returns whether there are.
async fn gathered(queue: &mut mpsc::Receiver<Job>, jobs: &mut Vec<Job>, all: usize) -> bool {
    let gather = async {
        while jobs.len() < all {
            let more = all - jobs.len();
            if queue.recv_many(jobs, more).await == 0 {
                return;
            }
        }
    };
    tokio::time::timeout(MOMENT, gather).await.is_ok()
}

impl Writer {
    pub(super) async fn start(
        url: &Url,
        outside: watch::Receiver<Arc<Outside>>,
    ) -> Result<(Self, WriterState), StoreError> {
        let mut engine = Engine::open(url).await?;
        let (world, worlds) = watch::channel(whole(engine.load().await?, 0));
        let (trouble, troubles) = watch::channel(None);
        let pulse = Pulse::new();
        let seen = WriterState { world: worlds, trouble: troubles, pulse: pulse.clone() };
        let (unwritable, answers, checked) = (None, true, Instant::now());
        Ok((Writer { engine, world, outside, trouble, unwritable, answers, checked, pulse }, seen))
    }

    /// Records the outcome of the last use of the database.
    fn went(&mut self, error: Option<&StoreError>) {
        self.answers = error.is_none();
        if self.answers {
            self.pulse.beat();
        }
        self.trouble.send_if_modified(|known| {
            let now = error.map(|error| chain(error)).or_else(|| self.unwritable.clone());
            let changed = *known != now;
            *known = now;
            changed
        });
    }

    /// Records the outcome of the last attempt to change the database.
    fn wrote(&mut self, error: Option<&StoreError>) {
        self.unwritable = error.map(|error| chain(error));
        self.went(error);
    }

    /// Checks from time to time whether the database accepts changes: one that became read-only still answers every read. Skipped while the
    /// database does not answer, because requests would wait for the check.
    async fn check_writable(&mut self) {
        if !self.engine.is_shared() || !self.answers || self.checked.elapsed() < LOOK {
            return;
        }
        let writable = self.engine.check_writable().await;
        self.checked = Instant::now();
        self.wrote(writable.as_ref().err());
    }

    /// Runs until the last handle is gone, or until a job closes the database.
    pub(super) async fn run(mut self, mut queue: mpsc::Receiver<Job>) {
        let mut jobs = Vec::with_capacity(BATCH);
        let (mut answered, mut unwaited) = (0, 0);
        loop {
            let others_wait = !queue.is_empty();
            tokio::select! {
                taken = queue.recv_many(&mut jobs, BATCH) => if taken == 0 { return },
                () = self.engine.written() => {}
                () = tokio::time::sleep(LOOK), if self.engine.is_shared() => {}
            }
            if others_wait && unwaited == 0 {
                let all = (jobs.len() + answered).min(BATCH);
                if !gathered(&mut queue, &mut jobs, all).await {
                    unwaited = UNWAITED;
                }
            }
            unwaited = unwaited.saturating_sub(1);
            answered = jobs.len();
            let mut runs = Vec::new();
            let mut looks = Vec::new();
            let mut closing = None;
            for job in jobs.drain(..) {
                match job {
                    Job::Run { run, answer } => runs.push((run, answer)),
                    Job::Refresh { answer } => looks.push(answer),
                    Job::Contains { revision, answer } => {
                        let _ = answer.send(self.contains(revision).await);
                    }
                    Job::Close { answer } => closing = Some(answer),
                }
            }
            let wrote = !runs.is_empty();
            if wrote {
                self.batch(runs).await;
            }
            // A transaction has read the changes of other servers, unless it failed.
            if !wrote || !looks.is_empty() {
                self.refresh(looks).await;
            }
            self.check_writable().await;
            if let Some(answer) = closing {
                let closed = self.engine.close().map_err(|error| {
                    tracing::error!(error = %chain(&error), "cannot close the database");
                    internal()
                });
                let _ = answer.send(closed);
                return;
            }
        }
    }

    async fn contains(&mut self, revision: Revision) -> Result<bool, Fault> {
        let contains = self.engine.contains(revision).await;
        self.went(contains.as_ref().err());
        contains.map_err(|error| {
            tracing::warn!(error = %chain(&error), "the database does not reply");
            unavailable()
        })
    }

    async fn refresh(&mut self, looks: Vec<Answer>) {
        let known = self.world.borrow().revision();
        let give_up = Instant::now() + PATIENCE;
        let missed = loop {
            let missed = self.engine.missed(known).await;
            self.went(missed.as_ref().err());
            match &missed {
                // A retry opens a new connection. No client waits for the writer's own periodic query, so that is not retried.
                Err(error) if error.is_transient() && !looks.is_empty() && Instant::now() < give_up => {
                    tokio::time::sleep(RETRY).await;
                }
                _ => break missed,
            }
        };
        let outcome = match missed {
            Ok(missed) => {
                let present = self.world.borrow().clone();
                let world = caught_up(present, missed);
                if world.revision() != known {
                    self.world.send_replace(world.clone());
                }
                Ok(world)
            }
            Err(error) => {
                tracing::warn!(error = %chain(&error), "the database does not reply");
                Err(unavailable())
            }
        };
        for answer in looks {
            let _ = answer.send(outcome.clone());
        }
    }

    /// Runs requests in one transaction. If the database refuses it, runs each alone, so that only the bad request fails.
    async fn batch(&mut self, mut runs: Vec<(Run, Answer)>) {
        let give_up = Instant::now() + PATIENCE;
        loop {
            let (ran, result) = self.transaction(runs).await;
            // A refusal concerns the request, not the state of the database.
            self.wrote(result.as_ref().err().filter(|error| !error.is_refusal()));
            match result {
                Ok(()) => {
                    for Ran { answer, outcome, .. } in ran {
                        let _ = answer.send(outcome);
                    }
                    return;
                }
                Err(error) if error.is_transient() && Instant::now() < give_up => {
                    tracing::warn!(error = %chain(&error), "the database does not reply; retrying");
                    tokio::time::sleep(RETRY).await;
                    runs = again(ran);
                }
                Err(error) if error.is_refusal() && ran.len() > 1 => {
                    for (run, answer) in again(ran) {
                        Box::pin(self.batch(vec![(run, answer)])).await;
                    }
                    return;
                }
                Err(error) => {
                    tracing::error!(error = %chain(&error), "cannot store a change");
                    let fault = match error {
                        StoreError::Unavailable { .. } => unavailable(),
                        StoreError::InDoubt { .. } => in_doubt(),
                        _ => internal(),
                    };
                    for Ran { answer, .. } in ran {
                        let _ = answer.send(Err(fault.clone()));
                    }
                    return;
                }
            }
        }
    }

    async fn transaction(&mut self, runs: Vec<(Run, Answer)>) -> (Vec<Ran>, Result<(), StoreError>) {
        let present = self.world.borrow().clone();
        let known = present.revision();
        let outside = Arc::clone(&self.outside.borrow());
        // If the engine fails before it calls `decide`, it drops the closure; the requests survive in this shared state.
        let shared = Arc::new(Mutex::new((runs, Vec::new(), None)));
        let inside = Arc::clone(&shared);
        let decide = Box::new(move |missed: MissedChanges| {
            let mut world = caught_up(present, missed);
            let mut all = Vec::new();
            let mut state = inside.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            for (mut run, answer) in std::mem::take(&mut state.0) {
                // The client has stopped waiting and may have sent the request again. Running it now could make the change twice.
                if answer.is_closed() {
                    continue;
                }
                let txn = Txn::new(world.clone(), Timestamp::now(), fastrand::u64(..), Arc::clone(&outside));
                let outcome = match attempt(&mut run, txn) {
                    Ok((after, changes)) => {
                        world = after.clone();
                        all.extend(changes);
                        Ok(after)
                    }
                    Err(fault) => Err(fault),
                };
                state.1.push(Ran { run, answer, outcome });
            }
            state.2 = Some(world);
            merged(all)
        });
        let result = self.engine.commit(known, decide).await;
        let mut state = shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut ran = std::mem::take(&mut state.1);
        let untouched = std::mem::take(&mut state.0);
        ran.extend(untouched.into_iter().map(|(run, answer)| Ran { run, answer, outcome: Err(internal()) }));
        let result = result.map(|revision| {
            if let Some(mut world) = state.2.take() {
                world.advance(revision, []);
                for ran in &mut ran {
                    if let Ok(world) = &mut ran.outcome {
                        world.advance(revision, []);
                    }
                }
                self.world.send_if_modified(|present| {
                    let news = present.revision() != revision;
                    *present = world;
                    news
                });
            }
        });
        drop(state);
        (ran, result)
    }
}

/// Runs one request. A panic is a bug of ours and fails only this request.
fn attempt(run: &mut Run, txn: Txn) -> Result<(World, Vec<Change>), Fault> {
    let ran = task::contain::here(|| {
        let mut txn = txn;
        run(&mut txn).map(|()| txn.finish())
    });
    ran.unwrap_or_else(|task::contain::Panicked(text)| {
        tracing::error!(text, "a request panicked; it was undone");
        Err(internal())
    })
}

/// Merges the changes of all requests: a later request may have changed the same entity, and its change wins.
fn merged(changes: Vec<Change>) -> Vec<Change> {
    let mut last = std::collections::BTreeMap::new();
    for change in changes {
        let key = match &change {
            Change::Put(row) => row.key(),
            Change::Remove(_, key) => key.clone(),
        };
        last.insert((change.kind(), key), change);
    }
    last.into_values().collect()
}

fn again(ran: Vec<Ran>) -> Vec<(Run, Answer)> {
    ran.into_iter().map(|ran| (ran.run, ran.answer)).collect()
}

fn whole(contents: Contents, restores: u64) -> World {
    let mut world = World::default().with_restores(restores);
    let changes: Vec<_> = contents.rows.into_iter().map(Change::Put).collect();
    world.advance(contents.revision, &changes);
    world
}

fn caught_up(mut world: World, missed: MissedChanges) -> World {
    match missed {
        MissedChanges::Everything(contents) => whole(contents, world.restores()),
        MissedChanges::AnotherPast(contents) => {
            let (known, found) = (world.revision(), contents.revision);
            tracing::warn!(%known, %found, "the database was restored from a backup or replaced; read all of it again");
            whole(contents, world.restores() + 1)
        }
        MissedChanges::Changes { revision, changes } => {
            world.advance(revision, &changes);
            world
        }
    }
}

fn unavailable() -> Fault {
    Fault::unavailable("The database does not reply. Retry later.")
}

fn in_doubt() -> Fault {
    Fault::unavailable("The connection to the database broke during the change. Check whether it was made.")
}

fn internal() -> Fault {
    let words = "Request Failed: internal server error while processing your request.";
    Fault::new(500, "HTTPInternalServerError", words)
}

fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Job {
        Job::Refresh { answer: oneshot::channel().0 }
    }

    #[tokio::test(start_paused = true)]
    async fn those_just_answered_are_waited_for_and_not_for_long() {
        let (send, mut queue) = mpsc::channel(8);
        let mut jobs = vec![job()];
        let late = send.clone();
        tokio::spawn(async move {
            tokio::task::yield_now().await;
            let _ = late.send(job()).await;
        });
        assert!(gathered(&mut queue, &mut jobs, 2).await, "the second one came in time");
        assert_eq!(jobs.len(), 2);

        let begin = Instant::now();
        assert!(!gathered(&mut queue, &mut jobs, 3).await, "nobody else came");
        assert!(begin.elapsed() >= MOMENT);
        assert_eq!(jobs.len(), 2, "nothing was lost while it waited");

        drop(send);
        assert!(gathered(&mut queue, &mut jobs, 3).await, "nobody can come any more");
    }
}
