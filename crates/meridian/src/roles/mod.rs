//! The roles of a node as one process: signals, readiness, admin socket and metrics for any number of them.
//!
//! | file | holds |
//! |---|---|
//! | [`bgp`] | the BGP agent as a role |
//! | [`metadata`] | the metadata agent as a role |
//! | `subject` | the answers of a process with several roles |
//!
//! All roles share the [`NodeConnections`] of the process. Without its role, none of a role's code runs.

pub(crate) mod bgp;
pub(crate) mod metadata;
mod subject;

use std::fs::DirBuilder;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use node::bgp::announced::{Announcement, Peer};
use node::bgp::explain::Vlan;
use node::bgp::health::Promise;
use node::connections::{ConnectionSettings, NodeConnections, RoleTables};
use node::sole::{Sole, SoleRole};
use prometheus_client::collector::Collector;
use prometheus_client::registry::Registry;
use reconcile::{Handle, Metrics, Preview, State, Status};
use tokio::sync::watch;
use tracing::warn;

use self::subject::{NodeSubject, RoleCollector};
use crate::failure::{Exit, Failure, Outcome};
use crate::process::{Answering, Process};
use crate::signals::Signals;
use crate::telemetry::LogControl;
use crate::{admin, metrics, notify};

/// The roles of a process, and the places where it answers.
#[derive(Debug, Default)]
pub(crate) struct NodeConfig {
    pub(crate) bgp: Option<node::bgp::config::Config>,
    pub(crate) metadata: Option<node::metadata::config::Config>,
    pub(crate) metrics_listen: Option<SocketAddr>,
    pub(crate) admin_socket: Option<PathBuf>,
    /// The place of the admin socket if no configuration names one.
    pub(crate) usual_socket: &'static str,
}

/// The configuration of a process, what is worth a warning, and the options that have no effect.
#[derive(Debug, Default)]
pub(crate) struct LoadedNode {
    pub(crate) config: NodeConfig,
    pub(crate) warnings: Vec<String>,
    pub(crate) ignored: Vec<String>,
}

/// A running role.
pub(crate) trait Role: Collector {
    /// Its loop.
    fn handle(&self) -> &Handle;
    /// Reasons why it does not do what it is for.
    fn trouble(&self) -> Vec<String>;
    /// Its promises and how they stand.
    fn promises(&self) -> Vec<Promise> {
        Vec::new()
    }
    /// The devices of its VLANs.
    fn vlans(&self) -> Vec<Vlan> {
        Vec::new()
    }
    /// The addresses and prefixes that it announces.
    fn announcements(&self) -> Vec<Announcement> {
        Vec::new()
    }
    /// The BGP neighbours that hear them.
    fn peers(&self) -> Vec<Peer> {
        Vec::new()
    }
    /// The meaning of an address to this role: an object with the member `text`, a list of sentences.
    fn explain(&self, ip: IpAddr) -> Answering<'_>;
    /// Ends it.
    fn stop(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

impl NodeConfig {
    /// The file to log to, if any.
    pub(crate) fn log_path(&self) -> Option<PathBuf> {
        self.bgp.as_ref().and_then(node::bgp::config::Config::log_path)
    }

    /// Whether a role asks for a more detailed log.
    pub(crate) fn is_debug(&self) -> bool {
        self.bgp.as_ref().is_some_and(|bgp| bgp.debug)
            || self.metadata.as_ref().is_some_and(|metadata| metadata.debug)
    }

    /// The servers of all roles; an error if two roles name different ones.
    pub(crate) fn connections(&self) -> Outcome<ConnectionSettings> {
        let (bgp, metadata) = (self.bgp.as_ref(), self.metadata.as_ref());
        match (bgp.map(node::bgp::config::Config::connections), metadata.map(|config| &config.connections)) {
            (Some(bgp), Some(metadata)) => {
                let usual = node::bgp::config::Config::default().connections();
                ConnectionSettings::join([&bgp, metadata], [&usual, &ConnectionSettings::default()])
                    .map_err(|error| Failure::new(Exit::Usage, error))
            }
            (Some(bgp), None) => Ok(bgp),
            (None, metadata) => Ok(metadata.cloned().unwrap_or_default()),
        }
    }

    /// The path of the admin socket. A process that cannot have the usual one runs without it.
    fn socket(&self) -> Option<PathBuf> {
        let usual = || match usual_socket(self.usual_socket) {
            Ok(path) => Some(path),
            Err(error) => {
                let path = self.usual_socket;
                warn!(
                    "no admin socket: cannot create the directory of {path}: {error}; \
                     run this as root, or name a socket with --admin-socket"
                );
                None
            }
        };
        self.admin_socket.clone().or_else(usual)
    }

    fn tables(&self) -> Vec<RoleTables> {
        let bgp = self.bgp.as_ref().map(node::bgp::agent::tables);
        let metadata = self.metadata.as_ref().map(|_| node::metadata::agent::TABLES);
        bgp.into_iter().chain(metadata).collect()
    }

    /// Takes the locks of the roles, so that no second process has one of them.
    async fn claim(&self) -> Outcome<Vec<Sole>> {
        let bgp = self.bgp.as_ref().filter(|bgp| !bgp.dry_run).map(|_| SoleRole::Bgp);
        let metadata = self.metadata.as_ref().filter(|one| !one.dry_run).map(|_| SoleRole::Metadata);
        let mut locks = Vec::new();
        for role in bgp.into_iter().chain(metadata) {
            locks.push(Sole::claim(role).await.map_err(|error| Failure::new(Exit::Local, error))?);
        }
        Ok(locks)
    }
}

/// The roles of a process, running.
struct RunningRoles {
    connections: NodeConnections,
    roles: Vec<Arc<dyn Role>>,
}

impl RunningRoles {
    /// Opens the connections and starts the roles.
    fn start(mut config: NodeConfig, counts: &Metrics, is_preview: bool) -> Outcome<Self> {
        let connections = NodeConnections::open(config.connections()?, &config.tables());
        let mut roles: Vec<Arc<dyn Role>> = Vec::new();
        if let Some(bgp) = config.bgp.take() {
            roles.push(Arc::new(bgp::RunningBgp::start(bgp, &connections, counts.clone(), is_preview)?));
        }
        if let Some(metadata) = config.metadata.take() {
            roles.push(Arc::new(metadata::RunningMetadata::start(metadata, &connections, counts.clone())));
        }
        Ok(RunningRoles { connections, roles })
    }

    fn statuses(&self) -> Vec<watch::Receiver<Status>> {
        self.roles.iter().map(|role| role.handle().status()).collect()
    }

    async fn stop(&self) {
        for role in &self.roles {
            role.stop().await;
        }
        self.connections.close().await;
    }
}

/// Runs the roles until SIGINT or SIGTERM.
pub(crate) async fn run(command: &'static str, config: NodeConfig, log: LogControl) -> Outcome {
    let mut signals = Signals::new()?;
    let _locks = config.claim().await?;
    let (listen, socket) = (config.metrics_listen, config.socket());
    let is_usual = config.admin_socket.is_none();
    let mut registry = Registry::default();
    let counts = Metrics::register(&mut registry);
    let running = RunningRoles::start(config, &counts, false)?;
    let subject = NodeSubject::new(running.connections.clone(), running.roles.clone());
    let process = Process::over(registry, command, log, subject, |registry| {
        for role in &running.roles {
            registry.register_collector(Box::new(RoleCollector(Arc::clone(role))));
        }
    });
    if let Some(listen) = listen {
        metrics::serve(listen, process.clone()).await?;
    }
    let _socket = match &socket {
        Some(path) => match admin::server::serve(path, process).await {
            // Nobody asked for it, so the agent does its work without it.
            Err(failure) if is_usual => {
                let report = failure.report().unwrap_or_default();
                warn!(
                    "no admin socket, name another one with --admin-socket: {}",
                    report.trim_end().replace('\n', "; ")
                );
                None
            }
            served => Some(served?),
        },
        None => None,
    };
    let mut statuses = running.statuses();
    let mut watchdog = notify::Watchdog::new();
    let mut is_ready = false;
    notify::status("connecting");
    loop {
        let now: Vec<Status> = statuses.iter_mut().map(|status| status.borrow_and_update().clone()).collect();
        let told = summary(&now);
        // Programs that wait for readiness rely on what the roles have done. Problems are no reason to wait: a start that does not
        // end would be repeated, and nothing were better for it.
        let has_run = |now: &Status| now.last_success.is_some() && now.state != State::Working;
        if !is_ready && now.iter().all(has_run) {
            is_ready = true;
            notify::ready(&told);
        } else {
            notify::status(&told);
        }
        tokio::select! {
            () = signals.end() => break,
            is_open = any_changed(&mut statuses) => if !is_open { break },
            () = watchdog.feed() => {}
        }
    }
    task::stopping();
    notify::stopping();
    running.stop().await;
    Ok(())
}

/// The progress of all roles in a line. A single role needs no name.
fn summary(statuses: &[Status]) -> String {
    let line = |now: &Status| match &now.waiting_for {
        Some(what) => format!("waits for {what}"),
        None => format!("{} of {} objects in place, {} problems", now.have, now.want, now.problems.len()),
    };
    match statuses {
        [only] => line(only),
        several => {
            let lines: Vec<String> =
                several.iter().map(|now| format!("{}: {}", now.component, line(now))).collect();
            lines.join("; ")
        }
    }
}

/// Waits until one of them changes; whether all are open.
async fn any_changed(statuses: &mut [watch::Receiver<Status>]) -> bool {
    let mut waiting: Vec<_> = statuses.iter_mut().map(|status| Box::pin(status.changed())).collect();
    std::future::poll_fn(|cx| {
        let mut ready = waiting.iter_mut().filter_map(|one| match one.as_mut().poll(cx) {
            std::task::Poll::Ready(changed) => Some(changed.is_ok()),
            std::task::Poll::Pending => None,
        });
        match ready.next() {
            Some(is_open) => std::task::Poll::Ready(is_open),
            None => std::task::Poll::Pending,
        }
    })
    .await
}

/// Time limit of a preview: the roles connect, read the databases and the node, and plan.
const PREVIEW_LIMIT: Duration = Duration::from_secs(15);

/// The plans of the roles' first runs. Nothing is changed.
pub(crate) async fn preview(mut config: NodeConfig) -> Outcome<Vec<Preview>> {
    config.bgp.iter_mut().for_each(|bgp| bgp.dry_run = true);
    config.metadata.iter_mut().for_each(|metadata| metadata.dry_run = true);
    let counts = Metrics::register(&mut Registry::default());
    let running = RunningRoles::start(config, &counts, true)?;
    let plans = tokio::time::timeout(PREVIEW_LIMIT, async {
        let mut plans = Vec::new();
        for role in &running.roles {
            // FRR is asked beside the loop. A plan before the end of the first run would not know FRR's answer.
            let has_run = |now: &Status| {
                now.waiting_for.is_none() && now.last_run.is_some() && now.state != State::Working
            };
            let _ = role.handle().status().wait_for(has_run).await;
            plans.push(role.handle().plan().await?);
        }
        Ok::<_, reconcile::NoPlan>(plans)
    });
    let plans = plans.await;
    let mut waiting = running.roles.iter().map(|role| role.handle().status().borrow().waiting_for.clone());
    let waiting_for = waiting.find_map(|what| what);
    task::stopping();
    running.stop().await;
    let reason = match plans {
        Ok(Ok(plans)) => return Ok(plans),
        Ok(Err(error)) => error.to_string(),
        Err(_) => match waiting_for {
            Some(what) => format!("the agent waits for {what}"),
            None => "the agent has not finished its first run".to_owned(),
        },
    };
    let reason = format!("no plan within {} s: {reason}", PREVIEW_LIMIT.as_secs());
    Err(Failure::told(Exit::Connect, reason).try_("again with -v, which logs each connection"))
}

/// A usual admin socket. A unit creates its directory; for an agent that somebody starts by hand, this function does, readable by the
/// agent's user and group only.
fn usual_socket(path: &str) -> std::io::Result<PathBuf> {
    let path = PathBuf::from(path);
    let dir = path.parent().unwrap_or(Path::new("/"));
    match DirBuilder::new().mode(0o750).create(dir) {
        Err(error) if !dir.is_dir() => Err(error),
        _ => Ok(path),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_directory_of_the_usual_socket_is_created_or_the_reason_is_given() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("run/node.sock");
        let asked = socket.to_str().unwrap();
        for _ in 0..2 {
            assert_eq!(usual_socket(asked).unwrap(), socket);
        }
        let mode = socket.parent().unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o750);

        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        usual_socket(file.join("run/node.sock").to_str().unwrap()).unwrap_err();
    }

    #[test]
    fn one_role_needs_no_name_and_several_do() {
        let of = |component: &str, waiting_for: Option<&str>| {
            let waiting_for = waiting_for.map(str::to_owned);
            Status { waiting_for, ..Status::starting(component.into()) }
        };
        assert_eq!(summary(&[of("bgp", None)]), "0 of 0 objects in place, 0 problems");
        assert_eq!(
            summary(&[of("bgp", Some("FRR")), of("metadata", None)]),
            "bgp: waits for FRR; metadata: 0 of 0 objects in place, 0 problems"
        );
    }

    #[tokio::test]
    async fn the_change_of_any_role_is_noticed_and_so_is_its_end() {
        let (one, other) = (
            watch::Sender::new(Status::starting("a".into())),
            watch::Sender::new(Status::starting("b".into())),
        );
        let mut statuses = [one.subscribe(), other.subscribe()];
        other.send_replace(Status::starting("c".into()));
        assert!(any_changed(&mut statuses).await);
        drop(one);
        assert!(!any_changed(&mut statuses).await);
    }
}
