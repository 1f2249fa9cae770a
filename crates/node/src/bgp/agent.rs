//! The running agent: its inputs, its loop, its end.
//!
//! It reads the local switch's database and OVN's (the Southbound, or the Northbound by option), whose connections the process has
//! opened, asks for the rows that matter, and then lets the loop run (`follow.rs`). All of it goes on by itself through restarts of
//! either database, changes of the settings and of our row in `Chassis`; while something is missing, the status says what, and what is
//! certain without it is there (`base.rs`).

mod base;
mod follow;
mod guarded;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ovsdb::session::Progress;
use ovsdb::{Client, Str};
use reconcile::{Driver, Handle, Metrics, NoPlan, Preview, State, Target, Timing, Waiting};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{info, warn};

use super::announced::{self, Announcement, Peer};
use super::conditions::Conditions;
use super::config::Config;
use super::decider::Decider;
use super::desired::Decision;
use super::explain::{Explanation, Sight, Vlan, explain};
use super::health::{self, DatabaseState, Promise};
use super::northbound::chassis::Own;
use super::northbound::{self, Mirror};
use super::peers::PeerReport;
use super::rivals;
use super::snapshot::{Snapshot, hostname, southbound_model, with_indexes};
use super::trust::{Comings, InputTrust};
use crate::connections::switch::system_id;
use crate::connections::{NodeConnections, OvnDatabase, RoleTables, RowSubscription};
use crate::frr;
use crate::kernel::tables::RtTables;
use crate::part::kind::Kind;
use crate::part::object;
use crate::plane;
use crate::plane::reserved::ReservedPrefixes;
use base::BaseDecider;

/// The loop's name in status, metrics and logs.
pub const COMPONENT: &str = "bgp";

/// The quiet time before a decision: none. Whole transactions arrive at once, the next run handles changes that arrive during a run, and
/// the cost of a run depends on the number of changes only.
const QUIET: Duration = Duration::ZERO;
/// Time limit for the withdrawal of announcements on stop.
const WITHDRAWAL: Duration = Duration::from_secs(10);
/// Time limit of an explanation for the Southbound database.
const EXPLAINING: Duration = Duration::from_secs(15);
/// Time limit of an explanation for FRR.
const ASKING_FRR: Duration = Duration::from_secs(3);
/// The file with the kernel's host name, for nodes whose local switch has no host name.
const HOSTNAME: &str = "/proc/sys/kernel/hostname";

/// A running agent.
#[derive(Debug)]
pub struct Agent {
    handle: Handle,
    shared: Arc<AgentState>,
    follower: JoinHandle<()>,
}

/// The state that the agent's tasks share.
#[derive(Debug)]
struct AgentState {
    config: Arc<Config>,
    vswitch: Client,
    /// The observations of the target, if it publishes them.
    view: Option<plane::View>,
    /// The addresses of the databases' servers, as they were last found.
    servers: watch::Sender<BTreeSet<IpAddr>>,
    /// Processes of ovn-bgp-agent in this network namespace.
    rivals: watch::Sender<BTreeSet<u32>>,
    /// The reserved prefixes of the last run.
    reserved: Mutex<Arc<ReservedPrefixes>>,
    /// The database of OVN's that is read.
    ovn: RowSubscription,
    /// The conditions in force, once all rows that matter are there.
    in_force: Mutex<Option<Conditions>>,
    /// The Southbound rows that are derived from the Northbound, if the agent reads that.
    mirror: Mutex<Mirror>,
    /// The kernel's host name.
    hostname: Str,
    /// The missing input, other than those of the connection.
    waiting: Mutex<Option<String>>,
    standing: Mutex<InputTrust>,
    silent: watch::Sender<bool>,
    decision: watch::Sender<Arc<Decision>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Agent {
    /// Starts an agent in the present runtime, on connections that were opened with its [`tables`]. It writes to `target`, and looks
    /// again when any of `changes` does. With a `view` it knows what the node lives by, and decides nothing before the first look.
    pub fn start<T>(
        config: Config,
        connections: &NodeConnections,
        target: T,
        view: Option<plane::View>,
        changes: impl IntoIterator<Item = watch::Receiver<u64>>,
        metrics: Metrics,
    ) -> Self
    where
        T: Target<Desired = plane::Desired> + 'static,
        T::Observed: 'static,
        T::Op: 'static,
    {
        info!("Starting BGP Agent...");
        let config = Arc::new(config);
        let shared = Arc::new(AgentState {
            vswitch: connections.vswitch().clone(),
            view,
            servers: watch::Sender::default(),
            rivals: watch::Sender::default(),
            reserved: Mutex::default(),
            ovn: connections.subscribe(config.source),
            in_force: Mutex::new(None),
            mirror: Mutex::new(Mirror::new(Own::default())),
            hostname: std::fs::read_to_string(HOSTNAME).unwrap_or_default().trim().into(),
            waiting: Mutex::default(),
            standing: Mutex::default(),
            silent: watch::Sender::new(false),
            decision: watch::Sender::new(Arc::default()),
            config: Arc::clone(&config),
        });
        let timing = Timing {
            window: QUIET,
            max_delay: QUIET,
            resync: config.reconcile_interval,
            ..Timing::default()
        };
        let (wake_at, alarm) = watch::channel(None);
        let inputs = {
            let shared = Arc::clone(&shared);
            move || shared.inputs(&wake_at)
        };
        let decider = BaseDecider::new(Decider::new(shared.decision.clone()), Arc::clone(&shared));
        let driver = Driver::new(COMPONENT, timing, inputs, decider, target).with_metrics(metrics);
        let handle = driver.handle();
        changes.into_iter().for_each(|change| handle.follow(change));
        handle.follow(connections.changes());
        task::keep("alarms", ring(alarm, handle.clone()));
        follow_rivals(&shared, &handle);
        task::spawn("guarded", guarded::follow(Arc::clone(&shared), handle.clone()));
        task::spawn("tables", tell_tables(Arc::clone(&shared), handle.clone()));
        task::keep("bgp", driver.run());
        let followed = follow::follow(Arc::clone(&shared), handle.clone());
        let resolved = guarded::resolve(Arc::clone(&shared), handle.clone());
        let rivals = rivals::look_for_former(shared.rivals.clone());
        let follower = task::spawn("databases", async move {
            tokio::select! {
                () = followed => {}
                () = resolved => {}
                () = rivals => {}
            }
        });
        Self { handle, shared, follower }
    }

    /// The loop's remote control.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// The clients of the databases that it reads.
    pub fn databases(&self) -> Vec<Client> {
        std::iter::once(self.shared.vswitch.clone()).chain(self.shared.ovn.client()).collect()
    }

    /// The last decision.
    pub fn decision(&self) -> Arc<Decision> {
        self.shared.decision.borrow().clone()
    }

    /// The VLANs of this node's networks.
    pub fn vlans(&self) -> Vec<Vlan> {
        let vswitch = self.shared.vswitch.snapshot();
        self.decision().networks.values().filter_map(|network| Vlan::of(&vswitch, network)).collect()
    }

    /// The addresses and prefixes that it announces, each with the rule for it.
    pub fn announcements(&self) -> Vec<Announcement> {
        let (decision, look) = (self.decision(), self.look());
        let in_place = |prefix| look.as_deref().is_some_and(|look| look.announces(prefix));
        announced::announcements(&decision, self.shared.config.advertisement, in_place)
    }

    /// The BGP neighbours that FRR reported last.
    pub fn peers(&self) -> Vec<Peer> {
        self.look().map(|look| announced::peers(look.frr())).unwrap_or_default()
    }

    /// The reasons why the agent is not healthy; empty while it is.
    pub fn trouble(&self) -> Vec<String> {
        self.with_health(health::trouble)
    }

    /// The agent's promises, each with its state.
    pub fn promises(&self) -> Vec<Promise> {
        self.with_health(health::promises)
    }

    fn with_health<T>(&self, judge: impl FnOnce(&health::Inputs<'_>) -> T) -> T {
        let (status, look) = (self.handle.status().borrow().clone(), self.look());
        let now = Instant::now().into_std();
        let since = |at: std::time::Instant| now.saturating_duration_since(at);
        let answering = self.shared.view.as_ref().map(plane::View::answering).unwrap_or_default();
        let plane = look.as_deref().map(|look| health::PlaneState {
            frr: look.frr(),
            answered: answering.last.map(since),
            open: answering.open_since.map(since),
            announced: look.counts.of(Kind::Announcement),
            bridges: look.bridges(),
        });
        let databases = self.databases().iter().map(|client| self.shared.database(client, now)).collect();
        let silence = self.decision().silence;
        judge(&health::Inputs { status: &status, silence, databases, plane })
    }

    /// The last observation of the data plane, if the target publishes it.
    pub fn look(&self) -> Option<Arc<plane::view::Look>> {
        self.shared.view.as_ref()?.last()
    }

    /// Explains why this node exposes an address or does not.
    pub async fn explain(&self, ip: IpAddr) -> Result<Explanation, String> {
        // To plan is to look, so what is found is what is there now.
        let plan = self.handle.plan().await;
        let decision = self.decision();
        let snapshot = self.shared.snapshot(Instant::now().into_std());
        let mut snapshot = snapshot.map_err(|Waiting(what)| format!("the agent waits for {what}"))?;
        // Rows of others are not held; who asks about an address wants to know about them.
        let others = self.shared.everything().await.map(|all| snapshot.sb = all);
        let look = self.look();
        let no_frr = look.as_ref().and_then(|look| match look.frr() {
            frr::Observed::Silent(why) => Some(format!("bgpd does not answer ({why})")),
            frr::Observed::Bgpd(_) => None,
        });
        let sight = Sight { no_rows: others.err(), no_frr };
        let in_place = |prefix| Some(look.as_ref()?.announces(prefix));
        let mut told = explain(&snapshot, &decision, ip, &sight, in_place);
        progress(&mut told, plan);
        // A bgpd that is away need not be asked who hears of the address.
        if told.announced && told.in_place != Some(false) && sight.no_frr.is_none() {
            let prefix = told.announced_as.unwrap_or_else(|| ip.into());
            let heard = timeout(ASKING_FRR, PeerReport::ask(&self.shared.config.frr_vty_dir, prefix)).await;
            told.text.push(match heard {
                Err(_) => format!(
                    "FRR did not reply within {} s, so it is not known whether BGP peers have the address.",
                    ASKING_FRR.as_secs()
                ),
                Ok(Ok(heard)) => heard.told(ip),
                Ok(Err(error)) => format!("Cannot ask FRR about it: {}.", crate::cause::chain(&error)),
            });
        }
        Ok(told)
    }

    /// Ends the agent: what it made stays, save for the announcements where that was asked for.
    pub async fn stop(&self) {
        if self.shared.config.withdraw_on_stop {
            info!("withdrawing all announcements");
            self.shared.silent.send_replace(true);
            self.handle.run_now();
            let mut status = self.handle.status();
            let begun = status.borrow().generation;
            // The run under way may have begun before; the next one has not.
            let done = status.wait_for(|now| now.generation > begun + 1 && now.state == State::Converged);
            if timeout(WITHDRAWAL, done).await.is_err() {
                warn!("not everything was withdrawn within {} s", WITHDRAWAL.as_secs());
            }
        }
        self.handle.stop();
        let _ = self.handle.status().wait_for(|now| now.state == State::Stopped).await;
        self.follower.abort();
        self.shared.ovn.release();
        info!("BGP Agent stopped.");
    }
}

/// Adds how far what is decided has come: what is still to be done, and what is in the way of it.
fn progress(told: &mut Explanation, plan: Result<Preview, NoPlan>) {
    let plan = match plan {
        Ok(plan) => plan,
        Err(why) => return told.text.push(format!("The pending steps are not known: {why}.")),
    };
    for step in plan.steps.iter().filter(|step| told.stands_on.contains(&step.object)) {
        let held = if step.held { " (it failed before, and waits for its retry)" } else { "" };
        told.text.push(format!("Pending: {}{held}.", step.text));
    }
    let own = object::address(told.ip);
    let problems = plan.problems.iter().filter(|problem| told.stands_on.contains(&problem.object));
    told.text.extend(problems.map(|problem| match problem.object == own {
        true => format!("{}.", problem.message),
        false => format!("{}: {}.", problem.object, problem.message),
    }));
}

impl AgentState {
    /// The loop's inputs, or what they wait for.
    fn inputs(&self, wake_at: &watch::Sender<Option<Instant>>) -> Result<Snapshot, Waiting> {
        let now = Instant::now().into_std();
        let snapshot = self.snapshot(now)?;
        let next = lock(&self.standing).next(now, &self.config);
        wake_at.send_if_modified(|at| {
            std::mem::replace(at, next.map(Instant::from_std)) != next.map(Instant::from_std)
        });
        Ok(snapshot)
    }

    fn snapshot(&self, now: std::time::Instant) -> Result<Snapshot, Waiting> {
        let waiting = || Waiting(lock(&self.waiting).clone().unwrap_or_else(|| self.ovn.waiting_for()));
        let (ovn, in_force) = (self.ovn.client(), lock(&self.in_force).clone());
        let (Some(ovn), Some(in_force)) = (ovn, in_force) else { return Err(waiting()) };
        if self.view.as_ref().is_some_and(|view| view.last().is_none()) {
            return Err(Waiting("the first observation of this node's own addresses".into()));
        }
        let mut snapshot = self.inputs_now(&ovn);
        snapshot.reserved = self.reserved(Some(&snapshot.sb));
        snapshot.silent = *self.silent.borrow();
        snapshot.before = self.decision.borrow().clone();
        let me = snapshot.me();
        if me.is_some() && me != in_force.me && self.config.source == OvnDatabase::Southbound {
            return Err(Waiting("the rows of the ports that are bound to this chassis".into()));
        }
        let counters = ovn.status().borrow().counters;
        let comings = Comings { connections: counters.connections, syncs: counters.loads + counters.resumes };
        let doubts = lock(&self.standing).look(now, me, comings, &self.config);
        if me.is_none()
            && *snapshot.before == Decision::default()
            && doubts.chassis_missing < self.config.chassis_grace
        {
            // Nothing is known of what is there, so nothing is touched before it is certain that OVN does not know us.
            return Err(Waiting(match self.config.source {
                OvnDatabase::Southbound => format!(
                    "the Chassis row {:?} in the Southbound database; check that ovn-controller is running here",
                    in_force.system_id
                ),
                OvnDatabase::Northbound => {
                    "the NB_Global row in the Northbound database; check that ovn-northd uses it".into()
                }
            }));
        }
        snapshot.chassis_missing = doubts.chassis_missing;
        snapshot.guard = doubts.guard;
        snapshot.rebinding = doubts.rebinding;
        Ok(snapshot)
    }

    /// The databases as they are, without doubts and without a past.
    fn inputs_now(&self, ovn: &Client) -> Snapshot {
        let (rows, vswitch) = (ovn.snapshot(), self.vswitch.snapshot());
        let sb = match self.config.source {
            OvnDatabase::Southbound => rows,
            OvnDatabase::Northbound => lock(&self.mirror).look(&rows, &self.own(&vswitch)),
        };
        Snapshot {
            sb,
            vswitch,
            config: Arc::clone(&self.config),
            chassis_missing: Duration::ZERO,
            guard: false,
            rebinding: false,
            silent: false,
            reserved: Arc::default(),
            rivals: self.rivals.borrow().clone(),
            before: Arc::default(),
        }
    }

    /// All rows, for once: of the Southbound those of others are not held, of the Northbound not looked at.
    async fn everything(&self) -> Result<ovsdb::Snapshot, String> {
        if self.config.source == OvnDatabase::Northbound {
            let ovn = self.ovn.client().ok_or("the Northbound database is closed")?;
            let own = self.own(&self.vswitch.snapshot());
            return Ok(Mirror::of_everything(own.clone()).look(&ovn.snapshot(), &own));
        }
        let connections = self.ovn.connections();
        let remotes = connections.remotes(self.config.source);
        let remotes = remotes.ok_or("the address of the Southbound database is not configured")?;
        let client = connections.client_config(self.config.source, remotes);
        let client = Client::open(client, southbound_model());
        let snapshot = client.synced_within(EXPLAINING).await.map_err(|error| error.to_string());
        client.close().await;
        snapshot
    }

    /// This node's names.
    fn own(&self, vswitch: &ovsdb::Snapshot) -> Own {
        Own {
            system_id: system_id(vswitch).cloned().unwrap_or_default(),
            hostname: hostname(vswitch).unwrap_or(&self.hostname).clone(),
        }
    }

    /// The state of the connection to a database.
    fn database(&self, client: &Client, now: std::time::Instant) -> DatabaseState {
        let (status, name) = (client.status().borrow().clone(), client.database().to_owned());
        let lost = (status.progress != Progress::Synced).then(|| {
            let since = self.ovn.connections().lost_since(&name).unwrap_or(status.since);
            let why = status.last_close.as_ref().map_or(String::new(), ToString::to_string);
            (now.saturating_duration_since(since), why)
        });
        DatabaseState { name, lost }
    }

    fn wait_for(&self, what: impl Into<String>) {
        *lock(&self.waiting) = Some(what.into());
    }
}

/// The tables that the agent reads: of the Southbound, or by option of the Northbound.
pub fn tables(config: &Config) -> RoleTables {
    let add = match config.source {
        OvnDatabase::Southbound => with_indexes,
        OvnDatabase::Northbound => northbound::with_tables,
    };
    RoleTables { database: config.source, add }
}

/// Has the loop decide again when an ovn-bgp-agent comes or goes.
fn follow_rivals(shared: &AgentState, handle: &Handle) {
    let (mut rivals, handle) = (shared.rivals.subscribe(), handle.clone());
    task::spawn("rivals", async move {
        while rivals.changed().await.is_ok() {
            handle.wake();
        }
    });
}

/// Tells which routing tables the bridges have, once they have them.
async fn tell_tables(shared: Arc<AgentState>, handle: Handle) {
    let mut status = handle.status();
    let settled = status.wait_for(|now| now.last_success.is_some() && now.state != State::Working);
    if settled.await.is_err() {
        return;
    }
    let names = std::fs::read_to_string(&shared.config.rt_tables).unwrap_or_default();
    let names = RtTables::parse(&names);
    let decision = shared.decision.borrow().clone();
    for bridge in decision.bridges.keys() {
        if let Some(number) = names.number(bridge) {
            info!("Found routing table for {bridge} with: ['{number}', '{bridge}']");
        }
    }
}

/// Wakes the loop when time alone changes what is to be decided.
async fn ring(mut alarm: watch::Receiver<Option<Instant>>, handle: Handle) {
    loop {
        let at = *alarm.borrow_and_update();
        tokio::select! {
            changed = alarm.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            () = async {
                match at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            } => {
                handle.wake();
                // Once; the next run tells the next time.
                if alarm.changed().await.is_err() {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
