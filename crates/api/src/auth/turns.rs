//! The order in which credentials are checked.
//!
//! A check uses a processor or a request to Keystone, so only some run at once and the others wait. Clients take turns: a client that sends
//! a hundred guesses delays another client by one guess, not by a hundred. When the queue is full, a request of a client with few waiting
//! requests replaces the newest one of the client with the most.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use listener::Client;
use tokio::sync::oneshot;

/// The limits of running checks and of waiting requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// The maximum number of concurrent checks.
    pub checks: usize,
    /// The maximum number of waiting requests of one client. A reverse proxy is one client.
    pub waiting_per_client: usize,
    /// The maximum number of waiting requests of all clients.
    pub waiting: usize,
}

/// The error of a request that finds the queue full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many credentials are being checked")]
pub struct TooManyChecks;

/// The maximum wait of a request.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// The queue of all clients.
#[derive(Debug)]
pub(super) struct Turns {
    room: Room,
    queue: Mutex<Queue>,
}

#[derive(Debug)]
struct Queue {
    /// The number of further checks that may start now.
    free: usize,
    /// The waiting requests of each client, oldest first. Clients without any have no entry.
    waiting: HashMap<Client, VecDeque<oneshot::Sender<Turn>>>,
    /// The waiting clients, in the order of their turns.
    order: VecDeque<Client>,
}

/// The right to one check, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn(Option<Arc<Turns>>);

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(turns) = self.0.take() {
            turns.pass_on();
        }
    }
}

impl Queue {
    fn len(&self) -> usize {
        self.waiting.values().map(VecDeque::len).sum()
    }

    /// Drops requests whose clients have left.
    fn forget_absent(&mut self) {
        self.waiting.retain(|_, requests| {
            requests.retain(|request| !request.is_closed());
            !requests.is_empty()
        });
        let waiting = &self.waiting;
        self.order.retain(|client| waiting.contains_key(client));
    }

    /// Drops the newest request of the client that has the most, if that is more than `own` plus one.
    fn make_room(&mut self, own: usize) -> bool {
        let Some(largest) = self.waiting.values_mut().max_by_key(|requests| requests.len()) else {
            return false;
        };
        if largest.len() <= own + 1 {
            return false;
        }
        // Its receiver gets an error.
        drop(largest.pop_back());
        true
    }

    fn push(&mut self, client: Client, room: &Room) -> Result<oneshot::Receiver<Turn>, TooManyChecks> {
        let full = |queue: &Queue| {
            let own = queue.waiting.get(&client).map_or(0, VecDeque::len);
            (own, own >= room.waiting_per_client, queue.len() >= room.waiting)
        };
        if matches!(full(self), (_, true, _) | (_, _, true)) {
            self.forget_absent();
        }
        match full(self) {
            (_, true, _) => return Err(TooManyChecks),
            (own, _, true) if !self.make_room(own) => return Err(TooManyChecks),
            _ => {}
        }
        let (request, answer) = oneshot::channel();
        let requests = self.waiting.entry(client).or_default();
        if requests.is_empty() {
            self.order.push_back(client);
        }
        requests.push_back(request);
        Ok(answer)
    }

    /// The next request: the oldest of the client at the front.
    fn pop(&mut self) -> Option<oneshot::Sender<Turn>> {
        let client = self.order.pop_front()?;
        let requests = self.waiting.get_mut(&client)?;
        let request = requests.pop_front();
        if requests.is_empty() {
            self.waiting.remove(&client);
        } else {
            self.order.push_back(client);
        }
        request
    }
}

impl Turns {
    /// An empty queue.
    pub(super) fn new(room: Room) -> Arc<Self> {
        let queue = Queue { free: room.checks, waiting: HashMap::new(), order: VecDeque::new() };
        Arc::new(Turns { room, queue: Mutex::new(queue) })
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of further checks that may start now.
    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        self.queue().free
    }

    /// Waits for a turn of this client.
    pub(super) async fn next(self: &Arc<Self>, client: Client) -> Result<Turn, TooManyChecks> {
        let answer = {
            let mut queue = self.queue();
            // No request waits while a check is free, so this overtakes nobody.
            if queue.free > 0 {
                queue.free -= 1;
                return Ok(Turn(Some(Arc::clone(self))));
            }
            queue.push(client, &self.room)?
        };
        match tokio::time::timeout(LONGEST_WAIT, answer).await {
            Ok(Ok(turn)) => Ok(turn),
            _ => Err(TooManyChecks),
        }
    }

    /// Passes a finished turn to the next request that still waits.
    fn pass_on(self: &Arc<Self>) {
        loop {
            let next = {
                let mut queue = self.queue();
                let Some(next) = queue.pop() else {
                    queue.free += 1;
                    return;
                };
                next
            };
            match next.send(Turn(Some(Arc::clone(self)))) {
                Ok(()) => return,
                // The client has left. Its turn was never used, so the drop must not pass on another one.
                Err(mut turn) => drop(turn.0.take()),
            }
        }
    }
}

#[cfg(test)]
mod tests;
