//! When a store last answered.
//!
//! A database that refuses connections is noticed at once. One that hangs, or that a broken switch hides, says nothing at all:
//! only the age of its last answer tells. The writer of a shared store asks once a second even if nobody else does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// After so long without an answer a shared store counts as away: one look per second, and a second for its answer.
pub(super) const SILENT: Duration = Duration::from_secs(2);

/// The last answer of a store; clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Pulse {
    base: Instant,
    /// Milliseconds after `base`.
    last: Arc<AtomicU64>,
}

impl Pulse {
    /// It has just answered.
    pub(super) fn new() -> Self {
        Pulse { base: Instant::now(), last: Arc::default() }
    }

    /// It answers now.
    pub(super) fn beat(&self) {
        let now = self.base.elapsed().as_millis();
        self.last.store(u64::try_from(now).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// How long ago the last answer was.
    pub(super) fn age(&self) -> Duration {
        self.base.elapsed().saturating_sub(Duration::from_millis(self.last.load(Ordering::Relaxed)))
    }
}
