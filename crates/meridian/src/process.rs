//! A long-running process as others see it: its status, its metrics, its log level.
//!
//! The admin socket and the metrics endpoint both answer from here; neither knows what the process does.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use api::status::NetworkStatus;
use node::bgp::announced::{Announcement, Peer};
use node::bgp::explain::Vlan;
use node::bgp::health::Promise;
use ovsdb::Client;
use ovsdb::session::Progress;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use serde::{Deserialize, Serialize};

use crate::clients::Clients;
use crate::telemetry::LogControl;

/// The status of a process. Programs read it, so members are added and never renamed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Status {
    /// The command it runs, e.g. `ovsdb watch`.
    pub(crate) command: String,
    pub(crate) version: String,
    pub(crate) pid: u32,
    pub(crate) uptime_seconds: u64,
    /// Whether it does what it is for.
    pub(crate) healthy: bool,
    /// The reasons why it is not healthy, as far as they are known.
    #[serde(default)]
    pub(crate) trouble: Vec<String>,
    /// Its promises, each with its state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) promises: Vec<Promise>,
    /// The directives of its log.
    pub(crate) log: String,
    /// Its connections to databases.
    pub(crate) databases: Vec<Database>,
    /// Its loops.
    #[serde(default)]
    pub(crate) components: Vec<reconcile::Status>,
    /// The devices of its node's VLANs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) vlans: Vec<Vlan>,
    /// The addresses and prefixes that it announces through BGP, each with the rule for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) announcements: Vec<Announcement>,
    /// The BGP neighbours of its FRR.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) peers: Vec<Peer>,
    /// The network that it keeps: chassis, routers and their gateways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) network: Option<NetworkStatus>,
}

/// A connection to a database.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Database {
    pub(crate) database: String,
    /// `connecting`, `syncing`, `synced` or `disconnected`.
    pub(crate) state: String,
    /// The server it talks to, or talked to last.
    pub(crate) remote: Option<String>,
    /// The number of reconnects.
    pub(crate) reconnects: u64,
    pub(crate) last_error: Option<String>,
    /// Rows held, by table.
    pub(crate) rows: BTreeMap<String, u64>,
    /// The number of rows that do not parse and are skipped.
    #[serde(default)]
    pub(crate) unreadable_rows: u64,
    /// The first of them: which, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) unreadable: Vec<String>,
}

/// Maximum number of unparsed rows in the status; the log has all of them.
const NAMED: usize = 5;

impl Database {
    /// The status of a client's connection; `rows` are the rows that it holds, by table.
    pub(crate) fn of(client: &Client, rows: BTreeMap<String, u64>) -> Self {
        let status = client.status().borrow().clone();
        let state = match status.progress {
            Progress::Synced => "synced",
            Progress::Waiting => "disconnected",
            Progress::Dialing => "connecting",
            Progress::Greeting | Progress::ReadingSchema | Progress::Loading => "syncing",
        };
        let snapshot = client.snapshot();
        Self {
            database: client.database().to_owned(),
            state: state.to_owned(),
            remote: status.remote.map(|remote| remote.to_string()),
            reconnects: client.metrics().connections.saturating_sub(1),
            // An error of the past says nothing about a connection that works again; the log has it.
            last_error: status
                .last_close
                .filter(|_| status.progress != Progress::Synced)
                .map(|reason| reason.to_string()),
            rows,
            unreadable_rows: snapshot.unreadable().count() as u64,
            unreadable: snapshot.unreadable().take(NAMED).map(|row| row.to_string()).collect(),
        }
    }
}

/// An answer that takes a moment; the error says what is wrong.
pub(crate) type Answering<'a> = Pin<Box<dyn Future<Output = Result<serde_json::Value, String>> + Send + 'a>>;

/// The parts of a process that the admin socket serves.
pub(crate) trait Subject: Send + Sync + 'static {
    /// The clients it holds now.
    fn clients(&self) -> Vec<Client>;
    /// Its connections now, those that are no OVSDB's as well.
    fn databases(&self) -> Vec<Database>;
    /// Whether it does what it is for.
    fn healthy(&self) -> bool;
    /// The reasons why it is not healthy, if it has any.
    fn trouble(&self) -> Vec<String> {
        Vec::new()
    }
    /// Its promises, each with its state, if it makes any.
    fn promises(&self) -> Vec<Promise> {
        Vec::new()
    }
    /// The network that it keeps, if it keeps one.
    fn network(&self) -> Option<NetworkStatus> {
        None
    }
    /// The devices of its node's VLANs, if it has any.
    fn vlans(&self) -> Vec<Vlan> {
        Vec::new()
    }
    /// The addresses and prefixes that it announces, if it announces any.
    fn announcements(&self) -> Vec<Announcement> {
        Vec::new()
    }
    /// The BGP neighbours that hear the announcements.
    fn peers(&self) -> Vec<Peer> {
        Vec::new()
    }
    /// Its loops now.
    fn components(&self) -> Vec<reconcile::Status> {
        Vec::new()
    }
    /// The plans of its loops.
    fn plan(&self) -> Answering<'_> {
        Box::pin(async { Err("this process plans nothing".to_owned()) })
    }
    /// An operator allows it to delete what it withholds.
    fn allow_deletions(&self) -> Result<(), String> {
        Err("this process withholds no deletions".to_owned())
    }
    /// Explains a subject: an address for an agent, any object for a server.
    fn explain<'a>(&'a self, _subject: &'a str) -> Answering<'a> {
        Box::pin(async { Err("this process explains nothing; ask an agent or a server".to_owned()) })
    }
}

/// Parses the subject that an agent explains. Agents know addresses only; names and ids are the server's.
pub(crate) fn parse_address(subject: &str) -> Result<IpAddr, String> {
    subject.parse().map_err(|_| {
        format!(
            "cannot explain {subject:?}: this agent explains IP addresses only; \
             the server explains names, MAC addresses and ids: add --socket with its admin socket"
        )
    })
}

/// A running process.
#[derive(Clone)]
pub(crate) struct Process(Arc<Inner>);

struct Inner {
    command: &'static str,
    started: Instant,
    registry: Registry,
    log: LogControl,
    subject: Arc<dyn Subject>,
}

impl Process {
    /// A process that runs a command; `metrics` registers what it counts, under the prefix `meridian`, beside
    /// what its clients do.
    pub(crate) fn new(
        command: &'static str,
        log: LogControl,
        subject: impl Subject,
        metrics: impl FnOnce(&mut Registry),
    ) -> Self {
        Self::over(Registry::default(), command, log, subject, metrics)
    }

    /// The same over a registry that has something already, under names of its own.
    pub(crate) fn over(
        mut registry: Registry,
        command: &'static str,
        log: LogControl,
        subject: impl Subject,
        metrics: impl FnOnce(&mut Registry),
    ) -> Self {
        let ours = registry.sub_registry_with_prefix("meridian");
        let build = Info::new(vec![("version", env!("CARGO_PKG_VERSION")), ("command", command)]);
        ours.register("build", "What runs", build);
        metrics(ours);
        let subject: Arc<dyn Subject> = Arc::new(subject);
        ours.register_collector(Box::new(Clients(Arc::clone(&subject))));
        Self(Arc::new(Inner { command, started: Instant::now(), registry, log, subject }))
    }

    pub(crate) fn status(&self) -> Status {
        Status {
            command: self.0.command.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_seconds: self.0.started.elapsed().as_secs(),
            healthy: self.healthy(),
            trouble: self.0.subject.trouble(),
            promises: self.0.subject.promises(),
            log: self.0.log.current(),
            databases: self.0.subject.databases(),
            components: self.0.subject.components(),
            vlans: self.0.subject.vlans(),
            announcements: self.0.subject.announcements(),
            peers: self.0.subject.peers(),
            network: self.0.subject.network(),
        }
    }

    pub(crate) fn subject(&self) -> &dyn Subject {
        &*self.0.subject
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
