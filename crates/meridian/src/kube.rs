//! The manager of a Kubernetes cluster as a process.

use kubernetes::cluster::connect;
use kubernetes::manager::{LeaseSettings, ManagerParts, run};
use ovsdb::Client;
use prometheus_client::registry::Registry;
use reconcile::{Handle, Metrics};
use tokio::sync::watch;

use crate::config::Config;
use crate::failure::{Exit, Failure, Outcome};
use crate::process::{Answering, Database, Process, Subject};
use crate::signals::Signals;
use crate::telemetry::LogControl;
use crate::{admin, metrics, notify};

/// The lease's name.
const LEASE: &str = "meridian-kube-manager";

/// Runs the manager until SIGINT or SIGTERM, or until it loses the lease.
pub(crate) async fn run_manager(config: &Config, log: LogControl) -> Outcome {
    let mut signals = Signals::new()?;
    let settings = config.kube.settings().unwrap_or_default();
    let client = connect(config.kube.kubeconfig.value.as_deref()).await;
    let client = client.map_err(|error| Failure::new(Exit::Connect, error))?;
    let mut registry = Registry::default();
    let counts = Metrics::register(&mut registry);
    let (sender, handle) = watch::channel(None);
    let process = Process::over(registry, "kube-manager", log, RunningManager(handle), |_| {});
    if let Some(listen) = config.metrics.listen.value {
        metrics::serve(listen, process.clone()).await?;
    }
    let _socket = match &config.admin.socket.value {
        Some(path) => Some(admin::server::serve(path, process).await?),
        None => None,
    };
    notify::ready("waits for the lease");
    let lease = LeaseSettings::new(config.kube.namespace.value.clone(), LEASE, holder());
    let parts = ManagerParts { client, settings, lease, metrics: counts, handle: sender };
    let ended = run(parts, async {
        let mut watchdog = notify::Watchdog::new();
        loop {
            tokio::select! {
                () = signals.end() => break,
                () = watchdog.feed() => {}
            }
        }
        task::stopping();
        notify::stopping();
    });
    ended.await.map_err(|error| Failure::new(Exit::Refused, error))
}

/// A name that no other process has: two lives of one pod must not take each other for themselves.
fn holder() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}_{}_{}", host.trim(), std::process::id(), jiff::Timestamp::now().as_nanosecond())
}

/// A running manager, for those who ask. It has no loop before it has the lease.
struct RunningManager(watch::Receiver<Option<Handle>>);

impl RunningManager {
    fn handle(&self) -> Option<Handle> {
        self.0.borrow().clone()
    }
}

impl Subject for RunningManager {
    fn clients(&self) -> Vec<Client> {
        Vec::new()
    }

    fn databases(&self) -> Vec<Database> {
        Vec::new()
    }

    fn healthy(&self) -> bool {
        // One that waits for the lease is as it should be.
        self.handle().is_none_or(|handle| handle.status().borrow().waiting_for.is_none())
    }

    fn trouble(&self) -> Vec<String> {
        let Some(handle) = self.handle() else {
            return vec![
                "waits for the lease: another manager works, or the API server does not answer".to_owned(),
            ];
        };
        let status = handle.status().borrow().clone();
        let waiting = status.waiting_for.iter().map(|what| format!("waits for {what}"));
        let errors = status.problems.iter().filter(|problem| problem.severity == reconcile::Severity::Error);
        waiting.chain(errors.map(|problem| problem.to_string())).collect()
    }

    fn components(&self) -> Vec<reconcile::Status> {
        self.handle().map(|handle| handle.status().borrow().clone()).into_iter().collect()
    }

    fn plan(&self) -> Answering<'_> {
        Box::pin(async {
            let handle = self.handle().ok_or("another manager has the lease; ask that one")?;
            let plan = handle.plan().await.map_err(|error| error.to_string())?;
            serde_json::to_value([plan]).map_err(|error| error.to_string())
        })
    }
}
