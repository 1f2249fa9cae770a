//! The writer's generation: a number in `NB_Global` that every new writer raises, and that each of its transactions expects.
//!
//! Beside it is the newest written state of a store ([`super::applied`]). A new writer compares it with its own store before it deletes
//! anything ([`super::removals`]).
//!
//! The lock lives in one server's memory. When the leader of a cluster changes, two writers may each believe for a moment that they hold
//! it. The number is in the database itself, so the replaced writer writes nothing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ovsdb::{Function, Map, RowFilter, Str, Transaction, Uuid};

use super::{Removals, Revision, SourceState};
use crate::nb::NbGlobal;

/// The expectation of the writer's transactions.
#[derive(Clone, Debug, Default)]
pub(super) struct Fence(Arc<Mutex<FenceState>>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum FenceState {
    /// This server is not the writer, or not yet.
    #[default]
    Down,
    /// `NB_Global` has no row yet that could hold the number; northd will create it.
    Bare,
    /// The number is ours.
    Up(Generation),
}

/// One term of a writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Generation {
    /// The row of `NB_Global`.
    pub(super) row: Uuid,
    /// The key of the number.
    pub(super) key: Str,
    pub(super) number: Str,
    /// The key of the newest written state.
    pub(super) applied: Str,
    pub(super) standing: Standing,
    /// The number of restores of the store when it was judged ([`SourceState::restores`]).
    pub(super) restores: u64,
}

/// The standing of the writer's store towards the Northbound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It has all that was ever written there, and the writer is new.
    Newest,
    /// The store is the newest, and the rows are known to follow from it, or an operator permitted the deletions.
    Settled,
    /// It lacks this state, which was written there.
    Behind(Revision),
}

impl Fence {
    pub(super) fn lock(&self) -> MutexGuard<'_, FenceState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state; whether that is another one.
    pub(super) fn set(&self, state: FenceState) -> bool {
        let mut held = self.lock();
        let changed = *held != state;
        *held = state;
        changed
    }

    /// Whether the writer may write.
    pub(super) fn is_up(&self) -> bool {
        *self.lock() != FenceState::Down
    }

    /// Whether the writer may delete rows that follow from `state`; `None` while that is being determined.
    pub(super) fn removals(&self, state: &impl SourceState, most: u8) -> Option<Removals> {
        match &*self.lock() {
            FenceState::Down => None,
            FenceState::Bare => Some(Removals::AtMost(most)),
            FenceState::Up(generation) if generation.restores != state.restores() => None,
            FenceState::Up(generation) => Some(match generation.standing {
                Standing::Newest => Removals::AtMost(most),
                Standing::Settled => Removals::Allowed,
                Standing::Behind(newest) => Removals::Withheld { newest, own: state.revision() },
            }),
        }
    }

    /// The first plan of a new writer deletes no more than it may: from now on deletions follow from requests.
    pub(super) fn settle(&self) {
        if let FenceState::Up(generation) = &mut *self.lock()
            && generation.standing == Standing::Newest
        {
            generation.standing = Standing::Settled;
        }
    }

    /// An operator allows deletions; false if this server is not the writer.
    pub(super) fn allow_deletions(&self) -> bool {
        let mut held = self.lock();
        let FenceState::Up(generation) = &mut *held else { return false };
        generation.standing = Standing::Settled;
        true
    }

    /// Adds the operation that records the state of the store from which the rows follow. Returns whether there was one to add. A writer
    /// whose store is behind does not replace the note of the newest one.
    pub(super) fn note(&self, revision: Revision, txn: &mut Transaction) -> bool {
        match &*self.lock() {
            FenceState::Up(Generation {
                row,
                applied,
                standing: Standing::Newest | Standing::Settled,
                ..
            }) => {
                let note = Map::from([(applied.clone(), Str::new(revision.to_string()))]);
                txn.put(*row, NbGlobal::EXTERNAL_IDS, &note);
                true
            }
            _ => false,
        }
    }

    /// Adds the operation that fails where another writer has taken over; whether there was one to add.
    pub(super) fn guard(&self, txn: &mut Transaction) -> bool {
        let held = self.lock();
        let FenceState::Up(Generation { row, key, number, .. }) = &*held else { return false };
        let raised = Map::from([(key.clone(), number.clone())]);
        let raised = RowFilter::column(NbGlobal::EXTERNAL_IDS, Function::Includes, &raised);
        txn.expect_some(&RowFilter::row(*row).and(raised));
        true
    }
}
