//! The program of a Kubernetes node as a process.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use central::Database as OvnDatabase;
use kubernetes::cluster::connect;
use kubernetes::zone::explain::explain;
use kubernetes::zone::{RunningZone, ZoneParts};
use ovsdb::Client;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use reconcile::{Metrics, Severity, State, Status};

use crate::cli::client_config;
use crate::config::Config;
use crate::failure::{Exit, Failure, Outcome};
use crate::process::{Answering, Database, Process, Subject, parse_address};
use crate::signals::Signals;
use crate::telemetry::LogControl;
use crate::{admin, metrics, notify};

/// The mark of our rows.
const OWNER: &str = "meridian-kube";

/// Runs the program until SIGINT or SIGTERM.
pub(crate) async fn run_node(config: &Config, log: LogControl) -> Outcome {
    let mut signals = Signals::new()?;
    let settings = config.kube.zone_settings()?;
    let northbound = client_config(config, OvnDatabase::Northbound, &config.kube.nb, None)?;
    let southbound = client_config(config, OvnDatabase::Southbound, &config.kube.sb, None)?;
    let api = connect(config.kube.kubeconfig.value.as_deref()).await;
    let api = api.map_err(|error| Failure::new(Exit::Connect, error))?;
    let mut registry = Registry::default();
    let counts = Metrics::register(&mut registry);
    let parts = ZoneParts { api, settings, owner: OWNER.into(), northbound, southbound, metrics: counts };
    let zone = Arc::new(RunningZone::start(parts).await);
    let subject = NodeProcess(Arc::clone(&zone));
    let process = Process::over(registry, "kube-node", log, subject, |registry| {
        registry.register_collector(Box::new(ZoneCollector(Arc::clone(&zone))));
    });
    if let Some(listen) = config.metrics.listen.value {
        metrics::serve(listen, process.clone()).await?;
    }
    let _socket = match &config.admin.socket.value {
        Some(path) => Some(admin::server::serve(path, process).await?),
        None => None,
    };
    let mut watchdog = notify::Watchdog::new();
    let mut is_ready = false;
    let mut states: Vec<_> = zone.handles().iter().map(|handle| handle.status()).collect();
    while let [_, networks, _] = &mut states[..] {
        if !is_ready && networks.borrow_and_update().last_success.is_some() {
            is_ready = true;
            notify::ready("keeps the rows of this node");
        }
        tokio::select! {
            () = signals.end() => break,
            _ = networks.changed() => {}
            () = watchdog.feed() => {}
        }
    }
    task::stopping();
    notify::stopping();
    zone.stop().await;
    Ok(())
}

/// The running program, for those who ask.
struct NodeProcess(Arc<RunningZone>);

impl NodeProcess {
    fn statuses(&self) -> Vec<Status> {
        self.0.handles().iter().map(|handle| handle.status().borrow().clone()).collect()
    }
}

impl Subject for NodeProcess {
    fn clients(&self) -> Vec<Client> {
        self.0.clients()
    }

    fn databases(&self) -> Vec<Database> {
        let rows = |client: &Client| {
            client.snapshot().row_counts().map(|(table, rows)| (table.to_string(), rows as u64)).collect()
        };
        self.clients().iter().map(|client| Database::of(client, rows(client))).collect()
    }

    fn healthy(&self) -> bool {
        self.trouble().is_empty()
    }

    fn trouble(&self) -> Vec<String> {
        let mut all = Vec::new();
        for status in self.statuses() {
            let waiting = status.waiting_for.iter().map(|what| format!("waits for {what}"));
            let errors = status.problems.iter().filter(|problem| problem.severity == Severity::Error);
            all.extend(waiting.chain(errors.map(|problem| problem.to_string())));
        }
        all.sort();
        all.dedup();
        all
    }

    fn components(&self) -> Vec<Status> {
        self.statuses()
    }

    fn plan(&self) -> Answering<'_> {
        Box::pin(async {
            let mut plans = Vec::new();
            for handle in self.0.handles() {
                plans.push(handle.plan().await.map_err(|error| error.to_string())?);
            }
            serde_json::to_value(plans).map_err(|error| error.to_string())
        })
    }

    fn allow_deletions(&self) -> Result<(), String> {
        match self.0.allow_deletions() {
            true => Ok(()),
            false => Err("this process withholds no deletions".to_owned()),
        }
    }

    fn explain<'a>(&'a self, subject: &'a str) -> Answering<'a> {
        Box::pin(async move {
            let ip: IpAddr = parse_address(subject)?;
            let inputs = self.0.inputs().map_err(|waiting| format!("the program waits for {}", waiting.0))?;
            Ok(serde_json::json!({ "ip": ip, "text": explain(&inputs, ip) }))
        })
    }
}

/// The metrics of a zone.
struct ZoneCollector(Arc<RunningZone>);

impl fmt::Debug for ZoneCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZoneCollector").finish_non_exhaustive()
    }
}

impl Collector for ZoneCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Ok(inputs) = self.0.inputs() else { return Ok(()) };
        let gathered = &inputs.gathered;
        let (zone, pods) = (&gathered.zone, gathered.networks.iter().flat_map(|network| &network.pods));
        let (local, remote): (Vec<_>, Vec<_>) = pods.partition(|pod| pod.node == zone.local);
        let counts = [
            ("networks", gathered.networks.len()),
            ("local_pods", local.len()),
            ("remote_pods", remote.len()),
            ("remote_nodes", zone.nodes.keys().filter(|name| **name != zone.local).count()),
            ("remote_chassis", inputs.chassis.remote.len()),
            ("withheld", usize::from(inputs.doubt.is_some())),
        ];
        let help = "Objects of this node's zone, by kind; withheld is 1 while deletions are withheld";
        let gauge = ConstGauge::new(0_i64).metric_type();
        let mut family = encoder.encode_descriptor("kube_zone_objects", help, None, gauge)?;
        for (kind, count) in counts {
            let value = ConstGauge::new(i64::try_from(count).unwrap_or(i64::MAX));
            value.encode(family.encode_family(&[("kind", kind)])?)?;
        }
        let settled = self.0.handles().iter().all(|it| it.status().borrow().state == State::Converged);
        let value = ConstGauge::new(i64::from(settled));
        let settled = "Whether all rows of this node's zone are in place";
        value.encode(encoder.encode_descriptor("kube_zone_settled", settled, None, value.metric_type())?)
    }
}
