//! Addresses that were withdrawn a moment ago. Their ways stay until the fabric has forgotten them (`withdraw_drain_ms`), and
//! nothing else waits for that: a plan leaves out what it would take from them, and the loop is woken when their time is over.
//!
//! This is remembered by the process alone. One that was killed removes at its next start what it would have removed later.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// Withdrawn addresses, each with the time until which its rule and route stay. The first address represents a prefix.
#[derive(Debug, Default)]
pub(super) struct Drains {
    until: BTreeMap<IpAddr, Instant>,
    over: watch::Sender<u64>,
}

impl Drains {
    /// Changes whenever the time of some of them is over.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.over.subscribe()
    }

    /// These were withdrawn just now. Must be called within a tokio runtime.
    pub(super) fn begin(&mut self, withdrawn: impl IntoIterator<Item = (IpAddr, Duration)>) {
        let now = Instant::now();
        let mut ends = BTreeSet::new();
        for (ip, drain) in withdrawn {
            let end = now + drain;
            self.until.insert(ip, end);
            ends.insert(end);
        }
        for end in ends {
            let over = self.over.clone();
            task::spawn("drain", async move {
                tokio::select! {
                    () = sleep_until(end) => over.send_modify(|times| *times += 1),
                    // Nobody is left who would want to know.
                    () = over.closed() => {}
                }
            });
        }
    }

    /// This one is announced again.
    pub(super) fn cancel(&mut self, ip: IpAddr) {
        self.until.remove(&ip);
    }

    /// Those whose ways have to stay now.
    pub(super) fn observe(&mut self) -> Arc<BTreeSet<IpAddr>> {
        if !self.until.is_empty() {
            let now = Instant::now();
            self.until.retain(|_, end| *end > now);
        }
        Arc::new(self.until.keys().copied().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_has_its_time_and_its_end_is_told() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let mut drains = Drains::default();
        let mut changes = drains.changes();
        assert!(drains.observe().is_empty());
        let (long, short) = (Duration::from_secs(600), Duration::from_secs(60));
        drains.begin([(ip("10.0.0.1"), long), (ip("10.0.0.2"), short), (ip("10.0.0.3"), short)]);
        drains.cancel(ip("10.0.0.3"));
        assert_eq!(drains.observe().len(), 2);
        let begun = Instant::now();
        changes.changed().await.unwrap();
        assert_eq!(begun.elapsed().as_secs(), 60);
        assert_eq!(*drains.observe(), [ip("10.0.0.1")].into());
        changes.changed().await.unwrap();
        assert_eq!(begun.elapsed().as_secs(), 600);
        assert!(drains.observe().is_empty());
        // What is withdrawn again has its time again.
        drains.begin([(ip("10.0.0.1"), short)]);
        assert_eq!(drains.observe().len(), 1);
    }
}
