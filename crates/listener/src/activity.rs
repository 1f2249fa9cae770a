//! The activity of one connection: whether the client or the server has to act next, and since when.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::Client;
use crate::limits::Limits;

/// Minimum age of a connection without a request before the listener closes it to make room or to end, because its request may be
/// in flight.
const GRACE: Duration = Duration::from_millis(500);

/// The activity of one connection.
#[derive(Debug)]
pub struct Activity {
    pub(crate) id: u64,
    pub(crate) client: Client,
    accepted: Instant,
    state: Mutex<State>,
    closing: Notify,
}

#[derive(Debug)]
struct State {
    /// Number of requests with a complete head.
    requests: u64,
    /// Whether the service has a request's head and has not finished the request.
    under_way: bool,
    /// Whether a request is in progress.
    working: bool,
    /// Whether the request in progress waits for the rest of its body.
    wants_body: bool,
    /// Arrival of the first byte of an incomplete head.
    head: Option<Instant>,
    /// The last time when the client sent or read bytes, or became the party to act.
    progress: Instant,
    /// Deadline of a client that does not read its answer.
    answer_until: Option<Instant>,
    /// Whether the connection ends with the current request.
    last: bool,
    /// The reader that waits for the end of a request before it passes on the next one.
    reader: Option<Waker>,
    closed: Option<Reason>,
}

/// The reason why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    NoRequest,
    SlowHead,
    Idle,
    NotReading,
    RoomNeeded,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::NoRequest => "no request was sent in time",
            Reason::SlowHead => "the head of a request took too long",
            Reason::Idle => "nothing was requested for too long",
            Reason::NotReading => "the client does not read the response",
            Reason::RoomNeeded => "another connection needed its place",
        })
    }
}

impl Activity {
    pub(crate) fn new(id: u64, client: Client) -> Self {
        let now = Instant::now();
        let state = State {
            requests: 0,
            under_way: false,
            working: false,
            wants_body: false,
            head: None,
            progress: now,
            answer_until: None,
            last: false,
            reader: None,
            closed: None,
        };
        Activity { id, client, accepted: now, state: Mutex::new(state), closing: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time until which the first request may be in flight.
    pub(crate) fn in_flight_until(&self) -> Instant {
        self.accepted + GRACE
    }

    /// A request is complete enough to process it. The listener keeps the connection until [`done`](Self::done).
    pub fn begin(&self) {
        let mut state = self.state();
        state.requests += 1;
        state.working = true;
        state.wants_body = false;
        state.head = None;
    }

    /// The client has to act again: to read the answer, or to send the next request.
    pub fn done(&self) {
        let mut state = self.state();
        state.under_way = false;
        state.working = false;
        state.wants_body = false;
        state.progress = Instant::now();
        if let Some(reader) = state.reader.take() {
            reader.wake();
        }
    }

    /// A request's head is complete. The stream passes on nothing of the next request before this one is done.
    pub(crate) fn head_complete(&self) {
        self.state().under_way = true;
    }

    /// Whether the next request must wait; wakes `reader` when that ends.
    pub(crate) fn next_has_to_wait(&self, reader: &Waker) -> bool {
        let mut state = self.state();
        if state.under_way {
            state.reader = Some(reader.clone());
        }
        state.under_way
    }

    /// The request in progress starts or stops waiting for its body.
    pub(crate) fn wants_body(&self, wants: bool) {
        self.state().wants_body = wants;
    }

    /// Records that the client sent bytes; `in_head` is true if the head of a request is still incomplete.
    pub(crate) fn received(&self, in_head: bool) {
        let now = Instant::now();
        let mut state = self.state();
        state.progress = now;
        state.head = in_head.then(|| state.head.unwrap_or(now));
    }

    /// The client does not read at the moment.
    pub(crate) fn blocked(&self, limits: &Limits) {
        let mut state = self.state();
        state.answer_until.get_or_insert_with(|| Instant::now() + limits.answer);
    }

    /// The client read some bytes.
    pub(crate) fn took(&self, bytes: usize, limits: &Limits) {
        let now = Instant::now();
        let mut state = self.state();
        state.progress = now;
        if let Some(until) = &mut state.answer_until {
            let earned = Duration::from_millis(bytes as u64 * 1000 / Limits::SLOWEST);
            *until = (*until + earned).min(now + limits.answer);
        }
    }

    /// The client read everything.
    pub(crate) fn flushed(&self) {
        self.state().answer_until = None;
    }

    /// The connection ends with the current request.
    pub(crate) fn set_last(&self) {
        self.state().last = true;
    }

    pub(crate) fn is_last(&self) -> bool {
        self.state().last
    }

    /// The reason to close this connection now, if there is one.
    pub(crate) fn overdue(&self, limits: &Limits, now: Instant) -> Option<Reason> {
        let state = self.state();
        if state.answer_until.is_some_and(|until| now >= until) {
            return Some(Reason::NotReading);
        }
        if state.working {
            return None;
        }
        let over = |since: Instant, limit| now.saturating_duration_since(since) >= limit;
        if state.requests == 0 {
            return over(self.accepted, limits.first_request).then_some(Reason::NoRequest);
        }
        if state.head.is_some_and(|since| over(since, limits.head)) {
            return Some(Reason::SlowHead);
        }
        over(state.progress, limits.idle).then_some(Reason::Idle)
    }

    /// Rank for closing, the smallest first. `None` while a request is in progress.
    pub(crate) fn rank(&self, now: Instant) -> Option<(u8, Instant)> {
        let state = self.state();
        if state.working && !state.wants_body {
            return None;
        }
        let young = now.saturating_duration_since(self.accepted) < GRACE;
        Some(match (state.requests, young) {
            (0, false) => (0, self.accepted),
            (0, true) => (2, self.accepted),
            _ => (1, state.progress),
        })
    }

    pub(crate) fn close(&self, reason: Reason) {
        self.state().closed.get_or_insert(reason);
        self.closing.notify_one();
    }

    /// Returns when the connection must be closed.
    pub(crate) async fn closed(&self) -> Reason {
        loop {
            if let Some(reason) = self.state().closed {
                return reason;
            }
            self.closing.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        connections: 8,
        per_client: 4,
        first_request: Duration::from_secs(2),
        head: Duration::from_secs(3),
        idle: Duration::from_secs(10),
        answer: Duration::from_secs(5),
    };

    fn activity() -> Activity {
        Activity::new(0, Client::Local)
    }

    fn overdue(activity: &Activity) -> Option<Reason> {
        activity.overdue(&LIMITS, Instant::now())
    }

    async fn pass(seconds: u64) {
        tokio::time::advance(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_request_has_to_come_soon_and_its_work_takes_what_it_takes() {
        let activity = activity();
        activity.received(true);
        pass(1).await;
        assert_eq!(overdue(&activity), None);
        activity.received(true);
        pass(1).await;
        assert_eq!(overdue(&activity), Some(Reason::NoRequest), "a byte now and then does not help");
        activity.begin();
        pass(1000).await;
        assert_eq!((overdue(&activity), activity.rank(Instant::now())), (None, None));
        activity.done();
        pass(9).await;
        assert_eq!(overdue(&activity), None);
        pass(1).await;
        assert_eq!(overdue(&activity), Some(Reason::Idle));
    }

    #[tokio::test(start_paused = true)]
    async fn a_later_head_has_a_limit_of_its_own() {
        let activity = activity();
        activity.begin();
        activity.done();
        pass(8).await;
        activity.received(true);
        pass(2).await;
        assert_eq!(overdue(&activity), None);
        activity.received(true);
        pass(1).await;
        assert_eq!(overdue(&activity), Some(Reason::SlowHead));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_has_to_be_taken_at_some_speed() {
        let activity = activity();
        activity.begin();
        activity.done();
        activity.blocked(&LIMITS);
        for _ in 0..4 {
            pass(1).await;
            activity.took(100, &LIMITS);
            activity.blocked(&LIMITS);
        }
        assert_eq!(overdue(&activity), None);
        pass(2).await;
        activity.took(100, &LIMITS);
        assert_eq!(overdue(&activity), Some(Reason::NotReading), "a few bytes a second are too few");

        let activity = self::activity();
        activity.begin();
        activity.done();
        activity.blocked(&LIMITS);
        for _ in 0..100 {
            pass(1).await;
            activity.took(64 << 10, &LIMITS);
            assert_eq!(overdue(&activity), None);
        }
        activity.flushed();
        pass(6).await;
        assert_eq!(overdue(&activity), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_silent_are_more_dispensable_than_the_idle() {
        let (silent, idle, new) = (activity(), activity(), activity());
        idle.begin();
        assert_eq!(idle.rank(Instant::now()), None);
        idle.wants_body(true);
        assert!(idle.rank(Instant::now()).is_some(), "a body that does not come is waiting, too");
        idle.done();
        assert!(new.rank(Instant::now()) > idle.rank(Instant::now()), "a new connection has a moment");
        pass(1).await;
        assert!(silent.rank(Instant::now()) < idle.rank(Instant::now()));
    }
}
