//! The loop that keeps the Northbound as the world wants it, and what the rest of the server sees of OVN.
//!
//! * [`Sight`]: the connections to both databases, and the report and the chassis that follow from them. Every server has it.
//! * [`Northbound`]: the writer. Of several servers the one that holds the lock writes; each transaction asserts the lock and
//!   a generation that is raised with every change of writer, so that one that was overtaken fails instead of writing.
//! * `clock`: which waits are over. `target`: rows as the driver's target, and up to which change of the world they are
//!   written. `election`: which server writes. `fence`: the generation. `removals`: whether the writer may delete rows. `applied`: how far the writer has come,
//!   as other servers see it. `tidy`: what must be removed from the Southbound, and the poke for signs of life.
//!
//! A database that is away is waited for, never failed on: what changes meanwhile is in the world, and is written when it is
//! back.

mod applied;
mod clock;
mod election;
mod fence;
mod removals;
mod sight;
mod target;
mod tidy;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use ovsdb::client::LockState;
use ovsdb::session::Progress;
use reconcile::{Driver, Handle, Metrics, Timing, Waiting};
use tokio::sync::watch;
use tokio::time::Instant;
use uuid::Uuid;

use crate::desired::{Decider, ownership};
use crate::fault::Fault;
use crate::settings::Settings;
use crate::snapshot::sessions::Sessions;
use crate::snapshot::{Ability, Snapshot};
use crate::store::Store;
use crate::world::{Revision, World};
use clock::Clock;
use election::Election;
use fence::Fence;
pub use removals::Removals;
pub use sight::Sight;
use target::NorthboundTarget;
pub use tidy::forget_adopted;

/// How long the first decision waits for the Southbound: without it, what the rows say of hosts would be taken back.
const SOUTHBOUND_PATIENCE: Duration = Duration::from_secs(10);

/// The writer of the Northbound; it runs until it is stopped.
#[derive(Clone, Debug)]
pub struct Northbound {
    handle: Handle,
    applied: watch::Receiver<u64>,
    lock: watch::Receiver<LockState>,
    spent: watch::Receiver<Vec<Uuid>>,
    fence: Fence,
}

/// What the writer has to know of the store that its worlds come from.
pub trait Backing: Send + Sync {
    /// Whether a state is the store's present one or one of its past.
    fn contains(&self, revision: Revision) -> BoxFuture<'_, Result<bool, Fault>>;
    /// Whether other servers work on the same store, so that another one can write in this one's place.
    fn is_shared(&self) -> bool;
    /// For how long it has not answered, if that is too long.
    fn silence(&self) -> Option<Duration>;
}

impl Backing for Store {
    fn contains(&self, revision: Revision) -> BoxFuture<'_, Result<bool, Fault>> {
        Box::pin(Store::contains(self, revision))
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
        let nb = sight.northbound().clone();
        let name = lock_name(&settings.owner);
        let (office, held) = watch::channel(LockState::Waiting);
        let fence = Fence::default();
        let (applied, own) = watch::channel(Revision::default());
        let (alarm, alarms) = watch::channel(None);

        let target = NorthboundTarget::new(
            sight.database(),
            ownership(&settings.owner),
            &name,
            applied,
            fence.clone(),
        );
        let spent = target.spent();
        let (known, applied_to) = watch::channel(0);
        let exchange = applied::Exchange {
            nb: nb.clone(),
            fence: fence.clone(),
            lock: name.clone(),
            owner: settings.owner.clone(),
            held: held.clone(),
            worlds: worlds.clone(),
            own,
            known,
        };
        task::keep("applied", exchange.run());
        let inputs = Inputs {
            sight: sight.clone(),
            settings: Arc::clone(&settings),
            worlds: worlds.clone(),
            lock: held.clone(),
            fence: fence.clone(),
            clock: Clock::default(),
            alarm,
            started: Instant::now(),
        };
        let decider = Decider::new(options.verify);
        let mut inputs = inputs;
        let driver = Driver::new("northbound", options.timing, move || inputs.take(), decider, target)
            .with_metrics(options.metrics);
        let handle = driver.handle();
        handle.follow(worlds.clone());
        handle.follow(sight.report());
        handle.follow(sight.fleet());
        handle.follow(sight.seen());
        handle.follow(held.clone());
        let election = Election {
            nb: nb.clone(),
            lock: name.clone(),
            owner: settings.owner.clone(),
            worlds: worlds.clone(),
            backing,
            fence: fence.clone(),
            office,
            handle: handle.clone(),
        };
        task::keep("election", election.run());
        task::keep("changes", wake_on_changes(nb.clone(), handle.clone()));
        task::keep("alarms", wake_on_time(alarms, handle.clone()));
        task::keep("agents", tidy::remove_agents(worlds.clone(), sight.clone(), held.clone()));
        let southbound = sight.southbound().clone();
        task::keep("neighbours", tidy::forget_neighbours(worlds, southbound, held.clone()));
        task::keep("poke", tidy::poke(nb, name, held.clone(), settings.agent_down_time));
        driver.run_on_thread()?;
        Ok(Northbound { handle, applied: applied_to, lock: held, spent, fence })
    }

    /// The loop's remote control: its status, a preview of what it would do, and a stop.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// An operator's word: rows that this server's store does not know may go. Fails if this server is not the writer.
    pub fn allow_deletions(&self) -> Result<(), NotWriter> {
        if !self.fence.allow_deletions() {
            return Err(NotWriter);
        }
        tracing::warn!("an operator allowed the deletion of rows that the store does not know");
        self.handle.run_now();
        Ok(())
    }

    /// Who writes, as it changes.
    pub fn writer(&self) -> watch::Receiver<LockState> {
        self.lock.clone()
    }

    /// Whether this server is the one that writes.
    pub fn is_writer(&self) -> bool {
        *self.lock.borrow() == LockState::Held
    }

    /// The newest change of the world ([`World::seq`]) that is written, by this server or by another that shares its world.
    /// What the Northbound refuses counts as written; the loop's status tells of it.
    pub fn applied(&self) -> watch::Receiver<u64> {
        self.applied.clone()
    }

    /// Records of rows that were taken over ([`Adopted::ours`](crate::model::Adopted)) and are gone together with what they stood
    /// for. [`forget_adopted`] removes them.
    pub fn spent(&self) -> watch::Receiver<Vec<Uuid>> {
        self.spent.clone()
    }

    /// Waits until a change of the world is written; false if the loop was stopped before.
    pub async fn wait_applied(&self, seq: u64) -> bool {
        self.applied.clone().wait_for(|applied| *applied >= seq).await.is_ok()
    }
}

/// Only the writer deletes rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this server is not the writer of the Northbound: ask the one that is")]
pub struct NotWriter;

/// The lock's name: OVSDB takes letters, digits and underscores.
fn lock_name(owner: &str) -> String {
    let letters = owner.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    format!("meridian_{}", letters.collect::<String>())
}

/// Takes the newest of everything for each run.
struct Inputs {
    sight: Sight,
    settings: Arc<Settings>,
    worlds: watch::Receiver<World>,
    lock: watch::Receiver<LockState>,
    fence: Fence,
    clock: Clock,
    alarm: watch::Sender<Option<Instant>>,
    started: Instant,
}

impl Inputs {
    fn take(&mut self) -> Result<Snapshot, Waiting> {
        let synced = |client: &ovsdb::Client| client.status().borrow().progress == Progress::Synced;
        let (nb, sb) = (self.sight.northbound(), self.sight.southbound());
        let schema = nb.schema().filter(|_| synced(nb));
        let Some(schema) = schema else { return Err(Waiting("the Northbound database".into())) };
        match &*self.lock.borrow() {
            LockState::Held => {}
            LockState::Waiting => {
                return Err(Waiting("the writer's lock, which another server holds".into()));
            }
            LockState::Refused(why) => return Err(Waiting(format!("the writer's lock, refused: {why}"))),
        }
        if !self.fence.is_up() {
            return Err(Waiting("the writer's generation".into()));
        }
        let now = Instant::now();
        let sees_southbound = synced(sb);
        if !sees_southbound && !self.sight.has_seen_southbound() && now < self.started + SOUTHBOUND_PATIENCE {
            self.alarm.send_replace(Some(self.started + SOUTHBOUND_PATIENCE));
            return Err(Waiting("the Southbound database".into()));
        }
        let world = self.worlds.borrow().clone();
        let Some(removals) = self.fence.removals(&world, self.settings.max_takeover_deletions) else {
            return Err(Waiting("a comparison of the store with what was written before".into()));
        };
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

/// Whatever others do in the Northbound is looked at, and a connection that is back ends every wait.
async fn wake_on_changes(nb: ovsdb::Client, handle: Handle) {
    let mut feed = nb.subscribe_all();
    drop(nb);
    while let Some(event) = feed.next().await {
        match event {
            ovsdb::FeedEvent::Changed { .. } => handle.wake(),
            _ => handle.run_now(),
        }
    }
}

async fn wake_on_time(mut alarms: watch::Receiver<Option<Instant>>, handle: Handle) {
    loop {
        let alarm = *alarms.borrow_and_update();
        let ring = async {
            match alarm {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = ring => {
                handle.wake();
                // Until another is set.
                if alarms.changed().await.is_err() { return }
            }
            changed = alarms.changed() => if changed.is_err() { return },
        }
    }
}

#[cfg(test)]
mod tests;
