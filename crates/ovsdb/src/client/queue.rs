//! The queue of requests from a client to its driver.
//!
//! There is one queue, so that requests run in the order in which they were made: a lock is requested before the commit that
//! asserts it, and released after it. Only commits are limited in number. Each takes a slot until the driver has accepted it. A
//! commit for which the driver has no room steps aside, so that the driver sees later requests, above all a close, at once.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc};

use super::task::Command;

/// The number of commits that may wait for the driver. Further committers wait for a slot.
const PLACES: usize = 1024;

/// The driver has ended.
#[derive(Debug)]
pub(super) struct QueueClosed;

/// The sending side of the queue.
#[derive(Clone, Debug)]
pub(super) struct Commands {
    line: mpsc::UnboundedSender<Command>,
    places: Arc<Semaphore>,
}

/// The driver's end.
#[derive(Debug)]
pub(super) struct Queue {
    line: mpsc::UnboundedReceiver<Command>,
    /// Commits that have stepped aside, in order.
    aside: VecDeque<Command>,
    places: Arc<Semaphore>,
}

pub(super) fn queue() -> (Commands, Queue) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let places = Arc::new(Semaphore::new(PLACES));
    let queue = Queue { line: receiver, aside: VecDeque::new(), places: places.clone() };
    (Commands { line: sender, places }, queue)
}

impl Commands {
    /// Enqueues a commit once there is a slot for it. Slots are assigned in order.
    pub(super) async fn commit(&self, command: Command) -> Result<(), QueueClosed> {
        // The driver returns the slot, because only the driver knows when.
        self.places.acquire().await.map_err(|_| QueueClosed)?.forget();
        self.tell(command)
    }

    /// Sends any other command.
    pub(super) fn tell(&self, command: Command) -> Result<(), QueueClosed> {
        self.line.send(command).map_err(|_| QueueClosed)
    }

    /// Waits for the driver's end.
    pub(super) async fn closed(&self) {
        self.line.closed().await;
    }

    /// A sender that does not keep the client alive.
    pub(super) fn downgrade(&self) -> mpsc::WeakUnboundedSender<Command> {
        self.line.downgrade()
    }
}

impl Queue {
    /// The next request; a commit only if there is room for one. `None` once all senders are dropped.
    pub(super) async fn next(&mut self, room: bool) -> Option<Command> {
        if let Some(command) = self.returned(room) {
            return Some(command);
        }
        loop {
            let command = self.line.recv().await?;
            if let Some(command) = self.admit(command, room) {
                return Some(command);
            }
        }
    }

    /// Like `next`, but only for requests that are already queued.
    pub(super) fn try_next(&mut self, room: bool) -> Option<Command> {
        if let Some(command) = self.returned(room) {
            return Some(command);
        }
        loop {
            let command = self.line.try_recv().ok()?;
            if let Some(command) = self.admit(command, room) {
                return Some(command);
            }
        }
    }

    /// The first of those that have stepped aside.
    fn returned(&mut self, room: bool) -> Option<Command> {
        let command = self.aside.pop_front_if(|_| room)?;
        self.places.add_permits(1);
        Some(command)
    }

    fn admit(&mut self, command: Command, room: bool) -> Option<Command> {
        match command {
            Command::Commit { .. } if !room => {
                self.aside.push_back(command);
                None
            }
            Command::Commit { .. } => {
                self.places.add_permits(1);
                Some(command)
            }
            _ => Some(command),
        }
    }
}

impl Drop for Queue {
    /// If the driver ends for any reason, for example with its runtime, callers that wait for a slot get an error.
    fn drop(&mut self) {
        self.places.close();
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::{oneshot, watch};

    use super::*;
    use crate::client::lock::LockState;
    use crate::session::LockMode;
    use crate::txn::builder::ComposedTransaction;

    fn commit(text: &str) -> Command {
        let composed = ComposedTransaction { text: text.into(), labels: Vec::new() };
        Command::Commit { composed, grouped: true, reply: oneshot::channel().0 }
    }

    fn lock() -> Command {
        Command::Lock { name: "l".into(), mode: LockMode::Wait, state: watch::channel(LockState::Waiting).0 }
    }

    fn unlock() -> Command {
        Command::Unlock { name: "l".into(), state: watch::channel(LockState::Waiting).1 }
    }

    fn name(command: Command) -> String {
        match command {
            Command::Commit { composed, .. } => composed.text,
            Command::Lock { .. } => "lock".into(),
            Command::Unlock { .. } => "unlock".into(),
            Command::Close => "close".into(),
            other => format!("{other:?}"),
        }
    }

    fn all(queue: &mut Queue, room: bool) -> Vec<String> {
        std::iter::from_fn(|| queue.try_next(room)).map(name).collect()
    }

    #[tokio::test]
    async fn with_room_things_are_done_in_the_order_they_were_asked_for() {
        let (commands, mut queue) = queue();
        commands.commit(commit("a")).await.unwrap();
        commands.tell(lock()).unwrap();
        commands.commit(commit("b")).await.unwrap();
        commands.tell(unlock()).unwrap();
        commands.commit(commit("c")).await.unwrap();
        assert_eq!(all(&mut queue, true), ["a", "lock", "b", "unlock", "c"]);
    }

    #[tokio::test]
    async fn without_room_only_commits_wait_and_they_keep_their_order() {
        let (commands, mut queue) = queue();
        commands.commit(commit("a")).await.unwrap();
        commands.tell(lock()).unwrap();
        commands.commit(commit("b")).await.unwrap();
        commands.tell(unlock()).unwrap();
        assert_eq!(all(&mut queue, false), ["lock", "unlock"]);
        commands.commit(commit("c")).await.unwrap();
        assert_eq!(name(queue.next(true).await.unwrap()), "a");
        assert_eq!(all(&mut queue, false), [""; 0]);
        commands.tell(Command::Close).unwrap();
        assert_eq!(name(queue.next(false).await.unwrap()), "close");
        assert_eq!(all(&mut queue, true), ["b", "c"]);
        drop(commands);
        assert!(queue.next(false).await.is_none());
    }

    #[tokio::test]
    async fn commits_wait_for_a_place_until_one_is_taken_or_the_driver_is_gone() {
        let (commands, mut queue) = queue();
        for n in 0..PLACES {
            commands.commit(commit(&n.to_string())).await.unwrap();
        }
        let more = |text: &'static str| {
            let commands = commands.clone();
            tokio::spawn(async move { commands.commit(commit(text)).await })
        };
        let (first, second) = (more("first"), more("second"));
        tokio::task::yield_now().await;
        assert_eq!(all(&mut queue, false), [""; 0], "stepping aside frees no place");
        tokio::task::yield_now().await;
        assert!(!first.is_finished());
        assert_eq!(name(queue.next(true).await.unwrap()), "0");
        first.await.unwrap().unwrap();
        assert_eq!(all(&mut queue, true).last().unwrap(), "first");
        second.await.unwrap().unwrap();
        assert_eq!(all(&mut queue, true), ["second"]);

        for n in 0..PLACES {
            commands.commit(commit(&n.to_string())).await.unwrap();
        }
        let late = more("late");
        tokio::task::yield_now().await;
        drop(queue);
        let told = tokio::time::timeout(std::time::Duration::from_secs(60), late).await;
        assert!(told.expect("who waits is told").unwrap().is_err());
        assert!(commands.tell(Command::Close).is_err());
        commands.closed().await;
    }
}
