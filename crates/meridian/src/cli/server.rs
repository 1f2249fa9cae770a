//! `meridian server`: starts and stops the server of the network and load-balancer APIs on OVN.

mod balancers;
mod credentials;
mod nova;
mod ovn;
mod served;
mod shown;
mod sockets;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use api::BalancerRoleSet;
use api::fleet::Fleet;
use api::http::{Api, Lists};
use api::northbound::{Northbound, Options, OvnView};
use api::nova::NovaCounts;
use api::settings;
use api::snapshot::Ability;
use api::store::{Store, StoreError, Url, private};
use api::world::Outside;
use central::Database;
use prometheus_client::registry::Registry;
use reconcile::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::print;
use crate::admin::server::AdminSocket;
use crate::cli::given;
use crate::config::{AuthMode, BalancerRoleMode, Config, Origin, Override, Server};
use crate::failure::{EXIT_CODES, Exit, Failure, Outcome};
use crate::process::Process;
use crate::telemetry::LogControl;
use crate::{admin, metrics, notify};
use balancers::BalancerMetrics;
use credentials::{credentials, keystone, secret_of};
pub(super) use credentials::{read, secret};
use nova::NovaMetrics;
pub(crate) use ovn::client_config;
use served::ServedApis;
use shown::Shown;
use sockets::Sockets;

/// Run the network and the load-balancer API on OVN
///
/// Serves the Neutron v2.0 and Octavia v2 APIs and keeps OVN's Northbound database in line with the API's objects. The server answers a
/// request when it has stored it; the database follows. While the database is unreachable, the server still accepts requests.
///
/// The server keeps its state in SQLite in the data directory, or in PostgreSQL. Several servers may share one PostgreSQL and one
/// Northbound database: all of them answer, one of them writes. On SIGINT and SIGTERM the server answers the requests in progress and
/// exits.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Args {
    /// Start an OVN central (two ovsdb-servers, ovn-northd) in the data directory; it ends with the server
    #[arg(long)]
    dev: bool,
    /// Keep the server's files in this directory [default: /var/lib/meridian, or .meridian with --dev]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Serve the network API at this address [default: 127.0.0.1:9696]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Serve the load-balancer API at this address; "none" turns it off [default: 127.0.0.1:9876]
    #[arg(long, value_name = "ADDRESS")]
    lb_listen: Option<String>,
    /// Keep state in this database: sqlite:///FILE or postgres://USER@HOST/DATABASE [default: api.db in the data directory]
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// OVN Northbound servers: unix:PATH, tcp:IP:PORT, ssl:IP:PORT, separated by commas
    #[arg(long, value_name = "REMOTES", conflicts_with = "dev")]
    nb: Option<String>,
    /// OVN Southbound servers, in the same form
    #[arg(long, value_name = "REMOTES", conflicts_with = "dev")]
    sb: Option<String>,
    /// Authenticate API clients this way
    #[arg(long, value_name = "MODE")]
    auth: Option<AuthMode>,
    /// Serve /metrics and /health over HTTP at this address [default: 127.0.0.1:9697]
    #[arg(long, value_name = "ADDRESS")]
    metrics_listen: Option<String>,
    /// Listen for requests of `meridian status` on this socket [default: admin.sock in the data directory]
    #[arg(long, value_name = "PATH")]
    admin_socket: Option<String>,
}

impl Args {
    pub(super) fn overrides(&self) -> Vec<Override> {
        let flags = [
            given("server.data_dir", "--data-dir", self.data_dir.clone()),
            given("server.listen", "--listen", self.listen.clone()),
            given("server.load_balancer_listen", "--lb-listen", self.lb_listen.clone()),
            given("server.database", "--database", self.database.clone()),
            given("server.nb", "--nb", self.nb.clone()),
            given("server.sb", "--sb", self.sb.clone()),
            given("server.auth", "--auth", self.auth.map(AuthMode::word)),
            given("metrics.listen", "--metrics-listen", self.metrics_listen.clone()),
            given("admin.socket", "--admin-socket", self.admin_socket.clone()),
        ];
        flags.into_iter().flatten().collect()
    }
}

/// The default address for metrics.
const METRICS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9697);
/// The name of the database file within the data directory.
const DATABASE: &str = "api.db";
/// Time limit for OVN's databases at the start; after it the API listens without them.
const FIRST_LOOK: Duration = Duration::from_secs(3);
/// Time limit for requests in progress after the signal to stop.
const DRAIN: Duration = Duration::from_secs(10);

/// Starts the parts of the server in the order of their dependencies, and stops them in the reverse order.
pub(super) async fn run(args: &Args, config: &Config, log: LogControl) -> Outcome {
    let server = &config.server;
    let signals = |kind| {
        signal(kind).map_err(|error| Failure::new(Exit::Local, error).while_("cannot listen for signals"))
    };
    let (mut interrupt, mut terminate) =
        (signals(SignalKind::interrupt())?, signals(SignalKind::terminate())?);
    let keystone = keystone(server)?;
    let auth = credentials(args.dev, server, keystone.clone())?;
    let nova = nova::client(server, keystone)?;
    for address in
        [Some(server.listen.value), server.load_balancer_listen.value.address()].into_iter().flatten()
    {
        auth.check_listen(address, server.allow_remote_noauth.value).map_err(|error| {
            Failure::new(Exit::Usage, error)
                .try_("--auth keystone, or allow_remote_noauth = true in [server]")
        })?;
    }
    let mut settings = config.network.settings().unwrap_or_default();
    if settings.dns_servers.is_empty() {
        settings.dns_servers = host_resolvers();
    }
    if !args.dev {
        ovn::check_named(server)?;
    }
    // The sockets are bound first: a server that cannot listen must not become the writer of the Northbound.
    let sockets = Sockets::bind(server, config.metrics.listen.value.unwrap_or(METRICS)).await?;
    let address = sockets.network.probe.address;
    let dir = data_dir(args, server);
    create_data_dir(&dir)?;
    let mut central = match args.dev {
        true => Some(ovn::start_central(&dir).await?),
        false => None,
    };
    let nb = client_config(config, Database::Northbound, &server.nb, central.as_ref())?;
    let sb = client_config(config, Database::Southbound, &server.sb, central.as_ref())?;

    let (outside, seen) = watch::channel(Arc::new(Outside { settings, ..Outside::default() }));
    let url = store_url(server, &dir)?;
    let store = Store::open(&url, seen.clone()).await.map_err(|error| store_failure(&url, error))?;
    // The admin socket follows the store: if another process uses these files, the error of the store names it.
    let socket = config.admin.socket.value.clone().unwrap_or_else(|| dir.join(admin::SERVER_SOCKET));
    let admin_socket = AdminSocket::bind(&socket).await?;
    let mut registry = Registry::default();
    let counts = reconcile::Metrics::register(&mut registry);
    let settings = Arc::new(seen.borrow().settings.clone());
    let ovn = OvnView::open(nb, sb, settings.agent_down_time, &store.world());
    task::keep("ability", follow_ability(ovn.northbound().clone(), outside.clone()));
    task::keep("fleet", follow_fleet(ovn.fleet(), outside));
    let mut options = Options { metrics: counts, ..Options::default() };
    options.timing.resync = Duration::from_secs(settings.resync_interval.into());
    let northbound = Northbound::start(&ovn, settings, store.subscribe(), Arc::new(store.clone()), options)
        .await
        .map_err(|error| {
            Failure::new(Exit::Local, error).while_("cannot start the thread that writes the Northbound")
        })?;
    let (placing, repairing) =
        api::placements::start(store.clone(), seen.clone(), ovn.northbound(), northbound.writer());
    let repairing = task::keep("placing", repairing);
    let (removal, removing) =
        api::balancer_removal::start(store.clone(), ovn.report(), ovn.northbound(), northbound.writer());
    let removing = task::keep("balancer-removal", removing);
    let (metadata, keeping) =
        api::metadata_ports::start(store.clone(), seen.clone(), ovn.northbound(), northbound.writer());
    let keeping = task::keep("metadata-ports", keeping);
    let nova_counts = NovaCounts::default();
    let nova = nova.map(|client| {
        let (handle, telling) = api::nova::start(
            client,
            store.clone(),
            seen.clone(),
            &ovn,
            northbound.writer(),
            nova_counts.clone(),
        );
        (handle, task::keep("nova", telling))
    });
    let (nova, telling) = nova.unzip();
    task::keep("adopted", api::northbound::forget_adopted(store.clone(), northbound.spent()));
    // The first request must find the chassis. Without them no availability zone is known and no port can be bound.
    let first_look = async {
        let _ = ovn.synced().await;
        let _ = seen.clone().wait_for(|outside| outside.fleet == **ovn.fleet().borrow()).await;
    };
    if tokio::time::timeout(FIRST_LOOK, first_look).await.is_err() {
        tracing::warn!("cannot read OVN's databases within {FIRST_LOOK:?}; the API listens without them");
    }

    let shown = Shown {
        ovn: ovn.clone(),
        store: store.clone(),
        url: url.clone(),
        northbound: northbound.clone(),
        loops: [northbound.handle(), &placing, &removal, &metadata]
            .into_iter()
            .chain(&nova)
            .cloned()
            .collect(),
    };
    let balancers = BalancerMetrics { store: store.clone(), report: ovn.report() };
    let process = Process::over(registry, "server", log, shown, |registry| {
        registry.register_collector(Box::new(balancers));
        registry.register_collector(Box::new(NovaMetrics(nova_counts)));
    });
    metrics::start(sockets.metrics, process.clone());
    let _admin_socket = admin_socket.start(process);

    let closing = store.clone();
    let api = Arc::new(Api {
        store,
        report: ovn.report(),
        outside: seen,
        auth,
        applied: northbound.applied(),
        lists: Lists::default(),
        balancer_roles: match server.load_balancer_roles.value {
            BalancerRoleMode::General => BalancerRoleSet::General,
            BalancerRoleMode::Octavia => BalancerRoleSet::Own,
        },
    });
    let (mut served, probes) =
        ServedApis::start(sockets.network, sockets.load_balancer, &api, server.limits());
    print(&probes.lines())?;
    tracing::info!(%address, store = %url, "the network API listens");
    if let Some(address) = probes.load_balancer_address() {
        tracing::info!(%address, "the load-balancer API listens");
    }
    notify::ready(&format!("listening on {address}"));

    let mut watchdog = notify::Watchdog::new();
    let outcome = tokio::select! {
        () = watchdog.feed_while(|| probes.live()) => Ok(()),
        ended = served.ended() => Err(Failure::told(Exit::Local, ended)),
        failure = ovn::watch_central(&mut central) => Err(failure),
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
    };
    task::stopping();
    notify::stopping();
    if tokio::time::timeout(DRAIN, served.drain()).await.is_err() {
        tracing::warn!("requests were still in progress after {DRAIN:?}; closing their connections");
    }
    northbound.handle().stop();
    placing.stop();
    removal.stop();
    metadata.stop();
    nova.iter().for_each(Handle::stop);
    let telling = async {
        if let Some(telling) = telling {
            let _ = telling.await;
        }
    };
    let _ = tokio::time::timeout(DRAIN, async { tokio::join!(repairing, removing, keeping, telling) }).await;
    if let Err(fault) = closing.close().await {
        tracing::warn!(%fault, "the database is not closed; the next start reads its log");
    }
    outcome
}

/// Updates `outside` whenever the chassis change, so that requests and the scheduler use the current ones.
async fn follow_fleet(mut fleet: watch::Receiver<Arc<Fleet>>, outside: watch::Sender<Arc<Outside>>) {
    while fleet.changed().await.is_ok() {
        let fleet = Fleet::clone(&fleet.borrow_and_update());
        outside.send_modify(|outside| {
            *outside = Arc::new(Outside { fleet, ..Outside::clone(outside) });
        });
    }
}

/// Updates `outside` with the abilities of the Northbound's schema, which an upgrade of OVN may change.
async fn follow_ability(northbound: ovsdb::Client, outside: watch::Sender<Arc<Outside>>) {
    let mut status = northbound.status();
    loop {
        let ability = northbound.schema().map(|schema| Ability::of(&schema));
        outside.send_if_modified(|outside| {
            let is_new = ability.is_some() && outside.ability != ability;
            if is_new {
                *outside = Arc::new(Outside { ability, ..Outside::clone(outside) });
            }
            is_new
        });
        if status.changed().await.is_err() {
            return;
        }
    }
}

pub(super) fn store_failure(url: &Url, error: StoreError) -> Failure {
    let exit = if error.is_transient() { Exit::Connect } else { Exit::Local };
    Failure::new(exit, error).while_(format!("cannot use {url}")).try_(
        "check that the database is running and that its user may create tables; --database for another one",
    )
}

/// The resolvers of this host, for instances whose subnet and operator name none. Instances cannot reach the stub of systemd-resolved, so
/// the function then returns the resolvers behind it.
fn host_resolvers() -> Vec<std::net::IpAddr> {
    let files = ["/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"];
    let read = |file| settings::resolvers(&std::fs::read_to_string(file).unwrap_or_default());
    files.into_iter().map(read).find(|found| !found.is_empty()).unwrap_or_default()
}

/// The data directory. With `--dev` it is by default one in the working directory, because developers are seldom root.
fn data_dir(args: &Args, server: &Server) -> PathBuf {
    match (&server.data_dir.origin, args.dev) {
        (Origin::Default, true) => PathBuf::from(admin::DEV_DIR),
        _ => server.data_dir.value.clone(),
    }
}

pub(super) fn store_url(server: &Server, dir: &Path) -> Outcome<Url> {
    match &server.database.value {
        None => Ok(Url::Sqlite(dir.join(DATABASE))),
        Some(url) => {
            let url: Url = url.expose().parse().map_err(|error| {
                Failure::new(Exit::Usage, error)
                    .while_(format!("server.database ({})", server.database.origin))
            })?;
            Ok(match secret_of("database_password_file", &server.database_password_file)? {
                Some(password) => url.with_password(password),
                None => url,
            })
        }
    }
}

/// Creates the data directory with a mode that only the server's user can read.
pub(super) fn create_data_dir(dir: &Path) -> Outcome {
    private::create_dir(dir).map_err(|error| {
        Failure::new(Exit::Local, error)
            .while_(format!("cannot create the data directory {}", dir.display()))
            .try_("another one with --data-dir")
    })
}
