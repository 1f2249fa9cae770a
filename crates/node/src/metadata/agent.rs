//! The running agent: its inputs, its loop, its end.

use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metadata_proxy::counts::Counts;
use ovn::sb::{Chassis, SbGlobal};
use ovn::text::neutron::key;
use ovsdb::replica::Seq;
use ovsdb::session::Progress;
use ovsdb::{Client, Str, Uuid};
use reconcile::{Desire, Driver, DryRun, Handle, Metrics, Outcome, State, Target, Timing, Waiting};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::info;

use super::config::Config;
use super::desired::{Decision, Identities, decide, identities};
use super::explain::explain;
use super::front::FrontEnd;
use super::haproxy::HaproxyFrontEnd;
use super::plan::listed;
use super::snapshot::{Snapshot, chassis, southbound_model, with_tables};
use super::sockets::{Feed, Knowledge, Sockets};
use super::state::Desired;
use super::target::{MetadataTarget, Probes};
use crate::connections::switch::system_id;
use crate::connections::{
    ConnectionClosed, NodeConnections, OvnDatabase, RoleTables, RowConditions, RowSubscription,
};
use crate::netns::Namespaces;

/// The loop's name in status, metrics and logs.
pub const COMPONENT: &str = "metadata";
/// Interval between two full observations.
const RESYNC: Duration = Duration::from_secs(60);
/// The tables that the agent reads.
pub const TABLES: RoleTables = RoleTables { database: OvnDatabase::Southbound, add: with_tables };

/// The directory that a kernel with IPv6 has.
const IPV6: &str = "/proc/sys/net/ipv6";

/// A running agent.
#[derive(Debug)]
pub struct Agent {
    handle: Handle,
    shared: Arc<Shared>,
    sockets: Sockets,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    config: Config,
    vswitch: Client,
    sb: Arc<RowSubscription>,
    /// The chassis that the rows of the Southbound database belong to, once they are there, and since when.
    in_force: Mutex<Option<(Uuid, Instant)>>,
    ipv6: bool,
    sb_cfg: watch::Sender<Option<i64>>,
    decision: watch::Sender<Option<Arc<Decision>>>,
    /// Changes with the Southbound database.
    news: watch::Sender<u64>,
    /// The identities in a state of the Southbound database, for one chassis.
    identities: Mutex<Option<(Seq, Uuid, Arc<Identities>)>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Agent {
    /// Starts an agent in the present runtime, on connections that were opened with its [`TABLES`].
    pub fn start(config: Config, connections: &NodeConnections, metrics: Metrics) -> Self {
        let shared = Arc::new(Shared {
            vswitch: connections.vswitch().clone(),
            sb: Arc::new(connections.subscribe(OvnDatabase::Southbound)),
            in_force: Mutex::default(),
            ipv6: Path::new(IPV6).exists(),
            sb_cfg: watch::Sender::default(),
            decision: watch::Sender::default(),
            news: watch::Sender::default(),
            identities: Mutex::default(),
            config,
        });
        let directories = shared.config.haproxy_directories();
        let sockets = Sockets::new(directories.clone());
        let haproxies =
            shared.config.haproxy().map(|settings| HaproxyFrontEnd::new(settings, sockets.clone()));
        let front: Arc<dyn FrontEnd> = match &haproxies {
            Some(haproxies) => Arc::new(haproxies.clone()),
            None => Arc::new(sockets.clone()),
        };
        if !shared.config.dry_run {
            directories.sweep();
        }
        let probes = Probes::default();
        let target = MetadataTarget {
            namespaces: Namespaces::default(),
            vswitch: shared.vswitch.clone(),
            sb: Arc::clone(&shared.sb),
            front,
            probes: probes.clone(),
            seen: None,
            inodes: Default::default(),
        };
        let inputs = {
            let shared = Arc::clone(&shared);
            move || shared.inputs()
        };
        let timing = Timing { resync: RESYNC, ..Timing::default() };
        let decider = Decider { shared: Arc::clone(&shared), next: None };
        let handle = if shared.config.dry_run {
            run(Driver::new(COMPONENT, timing, inputs, decider, DryRun::new(target)).with_metrics(metrics))
        } else {
            run(Driver::new(COMPONENT, timing, inputs, decider, target).with_metrics(metrics))
        };
        handle.follow(sockets.changes());
        handle.follow(probes.changes());
        handle.follow(shared.sb_cfg.subscribe());
        handle.follow(connections.changes());
        let feed = Feed {
            control: shared.config.control_socket.clone(),
            news: shared.news.subscribe(),
            knowledge: {
                let shared = Arc::clone(&shared);
                Box::new(move || shared.knowledge())
            },
            stale: shared.config.index_max_stale,
            forward: haproxies.is_some().then(|| shared.config.requests_socket()),
        };
        let mut tasks = vec![
            task::spawn("rows", follow(Arc::clone(&shared), handle.clone())),
            task::spawn(
                "alarms",
                ring(shared.decision.subscribe(), shared.config.teardown_hold, handle.clone()),
            ),
        ];
        // A proxy serves its newest agent, which a dry run must not be.
        if !shared.config.dry_run {
            tasks.push(task::spawn("proxy", sockets.clone().follow(feed)));
            tasks.extend(haproxies.map(|haproxies| task::spawn("haproxies", haproxies.watch())));
        }
        Self { handle, shared, sockets, tasks }
    }

    /// The loop's handle.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// The last decision.
    pub fn decision(&self) -> Arc<Decision> {
        self.shared.decision.borrow().clone().unwrap_or_default()
    }

    /// The last counts of the proxy, if it has sent any.
    pub fn proxy_counts(&self) -> Option<Counts> {
        self.sockets.counts()
    }

    /// Whose data a request from an address would get, in sentences.
    pub fn explain(&self, ip: IpAddr) -> Vec<String> {
        let rows = self.shared.sb.client().map(|sb| sb.snapshot());
        let name = system_id(&self.shared.vswitch.snapshot()).cloned().unwrap_or_default();
        let ready = rows.as_ref().and_then(|rows| {
            let row = rows.table::<Chassis>().iter().find(|(_, row)| row.name == name)?.1;
            row.external_ids.get(key::METADATA_NETWORKS).cloned()
        });
        explain(&self.decision(), &listed(ready.as_ref()), ip)
    }

    /// Ends the agent. All that it made stays, and the proxy goes on answering.
    pub async fn stop(&self) {
        self.handle.stop();
        let _ = self.handle.status().wait_for(|now| now.state == State::Stopped).await;
        self.tasks.iter().for_each(JoinHandle::abort);
        self.shared.sb.release();
    }
}

/// Starts the loop.
fn run<I, T>(driver: Driver<I, Decider, T>) -> Handle
where
    I: FnMut() -> Result<Snapshot, Waiting> + Send + 'static,
    T: Target<Desired = Desired, Observed: Send, Op: Send> + 'static,
{
    let handle = driver.handle();
    task::keep("metadata", driver.run());
    handle
}

/// Decides, and then publishes the decision.
#[derive(Debug)]
struct Decider {
    shared: Arc<Shared>,
    /// The last decision, until it is published.
    next: Option<Decision>,
}

impl Desire for Decider {
    type Snapshot = Snapshot;
    type Desired = Desired;

    fn desire(&mut self, snapshot: &Snapshot) -> Outcome<Desired> {
        let Outcome { value, problems, keep } = decide(snapshot);
        let desired = value.desired.clone();
        self.next = Some(value);
        Outcome { value: desired, problems, keep }
    }

    fn publish(&mut self) {
        let Some(decision) = self.next.take() else { return };
        self.shared.decision.send_if_modified(|last| {
            let is_new = last.as_deref() != Some(&decision);
            if is_new {
                *last = Some(Arc::new(decision));
            }
            is_new
        });
    }
}

impl Shared {
    fn inputs(&self) -> Result<Snapshot, Waiting> {
        let waiting = || Waiting(self.sb.waiting_for());
        let sb = self.sb.client().ok_or_else(waiting)?;
        let (rows, vswitch) = (sb.snapshot(), self.vswitch.snapshot());
        let name = system_id(&vswitch).cloned().unwrap_or_default();
        let Some((in_force, since)) = *lock(&self.in_force) else {
            let is_synced = sb.status().borrow().progress == Progress::Synced;
            return Err(if is_synced { missing(&name) } else { waiting() });
        };
        // While OVN does not know this chassis, everything stays as it is.
        let chassis = chassis(&rows, &name).ok_or_else(|| missing(&name))?;
        if chassis != in_force {
            return Err(Waiting("the rows of this chassis in the Southbound database".into()));
        }
        let before = self.decision.borrow().clone().unwrap_or_default();
        let hold = self.config.teardown_hold;
        let now = Instant::now().into_std();
        let sb_cfg = *self.sb_cfg.borrow();
        let since = since.into_std();
        Ok(Snapshot { sb: rows, vswitch, chassis, since, now, hold, ipv6: self.ipv6, sb_cfg, before })
    }

    /// Identities in the newest state of the Southbound database, whatever the loop is doing.
    fn knowledge(&self) -> Knowledge {
        let Some(sb) = self.sb.client() else { return Knowledge::Unknown };
        if sb.status().borrow().progress != Progress::Synced || lock(&self.in_force).is_none() {
            return Knowledge::Unknown;
        }
        let Ok(snapshot) = self.inputs() else { return Knowledge::Revoked };
        let mut known = lock(&self.identities);
        match &*known {
            Some((seq, chassis, identities)) if (*seq, *chassis) == (snapshot.sb.seq(), snapshot.chassis) => {
                Knowledge::Current(Arc::clone(identities))
            }
            _ => {
                let identities = Arc::new(identities(&snapshot));
                *known = Some((snapshot.sb.seq(), snapshot.chassis, Arc::clone(&identities)));
                Knowledge::Current(identities)
            }
        }
    }

    /// Has the proxy's task look at the Southbound database.
    fn notify(&self) {
        self.news.send_modify(|n| *n = n.wrapping_add(1));
    }
}

fn missing(name: &Str) -> Waiting {
    Waiting(format!(
        "the Chassis row {name:?} in the Southbound database; check that ovn-controller is running here"
    ))
}

/// Asks for the rows that matter, and goes on asking for those that come to matter.
async fn follow(shared: Arc<Shared>, handle: Handle) {
    let sb = shared.sb.opened().await;
    tokio::select! {
        _ = ask(&shared, &sb, &handle) => {}
        () = announce(&shared, sb.subscribe()) => {}
        () = beat(&shared, &sb) => {}
    }
}

async fn ask(shared: &Shared, sb: &Client, handle: &Handle) -> Result<(), ConnectionClosed> {
    let (mut feed, mut vswitch) = (sb.subscribe(), shared.vswitch.subscribe());
    let mut name = system_id(&shared.vswitch.snapshot()).cloned().unwrap_or_default();
    let mut asked = None;
    loop {
        if let Some(now) = system_id(&shared.vswitch.snapshot()).filter(|now| **now != name) {
            name = now.clone();
        }
        // ovn-controller creates its row anew when it restarts, with another UUID. While there is none, the ports of the last one
        // stay interesting: the Southbound may have lost its rows for a moment.
        let known = chassis(&sb.snapshot(), &name);
        let in_force = lock(&shared.in_force).map(|(chassis, _)| chassis);
        let wanted = (name.clone(), known.or(in_force));
        if asked.as_ref() != Some(&wanted) {
            shared.sb.ask(RowConditions::from(&southbound_model(&wanted.0, wanted.1))).await?;
            if asked.is_none() {
                info!(chassis = %name, "the Southbound database is there");
            }
            asked = Some(wanted);
            if let Some(chassis) = known.filter(|_| known != in_force) {
                *lock(&shared.in_force) = Some((chassis, Instant::now()));
                shared.notify();
            }
            handle.wake();
            // The rows that have come may lead to others.
            continue;
        }
        handle.wake();
        let event = tokio::select! {
            event = feed.next() => event,
            event = vswitch.next() => event,
        };
        event.ok_or(ConnectionClosed)?;
    }
}

/// Announces each change of the Southbound database: an identity that is gone must not wait for namespaces.
async fn announce(shared: &Shared, mut feed: ovsdb::Feed) {
    while feed.next().await.is_some() {
        shared.notify();
    }
}

/// Reports a sign of life: the number that the cloud's management raises. All agents of a cloud would do so at the same moment, so
/// each waits for a random time, but for the first one.
async fn beat(shared: &Shared, sb: &Client) {
    let mut feed = sb.subscribe();
    let most = (shared.config.agent_down_time.as_secs_f64() / 3.0).clamp(3.0, 10.0);
    loop {
        let now = sb.snapshot().table::<SbGlobal>().iter().map(|(_, row)| row.nb_cfg).next();
        let before = *shared.sb_cfg.borrow();
        if now.is_some() && now != before {
            if before.is_some() {
                sleep(Duration::from_secs_f64(most * fastrand::f64())).await;
            }
            let newest = sb.snapshot().table::<SbGlobal>().iter().map(|(_, row)| row.nb_cfg).next();
            shared.sb_cfg.send_replace(newest);
        }
        if feed.next().await.is_none() {
            return;
        }
    }
}

/// Wakes the loop when a network's hold is over.
async fn ring(mut decision: watch::Receiver<Option<Arc<Decision>>>, hold: Duration, handle: Handle) {
    loop {
        let next = decision.borrow_and_update().as_ref().and_then(|decision| decision.next(hold));
        let over = async {
            match next {
                Some(at) => sleep_until(Instant::from_std(at)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = decision.changed() => if changed.is_err() { return },
            () = over => {
                handle.wake();
                // Once; the next decision has the next time.
                if decision.changed().await.is_err() {
                    return;
                }
            }
        }
    }
}
