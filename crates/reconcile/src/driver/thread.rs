//! A loop on a thread of its own.

use std::io;
use std::thread;

use tokio::runtime::Builder;
use tokio::sync::oneshot;

use super::{Driver, Waiting};
use crate::reconciler::{Desire, Target};

impl<I, D, T> Driver<I, D, T>
where
    I: FnMut() -> Result<D::Snapshot, Waiting> + Send + 'static,
    D: Desire + 'static,
    T: Target<Desired = D::Desired> + 'static,
{
    /// Runs on a thread of its own until [`Handle::stop`](crate::Handle::stop), or until the present runtime ends.
    ///
    /// A decision may compute for long. In a shared runtime, all other tasks are then handed to another thread and back, at
    /// each of several steps of each run; a loop that runs with every request is better off by itself. It also allocates what
    /// it remembers in one place, where threads that take turns would each keep a heap that is mostly gaps.
    pub fn run_on_thread(self) -> io::Result<()> {
        let runtime = Builder::new_current_thread().enable_time().build()?;
        let (mut lives, ended) = oneshot::channel::<()>();
        let name = self.component.to_string();
        let body = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = self.run() => {}
                    _ = ended => {}
                }
            });
        };
        thread::Builder::new().name(name).spawn(body)?;
        // Goes with the runtime, and with it the thread's reason to be.
        tokio::spawn(async move { lives.closed().await });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
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

        fn plan(&self, _want: &(), _keep: &std::collections::BTreeSet<ObjectId>, _have: &()) -> Plan<String> {
            Plan::new(0, 0)
        }

        async fn observe(&mut self, _scope: Scope) -> Result<(), TargetError> {
            Ok(())
        }

        async fn apply(&mut self, plan: &Plan<String>) -> Result<Applied, TargetError> {
            Ok(Applied::all_done(plan))
        }
    }

    fn driver() -> (Driver<impl FnMut() -> Result<(), Waiting>, Nothing, ()>, mpsc::Receiver<thread::ThreadId>)
    {
        let (told, threads) = mpsc::channel();
        (Driver::new("nothing", Timing::default(), || Ok(()), Nothing(told), ()), threads)
    }

    #[tokio::test]
    async fn every_decision_is_made_on_one_thread_which_is_not_ours() {
        let (driver, threads) = driver();
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
        let (driver, threads) = driver();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { driver.run_on_thread().unwrap() });
        drop(runtime);
        // The decider is dropped with the loop, and its end of the channel with it.
        let limit = Duration::from_secs(60);
        while threads.recv_timeout(limit) != Err(mpsc::RecvTimeoutError::Disconnected) {}
    }
}
