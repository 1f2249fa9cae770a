//! Locks: named, owned by one connection, with a queue of waiting ones.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::host::Peer;

/// One lock.
#[derive(Clone, Debug, Default)]
struct Lock {
    /// The owner first, then the waiting connections.
    queue: VecDeque<Claim>,
    /// Connections that stole the lock and lost it again: not in the queue, but they still have to send `unlock`.
    robbed: Vec<Peer>,
}

#[derive(Clone, Copy, Debug)]
struct Claim {
    peer: Peer,
    stolen: bool,
}

/// All locks by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Locks(BTreeMap<String, Lock>);

impl Lock {
    fn owner(&self) -> Option<Peer> {
        self.queue.front().map(|claim| claim.peer)
    }

    fn wants(&self, peer: Peer) -> bool {
        self.robbed.contains(&peer) || self.queue.iter().any(|claim| claim.peer == peer)
    }
}

impl Locks {
    /// Whether the connection has sent `lock` or `steal`, and not `unlock`.
    pub(super) fn wants(&self, name: &str, peer: Peer) -> bool {
        self.0.get(name).is_some_and(|lock| lock.wants(peer))
    }

    /// Adds a connection to the queue; returns whether it owns the lock now.
    pub(super) fn lock(&mut self, name: &str, peer: Peer) -> bool {
        let lock = self.0.entry(name.to_owned()).or_default();
        lock.queue.push_back(Claim { peer, stolen: false });
        lock.queue.len() == 1
    }

    /// Takes the lock at once; returns the previous owner. If that one had queued for it, it is the next owner.
    pub(super) fn steal(&mut self, name: &str, peer: Peer) -> Option<Peer> {
        let lock = self.0.entry(name.to_owned()).or_default();
        let victim = lock.queue.front().copied();
        if let Some(victim) = victim.filter(|victim| victim.stolen) {
            lock.queue.pop_front();
            lock.robbed.push(victim.peer);
        }
        lock.queue.push_front(Claim { peer, stolen: true });
        victim.map(|victim| victim.peer)
    }

    /// Removes a connection from the queue of a lock; returns the new owner if that changed it.
    pub(super) fn unlock(&mut self, name: &str, peer: Peer) -> Option<Peer> {
        let lock = self.0.get_mut(name)?;
        let owned = lock.owner() == Some(peer);
        lock.queue.retain(|claim| claim.peer != peer);
        lock.robbed.retain(|robbed| *robbed != peer);
        let next = lock.owner().filter(|_| owned);
        if lock.queue.is_empty() && lock.robbed.is_empty() {
            self.0.remove(name);
        }
        next
    }

    /// Removes a connection from all queues; returns the new owners of the locks that it owned.
    pub(super) fn leave(&mut self, peer: Peer) -> Vec<(Peer, String)> {
        let names: Vec<_> = self.0.keys().filter(|name| self.wants(name, peer)).cloned().collect();
        names.into_iter().filter_map(|name| Some((self.unlock(&name, peer)?, name))).collect()
    }

    /// The locks that a connection owns.
    pub(super) fn owned(&self, peer: Peer) -> BTreeSet<String> {
        let owned = self.0.iter().filter(|(_, lock)| lock.owner() == Some(peer));
        owned.map(|(name, _)| name.clone()).collect()
    }

    /// The owner of a lock.
    pub(super) fn owner(&self, name: &str) -> Option<Peer> {
        self.0.get(name)?.owner()
    }
}
