//! A loop on a thread of its own.

use std::io;

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
    /// A decision may compute for long. In a shared runtime, each of several steps of each run would then hand all other tasks
    /// to another thread and back, and this loop runs with every request. A thread of its own also keeps the loop's memory in
    /// one heap; with threads that take turns, each would keep a heap that is mostly gaps.
    pub fn run_on_thread(self) -> io::Result<()> {
        let runtime = Builder::new_current_thread().enable_time().build()?;
        let (mut lives, ended) = oneshot::channel::<()>();
        let name = self.component.to_string();
        let (label, signals) = (name.clone(), self.signals.clone());
        let body = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = task::lasting(label, || !signals.borrow().stop, self.run()) => {}
                    _ = ended => {}
                }
            });
        };
        task::spawn_thread(&name, body)?;
        // The task ends with the runtime, and the thread with the task.
        task::spawn("lives", async move { lives.closed().await });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
