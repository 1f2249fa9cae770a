//! The writer's generation: a number in `NB_Global` that every new writer raises, and that every transaction of its expects.
//!
//! Beside it stands the newest state of a store that was written ([`super::applied`]). A new writer compares it with its own
//! store before it deletes anything ([`super::removals`]).
//!
//! The lock lives in one server's memory. When the leader of a cluster changes, two writers may each believe for a moment
//! that they hold it; the number is in the database itself, so the one that was overtaken writes nothing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ovsdb::{Str, Uuid};
use serde_json::{Value, json};

use super::{Removals, applied};
use crate::world::{Revision, World};

/// What the writer's transactions expect.
#[derive(Clone, Debug, Default)]
pub(super) struct Fence(Arc<Mutex<State>>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
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
pub(super) struct Generation {
    /// The row of `NB_Global`.
    pub(super) row: Uuid,
    /// Where the number stands.
    pub(super) key: Str,
    pub(super) number: Str,
    /// Where the newest state that was written stands.
    pub(super) applied: Str,
    pub(super) standing: Standing,
    /// How often the store had been restored when it was judged ([`World::restores`]).
    pub(super) restores: u64,
}

/// What the writer's store is to the Northbound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It has all that was ever written there, and the writer is new.
    Newest,
    /// The same, and the rows are known to follow from it, or an operator said so.
    Settled,
    /// It lacks this state, which was written there.
    Behind(Revision),
}

impl Fence {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state; whether that is another one.
    pub(super) fn set(&self, state: State) -> bool {
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
