//! Publishes changes to readers, without losing a change and without waiting for a reader.
//!
//! Each [`Feed`] has a mailbox of bounded size. A reader that is too slow gets the changes that it missed merged into one. So
//! memory is bounded, the client never waits, and only intermediate states are lost.
//!
//! No event holds a snapshot. As long as any reader holds a snapshot, every change must copy what it shares with it, and most
//! readers only need the changes. A reader that needs the newest snapshot requests it.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use futures_core::Stream;

use super::metrics::{self, Meters};
use crate::replica::{Delta, Seq, Snapshot};
use crate::session::{CloseReason, SyncKind};

/// An event of a feed. There will be no further kinds: a reader that ignores one of these may act on stale rows.
#[derive(Clone, Debug)]
pub enum FeedEvent {
    /// The replica equals the server's content. The feed has reported all changes up to here.
    Synced {
        /// The kind of load that led to it.
        how: SyncKind,
    },
    /// Rows changed.
    Changed {
        /// The changes since the previous event.
        delta: Arc<Delta>,
        /// Whether several changes were merged because the reader was slow.
        lagged: bool,
    },
    /// The replica does not follow the server any more. It stays as it is.
    Disconnected {
        /// Why.
        reason: CloseReason,
    },
    /// The replica follows the server again. The feed has reported the missed changes.
    Reconnected {
        /// The kind of load that led to it.
        how: SyncKind,
    },
}

/// Changes of a database from a certain snapshot on: each once, in order. It is also a [`Stream`].
#[derive(Debug)]
#[must_use]
pub struct Feed {
    mailbox: Arc<Mailbox>,
    newest: Arc<Newest>,
    /// Events that a lag left behind.
    pending: VecDeque<FeedEvent>,
    told: SyncState,
}

/// Whether the replica follows the server, from the client's or a reader's view.
#[derive(Clone, Debug)]
enum SyncState {
    /// The client has not been in sync yet.
    Never,
    Synced(SyncKind),
    Down(CloseReason),
}

impl SyncState {
    /// The events that a reader with the older standing `told` still has to receive, with the last disconnect that it missed.
    fn told_after(&self, told: &SyncState, missed: Option<CloseReason>) -> Vec<FeedEvent> {
        let disconnected = |reason| FeedEvent::Disconnected { reason };
        match (told, self) {
            (_, Self::Never) | (Self::Down(_), Self::Down(_)) => Vec::new(),
            (_, Self::Down(reason)) => vec![disconnected(reason.clone())],
            (Self::Never, Self::Synced(how)) => vec![FeedEvent::Synced { how: *how }],
            (Self::Down(_), Self::Synced(how)) => vec![FeedEvent::Reconnected { how: *how }],
            (Self::Synced(_), Self::Synced(how)) => match missed {
                Some(reason) => vec![disconnected(reason), FeedEvent::Reconnected { how: *how }],
                None => Vec::new(),
            },
        }
    }
}

#[derive(Debug)]
struct Mailbox {
    state: Mutex<MailState>,
    /// The state after which the reader wants changes; it may be newer than the next published change.
    since: Seq,
    limit: usize,
    meters: Arc<Meters>,
}

#[derive(Debug)]
struct MailState {
    events: VecDeque<FeedEvent>,
    /// The size of the events: one each, plus one for every row.
    weight: usize,
    /// Set when there were too many events. Then only this and the standing count.
    lag: Option<Lag>,
    standing: SyncState,
    closed: bool,
    /// The task that waits for an event.
    reader: Option<Waker>,
}

/// The changes that a slow reader missed.
#[derive(Debug)]
struct Lag {
    sum: Delta,
    /// Later changes, and their size. They are merged into the sum when they outweigh it, so that one more change after many is
    /// cheap, and yet no row is held more than a few times.
    late: Vec<Arc<Delta>>,
    weight: usize,
    /// The reason why the replica last ceased to follow the server, if it did.
    broke: Option<CloseReason>,
}

impl Lag {
    /// The merged change of the events; empty if no rows changed.
    fn of(events: impl Iterator<Item = FeedEvent>, seq: Seq) -> Self {
        let mut lag = Lag { sum: Delta::none(seq), late: Vec::new(), weight: 0, broke: None };
        for event in events {
            match event {
                FeedEvent::Changed { delta, .. } => lag.late.push(delta),
                FeedEvent::Disconnected { reason } => lag.broke = Some(reason),
                FeedEvent::Synced { .. } | FeedEvent::Reconnected { .. } => {}
            }
        }
        lag.settle();
        lag
    }

    fn add(&mut self, delta: &Arc<Delta>, limit: usize) {
        self.late.push(Arc::clone(delta));
        self.weight += 1 + delta.len();
        if self.weight > limit.max(self.sum.len()) {
            self.settle();
        }
    }

    fn settle(&mut self) {
        if let Some(late) = Delta::sum(&self.late) {
            self.sum.merge(&late);
        }
        self.late.clear();
        self.weight = 0;
    }
}

fn weight(event: &FeedEvent) -> usize {
    match event {
        FeedEvent::Changed { delta, .. } => 1 + delta.len(),
        _ => 1,
    }
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, MailState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, event: &FeedEvent) {
        let mut state = self.lock();
        match event {
            FeedEvent::Changed { delta, .. } if delta.seq() <= self.since => return,
            FeedEvent::Changed { delta, .. } => {
                if let Some(lag) = &mut state.lag {
                    lag.add(delta, self.limit);
                }
            }
            FeedEvent::Synced { how } | FeedEvent::Reconnected { how } => {
                state.standing = SyncState::Synced(*how)
            }
            FeedEvent::Disconnected { reason } => {
                state.standing = SyncState::Down(reason.clone());
                if let Some(lag) = &mut state.lag {
                    lag.broke = Some(reason.clone());
                }
            }
        }
        if state.lag.is_none() {
            state.weight += weight(event);
            state.events.push_back(event.clone());
            // A single large change is as good as the merged one that would replace it.
            if state.weight > self.limit && state.events.len() > 1 {
                state.lag = Some(Lag::of(state.events.drain(..), self.since));
                state.weight = 0;
                metrics::count(&self.meters.feed_lags);
            }
        }
        let reader = state.reader.take();
        drop(state);
        reader.into_iter().for_each(Waker::wake);
    }

    fn close(&self) {
        let reader = {
            let mut state = self.lock();
            state.closed = true;
            state.reader.take()
        };
        reader.into_iter().for_each(Waker::wake);
    }
}

impl Feed {
    /// Waits for the next event; `None` once the client is closed and all events were read.
    ///
    /// Cancel-safe: dropping the future loses no event.
    pub async fn next(&mut self) -> Option<FeedEvent> {
        poll_fn(|cx| self.poll_event(cx)).await
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<FeedEvent>> {
        loop {
            if let Some(event) = self.try_next() {
                return Poll::Ready(Some(event));
            }
            let mut state = self.mailbox.lock();
            // An event may have arrived since `try_next`.
            if state.events.is_empty() && state.lag.is_none() {
                if state.closed {
                    return Poll::Ready(None);
                }
                state.reader = Some(cx.waker().clone());
                return Poll::Pending;
            }
        }
    }

    /// The next event, if one is queued.
    pub fn try_next(&mut self) -> Option<FeedEvent> {
        if let Some(event) = self.pending.pop_front() {
            return Some(self.tell(event));
        }
        let event = {
            let mut state = self.mailbox.lock();
            match state.lag.take() {
                None => {
                    let event = state.events.pop_front()?;
                    state.weight -= weight(&event);
                    event
                }
                Some(lag) => {
                    let standing = state.standing.clone();
                    drop(state);
                    self.catch_up(lag, &standing);
                    self.pending.pop_front()?
                }
            }
        };
        Some(self.tell(event))
    }

    /// The newest snapshot: it contains all reported changes, and perhaps more.
    pub fn snapshot(&self) -> Snapshot {
        self.newest.get()
    }

    fn tell(&mut self, event: FeedEvent) -> FeedEvent {
        match &event {
            FeedEvent::Changed { .. } => {}
            FeedEvent::Synced { how } | FeedEvent::Reconnected { how } => self.told = SyncState::Synced(*how),
            FeedEvent::Disconnected { reason } => self.told = SyncState::Down(reason.clone()),
        }
        event
    }

    /// The missed changes as few events: the merged change, then the current state.
    fn catch_up(&mut self, mut lag: Lag, standing: &SyncState) {
        lag.settle();
        let changed = FeedEvent::Changed { delta: Arc::new(lag.sum), lagged: true };
        self.pending.extend(Some(changed).filter(|changed| weight(changed) > 1));
        self.pending.extend(standing.told_after(&self.told, lag.broke));
    }
}

/// The events, as [`Feed::next`] returns them.
impl Stream for Feed {
    type Item = FeedEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<FeedEvent>> {
        self.poll_event(cx)
    }
}

/// The newest snapshot.
#[derive(Debug)]
struct Newest(Mutex<Snapshot>);

impl Newest {
    fn lock(&self) -> MutexGuard<'_, Snapshot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self) -> Snapshot {
        self.lock().clone()
    }
}

/// The sending end of all feeds.
#[derive(Debug)]
pub(crate) struct Publisher {
    newest: Arc<Newest>,
    /// The snapshot before the first load.
    empty: Snapshot,
    mailboxes: Mutex<Mailboxes>,
    limit: usize,
    meters: Arc<Meters>,
}

#[derive(Debug)]
struct Mailboxes {
    list: Vec<Weak<Mailbox>>,
    standing: SyncState,
    closed: bool,
}

impl Publisher {
    pub(crate) fn new(empty: Snapshot, limit: usize, meters: Arc<Meters>) -> Self {
        let newest = Arc::new(Newest(Mutex::new(empty.clone())));
        let mailboxes = Mailboxes { list: Vec::new(), standing: SyncState::Never, closed: false };
        Self { newest, empty, mailboxes: Mutex::new(mailboxes), limit, meters }
    }

    fn lock(&self) -> MutexGuard<'_, Mailboxes> {
        self.mailboxes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest snapshot.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.newest.get()
    }

    /// Publishes the snapshot after a change. Events about the change follow later.
    pub(crate) fn publish(&self, change: impl FnOnce() -> Snapshot) {
        let newest = change();
        *self.newest.lock() = newest;
    }

    /// Like [`Publisher::publish`], for a fast change. Meanwhile the publisher does not hold the old snapshot, and callers that request one
    /// wait. If no reader holds it either, the change happens in place.
    pub(crate) fn publish_in_place(&self, change: impl FnOnce() -> Snapshot) {
        let mut newest = self.newest.lock();
        *newest = self.empty.clone();
        *newest = change();
    }

    /// A feed from now on, or (with `all`) one that begins with the existing rows.
    pub(crate) fn subscribe(&self, all: bool) -> Feed {
        let mut mailboxes = self.lock();
        let standing = mailboxes.standing.clone();
        let newest = self.newest.get();
        let mut events = VecDeque::new();
        let mut told = standing.clone();
        if all {
            told = SyncState::Never;
            let delta = self.empty.diff(&newest);
            if !delta.is_empty() {
                events.push_back(FeedEvent::Changed { delta: Arc::new(delta), lagged: false });
            }
            events.extend(standing.told_after(&told, None));
        }
        let state = MailState {
            weight: events.iter().map(weight).sum(),
            events,
            lag: None,
            standing,
            closed: mailboxes.closed,
            reader: None,
        };
        let mailbox = Arc::new(Mailbox {
            state: Mutex::new(state),
            since: newest.seq(),
            limit: self.limit,
            meters: self.meters.clone(),
        });
        mailboxes.list.push(Arc::downgrade(&mailbox));
        Feed { mailbox, newest: Arc::clone(&self.newest), pending: VecDeque::new(), told }
    }

    /// Rows changed.
    pub(crate) fn changed(&self, delta: Delta) {
        metrics::count(&self.meters.deltas);
        metrics::add(&self.meters.rows_changed, delta.len());
        self.lock().send(&FeedEvent::Changed { delta: Arc::new(delta), lagged: false });
    }

    /// The replica follows the server.
    pub(crate) fn synced(&self, how: SyncKind) {
        let mut mailboxes = self.lock();
        let event = match mailboxes.standing {
            SyncState::Down(_) => FeedEvent::Reconnected { how },
            SyncState::Never | SyncState::Synced(_) => FeedEvent::Synced { how },
        };
        mailboxes.standing = SyncState::Synced(how);
        mailboxes.send(&event);
    }

    /// The replica no longer follows the server. Repeated failed attempts cause only one event.
    pub(crate) fn down(&self, reason: &CloseReason) {
        let mut mailboxes = self.lock();
        if matches!(mailboxes.standing, SyncState::Synced(_)) {
            mailboxes.standing = SyncState::Down(reason.clone());
            mailboxes.send(&FeedEvent::Disconnected { reason: reason.clone() });
        }
    }

    /// Ends all feeds: no more events follow.
    pub(crate) fn close(&self) {
        let mut mailboxes = self.lock();
        mailboxes.closed = true;
        for mailbox in mailboxes.list.drain(..).filter_map(|mailbox| mailbox.upgrade()) {
            mailbox.close();
        }
    }
}

impl Mailboxes {
    fn send(&mut self, event: &FeedEvent) {
        self.list.retain(|mailbox| match mailbox.upgrade() {
            Some(mailbox) => {
                mailbox.put(event);
                true
            }
            None => false,
        });
    }
}

#[cfg(test)]
mod tests;
