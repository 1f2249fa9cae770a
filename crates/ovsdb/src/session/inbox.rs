//! Incoming messages: assigns each to its request, monitor or lock.
//!
//! Only messages that break the protocol are errors. Messages that match nothing of ours (a second reply, an update of an ended
//! monitor, a notification of a newer protocol) are counted and skipped.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::borrow::Cow;
use std::time::Instant;

use serde_json::value::RawValue;
use uuid::Uuid;

use super::event::{CloseReason, Event, Reply, ServerError, TxnId, with_causes};
use super::handshake::{Content, Stage, content};
use super::monitor::Method;
use super::{Pending, Phase, Session};
use crate::wire::cursor::Cursor;
use crate::wire::message::{self, Message};

impl Session {
    pub(super) fn receive(&mut self, now: Instant, text: &[u8]) -> Result<(), CloseReason> {
        // The most frequent message by far, and often a large one. It is decoded in place, without parsing it as a whole first.
        if let Some((method, params)) = message::plain_update(text) {
            return self.updated(now, method, params);
        }
        match Message::parse(text).map_err(|error| CloseReason::Protocol(with_causes(&error)))? {
            Message::Request { id, method, params } => {
                let answer = match &*method {
                    "echo" => message::reply(id, &params),
                    _ => message::refusal(id, &"unknown method"),
                };
                self.send(answer);
                Ok(())
            }
            Message::Notification { method, params } => self.notified(now, &method, params),
            Message::Reply { id, result } => match self.answered(id) {
                Some((id, what)) => self.replied(now, id, what, result),
                None => Ok(()),
            },
            Message::Error { id, error } => match self.answered(id) {
                Some((id, what)) => self.refused(now, id, what, error),
                None => Ok(()),
            },
        }
    }

    /// Like [`Session::receive`], with ownership of the message. Only the content of a database is large, and only if it is loaded as a
    /// whole.
    pub(super) fn receive_owned(&mut self, now: Instant, text: Vec<u8>) -> Result<(), CloseReason> {
        let text = match String::from_utf8(text) {
            Ok(text) => text,
            Err(error) => return self.receive(now, error.as_bytes()),
        };
        let found = self.whole_content(&text).map(|(id, content)| {
            let start = content.body.as_ptr() as usize - text.as_ptr() as usize;
            (id, content.last_id, start..start + content.body.len())
        });
        let Some((id, last_id, body)) = found else { return self.receive(now, text.as_bytes()) };
        self.pending.remove(&id);
        self.loaded_whole(now, text, body, last_id)
    }

    /// The request and content of a reply with a whole database. Anything unusual is left to [`Session::receive`], which
    /// reports the error.
    fn whole_content<'a>(&self, text: &'a str) -> Option<(u64, Content<'a>)> {
        let (id, result) = message::plain_reply(text)?;
        let Some(Pending::Content { resume }) = self.pending.get(&id) else { return None };
        let Phase::Open(connection) = &self.phase else { return None };
        let content = content(connection.method, result, *resume).ok()?;
        (!content.found).then_some((id, content))
    }

    /// The request that a reply belongs to; each has one reply.
    fn answered(&mut self, id: &RawValue) -> Option<(u64, Pending)> {
        let found = id.get().parse().ok().and_then(|id: u64| Some((id, self.pending.remove(&id)?)));
        if found.is_none() {
            self.stray("a reply to no request");
        }
        found
    }

    fn replied(
        &mut self,
        now: Instant,
        id: u64,
        what: Pending,
        result: &RawValue,
    ) -> Result<(), CloseReason> {
        match what {
            Pending::Server => self.greeted(now, result),
            Pending::Schema => self.use_schema(now, result.get()),
            Pending::Content { resume } => self.loaded(now, result, resume),
            Pending::Conditions => {
                if let Some(acked) = self.conditions.ack() {
                    self.events.push_back(Event::Condition { acked });
                }
                self.send_conditions();
                Ok(())
            }
            Pending::Lock { name, epoch } => {
                if self.locks.replied(&name, epoch, result) == Some(true) {
                    self.events.push_back(Event::Lock { name, held: true });
                }
                self.send_locks();
                Ok(())
            }
            Pending::Transaction => {
                self.outstanding -= 1;
                let outcome = Reply::Result(result.to_owned());
                self.events.push_back(Event::Reply { txn: TxnId(id), outcome });
                Ok(())
            }
            Pending::Formality => Ok(()),
        }
    }

    fn refused(&mut self, now: Instant, id: u64, what: Pending, error: &RawValue) -> Result<(), CloseReason> {
        let read = ServerError::read(error);
        match what {
            Pending::Server => return self.not_greeted(now, &read),
            Pending::Schema => return Err(self.no_schema(&read)),
            Pending::Content { .. } => return self.not_loaded(now, &read),
            Pending::Conditions => {
                if let Some(seq) = self.conditions.refuse() {
                    self.events.push_back(Event::ConditionRefused { seq, error: read.to_string() });
                }
                self.send_conditions();
            }
            Pending::Lock { name, epoch } => {
                if self.locks.refused(&name, epoch) {
                    self.events.push_back(Event::LockRefused { name, error: read.to_string() });
                }
            }
            Pending::Transaction => {
                self.outstanding -= 1;
                let outcome = Reply::Error(error.to_owned());
                self.events.push_back(Event::Reply { txn: TxnId(id), outcome });
            }
            Pending::Formality => {}
        }
        Ok(())
    }

    fn no_schema(&self, error: &ServerError) -> CloseReason {
        if &*error.word == "unknown database" {
            let database = self.database.clone();
            return CloseReason::Refused(super::Refusal::NoDatabase { database });
        }
        CloseReason::SchemaRefused(error.to_string().into())
    }

    fn notified(&mut self, now: Instant, method: &str, params: &RawValue) -> Result<(), CloseReason> {
        match method {
            "update" | "update2" | "update3" => self.updated(now, method, params.get()),
            "locked" | "stolen" => {
                if let Some(name) = first_text(params)
                    && self.locks.notified(&name, method == "locked")
                {
                    let held = method == "locked";
                    self.events.push_back(Event::Lock { name: name.as_ref().into(), held });
                    self.send_locks();
                } else {
                    self.stray("a notification about a lock that this session does not want");
                }
                Ok(())
            }
            "monitor_canceled" => {
                match first_text(params) {
                    Some(name) => self.canceled(now, &name),
                    None => self.stray("a monitor was canceled that is not ours"),
                }
                Ok(())
            }
            _ => {
                self.stray("an unknown notification");
                Ok(())
            }
        }
    }

    fn updated(&mut self, now: Instant, method: &str, params: &str) -> Result<(), CloseReason> {
        let malformed = |problem: &str| CloseReason::Protocol(format!("{method}: {problem}").into());
        let wrong = |error: serde_json::Error| malformed(&error.to_string());
        let mut cursor = Cursor::new(params);
        cursor.take(b'[').map_err(wrong)?;
        if cursor.peek() != Some(b'"') {
            self.stray("an update of a monitor that is not ours");
            return Ok(());
        }
        let name = cursor.string().map_err(wrong)?;
        cursor.take(b',').map_err(wrong)?;
        let id = if method == "update3" {
            let id = cursor.string().ok().and_then(|id| Uuid::try_parse(&id).ok());
            let id = id.ok_or_else(|| malformed("the transaction id is no UUID"))?;
            cursor.take(b',').map_err(wrong)?;
            Some(id)
        } else {
            None
        };
        // The last parameter may be large and is parsed only once, when its tables are read. Errors in it are found then, before anything
        // is applied, and handled like any update that does not fit.
        let rest = cursor.rest().trim_end_matches([' ', '\t', '\r', '\n']);
        let body = rest.strip_suffix(']').ok_or_else(|| malformed("the parameters are not an array"))?;
        let Phase::Open(connection) = &self.phase else { return Ok(()) };
        if name == connection.content_monitor && method == connection.method.update() {
            return self.content_changed(now, id, body);
        }
        // Before the reply to the monitor request there is nothing to update.
        let greeted = connection.stage != Stage::Greeting;
        if name == connection.server_monitor && method == Method::Cond.update() && greeted {
            return self.server_changed(now, body);
        }
        self.stray("an update of a monitor that is not ours");
        Ok(())
    }

    fn stray(&mut self, what: &str) {
        tracing::debug!("{what}");
        self.counters.strays += 1;
    }
}

/// A JSON string.
fn text(value: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str::<String>(value.get()).ok().map(Cow::Owned)
}

/// The first parameter, if it is a string.
fn first_text(params: &RawValue) -> Option<Cow<'_, str>> {
    let items: Vec<&RawValue> = serde_json::from_str(params.get()).ok()?;
    text(items.first()?)
}
