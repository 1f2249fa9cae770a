//! The loop that keeps the Northbound in the desired state, and the server's view of OVN.
//!
//! * [`OvnView`]: the connections to both databases, and the report and the chassis that are derived from them. Every server has it.
//! * [`Northbound`]: the loop, and this server's part in writing. [`ovn::writer`] has the election, the fence and the note of progress.
//! * `clock`: the waits that are over. `refusals`: load balancers whose rows the Northbound refuses. `target`: the writer's target, and the
//!   adopted rows that are gone. `cleanup`: removals from the Southbound, and the request for signs of life.

mod cleanup;
mod clock;
mod ovn_view;
mod refusals;
mod target;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
pub use ovn::writer::{Backing, NotWriter, Removals};
use ovn::writer::{SourceState, Writer, WriterGate, WriterHandle, wake_at};
use ovsdb::client::LockState;
use ovsdb::session::Progress;
use reconcile::{Driver, Handle, Metrics, Timing, Waiting};
use tokio::sync::watch;
use tokio::time::Instant;
use uuid::Uuid;

use crate::desired::{Decider, ownership};
use crate::settings::Settings;
use crate::snapshot::sessions::Sessions;
use crate::snapshot::{Ability, Snapshot};
use crate::store::Store;
use crate::world::{Revision, World};
pub use cleanup::forget_adopted;
use clock::Clock;
pub use ovn_view::OvnView;
use target::NorthboundTarget;

/// Time limit of the first decision for the Southbound. Without it, the decision would remove what the rows contain about hosts.
const SOUTHBOUND_PATIENCE: Duration = Duration::from_secs(10);

/// The loop of the Northbound. It runs until it is stopped.
#[derive(Clone, Debug)]
pub struct Northbound {
    handle: Handle,
    writer: WriterHandle,
    spent: watch::Receiver<Vec<Uuid>>,
}

impl SourceState for World {
    fn revision(&self) -> Revision {
        World::revision(self)
    }

    fn restores(&self) -> u64 {
        World::restores(self)
    }
}

impl Backing for Store {
    fn contains(&self, revision: Revision) -> BoxFuture<'_, Result<bool, String>> {
        Box::pin(async move { Store::contains(self, revision).await.map_err(|fault| fault.message) })
    }

    fn is_shared(&self) -> bool {
        Store::is_shared(self)
    }

    fn silence(&self) -> Option<Duration> {
        Store::silence(self)
    }
}

/// The options of the loop.
#[derive(Clone, Debug)]
pub struct Options {
    /// The delays of the loop.
    pub timing: Timing,
    /// Whether to compare each decision with one from scratch.
    pub verify: bool,
    /// The metrics that the loop updates.
    pub metrics: Metrics,
}

impl Default for Options {
    fn default() -> Self {
        // Requests that are queued together already share one transaction of the store, and during a commit the next ones queue up. Waiting
        // for more would only add delay.
        let timing = Timing {
            window: Duration::ZERO,
            max_delay: Duration::ZERO,
            limit: Duration::from_secs(30),
            ..Timing::default()
        };
        Options { timing, verify: false, metrics: Metrics::default() }
    }
}

impl Northbound {
    /// Starts the loop on a thread of its own, because every request makes it run. It takes part in the election at once, and writes once
    /// it is elected. Fails if the thread cannot be created.
    pub async fn start(
        ovn: &OvnView,
        settings: Arc<Settings>,
        worlds: watch::Receiver<World>,
        backing: Arc<dyn Backing>,
        options: Options,
    ) -> io::Result<Self> {
        let databases = ovn.databases();
        let writer = Writer::new(databases, &settings.owner, worlds.clone(), backing);
        let target = NorthboundTarget::new(writer.target(databases, ownership(&settings.owner)));
        let spent = target.spent();
        let (alarm, alarms) = watch::channel(None);
        let mut inputs = Inputs {
            ovn: ovn.clone(),
            settings: Arc::clone(&settings),
            worlds: worlds.clone(),
            gate: writer.gate(),
            clock: Clock::default(),
            alarm,
            started: Instant::now(),
        };
        let decider = Decider::new(options.verify);
        let driver = Driver::new("northbound", options.timing, move || inputs.take(), decider, target)
            .with_metrics(options.metrics);
        let handle = driver.handle();
        handle.follow(worlds.clone());
        handle.follow(ovn.report());
        handle.follow(ovn.fleet());
        handle.follow(databases.has_seen_southbound());
        let writer = writer.start(&handle);
        let (nb, held) = (ovn.northbound().clone(), writer.held());
        task::keep("refusals", refusals::follow(handle.status(), worlds.clone(), ovn.clone()));
        task::keep("alarms", wake_at(alarms, handle.clone()));
        task::keep("agents", cleanup::remove_agents(worlds.clone(), ovn.clone(), held.clone()));
        let southbound = ovn.southbound().clone();
        task::keep("neighbours", cleanup::forget_neighbours(worlds, southbound, held.clone()));
        task::keep("poke", cleanup::poke(nb, writer.lock().to_owned(), held, settings.agent_down_time));
        driver.run_on_thread()?;
        Ok(Northbound { handle, writer, spent })
    }

    /// The handle of the loop: its status, a preview of its plan, and a stop.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Records an operator's permission to delete rows that this server's store does not know. Fails if this server is not the writer.
    pub fn allow_deletions(&self) -> Result<(), NotWriter> {
        self.writer.allow_deletions()
    }

    /// A receiver of the writer's lock state.
    pub fn writer(&self) -> watch::Receiver<LockState> {
        self.writer.held()
    }

    /// Whether this server is the writer.
    pub fn is_writer(&self) -> bool {
        self.writer.is_writer()
    }

    /// The newest change of the world ([`World::seq`]) that is written, by this server or by another one with the same store. Rows that the
    /// Northbound refuses count as written; the loop's status reports them.
    pub fn applied(&self) -> watch::Receiver<u64> {
        self.writer.applied()
    }

    /// Records of adopted rows ([`Adopted::ours`](crate::model::Adopted)) that are gone together with their objects. [`forget_adopted`]
    /// removes them.
    pub fn spent(&self) -> watch::Receiver<Vec<Uuid>> {
        self.spent.clone()
    }

    /// Waits until a change of the world is written. Returns false if the loop was stopped before.
    pub async fn wait_applied(&self, seq: u64) -> bool {
        self.writer.wait_applied(seq).await
    }
}

/// The loop's input: the newest value of each part.
struct Inputs {
    ovn: OvnView,
    settings: Arc<Settings>,
    worlds: watch::Receiver<World>,
    gate: WriterGate,
    clock: Clock,
    alarm: watch::Sender<Option<Instant>>,
    started: Instant,
}

impl Inputs {
    fn take(&mut self) -> Result<Snapshot, Waiting> {
        self.gate.pass()?;
        let (nb, sb) = (self.ovn.northbound(), self.ovn.southbound());
        let Some(schema) = nb.schema() else { return Err(Waiting("the Northbound database".into())) };
        let now = Instant::now();
        let sees_southbound = sb.status().borrow().progress == Progress::Synced;
        if !sees_southbound && !self.ovn.has_seen_southbound() && now < self.started + SOUTHBOUND_PATIENCE {
            self.alarm.send_replace(Some(self.started + SOUTHBOUND_PATIENCE));
            return Err(Waiting("the Southbound database".into()));
        }
        let world = self.worlds.borrow().clone();
        let removals = self.gate.removals(&world, self.settings.max_takeover_deletions)?;
        let report = self.ovn.report().borrow().clone();
        let settings = Arc::clone(&self.settings);
        let mut sessions = Sessions::of(&world, &report, &settings, &imbl::OrdSet::new());
        let grace = Duration::from_secs(settings.unhosted_grace.into());
        let (late, next) =
            self.clock.late(&world, &report, &sessions, sees_southbound, grace, now.into_std());
        self.alarm.send_replace(next.map(Instant::from_std));
        if !late.overdue.is_empty() {
            sessions = Sessions::of(&world, &report, &settings, &late.overdue);
        }
        let fleet = self.ovn.fleet().borrow().clone();
        let ability = Ability::of(&schema);
        Ok(Snapshot { world, report, settings, fleet, ability, late, sessions, removals })
    }
}

#[cfg(test)]
mod tests;
