//! The writer's generation: a number in `NB_Global` that every new writer raises, and that every transaction of its expects.
//!
//! Beside it stands the newest state of a store that was written ([`super::applied`]). A new writer compares it with its own
//! store before it deletes anything ([`super::removals`]).
//!
//! The lock lives in one server's memory. When the leader of a cluster changes, two writers may each believe for a moment
//! that they hold it; the number is in the database itself, so the one that was overtaken writes nothing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ovn::nb::NbGlobal;
use ovsdb::client::{Lock, LockState};
use ovsdb::{Client, Str, Transaction, Uuid};
use reconcile::Handle;
use serde_json::{Value, json};
use tokio::sync::watch;
use tracing::{info, warn};

use super::{History, Removals, applied};
use crate::world::{Revision, World};

/// How long the election waits after it failed and nothing has changed since.
const RETRY: Duration = Duration::from_secs(1);

/// What the writer's transactions expect.
#[derive(Clone, Debug, Default)]
pub(super) struct Fence(Arc<Mutex<State>>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum State {
    /// Not the writer, or not yet.
    #[default]
    Down,
    /// There is no row to hold the number; northd will make it.
    Bare,
    /// The number is ours.
    Up(Generation),
}

/// One time of office of a writer.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Generation {
    /// The row of `NB_Global`.
    row: Uuid,
    /// Where the number stands.
    key: Str,
    number: Str,
    /// Where the newest state that was written stands.
    applied: Str,
    standing: Standing,
    /// How often the store had been restored when it was judged ([`World::restores`]).
    restores: u64,
}

/// What the writer's store is to the Northbound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It has all that was ever written there, and the writer is new.
    Newest,
    /// The same, and the rows are known to follow from it, or an operator said so.
    Settled,
    /// It lacks this state, which was written there.
    Behind(Revision),
}

impl Fence {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, state: State) -> bool {
        let mut held = self.lock();
        let changed = *held != state;
        *held = state;
        changed
    }

    /// Whether the writer may write.
    pub(super) fn is_up(&self) -> bool {
        *self.lock() != State::Down
    }

    /// Whether the writer may delete, given the world it writes; none while that is to be found out.
    pub(super) fn removals(&self, world: &World, most: u8) -> Option<Removals> {
        match &*self.lock() {
            State::Down => None,
            State::Bare => Some(Removals::AtMost(most)),
            State::Up(generation) if generation.restores != world.restores() => None,
            State::Up(generation) => Some(match generation.standing {
                Standing::Newest => Removals::AtMost(most),
                Standing::Settled => Removals::Allowed,
                Standing::Behind(newest) => Removals::Withheld { newest, own: world.revision() },
            }),
        }
    }

    /// The first plan of a new writer deletes no more than it may: from now on deletions follow from requests.
    pub(super) fn settle(&self) {
        if let State::Up(generation) = &mut *self.lock()
            && generation.standing == Standing::Newest
        {
            generation.standing = Standing::Settled;
        }
    }

    /// An operator allows deletions; false if this server is not the writer.
    pub(super) fn allow_deletions(&self) -> bool {
        let mut held = self.lock();
        let State::Up(generation) = &mut *held else { return false };
        generation.standing = Standing::Settled;
        true
    }

    /// The operation that notes the state of the store which the rows follow from. A writer whose store is behind leaves the
    /// note of the newest one alone.
    pub(super) fn note(&self, revision: Revision) -> Option<Value> {
        match &*self.lock() {
            State::Up(Generation {
                row, applied, standing: Standing::Newest | Standing::Settled, ..
            }) => Some(applied::note(*row, applied, revision)),
            _ => None,
        }
    }

    /// The operation that fails where another writer has taken over.
    pub(super) fn guard(&self) -> Option<Value> {
        let held = self.lock();
        let State::Up(Generation { row, key, number, .. }) = &*held else { return None };
        Some(json!({
            "op": "wait", "table": "NB_Global", "timeout": 0,
            "where": [
                ["_uuid", "==", ["uuid", row.to_string()]],
                ["external_ids", "includes", ["map", [[key, number]]]],
            ],
            "columns": ["_uuid"], "until": "!=", "rows": [],
        }))
    }
}

/// Raises the generation whenever this server becomes the writer.
pub(super) struct Election {
    pub(super) nb: Client,
    pub(super) lock: Lock,
    pub(super) owner: String,
    pub(super) worlds: watch::Receiver<World>,
    pub(super) history: History,
    pub(super) handle: Handle,
}

impl Election {
    /// Raises the generation whenever this server becomes the writer, and again if the number is lost with the database. Holds
    /// the lock until the loop is stopped.
    pub(super) async fn run(mut self, fence: Fence) {
        let mut feed = self.nb.subscribe_all();
        let mut held = self.lock.state();
        let mut status = self.handle.status();
        loop {
            let mut pending = false;
            if *held.borrow_and_update() == LockState::Held {
                let known = fence.lock().clone();
                match self.claim(&known).await {
                    // A change that came in between (an operator's word) is of the same generation and stays.
                    Some(state) if state == known => {}
                    Some(state) => drop(fence.set(state).then(|| self.handle.run_now())),
                    None => pending = true,
                }
            } else if fence.set(State::Down) {
                info!("this server is not the writer of the Northbound any more");
            }
            let judged = match &*fence.lock() {
                State::Up(generation) => generation.restores,
                State::Down | State::Bare => self.worlds.borrow().restores(),
            };
            tokio::select! {
                changed = held.changed() => if changed.is_err() { return },
                event = feed.next() => if event.is_none() { return },
                restored = self.worlds.wait_for(|world| world.restores() != judged) => if restored.is_err() { return },
                _ = status.wait_for(|status| status.state == reconcile::State::Stopped) => return,
                () = tokio::time::sleep(RETRY), if pending => {}
            }
        }
    }

    /// The state that holds now; none if it cannot be told yet.
    async fn claim(&self, known: &State) -> Option<State> {
        let world = self.worlds.borrow().clone();
        let snapshot = self.nb.snapshot();
        let Some((row, global)) = snapshot.table::<NbGlobal>().iter().next() else {
            return Some(State::Bare);
        };
        let key = Str::new(format!("meridian:generation:{}", self.owner));
        let there = global.external_ids.get(key.as_str());
        if let State::Up(ours) = known
            && ours.row == row.uuid()
            && there == Some(&ours.number)
            && ours.restores == world.restores()
        {
            return Some(known.clone());
        }
        let applied = applied::key(&self.owner);
        let newest = global.external_ids.get(applied.as_str()).and_then(|text| text.parse().ok());
        let standing = self.judge(newest, &world).await?;
        let number = there.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0) + 1;
        let number = Str::new(number.to_string());
        let generation = Generation {
            row: row.uuid(),
            key: key.clone(),
            number: number.clone(),
            applied,
            standing,
            restores: world.restores(),
        };
        let r#where = json!([["_uuid", "==", ["uuid", row.uuid().to_string()]]]);
        let mut txn = Transaction::new();
        txn.assert_lock(self.lock.name());
        txn.raw(&json!({
            "op": "mutate", "table": "NB_Global", "where": r#where,
            "mutations": [
                ["external_ids", "delete", ["set", [key]]],
                ["external_ids", "insert", ["map", [[key, number]]]],
            ],
        }));
        match self.nb.commit(&txn).await {
            Ok(_) => {
                info!(generation = %number, "this server is the writer of the Northbound");
                if let Standing::Behind(newest) = standing {
                    let own = world.revision();
                    warn!(%newest, %own, "another state of the store was written to this Northbound before; nothing is deleted");
                }
                Some(State::Up(generation))
            }
            Err(error) => {
                warn!(%error, "could not become the writer of the Northbound; trying again");
                None
            }
        }
    }

    /// What our store is to a Northbound whose newest state is known; none if the store cannot be asked.
    async fn judge(&self, newest: Option<Revision>, world: &World) -> Option<Standing> {
        let Some(newest) = newest.filter(|newest| *newest != world.revision()) else {
            return Some(Standing::Newest);
        };
        match (self.history)(newest).await {
            Ok(true) => Some(Standing::Newest),
            Ok(false) => Some(Standing::Behind(newest)),
            Err(fault) => {
                warn!(error = %fault.message, "cannot compare the store with what was written to the Northbound before");
                None
            }
        }
    }
}
