//! One process of several writes the Northbound, under a lock and a fence, and records its progress.
//!
//! Any program that keeps rows in the Northbound uses this module: the network API today, a Kubernetes controller next. It brings a decider
//! that makes [`WriterDesired`] rows from the states of its store, and starts a [`Writer`] beside its loop.
//!
//! * [`Databases`]: the connections to both databases, and the task that follows them. Every server has it, writer or not.
//! * `election`: which server writes. It holds the lock; a server steals the lock from a writer that stopped writing.
//! * `fence`: the generation in `NB_Global` that each new writer raises. The lock lives in one database server's memory, so two
//!   writers may each believe for a moment that they hold it. The number is in the database, so the replaced one writes nothing.
//! * `applied`: the newest state of the store from which the rows follow, recorded beside the rows for the other servers.
//! * [`Removals`]: whether the writer may delete rows. It depends on the fence and the note, not on the meaning of the rows.
//! * [`WriterTarget`]: desired rows as the loop's target, with lock, fence and note in each transaction.
//! * `wake`: a change of the Northbound, and a point in time, as causes to run the loop.
//!
//! The module knows a store only as [`Backing`] and its states only as [`SourceState`]: a revision, and the number of restores of the
//! store. The API's nouns, its World, the clocks of its decisions and its chores in the Southbound stay in `api`.
//!
//! The writer waits for a database that is unreachable and never fails on it. The store holds all changes meanwhile, and the loop writes
//! them when the database is back.

mod applied;
mod databases;
mod election;
mod fence;
mod removals;
mod revision;
mod target;
mod wake;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use ovsdb::Client;
use ovsdb::client::LockState;
use ovsdb::session::Progress;
use reconcile::{Handle, Waiting};
use tokio::sync::watch;

use crate::target::Ownership;
pub use databases::{DatabaseEvent, DatabaseObserver, Databases};
use election::Election;
use fence::Fence;
pub use removals::Removals;
pub use revision::{Revision, RevisionError};
pub use target::{WriterDesired, WriterTarget};
pub use wake::{wake_at, wake_on_changes};

/// One state of the store from which rows follow.
pub trait SourceState: Clone + Send + Sync + 'static {
    /// Its name.
    fn revision(&self) -> Revision;
    /// How often the store was found to be restored from a backup.
    fn restores(&self) -> u64;
}

/// The store that the states come from.
pub trait Backing: Send + Sync {
    /// Whether a state is the store's current one or one of its past.
    fn contains(&self, revision: Revision) -> BoxFuture<'_, Result<bool, String>>;
    /// Whether other servers use the same store, so that another one can write in place of this one.
    fn is_shared(&self) -> bool;
    /// For how long it has not answered, if that is too long.
    fn silence(&self) -> Option<Duration>;
}

/// A server's part in writing, before its loop runs.
pub struct Writer<S> {
    nb: Client,
    owner: String,
    lock: String,
    states: watch::Receiver<S>,
    backing: Arc<dyn Backing>,
    fence: Fence,
    office: watch::Sender<LockState>,
    own: watch::Sender<Revision>,
    planned: Arc<Mutex<Revision>>,
}

impl<S: SourceState> Writer<S> {
    /// Prepares to write as `owner`: servers with the same owner take turns, and the rows are marked with it.
    pub fn new(
        databases: &Databases,
        owner: &str,
        states: watch::Receiver<S>,
        backing: Arc<dyn Backing>,
    ) -> Self {
        Writer {
            nb: databases.northbound().clone(),
            owner: owner.to_owned(),
            lock: lock_name(owner),
            states,
            backing,
            fence: Fence::default(),
            office: watch::Sender::new(LockState::Waiting),
            own: watch::Sender::default(),
            planned: Arc::default(),
        }
    }

    /// The target of the loop.
    pub fn target(&self, databases: &Databases, ownership: Ownership) -> WriterTarget {
        let (own, planned) = (self.own.clone(), Arc::clone(&self.planned));
        WriterTarget::new(databases.database(), ownership, &self.lock, own, planned, self.fence.clone())
    }

    /// The conditions under which a decision may be written.
    pub fn gate(&self) -> WriterGate {
        WriterGate { nb: self.nb.clone(), lock: self.office.subscribe(), fence: self.fence.clone() }
    }

    /// Takes part in the election from now on, until the loop is stopped. `handle` is that of the loop with the target.
    pub fn start(self, handle: &Handle) -> WriterHandle {
        let (known, applied) = watch::channel(0);
        let held = self.office.subscribe();
        let exchange = applied::AppliedExchange {
            nb: self.nb.clone(),
            fence: self.fence.clone(),
            lock: self.lock.clone(),
            owner: self.owner.clone(),
            held: held.clone(),
            states: self.states.clone(),
            own: self.own.subscribe(),
            planned: Arc::clone(&self.planned),
            known,
        };
        task::keep("applied", exchange.run());
        handle.follow(held.clone());
        let election = Election {
            nb: self.nb.clone(),
            lock: self.lock.clone(),
            owner: self.owner,
            states: self.states,
            backing: self.backing,
            fence: self.fence.clone(),
            office: self.office,
            handle: handle.clone(),
        };
        task::keep("election", election.run());
        task::keep("changes", wake_on_changes(self.nb, handle.clone()));
        WriterHandle { handle: handle.clone(), applied, held, lock: self.lock, fence: self.fence }
    }
}

/// The conditions under which a decision may be written.
#[derive(Clone, Debug)]
pub struct WriterGate {
    nb: Client,
    lock: watch::Receiver<LockState>,
    fence: Fence,
}

impl WriterGate {
    /// Fails with the condition that the loop must wait for: the Northbound, the lock, or the generation.
    pub fn pass(&self) -> Result<(), Waiting> {
        if self.nb.schema().is_none() || self.nb.status().borrow().progress != Progress::Synced {
            return Err(Waiting("the Northbound database".into()));
        }
        match &*self.lock.borrow() {
            LockState::Held => {}
            LockState::Waiting => {
                return Err(Waiting("the writer's lock, which another server holds".into()));
            }
            LockState::Refused(why) => return Err(Waiting(format!("the writer's lock, refused: {why}"))),
        }
        if !self.fence.is_up() {
            return Err(Waiting("the writer's generation".into()));
        }
        Ok(())
    }

    /// The deletions that the writer may make when its rows follow from this state. A new writer deletes at most `most` percent of all
    /// rows.
    pub fn removals(&self, state: &impl SourceState, most: u8) -> Result<Removals, Waiting> {
        let removals = self.fence.removals(state, most);
        removals.ok_or_else(|| Waiting("a comparison of the store with what was written before".into()))
    }
}

/// A writer that takes part in the election.
#[derive(Clone, Debug)]
pub struct WriterHandle {
    handle: Handle,
    applied: watch::Receiver<u64>,
    held: watch::Receiver<LockState>,
    lock: String,
    fence: Fence,
}

impl WriterHandle {
    /// Allows the deletion of rows that this server's store does not know, on behalf of an operator. Fails if this server is
    /// not the writer.
    pub fn allow_deletions(&self) -> Result<(), NotWriter> {
        if !self.fence.allow_deletions() {
            return Err(NotWriter);
        }
        tracing::warn!("an operator allowed the deletion of rows that the store does not know");
        self.handle.run_now();
        Ok(())
    }

    /// Whether this server is the writer, as a channel.
    pub fn held(&self) -> watch::Receiver<LockState> {
        self.held.clone()
    }

    /// The name of the lock.
    pub fn lock(&self) -> &str {
        &self.lock
    }

    /// Whether this server is the writer.
    pub fn is_writer(&self) -> bool {
        *self.held.borrow() == LockState::Held
    }

    /// The newest change of the store that any server on it has written. A change that the Northbound rejects counts as written; the loop's
    /// status reports it.
    pub fn applied(&self) -> watch::Receiver<u64> {
        self.applied.clone()
    }

    /// Waits until a change of the store is written; false if the loop was stopped before.
    pub async fn wait_applied(&self, seq: u64) -> bool {
        self.applied.clone().wait_for(|applied| *applied >= seq).await.is_ok()
    }
}

/// Only the writer deletes rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this server is not the writer of the Northbound; run the command on the server that is")]
pub struct NotWriter;

/// The lock's name: OVSDB takes letters, digits and underscores.
fn lock_name(owner: &str) -> String {
    let letters = owner.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    format!("meridian_{}", letters.collect::<String>())
}
