//! The BGP agent as a process: it is started, answered for and ended here.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use node::bgp::Agent;
use node::bgp::agent::vswitch;
use node::bgp::config::{Config, FrrBackend};
use node::bgp::desired::Reason;
use node::bgp::dry_run::DryRun;
use node::bgp::explain::Vlan;
use node::bgp::health::Promise;
use node::bgp::sole::Sole;
use node::frr;
use node::part::kind::Kind;
use node::plane::view::Look;
use node::plane::{self, Plane};
use ovn::vswitch::{Bridge, Interface, OpenVSwitch, Port};
use ovn::{nb, sb};
use ovsdb::{Client, Table};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use reconcile::{Metrics, Preview, State};
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::{Exit, Failure, Outcome};
use crate::process::{Answering, Database, Process, Subject, parse_address};
use crate::telemetry::LogControl;
use crate::{admin, metrics, notify};

/// Runs the agent until SIGINT or SIGTERM.
pub(crate) async fn run(command: &'static str, config: Config, log: LogControl) -> Outcome {
    let signals = |kind| {
        signal(kind).map_err(|error| Failure::new(Exit::Local, error).while_("cannot listen for signals"))
    };
    let (mut interrupt, mut terminate) =
        (signals(SignalKind::interrupt())?, signals(SignalKind::terminate())?);
    let _sole = match config.dry_run {
        true => None,
        false => Some(Sole::claim().await.map_err(|error| Failure::new(Exit::Local, error))?),
    };
    let (plane, switch) = open(&config)?;
    let (listen, socket) = (config.metrics_listen, config.admin_socket.clone().or_else(usual_socket));
    let (changes, view) = (plane.changes(), plane.view());
    let mut registry = Registry::default();
    let counts = Metrics::register(&mut registry);
    let agent = if config.dry_run {
        Agent::start(config, switch, DryRun::new(plane), Some(view), changes, counts)
    } else {
        Agent::start(config, switch, plane, Some(view), changes, counts)
    };
    let agent = Arc::new(agent);
    let running = Running(Arc::clone(&agent));
    let process = Process::over(registry, command, log, running.clone(), |registry| {
        registry.register_collector(Box::new(running));
    });
    if let Some(listen) = listen {
        metrics::serve(listen, process.clone()).await?;
    }
    let _socket = match &socket {
        Some(path) => Some(admin::server::serve(path, process).await?),
        None => None,
    };
    let mut status = agent.handle().status();
    let mut watchdog = notify::Watchdog::new();
    let mut ready = false;
    notify::status("connecting");
    loop {
        let now = status.borrow_and_update().clone();
        let told = match &now.waiting_for {
            Some(what) => format!("waits for {what}"),
            None => format!("{} of {} objects in place, {} problems", now.have, now.want, now.problems.len()),
        };
        // Who waits for us waits for the node's addresses to be reachable. What is wrong is no reason to wait, however bad it is: a
        // start that does not end would be begun again, and nothing were better for it.
        if !ready && now.last_success.is_some() && now.state != State::Working {
            ready = true;
            notify::ready(&told);
        } else {
            notify::status(&told);
        }
        tokio::select! {
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
            changed = status.changed() => if changed.is_err() { break },
            () = watchdog.feed() => {}
        }
    }
    task::stopping();
    notify::stopping();
    agent.stop().await;
    Ok(())
}

/// Time limit of a preview: the agent connects, reads the databases and the node, and plans.
const PREVIEW_LIMIT: Duration = Duration::from_secs(15);

/// The plan of the agent's first run. Nothing is changed.
pub(crate) async fn preview(config: Config) -> Outcome<Preview> {
    let (plane, switch) = open(&config)?;
    let (changes, view) = (plane.changes(), plane.view());
    let counts = Metrics::register(&mut Registry::default());
    let agent = Agent::start(config, switch, DryRun::unlogged(plane), Some(view), changes, counts);
    let mut status = agent.handle().status();
    let plan = tokio::time::timeout(PREVIEW_LIMIT, async {
        // FRR is asked beside the loop. A plan before the end of the first run would not know FRR's answer.
        let has_run = |now: &reconcile::Status| {
            now.waiting_for.is_none() && now.last_run.is_some() && now.state != State::Working
        };
        let _ = status.wait_for(has_run).await;
        agent.plan().await
    });
    let plan = plan.await;
    let waiting_for = agent.handle().status().borrow().waiting_for.clone();
    task::stopping();
    agent.stop().await;
    let reason = match plan {
        Ok(Ok(plan)) => return Ok(plan),
        Ok(Err(error)) => error.to_string(),
        Err(_) => match waiting_for {
            Some(what) => format!("the agent waits for {what}"),
            None => "the agent has not finished its first run".to_owned(),
        },
    };
    let reason = format!("no plan within {} s: {reason}", PREVIEW_LIMIT.as_secs());
    Err(Failure::told(Exit::Connect, reason).try_("again with -v, which logs each connection"))
}

/// Opens the node's data plane and the connection to its switch.
fn open(config: &Config) -> Outcome<(Plane, Client)> {
    let plane = Plane::open(places(config)).map_err(|error| {
        Failure::new(Exit::Local, error)
            .while_("cannot read this node's network configuration")
            .try_("to run it as a user that may, as root or with CAP_NET_ADMIN")
    })?;
    let switch = vswitch(config);
    Ok((plane.with_switch(switch.clone()), switch))
}

/// The usual socket, where its directory is there: a package or a unit makes it.
fn usual_socket() -> Option<PathBuf> {
    let path = Path::new(admin::NODE_SOCKET);
    path.parent().is_some_and(Path::is_dir).then(|| path.to_owned())
}

/// Where the parts of the data plane are.
fn places(config: &Config) -> plane::Config {
    let rundir = config.ovs_rundir.clone().or_else(|| std::env::var_os("OVS_RUNDIR").map(Into::into));
    let usual = plane::Config::default();
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

/// A running agent, for those who ask.
#[derive(Clone, Debug)]
struct Running(Arc<Agent>);

fn rows(client: &Client) -> BTreeMap<String, u64> {
    fn of<T: Table>(snapshot: &ovsdb::Snapshot) -> (String, u64) {
        (T::TABLE.to_owned(), snapshot.table::<T>().len() as u64)
    }
    let s = &client.snapshot();
    match client.database() {
        "Open_vSwitch" => [of::<OpenVSwitch>(s), of::<Bridge>(s), of::<Port>(s), of::<Interface>(s)].into(),
        "OVN_Northbound" => [
            of::<nb::NbGlobal>(s),
            of::<nb::LogicalSwitch>(s),
            of::<nb::LogicalSwitchPort>(s),
            of::<nb::LogicalRouter>(s),
            of::<nb::LogicalRouterPort>(s),
            of::<nb::Nat>(s),
            of::<nb::LoadBalancer>(s),
            of::<nb::LoadBalancerGroup>(s),
        ]
        .into(),
        _ => [
            of::<sb::Chassis>(s),
            of::<sb::DatapathBinding>(s),
            of::<sb::PortBinding>(s),
            of::<sb::LoadBalancer>(s),
            of::<sb::LogicalDpGroup>(s),
            of::<sb::Encap>(s),
        ]
        .into(),
    }
}

impl Subject for Running {
    fn clients(&self) -> Vec<Client> {
        self.0.databases()
    }

    fn databases(&self) -> Vec<Database> {
        self.clients().iter().map(|client| Database::of(client, rows(client))).collect()
    }

    fn healthy(&self) -> bool {
        self.trouble().is_empty()
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

    fn components(&self) -> Vec<reconcile::Status> {
        vec![self.0.handle().status().borrow().clone()]
    }

    fn plan(&self) -> Answering<'_> {
        Box::pin(async {
            let plan = self.0.plan().await.map_err(|error| error.to_string())?;
            serde_json::to_value([plan]).map_err(|error| error.to_string())
        })
    }

    fn explain<'a>(&'a self, subject: &'a str) -> Answering<'a> {
        Box::pin(async move {
            let told = self.0.explain(parse_address(subject)?).await?;
            serde_json::to_value(told).map_err(|error| error.to_string())
        })
    }
}

impl Collector for Running {
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
        gauges(&mut encoder, "bgp_objects", "What else is exposed or wired", "kind", kinds)?;
        gauges(&mut encoder, "bgp_vlans", "VLANs, by what makes their devices", "made_by", vlans)?;
        let conflicts = [("all", conflicts.count())];
        gauges(
            &mut encoder,
            "bgp_conflicts",
            "Addresses and subnets that are wanted in two places",
            "kind",
            conflicts,
        )?;
        gauges(&mut encoder, "bgp_problems", "What is wrong, by its code", "code", by_code)?;
        self.0.look().map_or(Ok(()), |look| of_plane(&mut encoder, &look))
    }
}

/// What the last look at the data plane found.
fn of_plane(encoder: &mut DescriptorEncoder<'_>, look: &Look) -> Result<(), fmt::Error> {
    let help = "The data plane, by kind: what is wanted, what of that is there, and changes to be made";
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
    let help = "Addresses and prefixes that were withdrawn a moment ago, and are still carried";
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
