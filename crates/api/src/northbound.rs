//! The loop that keeps the Northbound as the world wants it, and what the rest of the server sees of OVN.
//!
//! * [`Sight`]: the connections to both databases, and the report and the chassis that follow from them. Every server has it.
//! * [`Northbound`]: the loop and this server's part in writing. Election, fence and the note of progress are [`ovn::writer`]'s.
//! * `clock`: which waits are over. `refusals`: load balancers whose rows the Northbound refuses. `target`: the writer's target, and the adopted rows that are gone. `tidy`: what must be
//!   removed from the Southbound, and the poke for signs of life.

mod clock;
mod refusals;
mod sight;
mod target;
mod tidy;

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
use clock::Clock;
pub use sight::Sight;
use target::NorthboundTarget;
pub use tidy::forget_adopted;

/// How long the first decision waits for the Southbound: without it, what the rows say of hosts would be taken back.
const SOUTHBOUND_PATIENCE: Duration = Duration::from_secs(10);

/// The loop of the Northbound; it runs until it is stopped.
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

/// How the loop is to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The loop's delays.
    pub timing: Timing,
    /// Compare each decision with one from scratch.
    pub verify: bool,
    /// Where the loop counts.
    pub metrics: Metrics,
}

impl Default for Options {
    fn default() -> Self {
        // Requests that wait together are one transaction of the store already, and while one commit is under way the next
        // ones gather: waiting for more would only add delay.
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
    /// Starts the loop, on a thread of its own as every request makes it run. It takes part in the election at once, and writes
    /// once it is the writer. Fails if there can be no thread.
    pub async fn start(
        sight: &Sight,
        settings: Arc<Settings>,
        worlds: watch::Receiver<World>,
        backing: Arc<dyn Backing>,
        options: Options,
    ) -> io::Result<Self> {
        let databases = sight.databases();
        let writer = Writer::new(databases, &settings.owner, worlds.clone(), backing);
        let target = NorthboundTarget::new(writer.target(databases, ownership(&settings.owner)));
        let spent = target.spent();
        let (alarm, alarms) = watch::channel(None);
        let mut inputs = Inputs {
            sight: sight.clone(),
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
        handle.follow(sight.report());
        handle.follow(sight.fleet());
        handle.follow(databases.has_seen_southbound());
        let writer = writer.start(&handle);
        let (nb, held) = (sight.northbound().clone(), writer.held());
        task::keep("refusals", refusals::follow(handle.status(), worlds.clone(), sight.clone()));
        task::keep("alarms", wake_at(alarms, handle.clone()));
        task::keep("agents", tidy::remove_agents(worlds.clone(), sight.clone(), held.clone()));
        let southbound = sight.southbound().clone();
        task::keep("neighbours", tidy::forget_neighbours(worlds, southbound, held.clone()));
        task::keep("poke", tidy::poke(nb, writer.lock().to_owned(), held, settings.agent_down_time));
        driver.run_on_thread()?;
        Ok(Northbound { handle, writer, spent })
    }

    /// The loop's remote control: its status, a preview of what it would do, and a stop.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// An operator's word: rows that this server's store does not know may go. Fails if this server is not the writer.
    pub fn allow_deletions(&self) -> Result<(), NotWriter> {
        self.writer.allow_deletions()
    }

    /// Who writes, as it changes.
    pub fn writer(&self) -> watch::Receiver<LockState> {
        self.writer.held()
    }

    /// Whether this server is the one that writes.
    pub fn is_writer(&self) -> bool {
        self.writer.is_writer()
    }

    /// The newest change of the world ([`World::seq`]) that is written, by this server or by another that shares its world.
    /// What the Northbound refuses counts as written; the loop's status tells of it.
    pub fn applied(&self) -> watch::Receiver<u64> {
        self.writer.applied()
    }

    /// Records of rows that were taken over ([`Adopted::ours`](crate::model::Adopted)) and are gone together with what they stood
    /// for. [`forget_adopted`] removes them.
    pub fn spent(&self) -> watch::Receiver<Vec<Uuid>> {
        self.spent.clone()
    }

    /// Waits until a change of the world is written; false if the loop was stopped before.
    pub async fn wait_applied(&self, seq: u64) -> bool {
        self.writer.wait_applied(seq).await
    }
}

/// Takes the newest of everything for each run.
struct Inputs {
    sight: Sight,
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
        let (nb, sb) = (self.sight.northbound(), self.sight.southbound());
        let Some(schema) = nb.schema() else { return Err(Waiting("the Northbound database".into())) };
        let now = Instant::now();
        let sees_southbound = sb.status().borrow().progress == Progress::Synced;
        if !sees_southbound && !self.sight.has_seen_southbound() && now < self.started + SOUTHBOUND_PATIENCE {
            self.alarm.send_replace(Some(self.started + SOUTHBOUND_PATIENCE));
            return Err(Waiting("the Southbound database".into()));
        }
        let world = self.worlds.borrow().clone();
        let removals = self.gate.removals(&world, self.settings.max_takeover_deletions)?;
        let report = self.sight.report().borrow().clone();
        let settings = Arc::clone(&self.settings);
        let mut sessions = Sessions::of(&world, &report, &settings, &imbl::OrdSet::new());
        let grace = Duration::from_secs(settings.unhosted_grace.into());
        let (late, next) =
            self.clock.late(&world, &report, &sessions, sees_southbound, grace, now.into_std());
        self.alarm.send_replace(next.map(Instant::from_std));
        if !late.overdue.is_empty() {
            sessions = Sessions::of(&world, &report, &settings, &late.overdue);
        }
        let fleet = self.sight.fleet().borrow().clone();
        let ability = Ability::of(&schema);
        Ok(Snapshot { world, report, settings, fleet, ability, late, sessions, removals })
    }
}

#[cfg(test)]
mod tests;
