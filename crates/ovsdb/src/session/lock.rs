//! Locks: those that we want, those that we requested on this connection, those that we hold.
//!
//! A lock lives in the memory of one server and ends with the connection. So the session requests wanted locks again on each
//! connection, once the replica is up to date: a client that holds a lock may rely on its snapshot. After `stolen`, the server
//! keeps us at the head of its queue, and sends `locked` when it is our turn again. The exception is a lock that we had stolen
//! ourselves: then the server has forgotten us, and needs an `unlock` before we may queue again. We steal a lock once;
//! otherwise two stealing clients would never come to rest.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::model::Str;

/// How to acquire a lock that another client holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// Wait in the queue.
    Wait,
    /// Steal the lock once.
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
struct WantedLock {
    /// The mode of the next request.
    mode: LockMode,
    /// The mode of the request on this connection.
    claim: LockMode,
    /// Distinguishes this request from an earlier one for the same name whose replies are still on their way.
    epoch: u64,
    stage: Stage,
}

impl WantedLock {
    /// Records that the lock is held, so nothing is left to steal.
    fn hold(&mut self) {
        self.stage = Stage::Held;
        self.mode = LockMode::Wait;
    }

    /// Prepares to steal a lock instead of waiting in its queue.
    fn insist(&mut self) {
        if self.stage == Stage::Queued && self.mode == LockMode::Steal {
            self.stage = Stage::Void;
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Not requested on this connection.
    Idle,
    /// The lock is requested, and there is no reply yet.
    Asked,
    /// In the queue.
    Queued,
    /// Ours.
    Held,
    /// Our request differs from what we want now: release it and request it again.
    Void,
    /// The server refuses the request.
    Refused,
}

/// A request for a lock.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) name: Str,
    pub(super) mode: LockMode,
    pub(super) epoch: u64,
    /// The earlier request must be released first.
    pub(super) anew: bool,
}

/// All locks of a session.
#[derive(Debug, Default)]
pub(super) struct Locks {
    wanted: BTreeMap<Str, WantedLock>,
    epochs: u64,
}

impl Locks {
    /// Adds a wanted lock. A lock that already waits may still be stolen.
    pub(super) fn want(&mut self, name: &str, mode: LockMode) {
        let Some(wanted) = self.wanted.get_mut(name) else {
            self.epochs += 1;
            let wanted = WantedLock { mode, claim: mode, epoch: self.epochs, stage: Stage::Idle };
            self.wanted.insert(name.into(), wanted);
            return;
        };
        if mode == LockMode::Steal && wanted.stage != Stage::Held {
            wanted.mode = mode;
            wanted.insist();
        }
    }

    /// Releases a lock: returns whether the server must be notified, and whether the lock was ours.
    pub(super) fn drop(&mut self, name: &str) -> Option<(bool, bool)> {
        let wanted = self.wanted.remove(name)?;
        let told = !matches!(wanted.stage, Stage::Idle | Stage::Refused);
        Some((told, wanted.stage == Stage::Held))
    }

    /// The locks to request now; they count as requested.
    pub(super) fn ask(&mut self) -> Vec<Ask> {
        let mut asked = Vec::new();
        for (name, wanted) in &mut self.wanted {
            if let Stage::Idle | Stage::Void = wanted.stage {
                let anew = wanted.stage == Stage::Void;
                wanted.stage = Stage::Asked;
                wanted.claim = std::mem::replace(&mut wanted.mode, LockMode::Wait);
                asked.push(Ask { name: name.clone(), mode: wanted.claim, epoch: wanted.epoch, anew });
            }
        }
        asked
    }

    /// Handles the reply to a request; returns whether the lock is held now. `None` if the request is obsolete.
    pub(super) fn replied(&mut self, name: &str, epoch: u64, result: &RawValue) -> Option<bool> {
        #[derive(Deserialize)]
        struct Reply {
            locked: bool,
        }
        let wanted = self.wanted.get_mut(name).filter(|wanted| wanted.epoch == epoch)?;
        let held = serde_json::from_str::<Reply>(result.get()).is_ok_and(|reply| reply.locked);
        if held {
            wanted.hold();
        } else {
            wanted.stage = Stage::Queued;
            wanted.insist();
        }
        Some(held)
    }

    /// Handles the rejection of a request, which is not repeated on this connection. `false` if the request is obsolete.
    pub(super) fn refused(&mut self, name: &str, epoch: u64) -> bool {
        match self.wanted.get_mut(name) {
            Some(wanted) if wanted.epoch == epoch => {
                wanted.stage = Stage::Refused;
                true
            }
            _ => false,
        }
    }

    /// `locked` or `stolen` arrived: returns whether anything changed.
    pub(super) fn notified(&mut self, name: &str, held: bool) -> bool {
        let Some(wanted) = self.wanted.get_mut(name) else { return false };
        match (wanted.stage, held) {
            (Stage::Queued, true) => wanted.hold(),
            (Stage::Held, false) if wanted.claim == LockMode::Steal => wanted.stage = Stage::Void,
            (Stage::Held, false) => wanted.stage = Stage::Queued,
            // Before the reply, the notification belongs to an earlier request for the same name.
            _ => return false,
        }
        true
    }

    /// Handles the loss of the connection; returns the locks that this session held.
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

    fn ask(mode: LockMode, anew: bool) -> Ask {
        Ask { name: "a".into(), mode, epoch: 1, anew }
    }

    #[test]
    fn a_lock_is_asked_for_once_per_connection_and_stolen_once() {
        let mut locks = Locks::default();
        locks.want("a", LockMode::Steal);
        locks.want("a", LockMode::Wait);
        assert_eq!(locks.ask(), [ask(LockMode::Steal, false)]);
        assert!(locks.ask().is_empty());
        assert_eq!(locks.replied("a", 1, &raw(r#"{"locked":true}"#)), Some(true));
        assert_eq!(locks.held().count(), 1);
        assert_eq!(locks.disconnected(), ["a"]);
        assert_eq!(locks.disconnected(), [""; 0]);
        assert_eq!(locks.ask(), [ask(LockMode::Wait, false)]);
    }

    #[test]
    fn a_thief_that_is_robbed_queues_up_anew() {
        let mut locks = Locks::default();
        locks.want("a", LockMode::Steal);
        locks.ask();
        assert_eq!(locks.replied("a", 1, &raw(r#"{"locked":true}"#)), Some(true));
        assert!(locks.notified("a", false));
        assert_eq!(locks.ask(), [ask(LockMode::Wait, true)]);
        assert_eq!(locks.replied("a", 1, &raw(r#"{"locked":false}"#)), Some(false));
        assert!(locks.notified("a", true));
        // Now it is one that has waited, and the server keeps its place.
        assert!(locks.notified("a", false));
        assert!(locks.ask().is_empty());
        assert!(locks.notified("a", true));
    }

    #[test]
    fn what_is_waited_for_may_still_be_stolen() {
        let mut locks = Locks::default();
        locks.want("a", LockMode::Wait);
        locks.want("a", LockMode::Steal);
        assert_eq!(locks.ask(), [ask(LockMode::Steal, false)], "not asked for yet");
        assert_eq!(locks.replied("a", 1, &raw(r#"{"locked":true}"#)), Some(true));
        locks.disconnected();
        assert_eq!(locks.ask(), [ask(LockMode::Wait, false)]);
        locks.want("a", LockMode::Steal);
        assert!(locks.ask().is_empty(), "the reply has not come");
        assert_eq!(locks.replied("a", 1, &raw(r#"{"locked":false}"#)), Some(false));
        assert_eq!(locks.ask(), [ask(LockMode::Steal, true)]);
        assert_eq!(locks.replied("a", 1, &raw(r#"{"locked":true}"#)), Some(true));
        locks.want("a", LockMode::Steal);
        assert!(locks.ask().is_empty(), "nobody steals from himself");
        locks.disconnected();
        locks.ask();
        assert_eq!(locks.replied("a", 1, &raw(r#"{"locked":false}"#)), Some(false));
        locks.want("a", LockMode::Steal);
        assert_eq!(locks.ask(), [ask(LockMode::Steal, true)], "out of the queue");
        assert_eq!(locks.drop("a"), Some((true, false)));
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
