//! Rows of one database as a target of the loop: its database, the rows that are ours, and what guards its transactions.
//!
//! `apply` commits the plans, `memory` keeps the basis of the last one.

use std::future::Future;

use ovsdb::txn::{CommitError, Committed};
use ovsdb::{Str, Transaction};
use reconcile::TargetError;

use super::memory::Memory;
use super::observe::SnapshotView;
use super::rules::Rules;
use super::state::Ownership;

/// The database of a target: a client with its replica.
pub trait Database: Send {
    /// The current snapshot.
    fn observe(&mut self) -> impl Future<Output = Result<SnapshotView, TargetError>> + Send;

    /// Commits a transaction, all or nothing.
    fn commit(&mut self, txn: Transaction) -> impl Future<Output = Result<Committed, CommitError>> + Send;
}

/// Rows of one database as a target of the reconcile loop.
pub struct RowTarget<D> {
    pub(super) database: D,
    pub(super) ownership: Ownership,
    pub(super) rules: Rules,
    pub(super) lock: Option<Str>,
    pub(super) guard: Option<Extra>,
    pub(super) note: Option<Extra>,
    /// The basis of the last plan.
    pub(super) memory: Memory<SnapshotView>,
}

/// Adds a further operation to a transaction, if there is one to add.
type Extra = Box<dyn FnMut(&mut Transaction) + Send>;

impl<D: Database> RowTarget<D> {
    /// Creates a target that writes to `database`: rows that are ours by `ownership`, and the parts of shared columns that are
    /// ours by `rules`.
    pub fn new(database: D, ownership: Ownership, rules: Rules) -> Self {
        RowTarget {
            database,
            ownership,
            rules,
            lock: None,
            guard: None,
            note: None,
            memory: Memory::default(),
        }
    }

    /// Commits only while the connection holds this lock, so that one of several writers writes.
    pub fn with_lock(mut self, lock: impl Into<Str>) -> Self {
        self.lock = Some(lock.into());
        self
    }

    /// Begins every transaction with the operations that this function adds: an expectation, so that a writer which another one
    /// has replaced writes nothing.
    pub fn with_guard(mut self, guard: impl FnMut(&mut Transaction) + Send + 'static) -> Self {
        self.guard = Some(Box::new(guard));
        self
    }

    /// Adds operations to the transaction of a whole plan: a note for readers that names the state from which the rows follow. A plan that
    /// had to be split leaves no note.
    pub fn with_note(mut self, note: impl FnMut(&mut Transaction) + Send + 'static) -> Self {
        self.note = Some(Box::new(note));
        self
    }

    /// The target's database.
    pub fn database(&mut self) -> &mut D {
        &mut self.database
    }

    /// The rule that marks rows ours.
    pub fn ownership(&mut self) -> &mut Ownership {
        &mut self.ownership
    }
}
