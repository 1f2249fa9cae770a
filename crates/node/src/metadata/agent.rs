//! The running agent: its connections, its loop, its end.

use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ovn::sb::{Chassis, ChassisPrivate, PortBinding, SbGlobal};
use ovn::text::neutron::key;
use ovsdb::client::{ClientConfig, ConditionError, TlsConfig};
use ovsdb::model::Condition;
use ovsdb::replica::Seq;
use ovsdb::session::{Progress, Remote, Remotes};
use ovsdb::wire::clause::Function;
use ovsdb::{Client, Str, Uuid};
use reconcile::{Desire, Driver, Handle, Metrics, NoPlan, Outcome, Preview, State, Timing, Waiting};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{error, info};

use super::config::Config;
use super::desired::{Decision, Identities, decide, identities};
use super::explain::explain;
use super::plan::listed;
use super::snapshot::{Snapshot, chassis, ports, setting, southbound_model, vswitch_model};
use super::sockets::{Feed, Knowledge, Sockets};
use super::state::Desired;
use super::target::{MetadataTarget, Probes};
use crate::netns::Namespaces;

/// The loop's name in status, metrics and logs.
pub const COMPONENT: &str = "metadata";
/// Interval between two full observations.
const RESYNC: Duration = Duration::from_secs(60);
/// Time to wait after an error that needs an operator.
const LATER: Duration = Duration::from_secs(10);
/// How long the local switch's database may be silent.
const VSWITCH_PROBE: Duration = Duration::from_secs(60);
/// The usual sockets of the local switch's database.
const VSWITCH_SOCKETS: [&str; 2] = ["/run/openvswitch/db.sock", "/usr/local/var/run/openvswitch/db.sock"];
/// The directory that a kernel with IPv6 has.
const IPV6: &str = "/proc/sys/net/ipv6";

/// A running agent.
#[derive(Debug)]
pub struct Agent {
    handle: Handle,
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    config: Config,
    vswitch: Client,
    sb: Arc<Mutex<Option<Client>>>,
    /// The chassis that the rows of the Southbound database belong to, once they are there, and since when.
    in_force: Mutex<Option<(Uuid, Instant)>>,
    waiting: Mutex<String>,
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
    /// Starts an agent in the present runtime.
    pub fn start(config: Config, metrics: Metrics) -> Self {
        let shared = Arc::new(Shared {
            vswitch: vswitch(&config),
            sb: Arc::default(),
            in_force: Mutex::default(),
            waiting: Mutex::new("the local switch's database (ovsdb_connection)".into()),
            ipv6: Path::new(IPV6).exists(),
            sb_cfg: watch::Sender::default(),
            decision: watch::Sender::default(),
            news: watch::Sender::default(),
            identities: Mutex::default(),
            config,
        });
        let sockets = Sockets::default();
        let probes = Probes::default();
        let target = MetadataTarget {
            namespaces: Namespaces::default(),
            vswitch: shared.vswitch.clone(),
            sb: Arc::clone(&shared.sb),
            sockets: sockets.clone(),
            probes: probes.clone(),
            seen: None,
        };
        let inputs = {
            let shared = Arc::clone(&shared);
            move || shared.inputs()
        };
        let timing = Timing { resync: RESYNC, ..Timing::default() };
        let decider = Decider(Arc::clone(&shared));
        let driver = Driver::new(COMPONENT, timing, inputs, decider, target).with_metrics(metrics);
        let handle = driver.handle();
        handle.follow(sockets.changes());
        handle.follow(probes.changes());
        handle.follow(shared.sb_cfg.subscribe());
        task::keep("metadata", driver.run());
        let feed = Feed {
            control: shared.config.control_socket.clone(),
            news: shared.news.subscribe(),
            knowledge: {
                let shared = Arc::clone(&shared);
                Box::new(move || shared.knowledge())
            },
            stale: shared.config.index_max_stale,
        };
        let tasks = vec![
            task::spawn("proxy", sockets.follow(feed)),
            task::spawn("databases", follow(Arc::clone(&shared), handle.clone())),
            task::spawn(
                "alarms",
                ring(shared.decision.subscribe(), shared.config.teardown_hold, handle.clone()),
            ),
        ];
        Self { handle, shared, tasks }
    }

    /// The loop's handle.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// The connections to databases.
    pub fn databases(&self) -> Vec<Client> {
        let sb = lock(&self.shared.sb).clone();
        std::iter::once(self.shared.vswitch.clone()).chain(sb).collect()
    }

    /// The last decision.
    pub fn decision(&self) -> Arc<Decision> {
        self.shared.decision.borrow().clone().unwrap_or_default()
    }

    /// The ops that the loop would run now.
    pub async fn plan(&self) -> Result<Preview, NoPlan> {
        self.handle.plan().await
    }

    /// Whose data a request from an address would get, in sentences.
    pub fn explain(&self, ip: IpAddr) -> Vec<String> {
        let rows = lock(&self.shared.sb).clone().map(|sb| sb.snapshot());
        let name = setting(&self.shared.vswitch.snapshot(), "system-id").cloned().unwrap_or_default();
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
        let sb = lock(&self.shared.sb).take();
        if let Some(sb) = sb {
            sb.close().await;
        }
        self.shared.vswitch.close().await;
    }
}

/// Decides, and publishes the decision.
#[derive(Debug)]
struct Decider(Arc<Shared>);

impl Desire for Decider {
    type Snapshot = Snapshot;
    type Desired = Desired;

    fn desire(&mut self, snapshot: &Snapshot) -> Outcome<Desired> {
        let Outcome { value, problems, keep } = decide(snapshot);
        let desired = value.desired.clone();
        if *snapshot.before != value || self.0.decision.borrow().is_none() {
            self.0.decision.send_replace(Some(Arc::new(value)));
        }
        Outcome { value: desired, problems, keep }
    }
}

impl Shared {
    fn inputs(&self) -> Result<Snapshot, Waiting> {
        let waiting = || Waiting(lock(&self.waiting).clone());
        let sb = lock(&self.sb).clone().ok_or_else(waiting)?;
        let (in_force, since) = (*lock(&self.in_force)).ok_or_else(waiting)?;
        let (rows, vswitch) = (sb.snapshot(), self.vswitch.snapshot());
        let name = setting(&vswitch, "system-id").cloned().unwrap_or_default();
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
        let Some(sb) = lock(&self.sb).clone() else { return Knowledge::Unknown };
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

    fn wait_for(&self, what: impl Into<String>) {
        *lock(&self.waiting) = what.into();
    }

    fn remotes(&self) -> Option<Remotes> {
        if let Some(remotes) = &self.config.ovn_sb_connection {
            return Some(remotes.clone());
        }
        let vswitch = self.vswitch.snapshot();
        let text = setting(&vswitch, "ovn-remote")?;
        text.parse().inspect_err(|error| error!(%error, "the local switch's ovn-remote cannot be read")).ok()
    }

    fn client(&self, remotes: Remotes) -> ClientConfig {
        let tls = remotes.list.iter().any(|remote| matches!(remote, Remote::Ssl(_)));
        let mut client = ClientConfig::new(remotes);
        // Any member of a cluster will do: it passes writes on to the leader.
        client.session.leader_only = false;
        if tls {
            let config = &self.config;
            let trusted = TlsConfig { verify_names: false, ..TlsConfig::new(&config.ovn_sb_ca_cert) };
            client = client.tls(trusted.identity(&config.ovn_sb_certificate, &config.ovn_sb_private_key));
        }
        client
    }
}

fn missing(name: &Str) -> Waiting {
    Waiting(format!(
        "the Chassis row {name:?} in the Southbound database; see whether ovn-controller runs here"
    ))
}

/// Connects to both databases, and goes on asking for the rows that matter.
async fn follow(shared: Arc<Shared>, handle: Handle) {
    let mut vswitch = shared.vswitch.subscribe();
    while let Err(error) = shared.vswitch.synced().await {
        error!(%error, "the local switch's database cannot be used");
        shared.wait_for(format!("a local switch's database that fits: {error}"));
        sleep(LATER).await;
    }
    let (mut name, mut remotes) = loop {
        let name = setting(&shared.vswitch.snapshot(), "system-id").cloned();
        match (name, shared.remotes()) {
            (Some(name), Some(remotes)) => break (name, remotes),
            (None, _) => shared.wait_for("external_ids:system-id in the local switch's database"),
            (_, None) => shared.wait_for("external_ids:ovn-remote in the local switch's database"),
        }
        handle.wake();
        if vswitch.next().await.is_none() {
            return;
        }
    };
    shared.wait_for("the Southbound database");
    let sb = Client::open(shared.client(remotes.clone()), southbound_model(&name, None));
    let mut feed = sb.subscribe();
    *lock(&shared.sb) = Some(sb.clone());
    while let Err(error) = sb.synced().await {
        error!(%error, "the Southbound database cannot be used");
        shared.wait_for(format!("a Southbound database that fits: {error}"));
        handle.wake();
        sleep(LATER).await;
    }
    task::spawn("identities", announce(Arc::clone(&shared), sb.subscribe()));
    task::spawn("heartbeat", beat(Arc::clone(&shared), sb.clone()));
    info!(chassis = %name, "the Southbound database is there");
    loop {
        if let Some(other) = shared.remotes().filter(|other| *other != remotes) {
            sb.set_remotes(other.clone()).await;
            remotes = other;
        }
        let now = setting(&shared.vswitch.snapshot(), "system-id").cloned().unwrap_or_else(|| name.clone());
        if now != name {
            name = now;
            let own = Condition::column(Chassis::NAME, Function::Equal, &name);
            let private = Condition::column(ChassisPrivate::NAME, Function::Equal, &name);
            if asked(sb.set_condition::<Chassis>(own).await).is_err()
                || asked(sb.set_condition::<ChassisPrivate>(private).await).is_err()
            {
                return;
            }
        }
        // ovn-controller creates its row anew when it restarts, with another UUID.
        let known = chassis(&sb.snapshot(), &name);
        let in_force = lock(&shared.in_force).map(|(chassis, _)| chassis);
        if let Some(chassis) = known.filter(|_| known != in_force) {
            if asked(sb.set_condition::<PortBinding>(ports(known)).await).is_err() {
                return;
            }
            *lock(&shared.in_force) = Some((chassis, Instant::now()));
            shared.notify();
        }
        if known.is_none() {
            shared.wait_for(missing(&name).0);
        }
        handle.wake();
        let event = tokio::select! {
            event = feed.next() => event,
            event = vswitch.next() => event,
        };
        if event.is_none() {
            return;
        }
    }
}

/// Announces each change of the Southbound database: an identity that is gone must not wait for namespaces.
async fn announce(shared: Arc<Shared>, mut feed: ovsdb::Feed) {
    while feed.next().await.is_some() {
        shared.notify();
    }
}

/// Whether the client goes on.
fn asked(result: Result<(), ConditionError>) -> Result<(), ()> {
    match result {
        Err(ConditionError::Closed) => Err(()),
        Err(error @ ConditionError::Refused { .. }) => {
            error!(%error, "the Southbound database does not tell the rows that matter");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// Reports a sign of life: the number that the cloud's management raises. All agents of a cloud would do so at the same moment, so
/// each waits for a random time, but for the first one.
async fn beat(shared: Arc<Shared>, sb: Client) {
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

/// Opens the local switch's database.
fn vswitch(config: &Config) -> Client {
    let usual = || {
        let known = |path: &&&str| Path::new(path).parent().is_some_and(Path::is_dir);
        let path = VSWITCH_SOCKETS.iter().find(known).unwrap_or(&VSWITCH_SOCKETS[0]);
        Remotes { list: vec![Remote::Unix(path.into())], cluster_id: None }
    };
    let mut client = ClientConfig::new(config.ovsdb_connection.clone().unwrap_or_else(usual));
    client.session.leader_only = false;
    client.session.shuffle = false;
    client.session.probe_interval = VSWITCH_PROBE;
    Client::open(client, vswitch_model())
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
