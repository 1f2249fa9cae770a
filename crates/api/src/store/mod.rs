//! Where the world is kept: SQLite in a file, or PostgreSQL.
//!
//! SQL is the durable side of the [`World`] and nothing else: at start every row is read, afterwards rows are only written.
//! Each table holds the keys and references that a database can check on its own (the address of a port is unique in its
//! subnet, a router's `gw_port_id` is a port) and the whole entity as JSON beside them. That is three statements per noun on
//! either engine, so there is no object mapper here; the statements are the same text for both.
//!
//! * [`Store`]: what the rest sees. Give it a function on [`Txn`]; it comes back when the outcome is durable.
//! * `writer`: runs these functions one after another, as many as are waiting in one SQL transaction. A task, or a thread where
//!   the database blocks.
//! * `columns`, `schema`: entities as rows, and the tables.
//! * `sqlite`, `postgres`: the two engines behind `Engine`.
//!
//! # Several servers on one PostgreSQL
//!
//! Every transaction locks the one row of `state`, whose sequence number tells whether another server has written since. If
//! so, what it changed is read first and the function runs on that. No decision is ever made on an old world. Reads ask for
//! the number too ([`Store::fresh`]), so that a write answered by one server is seen through every other.

mod columns;
pub mod copy;
mod engine;
mod file_lock;
mod postgres;
pub mod private;
mod pulse;
mod schema;
mod sqlite;
mod writer;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use crate::fault::Fault;
use crate::world::{Outside, Revision, Txn, World};

pub use columns::SqlValue;
pub use engine::{PostgresUrl, StoreError, Url, UrlError};

/// How long a change may take, its time in the queue included. It is longer than the writer tries for.
const CHANGE_LIMIT: Duration = Duration::from_secs(15);
/// How long a read may wait for the number of the last change.
const READ_LIMIT: Duration = Duration::from_secs(5);

/// A handle on the store; clones are the same store.
#[derive(Clone, Debug)]
pub struct Store {
    jobs: mpsc::Sender<writer::Job>,
    world: watch::Receiver<World>,
    trouble: watch::Receiver<Option<String>>,
    pulse: pulse::Pulse,
    shared: bool,
}

/// What a request came to.
#[derive(Clone, Debug)]
pub struct Committed<T> {
    /// What the function returned.
    pub value: T,
    /// The world right after it; it is durable.
    pub world: World,
}

impl Store {
    /// Opens a store, brings its tables up to date and reads all of it. `outside` is what transactions get to see besides
    /// the world.
    pub async fn open(url: &Url, outside: watch::Receiver<Arc<Outside>>) -> Result<Self, StoreError> {
        // More than this many waiting requests is overload; those beyond wait before they are even queued.
        let (jobs, queue) = mpsc::channel(1024);
        let shared = matches!(url, Url::Postgres(_));
        let writer::Seen { world, trouble, pulse } = if shared {
            let (writer, seen) = writer::Writer::start(url, outside).await?;
            task::spawn("writer", task::lasting("writer", is_used(&jobs), writer.run(queue)));
            seen
        } else {
            on_a_thread(url.clone(), outside, (is_used(&jobs), queue)).await?
        };
        Ok(Store { jobs, world, trouble, pulse, shared })
    }

    /// Runs a function on the world and makes its changes durable. It may be run again if another server was faster or a
    /// neighbour in its transaction failed, so it must not reach beyond its [`Txn`].
    pub async fn execute<T, F>(&self, mut run: F) -> Result<Committed<T>, Fault>
    where
        T: Send + 'static,
        F: FnMut(&mut Txn) -> Result<T, Fault> + Send + 'static,
    {
        let value = Arc::new(Mutex::new(None));
        let slot = Arc::clone(&value);
        let run = Box::new(move |txn: &mut Txn| {
            let result = run(txn)?;
            *slot.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(result);
            Ok(())
        });
        let world = self.ask(CHANGE_LIMIT, |answer| writer::Job::Run { run, answer }).await?;
        let value = value.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        match value {
            Some(value) => Ok(Committed { value, world }),
            None => unreachable!("a request that succeeded has left its value"),
        }
    }

    /// The newest world this process knows.
    pub fn world(&self) -> World {
        self.world.borrow().clone()
    }

    /// A world that holds every write that was answered before this call, by whichever server.
    pub async fn fresh(&self) -> Result<World, Fault> {
        if self.shared {
            return self.ask(READ_LIMIT, |answer| writer::Job::Refresh { answer }).await;
        }
        Ok(self.world())
    }

    /// Whether a state is the present one or one of its past.
    pub async fn contains(&self, revision: Revision) -> Result<bool, Fault> {
        self.ask(READ_LIMIT, |answer| writer::Job::Contains { revision, answer }).await
    }

    /// Queues a job and waits for its answer, but not for ever. A job that nobody waits for any more is not begun.
    async fn ask<T>(
        &self,
        limit: Duration,
        job: impl FnOnce(oneshot::Sender<Result<T, Fault>>) -> writer::Job,
    ) -> Result<T, Fault> {
        let (answer, answered) = oneshot::channel();
        let gone = || Fault::unavailable("The server is stopping.");
        let asked = async {
            self.jobs.send(job(answer)).await.map_err(|_| gone())?;
            answered.await.map_err(|_| gone())?
        };
        match tokio::time::timeout(limit, asked).await {
            Ok(answer) => answer,
            Err(_) => Err(Fault::unavailable(
                "The database has not answered in time. Look whether the change was made before you try again.",
            )),
        }
    }

    /// Makes the changes that wait, then closes the database: a SQLite file is whole and without a log afterwards. Later changes
    /// are refused.
    pub async fn close(&self) -> Result<(), Fault> {
        self.ask(CHANGE_LIMIT, |answer| writer::Job::Close { answer }).await
    }

    /// Whether other servers may work on it.
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    /// Why the database cannot be used, while it cannot. One that nobody shares is only known to be away when it is written to.
    pub fn trouble(&self) -> Option<String> {
        let silent = || self.silence().map(|age| format!("no answer for {} s", age.as_secs()));
        self.trouble.borrow().clone().or_else(silent)
    }

    /// For how long a shared database has not answered, if that is too long.
    pub fn silence(&self) -> Option<Duration> {
        Some(self.pulse.age()).filter(|age| self.shared && *age >= pulse::SILENT)
    }

    /// Every world as it comes.
    pub fn subscribe(&self) -> watch::Receiver<World> {
        self.world.clone()
    }
}

/// Whether anybody still has a handle of the store.
fn is_used(jobs: &mpsc::Sender<writer::Job>) -> impl Fn() -> bool + Send + use<> {
    let jobs = jobs.downgrade();
    move || jobs.strong_count() > 0
}

/// Runs the writer of a database whose calls block on a thread of its own, until the last handle is gone. A request is handed
/// over once: it is decided, written and answered there.
async fn on_a_thread(
    url: Url,
    outside: watch::Receiver<Arc<Outside>>,
    (used, queue): (impl Fn() -> bool + Send + 'static, mpsc::Receiver<writer::Job>),
) -> Result<writer::Seen, StoreError> {
    let lost = |source| StoreError::Unavailable { tried: "start the thread of the database".into(), source };
    let (opened, ready) = oneshot::channel();
    let work = async move {
        match writer::Writer::start(&url, outside).await {
            Ok((writer, seen)) => {
                let _ = opened.send(Ok(seen));
                task::lasting("sqlite", used, writer.run(queue)).await;
            }
            Err(error) => drop(opened.send(Err(error))),
        }
    };
    let body = move || match tokio::runtime::Builder::new_current_thread().enable_time().build() {
        Ok(runtime) => runtime.block_on(work),
        Err(error) => tracing::error!(%error, "cannot run the writer of the database"),
    };
    task::spawn_thread("sqlite", body).map_err(|error| lost(error.into()))?;
    ready.await.map_err(|_| lost("it has ended".into()))?
}
