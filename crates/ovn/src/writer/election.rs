//! The election of the server that writes the Northbound.
//!
//! A lock in the Northbound elects the writer. When the writer's connection ends, the next server gets the lock. Two kinds of failure leave
//! the connection and the lock in place while nothing is written:
//!
//! * The writer is cut off from its store and does not receive new requests. It releases the lock by itself.
//! * The writer hangs, or a broken path hides it from the database server. A server that sees the rows fall behind the store
//!   steals the lock. That is safe even if the old writer is alive: the new one raises the generation ([`super::fence`]), and
//!   every transaction of the old one fails from then on.

use std::sync::Arc;
use std::time::Duration;

use ovsdb::client::{Lock, LockState};
use ovsdb::session::Progress;
use ovsdb::{Client, Map, Str, Transaction};
use reconcile::Handle;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};

use super::fence::{Fence, FenceState, Generation, Standing};
use super::{Backing, Revision, SourceState, applied};
use crate::nb::NbGlobal;

/// The interval between checks of the store's silence and the writer's lag.
const LOOK: Duration = Duration::from_millis(250);
/// How long the rows may be behind the store before another server takes over.
const LAG: Duration = Duration::from_secs(2);
/// The longest such time after takeovers did not help. A database that is slow with a large transaction needs its time from any writer.
const LONGEST_LAG: Duration = Duration::from_secs(60);

/// The part of one server in the election.
pub(super) struct Election<S> {
    pub(super) nb: Client,
    /// The lock's name.
    pub(super) lock: String,
    pub(super) owner: String,
    pub(super) states: watch::Receiver<S>,
    pub(super) backing: Arc<dyn Backing>,
    pub(super) fence: Fence,
    /// Whether this server is the writer.
    pub(super) office: watch::Sender<LockState>,
    pub(super) handle: Handle,
}

/// For how long the rows have stood behind the store, as a server sees it that does not write them.
#[derive(Debug)]
struct Lag {
    /// The state that the rows follow from, and since when it has been that one while the store was ahead.
    stands: Option<(Option<Revision>, Instant)>,
    patience: Duration,
}

impl Lag {
    fn none() -> Self {
        Lag { stands: None, patience: LAG }
    }

    /// Whether it is time to take over, given that the rows follow from `written` and the store is at `own`.
    fn is_too_long(&mut self, written: Option<Revision>, own: Revision, now: Instant) -> bool {
        let is_behind =
            written.map_or(own.seq > 0, |written| written.store == own.store && written.seq < own.seq);
        if !is_behind {
            *self = Lag::none();
            return false;
        }
        let since = match self.stands {
            Some((stood, since)) if stood == written => since,
            _ => self.stands.insert((written, now)).1,
        };
        if now.duration_since(since) < self.patience {
            return false;
        }
        *self = Lag { stands: None, patience: (self.patience * 2).min(LONGEST_LAG) };
        true
    }
}

impl<S: SourceState> Election<S> {
    /// Takes part until the loop is stopped. Raises the generation whenever this server becomes the writer, and again if the
    /// number is lost with the database.
    pub(super) async fn run(mut self) {
        let mut lock = Some(self.nb.lock(&self.lock).await);
        let mut lag = Lag::none();
        let mut feed = self.nb.subscribe_all();
        let mut status = self.handle.status();
        let mut tick = tokio::time::interval(LOOK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            if self.backing.is_shared() {
                self.compete(&mut lock, &mut lag).await;
            }
            let mut state = lock.as_ref().map(Lock::state);
            let now = state.as_mut().map_or(LockState::Waiting, |state| state.borrow_and_update().clone());
            let held = now == LockState::Held;
            self.office.send_if_modified(|before| std::mem::replace(before, now.clone()) != now);
            let mut pending = false;
            if held {
                let known = self.fence.lock().clone();
                match self.claim(&known).await {
                    // An operator's permission that arrived meanwhile belongs to the same generation and stays.
                    Some(state) if state == known => {}
                    Some(state) => drop(self.fence.set(state).then(|| self.handle.run_now())),
                    None => pending = true,
                }
            } else if self.fence.set(FenceState::Down) {
                info!("this server is no longer the writer of the Northbound");
            }
            let judged = match &*self.fence.lock() {
                FenceState::Up(generation) => generation.restores,
                FenceState::Down | FenceState::Bare => self.states.borrow().restores(),
            };
            let moved = async {
                match &mut state {
                    Some(state) => drop(state.changed().await),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = moved => {}
                event = feed.next() => if event.is_none() { return },
                restored = self.states.wait_for(|state| state.restores() != judged) => if restored.is_err() { return },
                _ = status.wait_for(|status| status.state == reconcile::State::Stopped) => return,
                _ = tick.tick(), if pending || self.backing.is_shared() => {}
            }
        }
    }

    /// Releases the lock while the store does not respond, and steals it from a writer that does not write.
    async fn compete(&self, lock: &mut Option<Lock>, lag: &mut Lag) {
        if let Some(silence) = self.backing.silence() {
            if lock.take().is_some_and(|lock| lock.is_held()) {
                warn!(
                    ?silence,
                    "the database does not reply; another server may become the writer of the Northbound"
                );
            }
            *lag = Lag::none();
            return;
        }
        let lock = match lock {
            Some(lock) => lock,
            None => lock.insert(self.nb.lock(&self.lock).await),
        };
        let is_synced = self.nb.status().borrow().progress == Progress::Synced;
        if lock.is_held() || !is_synced {
            *lag = Lag::none();
            return;
        }
        let (written, own) = (applied::noted(&self.nb, &self.owner), self.states.borrow().revision());
        if lag.is_too_long(written, own, Instant::now()) {
            warn!(
                written = written.map(|it| it.seq),
                store = own.seq,
                "the present writer of the Northbound writes nothing; this server takes over"
            );
            *lock = self.nb.steal(&self.lock).await;
        }
    }

    /// The state of the fence that holds now; `None` if it cannot be determined yet.
    async fn claim(&self, known: &FenceState) -> Option<FenceState> {
        let source = self.states.borrow().clone();
        let snapshot = self.nb.snapshot();
        let Some((row, global)) = snapshot.table::<NbGlobal>().iter().next() else {
            return Some(FenceState::Bare);
        };
        let key = Str::new(format!("meridian:generation:{}", self.owner));
        let there = global.external_ids.get(key.as_str());
        if let FenceState::Up(ours) = known
            && ours.row == row.uuid()
            && there == Some(&ours.number)
            && ours.restores == source.restores()
        {
            return Some(known.clone());
        }
        let applied = applied::key(&self.owner);
        let newest = global.external_ids.get(applied.as_str()).and_then(|text| text.parse().ok());
        let standing = self.judge(newest, &source).await?;
        let number = there.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0) + 1;
        let number = Str::new(number.to_string());
        let generation = Generation {
            row: row.uuid(),
            key: key.clone(),
            number: number.clone(),
            applied,
            standing,
            restores: source.restores(),
        };
        let mut txn = Transaction::new();
        txn.assert_lock(&self.lock);
        txn.put(row, NbGlobal::EXTERNAL_IDS, &Map::from([(key, number.clone())]));
        match self.nb.commit(&txn).await {
            Ok(_) => {
                info!(generation = %number, "this server is the writer of the Northbound");
                if let Standing::Behind(newest) = standing {
                    let own = source.revision();
                    warn!(%newest, %own, "the Northbound's rows follow from another state of the store; this server deletes no rows");
                }
                Some(FenceState::Up(generation))
            }
            Err(error) => {
                warn!(%error, "cannot become the writer of the Northbound; retrying");
                None
            }
        }
    }

    /// The standing of our store towards a Northbound with a known newest state; `None` if the store does not answer.
    async fn judge(&self, newest: Option<Revision>, source: &S) -> Option<Standing> {
        let Some(newest) = newest.filter(|newest| *newest != source.revision()) else {
            return Some(Standing::Newest);
        };
        match self.backing.contains(newest).await {
            Ok(true) => Some(Standing::Newest),
            Ok(false) => Some(Standing::Behind(newest)),
            Err(error) => {
                warn!(%error, "cannot compare the store with what was written to the Northbound before");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_is_taken_from_a_writer_that_does_not_write() {
        let at = |seq| Revision { seq, ..Revision::default() };
        let foreign = Revision { store: uuid::Uuid::from_u128(1), ..at(1) };
        let (begin, ms) = (Instant::now(), Duration::from_millis);
        let mut lag = Lag::none();
        let mut look = |written, own, after| lag.is_too_long(written, own, begin + ms(after));
        assert!(!look(Some(at(5)), at(5), 0), "it has written everything");
        assert!(!look(Some(at(5)), at(6), 100));
        assert!(!look(Some(at(6)), at(7), 2_000), "it goes on");
        assert!(!look(Some(at(6)), at(9), 3_900));
        assert!(look(Some(at(6)), at(9), 4_000), "it has stood still for two seconds");
        assert!(!look(Some(at(6)), at(9), 4_100), "that did not help");
        assert!(!look(Some(at(6)), at(9), 8_000));
        assert!(look(Some(at(6)), at(9), 8_100), "more patience each time");
        assert!(!look(Some(at(9)), at(9), 9_000));
        assert!(!look(Some(at(9)), at(10), 9_100));
        assert!(look(Some(at(9)), at(10), 11_100), "and less after it has helped");
        assert!(!look(Some(foreign), at(10), 12_000));
        assert!(!look(Some(foreign), at(10), 99_000), "what another store wrote is not ours to judge");
        assert!(!look(None, at(1), 100_000));
        assert!(look(None, at(1), 102_000), "nobody has written anything");
    }
}
