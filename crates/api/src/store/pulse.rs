//! The time since a store last answered.
//!
//! The writer notices at once if a database refuses connections. A database that hangs, or that a broken switch hides, sends nothing at
//! all: only the age of its last answer shows that. So the writer of a shared store queries it once a second even if no request does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The time without an answer after which a shared store counts as unreachable: a second until the next query, and a second for its answer.
pub(super) const SILENT: Duration = Duration::from_secs(2);

/// The time of a store's last answer; clones share it.
#[derive(Clone, Debug)]
pub(super) struct Pulse {
    base: Instant,
    /// Milliseconds after `base`.
    last: Arc<AtomicU64>,
}

impl Pulse {
    /// Starts with an answer now.
    pub(super) fn new() -> Self {
        Pulse { base: Instant::now(), last: Arc::default() }
    }

    /// Records an answer now.
    pub(super) fn beat(&self) {
        let now = self.base.elapsed().as_millis();
        self.last.store(u64::try_from(now).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// The time since the last answer.
    pub(super) fn age(&self) -> Duration {
        self.base.elapsed().saturating_sub(Duration::from_millis(self.last.load(Ordering::Relaxed)))
    }
}
