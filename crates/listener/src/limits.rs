//! How much of a server its clients may take.

use std::time::Duration;

/// What clients may take of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once.
    pub connections: usize,
    /// Connections of one client address at once, as far as they are idle. Of IPv6 a /64 is one client.
    pub per_client: usize,
    /// How long a new connection may take until the head of its first request is complete.
    pub first_request: Duration,
    /// How long the head of a later request may take, from its first byte.
    pub head: Duration,
    /// How long a connection may be idle between two requests.
    pub idle: Duration,
    /// How long a client may take nothing of its answer. One that takes less than [`SLOWEST`](Self::SLOWEST) uses this up, too.
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
    /// The bytes of an answer that a client has to take each second, on average.
    pub const SLOWEST: u64 = 16 << 10;

    /// The largest number of requests that are worked on at once. The other connections are left for health checks.
    pub(crate) fn requests(&self) -> usize {
        let reserve = (self.connections / 8).clamp(1, 64);
        self.connections.saturating_sub(reserve).max(1)
    }

    /// How often to look for connections whose time is over.
    pub(crate) fn tick(&self) -> Duration {
        let shortest = self.first_request.min(self.head).min(self.idle).min(self.answer);
        (shortest / 4).clamp(Duration::from_millis(10), Duration::from_secs(1))
    }
}
