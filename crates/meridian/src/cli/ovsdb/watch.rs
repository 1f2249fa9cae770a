//! `meridian ovsdb watch`: prints every change of some tables, across restarts and leader changes.

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::Duration;

use ovsdb::client::{Client, ClientConfig, Feed, FeedEvent, OpenError};
use ovsdb::model::Misfit;
use ovsdb::replica::{Columns, Model};
use ovsdb::session::{CloseReason, Progress, Refusal};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use super::connection::{self, Target};
use super::events;
use super::watched::{EventCounters, Watched};
use crate::cli::given;
use crate::config::{Config, Override};
use crate::failure::{EXIT_CODES, Exit, Failure, Outcome};
use crate::process::Process;
use crate::telemetry::LogControl;
use crate::{admin, metrics, notify};

/// Print every change of tables as it happens
///
/// Prints the existing rows as inserts, then a line that marks their end, then each change once and in order. The command survives restarts
/// of the server and changes of leader: afterwards it prints the difference, so that no change is lost or printed twice. A reader that is
/// much too slow gets one merged change instead of each. Ends on SIGINT and SIGTERM.
///
/// Without --wait, the command fails if no server can be reached at the start. A server that is lost later never ends it.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("{}\n\n{EXIT_CODES}", events::FORMAT))]
pub(super) struct Args {
    /// The database, e.g. OVN_Southbound
    database: String,
    /// The tables, e.g. Port_Binding
    #[arg(value_name = "TABLE", required = true)]
    tables: Vec<String>,
    /// Wait for the server at the start too, without a time limit
    #[arg(long)]
    wait: bool,
    /// Record the session to a file, for `meridian ovsdb replay`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Serve /metrics and /health over HTTP at this address, e.g. 127.0.0.1:9697
    #[arg(long, value_name = "ADDRESS")]
    metrics_listen: Option<String>,
    /// Listen for requests of `meridian status` on this socket
    #[arg(long, value_name = "PATH")]
    admin_socket: Option<String>,
    /// Probe a silent server after this time; 0: never
    #[arg(long, value_name = "TIME")]
    probe_interval: Option<String>,
    #[command(flatten)]
    connection: connection::ConnectionArgs,
}

impl Args {
    pub(super) fn overrides(&self) -> Vec<Override> {
        let mut flags = self.connection.overrides();
        flags.extend(given("metrics.listen", "--metrics-listen", self.metrics_listen.clone()));
        flags.extend(given("admin.socket", "--admin-socket", self.admin_socket.clone()));
        flags.extend(given("ovsdb.probe_interval", "--probe-interval", self.probe_interval.clone()));
        flags
    }
}

/// The monitored tables of a database, with all columns of the server's schema.
pub(super) fn model(database: &str, tables: &[String]) -> Model {
    tables.iter().fold(Model::new(database), |model, table| model.dynamic(table.as_str(), Columns::All))
}

pub(super) async fn run(args: &Args, config: &Config, log: LogControl) -> Outcome {
    let stopped = stop_signal()?;
    let mut tables = args.tables.clone();
    tables.sort();
    tables.dedup();

    let target = Target::new(&config.ovsdb, Some(&args.database))?;
    let client = Client::open(client_config(args, config, &target)?, model(&args.database, &tables));
    let feed = client.subscribe_all();
    let counters = EventCounters::default();
    let watched = Watched::new(client.clone(), tables.clone());
    let process = Process::new("ovsdb watch", log, watched, |registry| counters.register(registry));
    if let Some(listen) = config.metrics.listen.value {
        metrics::serve(listen, process.clone()).await?;
    }
    let _socket = match &config.admin.socket.value {
        Some(path) => Some(admin::server::serve(path, process).await?),
        None => None,
    };
    notify::status(&format!("connecting to {}", args.database));
    let watch = Watch { args, target: &target, client: &client, tables, counters };
    let outcome = tokio::select! {
        outcome = watch.print(feed) => outcome,
        failure = watch.first_sync() => Err(failure),
        _ = stopped => Ok(()),
    };
    notify::stopping();
    client.close().await;
    outcome
}

/// The time limit of a stop if the reader does not read the output.
const GRACE: Duration = Duration::from_secs(2);

/// Resolves on SIGINT and SIGTERM. Printing blocks while the reader does not read. So another thread waits for the signals, and ends the
/// process if this one cannot.
fn stop_signal() -> Outcome<oneshot::Receiver<()>> {
    let local = |error| Failure::new(Exit::Local, error).while_("cannot listen for signals");
    let mut interrupt = signal(SignalKind::interrupt()).map_err(local)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(local)?;
    let (stop, stopped) = oneshot::channel();
    task::spawn("signals", async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        let _ = stop.send(());
        tokio::time::sleep(GRACE).await;
        std::process::exit(0);
    });
    Ok(stopped)
}

fn client_config(args: &Args, config: &Config, target: &Target) -> Outcome<ClientConfig> {
    let mut client = ClientConfig::new(target.remotes.clone());
    client.dialer = target.dialer.clone();
    client.session.leader_only = target.leader_only;
    client.session.connect_timeout = config.ovsdb.timeout.value;
    client.session.probe_interval = config.ovsdb.probe_interval.value;
    client.max_message = config.ovsdb.max_message.value.saturating_mul(1 << 20);
    if let Some(file) = &args.record {
        // If recording fails, the client continues without it. So an unwritable file is reported here, where the command can still fail.
        std::fs::File::create(file).map_err(|error| {
            Failure::new(Exit::Local, error).while_(format!("cannot record to {}", file.display()))
        })?;
        // The remotes keep their order, so that a replay dials the same ones.
        client.session.shuffle = false;
        client.record = Some(file.clone());
    }
    Ok(client)
}

struct Watch<'a> {
    args: &'a Args,
    target: &'a Target,
    client: &'a Client,
    tables: Vec<String>,
    counters: EventCounters,
}

impl Watch<'_> {
    /// Prints changes until the client ends or the reader closes the output.
    async fn print(&self, mut feed: Feed) -> Outcome {
        let mut watchdog = notify::Watchdog::new();
        let mut ready = false;
        loop {
            let event = tokio::select! {
                () = watchdog.feed() => continue,
                event = feed.next() => event,
            };
            let Some(event) = event else { return Ok(()) };
            let mut out = BufWriter::new(std::io::stdout().lock());
            let seen = |event| self.counters.count(event);
            let written = match &event {
                FeedEvent::Changed { delta, lagged, .. } => {
                    if *lagged && ready {
                        tracing::warn!("the reader is slow; its changes were merged");
                    }
                    events::changes(&mut out, &self.tables, delta, seen)
                }
                FeedEvent::Synced { .. } => {
                    seen("synced");
                    events::state(&mut out, "synced", None)
                }
                FeedEvent::Reconnected { .. } => {
                    seen("reconnected");
                    events::state(&mut out, "reconnected", None)
                }
                FeedEvent::Disconnected { reason } => {
                    seen("disconnected");
                    events::state(&mut out, "disconnected", Some(&reason.to_string()))
                }
            };
            written.and_then(|()| out.flush()).map_err(Failure::output)?;
            drop(out);
            let database = &self.args.database;
            match event {
                FeedEvent::Synced { .. } | FeedEvent::Reconnected { .. } => {
                    let status = format!("following {database}");
                    if ready {
                        notify::status(&status)
                    } else {
                        notify::ready(&status)
                    }
                    ready = true;
                }
                FeedEvent::Disconnected { reason } => {
                    notify::status(&format!("disconnected from {database}: {reason}"));
                }
                FeedEvent::Changed { .. } => {}
            }
        }
    }

    /// Returns the reason if the first sync cannot complete. Never returns after a first sync.
    async fn first_sync(&self) -> Failure {
        let mut status = self.client.status();
        let sync = self.client.synced();
        tokio::pin!(sync);
        let timeout = self.target.dialer.timeout;
        let (mut limit, mut received) = (tokio::time::Instant::now() + timeout, 0);
        loop {
            let failure = tokio::select! {
                synced = &mut sync => match synced {
                    Ok(_) => return std::future::pending().await,
                    Err(OpenError::Misfit(misfits)) => self.misfit(&misfits).await,
                    Err(error) => Failure::new(Exit::Connect, error),
                },
                changed = status.changed() => {
                    if changed.is_err() {
                        return Failure::told(Exit::Connect, "the client ended");
                    }
                    let (rounds, last, counters) = {
                        let status = status.borrow_and_update();
                        (status.failed_rounds, status.last_close.clone(), status.counters)
                    };
                    // The client was in sync and lost the connection again before this check.
                    if counters.loads + counters.resumes > 0 {
                        return std::future::pending().await;
                    }
                    match last {
                        Some(CloseReason::Misfit { first, .. }) => self.misfit(&[first]).await,
                        Some(reason @ CloseReason::Dial(_)) if rounds > 0 => self.unreachable(&reason).await,
                        // Every remote was dialled, and waiting will not help.
                        Some(reason) if rounds > 0 && is_final(&reason) => self.failed(&reason),
                        _ => continue,
                    }
                }
                () = tokio::time::sleep_until(limit), if !self.args.wait => {
                    let (progress, last) = {
                        let status = status.borrow();
                        (status.progress, status.last_close.clone())
                    };
                    // The time limit does not apply to a large database while its data arrives.
                    let so_far = self.client.metrics().bytes_received;
                    if progress == Progress::Loading && so_far > received {
                        (limit, received) = (tokio::time::Instant::now() + timeout, so_far);
                        continue;
                    }
                    match last {
                        Some(reason) => self.failed(&reason),
                        None => Failure::told(Exit::Connect, format!(
                            "{} was not in sync within {timeout:?}", self.args.database
                        )).try_("a longer --timeout, or --wait"),
                    }
                }
            };
            if !self.args.wait {
                return failure;
            }
            if let Some(report) = failure.report() {
                tracing::warn!("{}", report.trim_end());
            }
            sync.set(self.client.synced());
            // A misfit is reported again at once while it lasts.
            tokio::time::sleep(timeout).await;
        }
    }

    fn failed(&self, reason: &CloseReason) -> Failure {
        let exit = match reason {
            CloseReason::Protocol(_) | CloseReason::SchemaUnreadable(_) | CloseReason::Inconsistent(_) => {
                Exit::Protocol
            }
            CloseReason::Refused(Refusal::NoDatabase { .. } | Refusal::WrongCluster { .. })
            | CloseReason::SchemaRefused(_)
            | CloseReason::Misfit { .. }
            | CloseReason::MonitorRefused(_) => Exit::Refused,
            _ => Exit::Connect,
        };
        let failure = Failure::new(exit, reason.clone()).while_(self.attempt());
        match reason {
            CloseReason::Refused(Refusal::NotLeader) => failure
                .try_("the remotes of all members with --remote, or --no-leader-only to watch any of them"),
            _ if exit == Exit::Connect => {
                failure.try_("another --remote, or --wait to wait until it is there")
            }
            _ => failure,
        }
    }

    fn attempt(&self) -> String {
        let remotes: Vec<String> = self.target.remotes.list.iter().map(ToString::to_string).collect();
        format!("cannot watch {} at {}", self.args.database, remotes.join(", "))
    }

    /// The failure for an unreachable server, in the same form as of the other commands. It connects once more to find the reason.
    async fn unreachable(&self, reason: &CloseReason) -> Failure {
        match self.target.open(Some(&self.args.database)).await {
            Err(failure) => failure.while_(self.attempt()).or_try("--wait to wait until it is there"),
            Ok(_) => self.failed(reason),
        }
    }

    /// The failure for a table that does not exist, with the most similar name. It fetches the schema once more.
    async fn misfit(&self, misfits: &[Misfit]) -> Failure {
        let look = async {
            let mut rpc = self.target.open(Some(&self.args.database)).await?;
            let schema = connection::schema(&mut rpc, &self.args.database).await?;
            self.tables.iter().try_for_each(|table| connection::table(&schema, table).map(|_| ()))
        };
        match look.await {
            Err(failure) => failure,
            Ok(()) => {
                let all: Vec<String> = misfits.iter().map(ToString::to_string).collect();
                Failure::told(
                    Exit::Refused,
                    format!("the schema of {} does not fit: {}", self.args.database, all.join("; ")),
                )
            }
        }
    }
}

/// Whether a retry is unlikely to help soon, because an operator has to act.
fn is_final(reason: &CloseReason) -> bool {
    !matches!(
        reason,
        CloseReason::Eof
            | CloseReason::Io(_)
            | CloseReason::Silent(_)
            | CloseReason::Unread(_)
            | CloseReason::Refused(
                Refusal::NotReady | Refusal::CutOff | Refusal::NotLeader | Refusal::Stale { .. }
            )
    )
}
