//! One loop, and the threads that it decides on.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::*;
use crate::{Applied, ObjectId, Outcome, Plan, Scope, State, TargetError, Timing};

struct Nothing(mpsc::Sender<thread::ThreadId>);

impl Desire for Nothing {
    type Snapshot = ();
    type Desired = ();

    fn desire(&mut self, _snapshot: &()) -> Outcome<()> {
        let _ = self.0.send(thread::current().id());
        Outcome::default()
    }
}

impl Target for () {
    type Desired = ();
    type Observed = ();
    type Op = String;

    fn plan(&mut self, _want: &(), _keep: &std::collections::BTreeSet<ObjectId>, _have: &()) -> Plan<String> {
        Plan::new(0, 0)
    }

    async fn observe(&mut self, _scope: Scope) -> Result<(), TargetError> {
        Ok(())
    }

    async fn apply(&mut self, plan: &Plan<String>) -> Result<Applied, TargetError> {
        Ok(Applied::all_done(plan))
    }
}

fn driver(told: mpsc::Sender<thread::ThreadId>) -> Driver<impl FnMut() -> Result<(), Waiting>, Nothing, ()> {
    Driver::new("nothing", Timing::default(), || Ok(()), Nothing(told), ())
}

#[tokio::test]
async fn every_decision_is_made_on_one_thread_which_is_not_ours() {
    let (told, threads) = mpsc::channel();
    let driver = driver(told);
    let handle = driver.handle();
    let mut status = handle.status();
    driver.run_on_thread().unwrap();
    for run in 1..4 {
        status.wait_for(|status| status.generation >= run).await.unwrap();
        handle.run_now();
    }
    handle.stop();
    status.wait_for(|status| status.state == State::Stopped).await.unwrap();
    let threads: Vec<_> = threads.iter().collect();
    assert!(threads.len() >= 3 && threads.iter().all(|id| *id == threads[0]));
    assert_ne!(threads[0], thread::current().id());
}

#[test]
fn it_ends_with_the_runtime_that_started_it() {
    let (told, threads) = mpsc::channel();
    let driver = driver(told);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { driver.run_on_thread().unwrap() });
    drop(runtime);
    // The decider is dropped with the loop, and its end of the channel with it.
    let limit = Duration::from_secs(60);
    while threads.recv_timeout(limit) != Err(mpsc::RecvTimeoutError::Disconnected) {}
}
