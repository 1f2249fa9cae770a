//! Limits on the share of a server that its clients may use.

use std::time::Duration;

/// The limits of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of connections.
    pub connections: usize,
    /// Maximum number of connections per client address; only idle ones are closed for it. An IPv6 /64 counts as one client.
    pub per_client: usize,
    /// Timeout of a new connection until the head of its first request is complete.
    pub first_request: Duration,
    /// Timeout of a later request's head, from its first byte.
    pub head: Duration,
    /// Timeout of an idle connection between two requests.
    pub idle: Duration,
    /// Timeout of a client that does not read its answer. One that reads less than [`SLOWEST`](Self::SLOWEST) uses it up, too.
    pub answer: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            // Most systems let a process have 1024 files open.
            connections: 900,
            per_client: 300,
            first_request: Duration::from_secs(10),
            head: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            answer: Duration::from_secs(60),
        }
    }
}

impl Limits {
    /// The bytes of an answer that a client must read per second, on average.
    pub const SLOWEST: u64 = 16 << 10;

    /// Maximum number of requests in progress. The other connections are reserved for health checks.
    pub(crate) fn requests(&self) -> usize {
        let reserve = (self.connections / 8).clamp(1, 64);
        self.connections.saturating_sub(reserve).max(1)
    }

    /// Interval between two checks for expired connections.
    pub(crate) fn tick(&self) -> Duration {
        let shortest = self.first_request.min(self.head).min(self.idle).min(self.answer);
        (shortest / 4).clamp(Duration::from_millis(10), Duration::from_secs(1))
    }
}
