//! The configuration of a session.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::Duration;

use uuid::Uuid;

use super::monitor::Method;
use super::remote::{Remote, Remotes};

/// The settings of a session. [`SessionConfig::new`] has the defaults.
///
/// They do not limit the number of bytes that wait to be sent. The session passes its messages on at once; only the driver knows which of
/// them the socket has accepted.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// The remotes of the database; all of them serve the same one.
    pub remotes: Vec<Remote>,
    /// Accept only the leader of a cluster. Writers that hold locks need it (a lock lives in one server's memory). Readers that tolerate a
    /// delay should spread over the followers. Default: yes.
    pub leader_only: bool,
    /// The required cluster; `None` accepts any.
    pub cluster_id: Option<Uuid>,
    /// Dial remotes in random order, so that many clients spread over them. Default: yes.
    pub shuffle: bool,
    /// Timeout for establishing a connection, including TLS. Default: 5 s.
    pub connect_timeout: Duration,
    /// Silence after which the session sends a probe, and further silence after which it gives the server up. Zero sends no
    /// probes. Default: 5 s.
    pub probe_interval: Duration,
    /// Silence allowed while a server composes the content of a database. Default: 60 s.
    pub load_patience: Duration,
    /// First delay between two rounds over all remotes. Default: 250 ms.
    pub backoff_min: Duration,
    /// Longest delay; also how long a connection must have served before the delays begin at the first one again.
    /// Default: 8 s.
    pub backoff_max: Duration,
    /// Time for which the session refuses servers if all of them have older data than we have seen. Then it accepts their data, because it
    /// is the only data left, as after a restore that kept the cluster's id. The time without any reachable server does not count. `None`
    /// refuses forever. Default: 60 s.
    pub stale_limit: Option<Duration>,
    /// The newest monitor method to request; the session falls back to older ones. Default: `monitor_cond_since`.
    pub newest_method: Method,
}

impl SessionConfig {
    /// The defaults, for these remotes.
    pub fn new(remotes: Vec<Remote>) -> Self {
        Self {
            remotes,
            leader_only: true,
            cluster_id: None,
            shuffle: true,
            connect_timeout: Duration::from_secs(5),
            probe_interval: Duration::from_secs(5),
            load_patience: Duration::from_secs(60),
            backoff_min: Duration::from_millis(250),
            backoff_max: Duration::from_secs(8),
            stale_limit: Some(Duration::from_secs(60)),
            newest_method: Method::CondSince,
        }
    }
}

impl From<Remotes> for SessionConfig {
    fn from(remotes: Remotes) -> Self {
        Self { cluster_id: remotes.cluster_id, ..Self::new(remotes.list) }
    }
}
