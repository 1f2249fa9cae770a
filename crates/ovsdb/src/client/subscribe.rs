//! Telling readers what changed, without ever losing a change and without ever waiting for a reader.
//!
//! Each [`Feed`] has a mailbox of bounded size. A reader that is too slow finds its mailbox emptied, and compares the
//! snapshot it saw last with the newest one instead: the sum of the changes it missed. So memory is bounded, the
//! client never waits, and nothing is lost but intermediate states.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

use super::metrics::{self, Meters};
use crate::replica::{Delta, Snapshot};
use crate::session::{CloseReason, SyncKind};

/// What a feed tells.
#[derive(Clone, Debug)]
pub enum FeedEvent {
    /// The replica is what the server has. All changes up to here have been told.
    Synced {
        /// How that came about.
        how: SyncKind,
    },
    /// Rows changed.
    Changed {
        /// What changed since the event before.
        delta: Arc<Delta>,
        /// The database after it.
        snapshot: Snapshot,
        /// Whether several changes were summed up because the reader was slow.
        lagged: bool,
    },
    /// The replica does not follow the server any more. It stays as it is.
    Disconnected {
        /// Why.
        reason: CloseReason,
    },
    /// The replica follows the server again. What was missed has been told.
    Reconnected {
        /// How that came about.
        how: SyncKind,
    },
}

/// Changes of a database from a certain snapshot on: each once, in order.
#[derive(Debug)]
pub struct Feed {
    mailbox: Arc<Mailbox>,
    /// The snapshot that the reader has been told everything up to.
    seen: Snapshot,
    /// Events that a lag left behind.
    pending: VecDeque<FeedEvent>,
    told: Standing,
}

/// Whether the replica follows the server, as far as a reader knows or the client.
#[derive(Clone, Debug, PartialEq)]
enum Standing {
    /// Not yet.
    Never,
    Synced(SyncKind),
    Down(CloseReason),
}

impl Standing {
    /// The event that brings a reader who knows of another standing to this one.
    fn told_after(&self, told: &Standing) -> Option<FeedEvent> {
        match (told, self) {
            (told, now) if told == now => None,
            (Self::Down(_), Self::Synced(how)) => Some(FeedEvent::Reconnected { how: *how }),
            (_, Self::Synced(how)) => Some(FeedEvent::Synced { how: *how }),
            (_, Self::Down(reason)) => Some(FeedEvent::Disconnected { reason: reason.clone() }),
            (_, Self::Never) => None,
        }
    }
}

#[derive(Debug)]
struct Mailbox {
    state: Mutex<MailState>,
    wake: Notify,
    limit: usize,
    meters: Arc<Meters>,
}

#[derive(Debug)]
struct MailState {
    events: VecDeque<FeedEvent>,
    /// What the events hold: one each, and one for every row.
    weight: usize,
    /// The mailbox was emptied: only this and the standing count.
    overflow: Option<Snapshot>,
    standing: Standing,
    closed: bool,
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

    fn put(&self, event: &FeedEvent, snapshot: &Snapshot) {
        let mut state = self.lock();
        match event {
            FeedEvent::Synced { how } | FeedEvent::Reconnected { how } => {
                state.standing = Standing::Synced(*how)
            }
            FeedEvent::Disconnected { reason } => state.standing = Standing::Down(reason.clone()),
            FeedEvent::Changed { .. } => {}
        }
        if state.overflow.is_none() {
            state.weight += weight(event);
            state.events.push_back(event.clone());
            // A single large change is as good as the comparison that would replace it.
            if state.weight > self.limit && state.events.len() > 1 {
                state.events.clear();
                state.weight = 0;
                state.overflow = Some(snapshot.clone());
                metrics::count(&self.meters.feed_lags);
            }
        } else {
            state.overflow = Some(snapshot.clone());
        }
        drop(state);
        self.wake.notify_one();
    }
}

impl Feed {
    /// The next event, as soon as there is one; `None` when the client is closed and everything has been told.
    ///
    /// Safe to drop while it waits: nothing is lost.
    pub async fn next(&mut self) -> Option<FeedEvent> {
        loop {
            if let Some(event) = self.try_next() {
                return Some(event);
            }
            if self.mailbox.lock().closed {
                return self.try_next();
            }
            self.mailbox.wake.notified().await;
        }
    }

    /// The next event, if it is there already.
    pub fn try_next(&mut self) -> Option<FeedEvent> {
        if let Some(event) = self.pending.pop_front() {
            return Some(self.tell(event));
        }
        let event = {
            let mut state = self.mailbox.lock();
            match state.overflow.take() {
                None => {
                    let event = state.events.pop_front()?;
                    state.weight -= weight(&event);
                    event
                }
                Some(newest) => {
                    let standing = state.standing.clone();
                    drop(state);
                    self.catch_up(newest, standing);
                    self.pending.pop_front()?
                }
            }
        };
        Some(self.tell(event))
    }

    /// The snapshot after the event told last.
    pub fn snapshot(&self) -> &Snapshot {
        &self.seen
    }

    fn tell(&mut self, event: FeedEvent) -> FeedEvent {
        match &event {
            FeedEvent::Changed { snapshot, .. } => self.seen = snapshot.clone(),
            FeedEvent::Synced { how } | FeedEvent::Reconnected { how } => self.told = Standing::Synced(*how),
            FeedEvent::Disconnected { reason } => self.told = Standing::Down(reason.clone()),
        }
        event
    }

    /// What was missed, as few events: the sum of the changes, then where things stand.
    fn catch_up(&mut self, newest: Snapshot, standing: Standing) {
        let delta = self.seen.diff(&newest);
        let changed = (!delta.is_empty()).then(|| FeedEvent::Changed {
            delta: Arc::new(delta),
            snapshot: newest.clone(),
            lagged: true,
        });
        self.pending.extend(changed);
        self.pending.extend(standing.told_after(&self.told));
        // Rows may be equal and the state still be a later one.
        self.seen = newest;
    }
}

/// The sending end of all feeds.
#[derive(Debug)]
pub(crate) struct Publisher {
    mailboxes: Mutex<Mailboxes>,
    limit: usize,
    meters: Arc<Meters>,
}

#[derive(Debug)]
struct Mailboxes {
    list: Vec<Weak<Mailbox>>,
    /// Before anything was there.
    empty: Snapshot,
    newest: Snapshot,
    standing: Standing,
    closed: bool,
}

impl Publisher {
    pub(crate) fn new(empty: Snapshot, limit: usize, meters: Arc<Meters>) -> Self {
        let newest = empty.clone();
        let mailboxes =
            Mailboxes { list: Vec::new(), empty, newest, standing: Standing::Never, closed: false };
        Self { mailboxes: Mutex::new(mailboxes), limit, meters }
    }

    fn lock(&self) -> MutexGuard<'_, Mailboxes> {
        self.mailboxes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest snapshot.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.lock().newest.clone()
    }

    /// A feed from now on, or (with `all`) one that tells first what is there already.
    pub(crate) fn subscribe(&self, all: bool) -> Feed {
        let mut mailboxes = self.lock();
        let standing = mailboxes.standing.clone();
        let newest = mailboxes.newest.clone();
        let mut events = VecDeque::new();
        let mut seen = newest.clone();
        let mut told = standing.clone();
        if all {
            (seen, told) = (mailboxes.empty.clone(), Standing::Never);
            let delta = seen.diff(&newest);
            if !delta.is_empty() {
                let delta = Arc::new(delta);
                events.push_back(FeedEvent::Changed { delta, snapshot: newest, lagged: false });
            }
            events.extend(standing.told_after(&told));
        }
        let state = MailState {
            weight: events.iter().map(weight).sum(),
            events,
            overflow: None,
            standing,
            closed: mailboxes.closed,
        };
        let mailbox = Arc::new(Mailbox {
            state: Mutex::new(state),
            wake: Notify::new(),
            limit: self.limit,
            meters: self.meters.clone(),
        });
        mailboxes.list.push(Arc::downgrade(&mailbox));
        Feed { mailbox, seen, pending: VecDeque::new(), told }
    }

    /// Rows changed.
    pub(crate) fn changed(&self, delta: Delta, snapshot: &Snapshot) {
        metrics::count(&self.meters.deltas);
        metrics::add(&self.meters.rows_changed, delta.len());
        let mut mailboxes = self.lock();
        mailboxes.newest = snapshot.clone();
        let event = FeedEvent::Changed { delta: Arc::new(delta), snapshot: snapshot.clone(), lagged: false };
        mailboxes.send(&event);
    }

    /// The replica follows the server.
    pub(crate) fn synced(&self, how: SyncKind, snapshot: &Snapshot) {
        let mut mailboxes = self.lock();
        mailboxes.newest = snapshot.clone();
        let event = match mailboxes.standing {
            Standing::Down(_) => FeedEvent::Reconnected { how },
            Standing::Never | Standing::Synced(_) => FeedEvent::Synced { how },
        };
        mailboxes.standing = Standing::Synced(how);
        mailboxes.send(&event);
    }

    /// The replica does not follow the server any more. Attempts that fail are not told again and again.
    pub(crate) fn down(&self, reason: &CloseReason) {
        let mut mailboxes = self.lock();
        if matches!(mailboxes.standing, Standing::Synced(_)) {
            mailboxes.standing = Standing::Down(reason.clone());
            mailboxes.send(&FeedEvent::Disconnected { reason: reason.clone() });
        }
    }

    /// Nothing more will come.
    pub(crate) fn close(&self) {
        let mut mailboxes = self.lock();
        mailboxes.closed = true;
        for mailbox in mailboxes.list.drain(..).filter_map(|mailbox| mailbox.upgrade()) {
            mailbox.lock().closed = true;
            mailbox.wake.notify_one();
        }
    }
}

impl Mailboxes {
    fn send(&mut self, event: &FeedEvent) {
        let newest = &self.newest;
        self.list.retain(|mailbox| match mailbox.upgrade() {
            Some(mailbox) => {
                mailbox.put(event, newest);
                true
            }
            None => false,
        });
    }
}

#[cfg(test)]
mod tests;
