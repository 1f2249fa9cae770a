//! The metadata agent as a role of a process.

use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use metadata_proxy::counts::Counts;
use node::connections::NodeConnections;
use node::metadata::Agent;
use node::metadata::config::Config;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use reconcile::{Handle, Metrics};

use super::Role;
use crate::process::Answering;

/// The running agent.
#[derive(Clone, Debug)]
pub(super) struct RunningMetadata(Arc<Agent>);

impl RunningMetadata {
    /// Starts the agent.
    pub(super) fn start(config: Config, connections: &NodeConnections, counts: Metrics) -> Self {
        RunningMetadata(Arc::new(Agent::start(config, connections, counts)))
    }
}

impl Role for RunningMetadata {
    fn handle(&self) -> &Handle {
        self.0.handle()
    }

    fn trouble(&self) -> Vec<String> {
        let status = self.handle().status().borrow().clone();
        let waiting = status.waiting_for.iter().map(|what| format!("waits for {what}"));
        let errors = status.problems.iter().filter(|problem| problem.severity == reconcile::Severity::Error);
        waiting.chain(errors.map(ToString::to_string)).collect()
    }

    fn explain(&self, ip: IpAddr) -> Answering<'_> {
        Box::pin(async move { Ok(serde_json::json!({ "ip": ip, "text": self.0.explain(ip) })) })
    }

    fn stop(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.0.stop())
    }
}

/// The counts of the proxy, which has no metrics of its own: it listens on nothing but VMs and its agent.
fn encode_proxy(counts: &Counts, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
    let kind = ConstCounter::new(0_u64).metric_type();
    let help = "Requests of VMs, by the status of the answer";
    let mut family = encoder.encode_descriptor("metadata_requests", help, None, kind)?;
    for (status, count) in &counts.answers {
        ConstCounter::new(*count).encode(family.encode_family(&[("status", status.to_string())])?)?;
    }
    let help = "Searches for the instance behind a request, by their result";
    let mut family = encoder.encode_descriptor("metadata_sources", help, None, kind)?;
    for (result, count) in &counts.sources {
        ConstCounter::new(*count).encode(family.encode_family(&[("result", result.name())])?)?;
    }
    let help = "Requests to Nova, by whether it answered";
    let mut family = encoder.encode_descriptor("metadata_nova_requests", help, None, kind)?;
    for (outcome, count) in [("answered", counts.nova_answers), ("failed", counts.nova_failures)] {
        ConstCounter::new(count).encode(family.encode_family(&[("outcome", outcome)])?)?;
    }
    let (help, unit) = ("Time until Nova's answers, together", Unit::Seconds);
    let family = encoder.encode_descriptor("metadata_nova_answer", help, Some(&unit), kind)?;
    ConstCounter::new(counts.nova_milliseconds as f64 / 1000.0).encode(family)?;
    let connections = ConstGauge::new(i64::try_from(counts.connections).unwrap_or(i64::MAX));
    let help = "Open connections of VMs; with haproxy, 0";
    connections.encode(encoder.encode_descriptor(
        "metadata_connections",
        help,
        None,
        connections.metric_type(),
    )?)
}

impl Collector for RunningMetadata {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let decision = self.0.decision();
        let idle = decision.idle.len();
        let ports: usize = decision.identities.values().map(Vec::len).sum();
        let counts = [
            (
                "metadata_networks",
                "Networks with VMs on this chassis",
                decision.desired.networks.len() - idle,
            ),
            ("metadata_idle_networks", "Networks without VMs that keep their namespace for a while", idle),
            ("metadata_ports", "Ports of instances whose requests are answered", ports),
        ];
        for (name, help, count) in counts {
            let gauge = ConstGauge::new(i64::try_from(count).unwrap_or(i64::MAX));
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        match self.0.proxy_counts() {
            Some(counts) => encode_proxy(&counts, &mut encoder),
            // A proxy that has not connected yet has counted nothing.
            None => Ok(()),
        }
    }
}
