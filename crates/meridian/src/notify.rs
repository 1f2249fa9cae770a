//! What systemd is told: ready, what goes on, stopping, and that the process still lives.
//!
//! Without `NOTIFY_SOCKET` nothing happens. The watchdog is fed by the loop that does the work, not by a task of its own,
//! so that a loop that hangs is noticed.

use std::time::Duration;

use sd_notify::NotifyState;

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "systemd cannot be told");
    }
}

/// The process does what it is for.
pub(crate) fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// What goes on, in one line.
pub(crate) fn status(status: &str) {
    tell(&[NotifyState::Status(status)]);
}

/// The process is about to end.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Feeds the watchdog of systemd, where there is one.
#[derive(Debug)]
pub(crate) struct Watchdog(Option<tokio::time::Interval>);

impl Watchdog {
    /// Asks the environment how often to feed it.
    pub(crate) fn new() -> Self {
        // A quarter of the limit: with half of it, as sd_watchdog_enabled(3) advises, one missed answer could end the process.
        let limit =
            sd_notify::watchdog_enabled().map(|limit| limit / 4).filter(|limit| *limit > Duration::ZERO);
        Self(limit.map(|limit| {
            let mut interval = tokio::time::interval(limit);
            interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            interval
        }))
    }

    /// Feeds it for as long as `lives` comes back with a yes in time; waits for ever where there is none. A part that hangs, or
    /// that says no, leaves it hungry, and systemd starts the process again.
    pub(crate) async fn feed_while<F: Future<Output = bool>>(&mut self, mut lives: impl FnMut() -> F) {
        loop {
            let Some(interval) = &mut self.0 else { return std::future::pending().await };
            interval.tick().await;
            if lives().await {
                tell(&[NotifyState::Watchdog]);
            } else {
                tracing::error!("a part of the server does not answer; the watchdog is not fed");
            }
        }
    }

    /// Waits until it is time, and feeds it; waits for ever where there is none.
    pub(crate) async fn feed(&mut self) {
        match &mut self.0 {
            Some(interval) => {
                interval.tick().await;
                tell(&[NotifyState::Watchdog]);
            }
            None => std::future::pending().await,
        }
    }
}
