//! Locks: what we want, what we asked for on this connection, what we hold.
//!
//! A lock lives in the memory of one server and ends with the connection, so wanted locks are asked for again on each
//! connection, once the replica is up to date: who is told that it holds a lock may rely on its snapshot.
//! After `stolen` a server keeps us in its queue, before everyone else who waits, and says `locked` when it is our turn
//! again. Stealing is done once: on later connections we wait like everybody, or two thieves would never come to rest.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::model::Str;

/// How to get a lock that somebody else holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// Stand in the queue.
    Wait,
    /// Take it away, once.
    Steal,
}

impl LockMode {
    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Wait => "lock",
            Self::Steal => "steal",
        }
    }
}

#[derive(Debug)]
struct Wanted {
    mode: LockMode,
    /// Tells this wish from an earlier one for the same name whose replies are still under way.
    epoch: u64,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Not asked for on this connection.
    Idle,
    /// Asked for, no reply yet.
    Asked,
    /// In the queue.
    Queued,
    /// Ours.
    Held,
    /// The server does not take the request.
    Refused,
}

/// All locks of a session.
#[derive(Debug, Default)]
pub(super) struct Locks {
    wanted: BTreeMap<Str, Wanted>,
    epochs: u64,
}

impl Locks {
    /// Wants a lock. `false` if it was wanted already.
    pub(super) fn want(&mut self, name: &str, mode: LockMode) -> bool {
        if self.wanted.contains_key(name) {
            return false;
        }
        self.epochs += 1;
        self.wanted.insert(name.into(), Wanted { mode, epoch: self.epochs, stage: Stage::Idle });
        true
    }

    /// No longer wants a lock: whether the server must be told, and whether it was ours.
    pub(super) fn drop(&mut self, name: &str) -> Option<(bool, bool)> {
        let wanted = self.wanted.remove(name)?;
        let told = !matches!(wanted.stage, Stage::Idle | Stage::Refused);
        Some((told, wanted.stage == Stage::Held))
    }

    /// The locks to ask for now; they count as asked for.
    pub(super) fn ask(&mut self) -> Vec<(Str, LockMode, u64)> {
        let mut asked = Vec::new();
        for (name, wanted) in &mut self.wanted {
            if wanted.stage == Stage::Idle {
                wanted.stage = Stage::Asked;
                asked.push((name.clone(), wanted.mode, wanted.epoch));
                wanted.mode = LockMode::Wait;
            }
        }
        asked
    }

    /// The reply to a request: whether the lock is ours now. `None`: of no concern any more.
    pub(super) fn replied(&mut self, name: &str, epoch: u64, result: &RawValue) -> Option<bool> {
        #[derive(Deserialize)]
        struct Reply {
            locked: bool,
        }
        let wanted = self.wanted.get_mut(name).filter(|wanted| wanted.epoch == epoch)?;
        let held = serde_json::from_str::<Reply>(result.get()).is_ok_and(|reply| reply.locked);
        wanted.stage = if held { Stage::Held } else { Stage::Queued };
        Some(held)
    }

    /// The request was refused; it is not repeated on this connection. `false`: of no concern any more.
    pub(super) fn refused(&mut self, name: &str, epoch: u64) -> bool {
        match self.wanted.get_mut(name) {
            Some(wanted) if wanted.epoch == epoch => {
                wanted.stage = Stage::Refused;
                true
            }
            _ => false,
        }
    }

    /// `locked` or `stolen` came: whether anything changed.
    pub(super) fn notified(&mut self, name: &str, held: bool) -> bool {
        let Some(wanted) = self.wanted.get_mut(name) else { return false };
        match (wanted.stage, held) {
            (Stage::Queued, true) => wanted.stage = Stage::Held,
            (Stage::Held, false) => wanted.stage = Stage::Queued,
            // Before the reply it speaks of an earlier request for the same name.
            _ => return false,
        }
        true
    }

    /// The connection is gone: the locks that were ours.
    pub(super) fn disconnected(&mut self) -> Vec<Str> {
        let mut lost = Vec::new();
        for (name, wanted) in &mut self.wanted {
            if std::mem::replace(&mut wanted.stage, Stage::Idle) == Stage::Held {
                lost.push(name.clone());
            }
        }
        lost
    }

    /// The locks that are ours.
    pub(super) fn held(&self) -> impl Iterator<Item = &Str> {
        self.wanted.iter().filter(|(_, wanted)| wanted.stage == Stage::Held).map(|(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_lock_is_asked_for_once_per_connection_and_stolen_once() {
        let mut locks = Locks::default();
        assert!(locks.want("a", LockMode::Steal));
        assert!(!locks.want("a", LockMode::Wait));
        let asked = locks.ask();
        assert_eq!(asked, [("a".into(), LockMode::Steal, 1)]);
        assert!(locks.ask().is_empty());
        assert_eq!(locks.replied("a", 1, &raw(r#"{"locked":true}"#)), Some(true));
        assert_eq!(locks.held().count(), 1);
        assert_eq!(locks.disconnected(), ["a"]);
        assert_eq!(locks.disconnected(), [""; 0]);
        assert_eq!(locks.ask(), [("a".into(), LockMode::Wait, 1)]);
    }

    #[test]
    fn stolen_and_locked_move_between_queue_and_ownership() {
        let mut locks = Locks::default();
        locks.want("a", LockMode::Wait);
        assert!(!locks.notified("a", true), "not asked for yet");
        locks.ask();
        assert!(!locks.notified("a", true), "the reply has not come");
        assert_eq!(locks.replied("a", 1, &raw(r#"{"locked":false}"#)), Some(false));
        assert!(!locks.notified("a", false));
        assert!(locks.notified("a", true));
        assert!(!locks.notified("a", true));
        assert!(locks.notified("a", false));
        assert!(locks.notified("a", true), "a server gives a stolen lock back");
        assert!(!locks.notified("b", true));
    }

    #[test]
    fn replies_of_an_earlier_wish_are_passed_over() {
        let mut locks = Locks::default();
        locks.want("a", LockMode::Wait);
        locks.ask();
        assert_eq!(locks.drop("a"), Some((true, false)));
        assert_eq!(locks.drop("a"), None);
        locks.want("a", LockMode::Wait);
        locks.ask();
        assert_eq!(locks.replied("a", 1, &raw(r#"{"locked":true}"#)), None);
        assert!(!locks.refused("a", 1));
        assert!(locks.refused("a", 2));
        assert_eq!(locks.drop("a"), Some((false, false)));
    }

    #[test]
    fn a_reply_of_another_shape_is_not_a_lock() {
        let mut locks = Locks::default();
        locks.want("a", LockMode::Wait);
        locks.ask();
        assert_eq!(locks.replied("a", 1, &raw("[]")), Some(false));
    }
}
