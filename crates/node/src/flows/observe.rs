//! Reads the flows of bridges, and notices when others change them.
//!
//! Open vSwitch can tell of changes (flow monitors), in other words from one version to the next. Asking is the same in all: a task
//! asks each bridge twice a second for the few flows with our cookie.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reconcile::Scope;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::connection::{Connection, FlowError};
use super::state::{BridgeFlows, Observed, Seen, SeenFlow};
use crate::cause::chain;
use crate::kernel::Dev;

/// How often bridges are asked.
const POLL: Duration = Duration::from_millis(500);

/// The flows of bridges of one Open vSwitch.
#[derive(Debug)]
pub struct Flows {
    pub(super) rundir: PathBuf,
    pub(super) shared: Arc<Mutex<FlowObservation>>,
    pub(super) changed: watch::Sender<u64>,
    /// For changes; the task that asks has its own.
    pub(super) connections: Connections,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
pub(super) struct FlowObservation {
    bridges: BTreeSet<Dev>,
    pub(super) seen: Arc<Observed>,
    /// Counts changes of our own: an answer from before one is out of date.
    pub(super) writes: u64,
}

/// Connections by bridge, made when needed and dropped when they fail.
#[derive(Debug, Default)]
pub(super) struct Connections(pub(super) BTreeMap<Dev, Connection>);

impl Connections {
    /// A connection to a bridge.
    pub(super) async fn get(&mut self, rundir: &Path, bridge: &Dev) -> Result<&mut Connection, FlowError> {
        // The entry API cannot be used across an await that may fail.
        if !self.0.contains_key(bridge) {
            let connection = Connection::open(rundir, bridge).await?;
            self.0.insert(bridge.clone(), connection);
        }
        self.0.get_mut(bridge).ok_or(FlowError::Late)
    }

    /// The flows of a bridge. A connection from before Open vSwitch was restarted is replaced.
    async fn flows(&mut self, rundir: &Path, bridge: &Dev) -> Result<BridgeFlows, FlowError> {
        let known = self.0.contains_key(bridge);
        let first = self.get(rundir, bridge).await?.flows().await;
        match first {
            Err(FlowError::Broken(_)) if known => {
                self.0.remove(bridge);
                self.get(rundir, bridge).await?.flows().await
            }
            other => other,
        }
        .inspect_err(|_| drop(self.0.remove(bridge)))
    }
}

impl Flows {
    /// The bridges whose sockets are in `rundir` (`OVS_RUNDIR`). Must be called within a tokio runtime.
    pub fn open(rundir: impl Into<PathBuf>) -> Self {
        let rundir = rundir.into();
        let shared = Arc::new(Mutex::new(FlowObservation::default()));
        let changed = watch::Sender::new(0);
        let task = task::spawn("flows", follow(rundir.clone(), shared.clone(), changed.clone()));
        Flows { rundir, shared, changed, connections: Connections::default(), task }
    }

    /// Changes whenever something that is observed does.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// What is on these bridges.
    pub async fn observe(&mut self, scope: Scope, bridges: BTreeSet<Dev>) -> Arc<Observed> {
        let before = {
            let mut shared = lock(&self.shared);
            shared.bridges.clone_from(&bridges);
            shared.seen.clone()
        };
        let fresh =
            |bridge: &Dev| scope == Scope::Full || !matches!(before.get(bridge), Some(Seen::Flows(_)));
        let mut seen = Observed::new();
        for bridge in &bridges {
            let now = match before.get(bridge) {
                Some(known) if !fresh(bridge) => known.clone(),
                _ => look(&mut self.connections, &self.rundir, bridge).await,
            };
            seen.insert(bridge.clone(), now);
        }
        let seen = Arc::new(seen);
        lock(&self.shared).seen = seen.clone();
        seen
    }

    /// What was on them when last seen, with what was changed since.
    pub fn glance(&self) -> Arc<Observed> {
        lock(&self.shared).seen.clone()
    }
}

impl Drop for Flows {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn look(connections: &mut Connections, rundir: &Path, bridge: &Dev) -> Seen {
    match connections.flows(rundir, bridge).await {
        Ok(flows) => Seen::Flows(flows),
        Err(error) => Seen::Silent(chain(&error)),
    }
}

/// Asks now and then, and tells when an answer is another than what is remembered.
async fn follow(rundir: PathBuf, shared: Arc<Mutex<FlowObservation>>, changed: watch::Sender<u64>) {
    let mut connections = Connections::default();
    let mut tick = tokio::time::interval(POLL);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let (bridges, writes) = {
            let shared = lock(&shared);
            (shared.bridges.clone(), shared.writes)
        };
        connections.0.retain(|bridge, _| bridges.contains(bridge));
        for bridge in bridges {
            let now = look(&mut connections, &rundir, &bridge).await;
            let mut shared = lock(&shared);
            let current = shared.writes == writes && shared.bridges.contains(&bridge);
            if current && !alike(shared.seen.get(&bridge), &now) {
                Arc::make_mut(&mut shared.seen).insert(bridge, now);
                changed.send_modify(|n| *n += 1);
            }
        }
    }
}

/// Whether two looks mean the same. What we added is remembered without the switch's encoding.
fn alike(before: Option<&Seen>, now: &Seen) -> bool {
    let forms = |flows: &BTreeSet<SeenFlow>| -> Vec<_> {
        let odd = |seen: &SeenFlow| seen.flow.is_none().then(|| seen.matched.clone());
        flows.iter().map(|seen| (seen.flow, seen.table, seen.priority, odd(seen))).collect()
    };
    match (before, now) {
        (Some(Seen::Flows(a)), Seen::Flows(b)) => a.normal == b.normal && forms(a) == forms(b),
        (Some(Seen::Silent(_)), Seen::Silent(_)) => true,
        _ => false,
    }
}

pub(super) fn lock(shared: &Mutex<FlowObservation>) -> MutexGuard<'_, FlowObservation> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
