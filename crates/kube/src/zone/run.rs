//! The program of a node: the watches, the databases, and three loops over the same inputs.
//!
//! One loop keeps the chassis of remote nodes in the Southbound, one the rows of networks in the Northbound, and one tells the API
//! when the rows are there. Each fails, waits and recovers on its own.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::Client as KubeClient;
use ovn::target::{ClientDatabase, Ownership, RowTarget, Rules, Tables};
use ovsdb::client::Lock;
use ovsdb::session::Progress;
use ovsdb::{Client, ClientConfig, Str};
use reconcile::{Driver, Handle, Metrics, State, Timing, Waiting};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tracing::info;

use super::announce::{AnnouncementDecider, NodeTarget, PROGRAM, SettledNode};
use super::decider::{ChassisDecider, NetworkDecider, ZoneInputs};
use super::desired::{ChassisSeen, name_chassis, name_row};
use super::doubt::{Doubts, KnownObjects, doubt, known_networks};
use super::gather::{ZoneContents, ZoneSettings, gather};
use super::target::ZoneTarget;
use crate::cluster::kind::Reader;
use crate::cluster::snapshot::ObjectName;
use crate::cluster::{ApiWriter, ClusterCopy, Inventory, SoleWriter};

/// The names of the loops in the status and the metrics.
const CHASSIS: &str = "kube-chassis";
const NETWORKS: &str = "kube-networks";
const ANNOUNCEMENT: &str = "kube-announcement";
/// The lock of the Northbound that keeps a second program of the same node from writing.
const LOCK: &str = "meridian_kube_node";
/// Time for the loops to end.
const GOODBYE: Duration = Duration::from_secs(10);

/// The parts that the process around the program provides.
pub struct ZoneParts {
    /// The API.
    pub api: KubeClient,
    /// The settings.
    pub settings: ZoneSettings,
    /// The mark of our rows.
    pub owner: Str,
    /// The zone's Northbound.
    pub northbound: ClientConfig,
    /// The zone's Southbound.
    pub southbound: ClientConfig,
    /// The loops' metrics.
    pub metrics: Metrics,
}

/// The inputs of the loops, kept by watches and replicas. Copies share them.
#[derive(Clone)]
struct ZoneView {
    settings: Arc<ZoneSettings>,
    owner: Str,
    copy: watch::Receiver<ClusterCopy>,
    northbound: Client,
    southbound: Client,
    doubts: Doubts,
    last: Arc<Mutex<Option<LastGathered>>>,
}

/// The last gathered inputs, with the revision of the API's copy and the chassis that they follow from.
struct LastGathered {
    revision: u64,
    remote: BTreeSet<String>,
    gathered: Arc<ZoneContents>,
}

impl ZoneView {
    /// All inputs, or the one that is missing.
    fn take(&self) -> Result<ZoneInputs, Waiting> {
        {
            let copy = self.copy.borrow();
            if let Some((kind, cause)) = copy.missing.first_key_value() {
                return Err(Waiting(format!("the list of {kind}: {cause}")));
            }
        }
        for (client, name) in [(&self.southbound, "Southbound"), (&self.northbound, "Northbound")] {
            if client.schema().is_none() || client.status().borrow().progress != Progress::Synced {
                return Err(Waiting(format!("the {name} database")));
            }
        }
        let chassis = ChassisSeen::read(&self.southbound.snapshot(), &self.owner);
        let gathered = self.gather(&chassis.remote);
        let known = KnownObjects {
            networks: known_networks(&self.northbound.snapshot(), &self.owner),
            nodes: chassis.own.keys().cloned().collect(),
        };
        let is_ready = gathered.zone.nodes.contains_key(&gathered.zone.local);
        let now = doubt(&self.copy.borrow(), is_ready, &gathered.named, &known);
        Ok(ZoneInputs { gathered, chassis, doubt: self.doubts.note(now) })
    }

    fn gather(&self, remote: &BTreeSet<String>) -> Arc<ZoneContents> {
        let (revision, snapshot) = {
            let copy = self.copy.borrow();
            (copy.revision, copy.snapshot.clone())
        };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = last.as_ref().filter(|last| last.revision == revision && last.remote == *remote) {
            return Arc::clone(&last.gathered);
        }
        let gathered = Arc::new(gather(&snapshot, &self.settings, remote.clone()));
        *last = Some(LastGathered { revision, remote: remote.clone(), gathered: Arc::clone(&gathered) });
        gathered
    }
}

/// The running program of a node.
pub struct RunningZone {
    view: ZoneView,
    handles: [Handle; 3],
    running: Mutex<Vec<JoinHandle<()>>>,
    _watches: JoinSet<()>,
    _lock: Arc<Lock>,
}

impl RunningZone {
    /// Opens the databases and starts the watches and the loops.
    pub async fn start(parts: ZoneParts) -> RunningZone {
        let ZoneParts { api, settings, owner, northbound, southbound, metrics } = parts;
        let southbound = ClientDatabase::open(southbound, Tables::southbound_remote(), None);
        let northbound = ClientDatabase::open(northbound, Tables::northbound(), None);
        let inventory = Inventory::new(Reader::Node);
        let view = ZoneView {
            settings: Arc::new(settings),
            owner: owner.clone(),
            copy: inventory.subscribe(),
            northbound: northbound.client().clone(),
            southbound: southbound.client().clone(),
            doubts: Doubts::default(),
            last: Arc::default(),
        };
        let watches = inventory.start_over_restores(&api);
        let lock = Arc::new(view.northbound.lock(LOCK).await);
        let timing = Timing { resync: Duration::from_secs(30), ..Timing::default() };
        let mut running = Vec::new();

        let ownership = Ownership::new(owner.clone()).naming(name_chassis);
        let target = ZoneTarget(RowTarget::new(southbound, ownership, Rules::new()));
        let inputs = {
            let (view, lock) = (view.clone(), Arc::clone(&lock));
            move || guarded(&view, &lock)
        };
        let driver = Driver::new(CHASSIS, timing, inputs, ChassisDecider::new(owner.clone()), target);
        let driver = driver.with_metrics(metrics.clone());
        let chassis = driver.handle();
        running.push(task::spawn(CHASSIS, driver.run()));

        let ownership = Ownership::new(owner.clone()).naming(name_row);
        let target = RowTarget::new(northbound, ownership, Rules::kubernetes()).with_lock(LOCK);
        let inputs = {
            let (view, lock) = (view.clone(), Arc::clone(&lock));
            move || guarded(&view, &lock)
        };
        let driver = Driver::new(NETWORKS, timing, inputs, NetworkDecider::new(owner), ZoneTarget(target));
        let driver = driver.with_metrics(metrics.clone());
        let networks = driver.handle();
        running.push(task::spawn(NETWORKS, driver.run()));

        let inputs = {
            let (view, networks) = (view.clone(), networks.clone());
            move || view.take().map(|inputs| SettledNode(settled(&view, &inputs, &networks)))
        };
        let target = NodeTarget(ApiWriter::new(api, inventory, SoleWriter, PROGRAM));
        let driver = Driver::new(ANNOUNCEMENT, timing, inputs, AnnouncementDecider, target);
        let announcement = driver.with_metrics(metrics);
        let handle = announcement.handle();
        running.push(task::spawn(ANNOUNCEMENT, announcement.run()));
        handle.follow(networks.status());

        let handles = [chassis, networks, handle];
        let changes = [&view.southbound, &view.northbound].map(|client| client.subscribe());
        for handle in &handles {
            handle.follow(view.copy.clone());
            handle.follow(view.southbound.status());
            handle.follow(view.northbound.status());
            handle.follow(lock.state());
        }
        let wakes = handles.clone();
        running.push(task::spawn("kube-databases", async move {
            let [mut southbound, mut northbound] = changes;
            loop {
                // Rows that others changed are repaired, and remote ports follow their chassis.
                let is_open = tokio::select! {
                    change = southbound.next() => change.is_some(),
                    change = northbound.next() => change.is_some(),
                };
                if !is_open {
                    return;
                }
                wakes.iter().for_each(Handle::wake);
            }
        }));
        RunningZone { view, handles, running: Mutex::new(running), _watches: watches, _lock: lock }
    }

    /// The loops.
    pub fn handles(&self) -> &[Handle] {
        &self.handles
    }

    /// The clients of the databases.
    pub fn clients(&self) -> Vec<Client> {
        vec![self.view.southbound.clone(), self.view.northbound.clone()]
    }

    /// The inputs as they are now.
    pub fn inputs(&self) -> Result<ZoneInputs, Waiting> {
        self.view.take()
    }

    /// Deletes the rows that were withheld until now. False if there are none.
    pub fn allow_deletions(&self) -> bool {
        let had = self.view.doubts.dispel();
        self.handles.iter().for_each(Handle::run_now);
        had
    }

    /// Ends the loops and closes the databases.
    pub async fn stop(&self) {
        self.handles.iter().for_each(Handle::stop);
        let running = std::mem::take(&mut *self.running.lock().unwrap_or_else(PoisonError::into_inner));
        let (loops, feed): (Vec<_>, Vec<_>) =
            running.into_iter().enumerate().partition(|(n, _)| *n < self.handles.len());
        feed.into_iter().for_each(|(_, task)| task.abort());
        let ended = tokio::time::timeout(GOODBYE, async {
            for (_, task) in loops {
                let _ = task.await;
            }
        });
        let ended = ended.await.is_ok();
        info!(component = PROGRAM, ended, "stopped");
        for client in self.clients() {
            client.close().await;
        }
    }
}

/// The inputs of a loop that writes, while no other program of this node does.
fn guarded(view: &ZoneView, lock: &Lock) -> Result<ZoneInputs, Waiting> {
    let inputs = view.take()?;
    if !lock.is_held() {
        return Err(Waiting(format!("the lock {LOCK} of the Northbound, which another process has")));
    }
    Ok(inputs)
}

/// The own node, if all of its rows are in place.
fn settled(
    view: &ZoneView,
    inputs: &ZoneInputs,
    networks: &Handle,
) -> Option<crate::cluster::snapshot::NodeObject> {
    let local = &inputs.gathered.zone.local;
    inputs.gathered.zone.nodes.get(local)?;
    let status = networks.status();
    let status = status.borrow();
    if status.state != State::Converged || status.waiting_for.is_some() {
        return None;
    }
    let name = ObjectName { namespace: String::new(), name: local.clone() };
    view.copy.borrow().snapshot.nodes.get(&name).map(|node| (**node).clone())
}
