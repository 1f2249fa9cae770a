//! Locks: named, owned by one connection, waited for by others in turn.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::host::Peer;

/// All locks: for each name its owner, and behind it who waits.
#[derive(Clone, Debug, Default)]
pub(super) struct Locks(BTreeMap<String, VecDeque<Peer>>);

impl Locks {
    /// Whether the connection owns or waits for the lock.
    pub(super) fn wants(&self, name: &str, peer: Peer) -> bool {
        self.0.get(name).is_some_and(|queue| queue.contains(&peer))
    }

    /// Queues up; whether the lock is owned now.
    pub(super) fn lock(&mut self, name: &str, peer: Peer) -> bool {
        let queue = self.0.entry(name.to_owned()).or_default();
        queue.push_back(peer);
        queue.len() == 1
    }

    /// Takes the lock at once; who had it, and now is first to have it again.
    pub(super) fn steal(&mut self, name: &str, peer: Peer) -> Option<Peer> {
        let queue = self.0.entry(name.to_owned()).or_default();
        let victim = queue.front().copied();
        queue.push_front(peer);
        victim
    }

    /// Leaves the queue; who owns the lock because of it.
    pub(super) fn unlock(&mut self, name: &str, peer: Peer) -> Option<Peer> {
        let queue = self.0.get_mut(name)?;
        let owned = queue.front() == Some(&peer);
        queue.retain(|waiting| *waiting != peer);
        let next = queue.front().copied().filter(|_| owned);
        if queue.is_empty() {
            self.0.remove(name);
        }
        next
    }

    /// Leaves all queues; who owns what because of it.
    pub(super) fn leave(&mut self, peer: Peer) -> Vec<(Peer, String)> {
        let names: Vec<_> = self.0.keys().filter(|name| self.wants(name, peer)).cloned().collect();
        names.into_iter().filter_map(|name| Some((self.unlock(&name, peer)?, name))).collect()
    }

    /// The locks that a connection owns.
    pub(super) fn owned(&self, peer: Peer) -> BTreeSet<String> {
        let owned = self.0.iter().filter(|(_, queue)| queue.front() == Some(&peer));
        owned.map(|(name, _)| name.clone()).collect()
    }

    /// The owner of a lock.
    pub(super) fn owner(&self, name: &str) -> Option<Peer> {
        self.0.get(name)?.front().copied()
    }
}
