//! The life of an attempt: dialing, and the clean-up when a connection or an attempt ends.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::{Duration, Instant};

use super::event::{Action, CloseReason, Event, Reply, TxnId};
use super::{Pending, Phase, QueuedRequest, Session};

impl Session {
    /// Begins the next attempt of this round, if there is a remote left in it.
    pub(super) fn dial(&mut self, now: Instant) -> bool {
        let Some(remote) = self.rotation.next() else { return false };
        self.counters.dials += 1;
        let deadline = now.checked_add(self.config.connect_timeout);
        self.enter(now, Phase::Dialing { deadline });
        self.actions.push_back(QueuedRequest { action: Action::Dial(remote), txn: None });
        true
    }

    /// Whether the request to connect is still queued, so that the driver has not seen it.
    pub(super) fn dial_queued(&self) -> bool {
        self.actions.iter().any(|queued| matches!(queued.action, Action::Dial(_)))
    }

    /// Ends the connection, or the attempt, from our side.
    pub(super) fn close(&mut self, now: Instant, reason: CloseReason) {
        self.end(now, reason, true);
    }

    /// Drops transactions that were not sent before the connection ended: they did not happen.
    fn discard_sends(&mut self) {
        for QueuedRequest { action, txn } in std::mem::take(&mut self.actions) {
            match (action, txn) {
                (action @ Action::Close(_), _) => self.actions.push_back(QueuedRequest { action, txn: None }),
                (_, Some(txn)) => {
                    self.pending.remove(&txn.0);
                    self.outstanding -= 1;
                    self.events.push_back(Event::Reply { txn, outcome: Reply::NotSent });
                }
                (_, None) => {}
            }
        }
    }

    /// The connection, or the attempt, has ended: settles everything that depended on it and continues with the next remote.
    pub(super) fn end(&mut self, now: Instant, reason: CloseReason, ours: bool) {
        // The driver does not know an attempt whose request is still queued.
        let unseen = self.dial_queued();
        for name in self.locks.disconnected() {
            self.events.push_back(Event::Lock { name, held: false });
        }
        self.discard_sends();
        if ours && !unseen {
            self.actions.push_back(QueuedRequest { action: Action::Close(reason.clone()), txn: None });
        }
        for (id, what) in std::mem::take(&mut self.pending) {
            if what == Pending::Transaction {
                self.counters.lost += 1;
                self.events.push_back(Event::Reply { txn: TxnId(id), outcome: Reply::Lost });
            }
        }
        self.outstanding = 0;
        if self.conditions.lost() {
            self.last_id = None;
        }
        let served = match &self.phase {
            Phase::Open(connection) => connection.synced_at.map(|since| now.saturating_duration_since(since)),
            _ => None,
        };
        if served.is_some_and(|served| served >= self.config.backoff_max) {
            self.backoff.reset();
            self.rotation.begin_round(&mut self.random);
        }
        self.rest(now, reason, served);
    }

    /// Dials the next remote of the round, or waits for the next round.
    pub(super) fn rest(&mut self, now: Instant, reason: CloseReason, served: Option<Duration>) {
        tracing::debug!(%reason, "not connected");
        self.counters.closes += u64::from(matches!(self.phase, Phase::Open(_)));
        let remote = self.rotation.current().cloned();
        if reason.blames_remote() {
            self.rotation.demote_current();
        }
        self.last_close = Some(reason.clone());
        let mut retry_in = Duration::ZERO;
        self.events.push_back(Event::Down { remote, reason, served, retry_in });
        if !self.dial(now) {
            self.watermark.end_round();
            retry_in = self.backoff.next(&mut self.random);
            self.rotation.begin_round(&mut self.random);
            let until = now.checked_add(retry_in).unwrap_or(now);
            self.enter(now, Phase::Waiting { until });
        }
        if let Some(Event::Down { retry_in: told, .. }) = self.events.back_mut() {
            *told = retry_in;
        }
    }
}
