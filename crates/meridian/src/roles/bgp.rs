//! The BGP agent as a role of a process.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use node::bgp::announced::{Announcement, Peer};
use node::bgp::config::{Config, FrrBackend};
use node::bgp::desired::Reason;
use node::bgp::explain::Vlan;
use node::bgp::health::Promise;
use node::bgp::{Agent, PORT_MARK};
use node::connections::NodeConnections;
use node::frr;
use node::part::kind::Kind;
use node::plane::view::Look;
use node::plane::{self, Plane};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;
use reconcile::{DryRun, Handle, Metrics};

use super::Role;
use crate::failure::{Exit, Failure, Outcome};
use crate::process::Answering;

/// The running agent.
#[derive(Clone, Debug)]
pub(super) struct RunningBgp(Arc<Agent>);

impl RunningBgp {
    /// Opens the node's data plane and starts the agent. The steps of a preview are not logged, because its caller prints them.
    pub(super) fn start(
        config: Config,
        connections: &NodeConnections,
        counts: Metrics,
        is_preview: bool,
    ) -> Outcome<Self> {
        let plane = Plane::open(places(&config)).map_err(|error| {
            Failure::new(Exit::Local, error)
                .while_("cannot read this node's network configuration")
                .try_("to run it as a user that may, as root or with CAP_NET_ADMIN")
        })?;
        let plane = plane.with_switch(connections.vswitch().clone());
        let (changes, view) = (plane.changes(), Some(plane.view()));
        let agent = match (config.dry_run, is_preview) {
            (false, _) => Agent::start(config, connections, plane, view, changes, counts),
            (true, false) => Agent::start(config, connections, DryRun::new(plane), view, changes, counts),
            (true, true) => Agent::start(config, connections, DryRun::unlogged(plane), view, changes, counts),
        };
        Ok(RunningBgp(Arc::new(agent)))
    }
}

/// The files and sockets of the data plane.
fn places(config: &Config) -> plane::Config {
    let rundir = config.ovs_rundir.clone().or_else(|| std::env::var_os("OVS_RUNDIR").map(Into::into));
    let usual = plane::Config::new(PORT_MARK);
    plane::Config {
        rt_tables: config.rt_tables.clone(),
        ovs_rundir: rundir.unwrap_or(usual.ovs_rundir),
        port_mark: usual.port_mark,
        frr: frr::Config {
            dir: config.frr_vty_dir.clone(),
            backend: match config.frr_backend {
                FrrBackend::Vty => frr::Backend::Vty,
                FrrBackend::Vtysh => frr::Backend::Vtysh,
            },
            check: config.frr_reconcile_interval,
            vrf: config.bgp_vrf.clone(),
            ..usual.frr
        },
    }
}

impl Role for RunningBgp {
    fn handle(&self) -> &Handle {
        self.0.handle()
    }

    fn trouble(&self) -> Vec<String> {
        self.0.trouble()
    }

    fn promises(&self) -> Vec<Promise> {
        self.0.promises()
    }

    fn vlans(&self) -> Vec<Vlan> {
        self.0.vlans()
    }

    fn announcements(&self) -> Vec<Announcement> {
        self.0.announcements()
    }

    fn peers(&self) -> Vec<Peer> {
        self.0.peers()
    }

    fn explain(&self, ip: IpAddr) -> Answering<'_> {
        Box::pin(async move {
            let told = self.0.explain(ip).await?;
            serde_json::to_value(told).map_err(|error| error.to_string())
        })
    }

    fn stop(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.0.stop())
    }
}

impl Collector for RunningBgp {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let decision = self.0.decision();
        let mut by_rule = BTreeMap::<&'static str, usize>::new();
        for address in decision.addresses.values() {
            let rule = address.reasons.first().map_or("none", Reason::rule);
            *by_rule.entry(rule).or_default() += 1;
        }
        let kinds = [
            ("bridge", decision.bridges.len()),
            ("network", decision.networks.len()),
            ("subnet", decision.subnets.len()),
            ("ndp_proxy", decision.proxies.len()),
        ];
        let (ports, devices): (Vec<_>, Vec<_>) =
            self.0.vlans().into_iter().partition(|vlan| vlan.internal_port);
        let vlans = [("kernel", devices.len()), ("internal_port", ports.len())];
        let status = self.0.handle().status().borrow().clone();
        let conflicts = ["address-conflict", "overlapping-subnet"];
        let conflicts = status.problems.iter().filter(|problem| conflicts.contains(&problem.code.as_str()));
        let mut by_code = BTreeMap::<&str, usize>::new();
        for problem in &status.problems {
            *by_code.entry(&problem.code).or_default() += 1;
        }
        gauges(
            &mut encoder,
            "bgp_addresses",
            "Exposed addresses, by the rule that exposes them",
            "rule",
            by_rule,
        )?;
        gauges(&mut encoder, "bgp_objects", "Subnets, networks and bridges, by kind", "kind", kinds)?;
        gauges(&mut encoder, "bgp_vlans", "VLANs, by the creator of their devices", "made_by", vlans)?;
        let conflicts = [("all", conflicts.count())];
        gauges(&mut encoder, "bgp_conflicts", "Addresses and subnets in conflict", "kind", conflicts)?;
        gauges(&mut encoder, "bgp_problems", "Problems, by code", "code", by_code)?;
        self.0.look().map_or(Ok(()), |look| of_plane(&mut encoder, &look))
    }
}

/// Metrics of the last observation of the data plane.
fn of_plane(encoder: &mut DescriptorEncoder<'_>, look: &Look) -> Result<(), fmt::Error> {
    let help = "Objects of the data plane, by kind: desired, in place, and pending changes";
    let gauge = ConstGauge::new(0_i64).metric_type();
    let mut family = encoder.encode_descriptor("bgp_plane", help, None, gauge)?;
    for kind in Kind::ALL {
        let count = look.counts.of(kind);
        let states = [("desired", count.want), ("actual", count.have), ("pending", count.pending)];
        for (state, count) in states {
            let labels = [("kind", kind.as_str()), ("state", state)];
            number(count).encode(family.encode_family(&labels)?)?;
        }
    }
    let help = "Withdrawn addresses and prefixes whose packets are still forwarded for a while";
    let draining = encoder.encode_descriptor("bgp_draining", help, None, gauge)?;
    number(look.draining).encode(draining)
}

fn number(count: usize) -> ConstGauge<i64> {
    ConstGauge::new(i64::try_from(count).unwrap_or(i64::MAX))
}

fn gauges<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    label: &str,
    values: impl IntoIterator<Item = (&'a str, usize)>,
) -> Result<(), fmt::Error> {
    let mut family = encoder.encode_descriptor(name, help, None, ConstGauge::new(0_i64).metric_type())?;
    for (value, count) in values {
        number(count).encode(family.encode_family(&[(label, value)])?)?;
    }
    Ok(())
}
