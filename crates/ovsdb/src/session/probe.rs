//! Liveness of the peer: an echo request after silence, and the end of the connection if that gets no answer either.
//!
//! Any byte counts as a sign of life, so a reply of many megabytes that takes its time is not silence. Two more rules protect a
//! healthy connection. A server that composes the first content of a large database answers nothing meanwhile, because it has
//! one thread; so the limit is longer while that reply is due. And the limit counts from the moment when the probe was sent, so
//! a client that was itself busy or stopped for long sends one more probe before it gives up.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::{Duration, Instant};

/// The expected message from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AwaitedReply {
    /// Nothing to do.
    Nothing,
    /// The reply to a small request of the handshake.
    Handshake,
    /// The content of the database.
    Content,
}

#[derive(Debug)]
pub(super) struct Probe {
    /// Silence before a probe is sent; zero is never.
    interval: Duration,
    /// Silence allowed while the server owes us content, and in the whole handshake where probes are off.
    patience: Duration,
    last_sign: Instant,
    sent: Option<Instant>,
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    Fine,
    SendProbe,
    Dead { silent_for: Duration },
}

impl Probe {
    pub(super) fn new(interval: Duration, patience: Duration, now: Instant) -> Self {
        Self { interval, patience, last_sign: now, sent: None }
    }

    /// Bytes arrived.
    pub(super) fn alive(&mut self, now: Instant) {
        self.last_sign = now;
        self.sent = None;
    }

    /// The timeout of the reply to a probe.
    fn grace(&self, awaiting: AwaitedReply) -> Duration {
        match awaiting {
            AwaitedReply::Content => self.interval.max(self.patience),
            AwaitedReply::Nothing | AwaitedReply::Handshake => self.interval,
        }
    }

    /// The time of the next check.
    pub(super) fn next(&self, awaiting: AwaitedReply) -> Option<Instant> {
        if self.interval.is_zero() {
            return match awaiting {
                AwaitedReply::Nothing => None,
                AwaitedReply::Handshake | AwaitedReply::Content => self.last_sign.checked_add(self.patience),
            };
        }
        match self.sent {
            None => self.last_sign.checked_add(self.interval),
            Some(sent) => sent.checked_add(self.grace(awaiting)),
        }
    }

    /// Checks the clock. After `SendProbe` the probe counts as sent.
    pub(super) fn check(&mut self, now: Instant, awaiting: AwaitedReply) -> Check {
        match self.next(awaiting) {
            Some(due) if now >= due => {}
            _ => return Check::Fine,
        }
        if self.interval.is_zero() || self.sent.is_some() {
            return Check::Dead { silent_for: now.saturating_duration_since(self.last_sign) };
        }
        self.sent = Some(now);
        Check::SendProbe
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;
    use AwaitedReply::{Content, Handshake, Nothing};

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn silence_brings_one_probe_and_then_the_end() {
        let t = Instant::now();
        let mut probe = Probe::new(5 * S, 60 * S, t);
        assert_eq!(probe.next(Nothing), Some(t + 5 * S));
        assert_eq!(probe.check(t + 4 * S, Nothing), Check::Fine);
        assert_eq!(probe.check(t + 5 * S, Nothing), Check::SendProbe);
        assert_eq!(probe.check(t + 9 * S, Nothing), Check::Fine);
        assert_eq!(probe.check(t + 10 * S, Nothing), Check::Dead { silent_for: 10 * S });
    }

    #[test]
    fn any_byte_is_life() {
        let t = Instant::now();
        let mut probe = Probe::new(5 * S, 60 * S, t);
        assert_eq!(probe.check(t + 5 * S, Nothing), Check::SendProbe);
        probe.alive(t + 9 * S);
        assert_eq!(probe.check(t + 10 * S, Nothing), Check::Fine);
        assert_eq!(probe.next(Nothing), Some(t + 14 * S));
    }

    #[test]
    fn a_server_that_composes_content_gets_time() {
        let t = Instant::now();
        let mut probe = Probe::new(5 * S, 60 * S, t);
        assert_eq!(probe.check(t + 5 * S, Content), Check::SendProbe);
        assert_eq!(probe.check(t + 64 * S, Content), Check::Fine);
        assert_eq!(probe.check(t + 65 * S, Content), Check::Dead { silent_for: 65 * S });
    }

    #[test]
    fn a_client_that_was_stopped_asks_before_it_gives_up() {
        let t = Instant::now();
        let mut probe = Probe::new(5 * S, 60 * S, t);
        assert_eq!(probe.check(t + 3600 * S, Nothing), Check::SendProbe);
        assert_eq!(probe.check(t + 3601 * S, Nothing), Check::Fine);
    }

    #[test]
    fn without_probes_only_the_handshake_is_limited() {
        let t = Instant::now();
        let mut probe = Probe::new(Duration::ZERO, 60 * S, t);
        assert_eq!(probe.next(Nothing), None);
        assert_eq!(probe.check(t + 1000 * S, Nothing), Check::Fine);
        assert_eq!(probe.check(t + 59 * S, Handshake), Check::Fine);
        assert_eq!(probe.check(t + 60 * S, Handshake), Check::Dead { silent_for: 60 * S });
    }
}
