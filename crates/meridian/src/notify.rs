//! Notifications to systemd: ready, status, stopping, and the watchdog.
//!
//! Without `NOTIFY_SOCKET` the functions do nothing. The loop that does the work feeds the watchdog. A separate task would feed it even
//! while that loop hangs.

use std::time::Duration;

use sd_notify::NotifyState;

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "cannot notify systemd");
    }
}

/// Notifies systemd that the process is ready.
pub(crate) fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Sends systemd the status of the process in one line.
pub(crate) fn status(status: &str) {
    tell(&[NotifyState::Status(status)]);
}

/// Notifies systemd that the process is about to exit.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Feeds the watchdog of systemd, if the unit has one.
#[derive(Debug)]
pub(crate) struct Watchdog(Option<tokio::time::Interval>);

impl Watchdog {
    /// Reads the interval from the environment.
    pub(crate) fn new() -> Self {
        // The interval is a quarter of the limit. With half of it, as sd_watchdog_enabled(3) advises, one missed answer could end the
        // process.
        let limit =
            sd_notify::watchdog_enabled().map(|limit| limit / 4).filter(|limit| *limit > Duration::ZERO);
        Self(limit.map(|limit| {
            let mut interval = tokio::time::interval(limit);
            interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            interval
        }))
    }

    /// Feeds the watchdog while `lives` returns true in time. Without a watchdog it waits forever. If `lives` hangs or returns false, the
    /// watchdog expires and systemd restarts the process.
    pub(crate) async fn feed_while<F: Future<Output = bool>>(&mut self, mut lives: impl FnMut() -> F) {
        loop {
            let Some(interval) = &mut self.0 else { return std::future::pending().await };
            interval.tick().await;
            if lives().await {
                tell(&[NotifyState::Watchdog]);
            } else {
                tracing::error!("a part of the server does not reply; systemd's watchdog is not notified");
            }
        }
    }

    /// Waits for the next interval, and feeds the watchdog. Without a watchdog it waits forever.
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
