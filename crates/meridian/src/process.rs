//! A long-running process as others see it: its status, its metrics, its log level.
//!
//! The admin socket and the metrics endpoint both answer from here; neither knows what the process does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use serde::{Deserialize, Serialize};

use crate::telemetry::LogControl;

/// What a process says about itself. Programs read it: members are added, never renamed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Status {
    /// The command it runs, e.g. `ovsdb watch`.
    pub(crate) command: String,
    pub(crate) version: String,
    pub(crate) pid: u32,
    pub(crate) uptime_seconds: u64,
    /// Whether it does what it is for.
    pub(crate) healthy: bool,
    /// The directives of its log.
    pub(crate) log: String,
    /// Its connections to databases.
    pub(crate) databases: Vec<Database>,
}

/// A connection to a database.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Database {
    pub(crate) database: String,
    /// `connecting`, `syncing`, `synced` or `disconnected`.
    pub(crate) state: String,
    /// The server it talks to, or talked to last.
    pub(crate) remote: Option<String>,
    /// How often the connection was made anew.
    pub(crate) reconnects: u64,
    pub(crate) last_error: Option<String>,
    /// Rows held, by table.
    pub(crate) rows: BTreeMap<String, u64>,
}

/// What a process knows and shows.
pub(crate) trait Subject: Send + Sync + 'static {
    /// Its connections now.
    fn databases(&self) -> Vec<Database>;
    /// Whether it does what it is for.
    fn healthy(&self) -> bool;
}

/// A running process.
#[derive(Clone)]
pub(crate) struct Process(Arc<Inner>);

struct Inner {
    command: &'static str,
    started: Instant,
    registry: Registry,
    log: LogControl,
    subject: Box<dyn Subject>,
}

impl Process {
    /// A process that runs a command; `metrics` registers what it counts, under the prefix `meridian`.
    pub(crate) fn new(
        command: &'static str,
        log: LogControl,
        subject: impl Subject,
        metrics: impl FnOnce(&mut Registry),
    ) -> Self {
        let mut registry = Registry::with_prefix("meridian");
        let build = Info::new(vec![("version", env!("CARGO_PKG_VERSION")), ("command", command)]);
        registry.register("build", "What runs", build);
        metrics(&mut registry);
        Self(Arc::new(Inner { command, started: Instant::now(), registry, log, subject: Box::new(subject) }))
    }

    pub(crate) fn status(&self) -> Status {
        Status {
            command: self.0.command.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_seconds: self.0.started.elapsed().as_secs(),
            healthy: self.healthy(),
            log: self.0.log.current(),
            databases: self.0.subject.databases(),
        }
    }

    pub(crate) fn healthy(&self) -> bool {
        self.0.subject.healthy()
    }

    /// The metrics in the OpenMetrics text format.
    pub(crate) fn metrics(&self) -> String {
        let mut text = String::new();
        match prometheus_client::encoding::text::encode(&mut text, &self.0.registry) {
            Ok(()) => text,
            Err(error) => {
                tracing::error!(%error, "metrics cannot be encoded");
                String::new()
            }
        }
    }

    pub(crate) fn log(&self) -> &LogControl {
        &self.0.log
    }
}
