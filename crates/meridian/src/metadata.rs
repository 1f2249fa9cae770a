//! The metadata agent and its proxy as processes.

use std::fmt;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use metadata_proxy::request::SharedSecret;
use metadata_proxy::{Config as ProxyConfig, Proxy};
use node::metadata::Agent;
use node::metadata::config::Config;
use ovn::sb::{Chassis, ChassisPrivate, DatapathBinding, PortBinding, SbGlobal};
use ovn::vswitch::{Bridge, Interface, OpenVSwitch, Port};
use ovsdb::{Client, Table};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use reconcile::{Metrics, State};
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::{Exit, Failure, Outcome};
use crate::process::{Answering, Database, Process, Subject, parse_address};
use crate::telemetry::LogControl;
use crate::{admin, metrics, notify};

/// The lock of the agent, an abstract socket: its name belongs to the network namespace, and the kernel frees it.
const LOCK: &str = "meridian-metadata-agent";

/// Runs the agent until SIGINT or SIGTERM.
pub(crate) async fn run_agent(config: Config, log: LogControl) -> Outcome {
    let mut signals = Signals::new()?;
    let _lock = claim()?;
    let socket = config.admin_socket.clone().or_else(usual_socket);
    let listen = config.metrics_listen;
    let mut registry = Registry::default();
    let counts = Metrics::register(&mut registry);
    let agent = Arc::new(Agent::start(config, counts));
    let running = RunningAgent(Arc::clone(&agent));
    let process = Process::over(registry, "metadata-agent", log, running.clone(), |registry| {
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
        // Problems are no reason to wait: a start that does not end would be repeated, and nothing were better for it.
        if !ready && now.last_success.is_some() && now.state != State::Working {
            ready = true;
            notify::ready(&told);
        } else {
            notify::status(&told);
        }
        tokio::select! {
            () = signals.end() => break,
            changed = status.changed() => if changed.is_err() { break },
            () = watchdog.feed() => {}
        }
    }
    task::stopping();
    notify::stopping();
    agent.stop().await;
    Ok(())
}

/// Runs the proxy until SIGINT or SIGTERM.
pub(crate) async fn run_proxy(config: Config) -> Outcome {
    let mut signals = Signals::new()?;
    let secret = match &config.secret_file {
        Some(path) => read_secret(path)?,
        None => config.secret,
    };
    let proxy = Proxy::open(ProxyConfig {
        control: config.control_socket,
        nova: config.nova,
        secret,
        timeouts: config.timeouts,
        limits: config.limits,
        rate: config.rate_limit_enabled.then_some(config.rate),
    });
    let proxy = proxy.map_err(|error| Failure::new(Exit::Local, error))?;
    let mut watchdog = notify::Watchdog::new();
    notify::ready("waits for the agent");
    let mut running = std::pin::pin!(proxy.run());
    loop {
        tokio::select! {
            () = signals.end() => break,
            () = &mut running => break,
            () = watchdog.feed() => {}
        }
    }
    task::stopping();
    notify::stopping();
    Ok(())
}

fn read_secret(path: &Path) -> Outcome<SharedSecret> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::new(Exit::Usage, error).while_(format!("cannot read shared_secret_file {}", path.display()))
    })?;
    // Editors end a file with a line end, which no secret has.
    Ok(SharedSecret::new(text.trim_end_matches(['\r', '\n']).to_owned()))
}

fn claim() -> Outcome<UnixListener> {
    let failed =
        |error| Failure::new(Exit::Local, error).while_("cannot take the lock of the metadata agent");
    let address = SocketAddr::from_abstract_name(LOCK).map_err(failed)?;
    UnixListener::bind_addr(&address).map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            Failure::told(Exit::Local, "another metadata agent runs on this node").try_("stopping it first")
        }
        _ => failed(error),
    })
}

/// The usual socket, where its directory is there: a package or a unit makes it.
fn usual_socket() -> Option<PathBuf> {
    let path = Path::new(admin::METADATA_SOCKET);
    path.parent().is_some_and(Path::is_dir).then(|| path.to_owned())
}

pub(crate) struct Signals(tokio::signal::unix::Signal, tokio::signal::unix::Signal);

impl Signals {
    pub(crate) fn new() -> Outcome<Self> {
        let failed = |error| Failure::new(Exit::Local, error).while_("cannot listen for signals");
        let of = |kind| signal(kind).map_err(failed);
        Ok(Signals(of(SignalKind::interrupt())?, of(SignalKind::terminate())?))
    }

    pub(crate) async fn end(&mut self) {
        tokio::select! {
            _ = self.0.recv() => {}
            _ = self.1.recv() => {}
        }
    }
}

/// A running agent, for those who ask.
#[derive(Clone, Debug)]
struct RunningAgent(Arc<Agent>);

impl RunningAgent {
    fn status(&self) -> reconcile::Status {
        self.0.handle().status().borrow().clone()
    }
}

impl Subject for RunningAgent {
    fn clients(&self) -> Vec<Client> {
        self.0.databases()
    }

    fn databases(&self) -> Vec<Database> {
        fn of<T: Table>(snapshot: &ovsdb::Snapshot) -> (String, u64) {
            (T::TABLE.to_owned(), snapshot.table::<T>().len() as u64)
        }
        let rows = |client: &Client| {
            let s = &client.snapshot();
            match client.database() {
                "Open_vSwitch" => {
                    [of::<OpenVSwitch>(s), of::<Bridge>(s), of::<Port>(s), of::<Interface>(s)].to_vec()
                }
                _ => [
                    of::<SbGlobal>(s),
                    of::<Chassis>(s),
                    of::<ChassisPrivate>(s),
                    of::<DatapathBinding>(s),
                    of::<PortBinding>(s),
                ]
                .to_vec(),
            }
        };
        self.clients().iter().map(|client| Database::of(client, rows(client).into_iter().collect())).collect()
    }

    fn healthy(&self) -> bool {
        self.trouble().is_empty()
    }

    fn trouble(&self) -> Vec<String> {
        let status = self.status();
        let waiting = status.waiting_for.iter().map(|what| format!("waits for {what}"));
        let errors = status.problems.iter().filter(|problem| problem.severity == reconcile::Severity::Error);
        waiting.chain(errors.map(ToString::to_string)).collect()
    }

    fn components(&self) -> Vec<reconcile::Status> {
        vec![self.status()]
    }

    fn plan(&self) -> Answering<'_> {
        Box::pin(async {
            let plan = self.0.plan().await.map_err(|error| error.to_string())?;
            serde_json::to_value([plan]).map_err(|error| error.to_string())
        })
    }

    fn explain<'a>(&'a self, subject: &'a str) -> Answering<'a> {
        Box::pin(async move {
            let ip = parse_address(subject)?;
            Ok(serde_json::json!({ "ip": ip, "text": self.0.explain(ip) }))
        })
    }
}

impl Collector for RunningAgent {
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
        Ok(())
    }
}
