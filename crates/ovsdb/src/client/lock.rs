//! A lock of the server, held as long as its value lives.

use std::collections::HashMap;

use tokio::sync::{mpsc, watch};

use super::task::Command;
use crate::model::Str;

/// The state of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockState {
    /// Another client holds it, or there is no connection.
    Waiting,
    /// This client holds the lock. To be sure at the moment of a write, assert the lock in the transaction.
    Held,
    /// The server refuses the request; the client requests it again on the next connection.
    Refused(String),
}

/// A requested lock; dropping it releases the lock.
///
/// Several values of one name on one client are one lock to the server: they are held together, and released with the last of them.
///
/// The client requests it again on every connection. Other servers of a cluster do not know it, so a client that uses locks must connect to
/// the leader only.
#[derive(Debug)]
#[must_use = "the lock is released when it is dropped"]
pub struct Lock {
    name: Str,
    state: watch::Receiver<LockState>,
    /// Weak, so that a lock does not keep its client alive.
    commands: mpsc::WeakUnboundedSender<Command>,
}

impl Lock {
    pub(super) fn new(
        name: Str,
        state: watch::Receiver<LockState>,
        commands: mpsc::WeakUnboundedSender<Command>,
    ) -> Self {
        Self { name, state, commands }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether this client holds the lock at the moment.
    pub fn is_held(&self) -> bool {
        *self.state.borrow() == LockState::Held
    }

    /// The state, as a watch channel.
    pub fn state(&self) -> watch::Receiver<LockState> {
        self.state.clone()
    }

    /// Waits until this client holds the lock; `false` if the client was closed before.
    pub async fn held(&mut self) -> bool {
        self.state.wait_for(|state| *state == LockState::Held).await.is_ok()
    }

    /// Waits until this client does not hold the lock.
    pub async fn lost(&mut self) {
        // A closed client holds no locks.
        let _ = self.state.wait_for(|state| *state != LockState::Held).await;
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Some(commands) = self.commands.upgrade() {
            // A client that is closed holds no locks.
            let _ = commands.send(Command::Unlock { name: self.name.clone(), state: self.state.clone() });
        }
    }
}

/// The users of a client that want a lock, by the lock's name.
#[derive(Debug, Default)]
pub(super) struct Holders(HashMap<Str, Vec<watch::Sender<LockState>>>);

impl Holders {
    /// Adds one more user, with the current state.
    pub(super) fn join(&mut self, name: Str, state: watch::Sender<LockState>) {
        let holders = self.0.entry(name).or_default();
        if let Some(other) = holders.first() {
            state.send_replace(other.borrow().clone());
        }
        holders.push(state);
    }

    /// Removes one user; returns whether the lock has no user any more.
    pub(super) fn leave(&mut self, name: &Str, state: &watch::Receiver<LockState>) -> bool {
        let Some(holders) = self.0.get_mut(name) else { return false };
        for left in holders.extract_if(.., |holder| holder.subscribe().same_channel(state)) {
            left.send_replace(LockState::Waiting);
        }
        let nobody = holders.is_empty();
        if nobody {
            self.0.remove(name);
        }
        nobody
    }

    /// Notifies all users of a lock's state.
    pub(super) fn tell(&self, name: &Str, state: &LockState) {
        for holder in self.0.get(name).into_iter().flatten() {
            holder.send_replace(state.clone());
        }
    }
}
