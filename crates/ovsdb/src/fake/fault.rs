//! Faults: the harm that a server, or the network in front of it, can do to a client, and its times.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

/// When a fault strikes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// A client connects.
    Connect,
    /// Any message of a client arrives.
    Any,
    /// A request or notification with this method arrives.
    Method(String),
    /// A connection's message of this number arrives; the first is 1.
    Message(u64),
    /// The server is about to send a notification with this method, `update3` for instance.
    Notification(String),
}

impl When {
    /// A request with this method arrives.
    pub fn method(name: impl Into<String>) -> Self {
        Self::Method(name.into())
    }

    /// The server is about to send a notification with this method.
    pub fn notification(name: impl Into<String>) -> Self {
        Self::Notification(name.into())
    }
}

/// The fault. For a notification, "the reply" below is that notification.
#[derive(Clone)]
pub enum Fault {
    /// The connection closes and the request has no effect.
    CloseBeforeCommit,
    /// The request has its effect; the connection closes without an update or a reply.
    CloseAfterCommit,
    /// The request has its effect and updates are sent, the reply is not.
    DropReply,
    /// The server delays the reply by this time.
    Delay(Duration),
    /// The reply is sent in pieces of at most so many bytes, with a pause behind each.
    Trickle {
        /// Bytes.
        piece: usize,
        /// The pause after each piece.
        pause: Duration,
    },
    /// These bytes are sent in place of the reply.
    Garbage(Vec<u8>),
    /// The first half of the reply is sent, then the connection closes.
    HalfMessage,
    /// The first half of the reply is sent, then nothing ever again.
    HalfThenSilence,
    /// A notification of this many bytes is sent before the reply.
    Huge(usize),
    /// From now on nothing is read and nothing is sent; the connection stays open. The request has no effect.
    Silence,
    /// This number of echo requests is sent before the reply.
    Echo(u64),
    /// The request has no effect and gets this error; `"unknown method"` simulates an old server.
    Refuse(Value),
    /// After the request has taken effect and before its reply, these operations are committed to the first database, so their
    /// updates precede the reply.
    UpdateBeforeReply(Value),
    /// Sends this message before the reply.
    Before(String),
    /// Rewrites the reply.
    Rewrite(Arc<dyn Fn(&str) -> String + Send + Sync>),
}

impl Fault {
    /// A fault that rewrites the reply.
    pub fn rewrite(change: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Self::Rewrite(Arc::new(change))
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CloseBeforeCommit => f.write_str("CloseBeforeCommit"),
            Self::CloseAfterCommit => f.write_str("CloseAfterCommit"),
            Self::DropReply => f.write_str("DropReply"),
            Self::Delay(time) => write!(f, "Delay({time:?})"),
            Self::Trickle { piece, pause } => write!(f, "Trickle({piece} bytes, {pause:?})"),
            Self::Garbage(bytes) => write!(f, "Garbage({} bytes)", bytes.len()),
            Self::HalfMessage => f.write_str("HalfMessage"),
            Self::HalfThenSilence => f.write_str("HalfThenSilence"),
            Self::Huge(size) => write!(f, "Huge({size})"),
            Self::Silence => f.write_str("Silence"),
            Self::Echo(count) => write!(f, "Echo({count})"),
            Self::Refuse(error) => write!(f, "Refuse({error})"),
            Self::UpdateBeforeReply(ops) => write!(f, "UpdateBeforeReply({ops})"),
            Self::Before(text) => write!(f, "Before({text:?})"),
            Self::Rewrite(_) => f.write_str("Rewrite"),
        }
    }
}

#[derive(Debug)]
struct Rule {
    when: When,
    fault: Fault,
    skip: u64,
    left: u64,
    struck: u64,
}

/// The faults planned for a server. Of several that fit, the first planned strikes, one at a time.
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<Mutex<Vec<Rule>>>);

/// A fault that has been planned.
#[derive(Clone, Debug)]
pub struct PlannedFault {
    faults: Faults,
    at: usize,
}

/// An occasion for a fault.
#[derive(Clone, Copy, Debug)]
pub(super) enum Occasion<'a> {
    Connect,
    Message { method: Option<&'a str>, number: u64 },
    Notification(&'a str),
}

impl Faults {
    /// Plans a fault, to strike once.
    pub fn on(&self, when: When, fault: Fault) -> PlannedFault {
        let mut rules = self.rules();
        rules.push(Rule { when, fault, skip: 0, left: 1, struck: 0 });
        PlannedFault { faults: self.clone(), at: rules.len() - 1 }
    }

    /// Disarms all faults.
    pub fn clear(&self) {
        self.rules().iter_mut().for_each(|rule| rule.left = 0);
    }

    fn rules(&self) -> MutexGuard<'_, Vec<Rule>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn strike(&self, occasion: Occasion<'_>) -> Option<Fault> {
        let mut rules = self.rules();
        for rule in rules.iter_mut().filter(|rule| rule.left > 0) {
            let fits = match (&rule.when, occasion) {
                (When::Connect, Occasion::Connect) | (When::Any, Occasion::Message { .. }) => true,
                (When::Method(wanted), Occasion::Message { method, .. }) => method == Some(wanted),
                (When::Message(wanted), Occasion::Message { number, .. }) => number == *wanted,
                (When::Notification(wanted), Occasion::Notification(method)) => method == wanted,
                _ => false,
            };
            if fits && rule.skip > 0 {
                rule.skip -= 1;
            } else if fits {
                rule.left -= 1;
                rule.struck += 1;
                return Some(rule.fault.clone());
            }
        }
        None
    }
}

impl PlannedFault {
    fn change(self, change: impl FnOnce(&mut Rule)) -> Self {
        if let Some(rule) = self.faults.rules().get_mut(self.at) {
            change(rule);
        }
        self
    }

    /// Strikes this many times.
    pub fn times(self, count: u64) -> Self {
        self.change(|rule| rule.left = count)
    }

    /// Strikes each time.
    pub fn always(self) -> Self {
        self.times(u64::MAX)
    }

    /// Skips the first occasions.
    pub fn skip(self, count: u64) -> Self {
        self.change(|rule| rule.skip = count)
    }

    /// Cancels the fault.
    pub fn cancel(self) {
        self.times(0);
    }

    /// The number of times that the fault has struck.
    pub fn struck(&self) -> u64 {
        self.faults.rules().get(self.at).map_or(0, |rule| rule.struck)
    }
}
