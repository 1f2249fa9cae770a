//! The durable store of the [`World`]: SQLite in a file, or PostgreSQL.
//!
//! SQL is the durable copy of the [`World`] and nothing else: the server reads all rows at start and afterwards only writes. Each table
//! holds the keys and references that a database can check on its own (the address of a port is unique in its subnet, a router's
//! `gw_port_id` is a port) and the whole entity as JSON beside them. That is three statements per noun, the same on both engines, so there
//! is no object mapper here.
//!
//! * [`Store`]: the handle for all other modules. It runs a function on [`Txn`] and returns when the outcome is durable.
//! * `writer`: runs these functions one after another, all that are queued in one SQL transaction. It is a task, or a thread for SQLite,
//!   whose calls block.
//! * `columns`, `schema`: entities as rows, and the tables.
//! * `sqlite`, `postgres`: the two engines behind `Engine`.
//!
//! # Several servers on one PostgreSQL
//!
//! Every transaction locks the one row of `state`, whose sequence number tells whether another server has written since. If so, the writer
//! reads those changes first and runs the function on the result. So no decision is ever made on an old world. Reads check the number too
//! ([`Store::fresh`]), so that a write answered by one server is visible through every other.

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

/// The time limit of a change, its time in the queue included. It exceeds the time for which the writer retries.
const CHANGE_LIMIT: Duration = Duration::from_secs(15);
/// The time limit of a read that checks the number of the last change.
const READ_LIMIT: Duration = Duration::from_secs(5);

/// A handle of the store; clones share it.
#[derive(Clone, Debug)]
pub struct Store {
    jobs: mpsc::Sender<writer::Job>,
    world: watch::Receiver<World>,
    trouble: watch::Receiver<Option<String>>,
    pulse: pulse::Pulse,
    shared: bool,
}

/// The outcome of a request.
#[derive(Clone, Debug)]
pub struct Committed<T> {
    /// The return value of the function.
    pub value: T,
    /// The world right after it, already durable.
    pub world: World,
}

impl Store {
    /// Opens a store, migrates its tables and reads all rows. `outside` holds the inputs of transactions besides the world.
    pub async fn open(url: &Url, outside: watch::Receiver<Arc<Outside>>) -> Result<Self, StoreError> {
        // More queued requests than this are overload; further ones wait before they enter the queue.
        let (jobs, queue) = mpsc::channel(1024);
        let shared = matches!(url, Url::Postgres(_));
        let writer::WriterState { world, trouble, pulse } = if shared {
            let (writer, seen) = writer::Writer::start(url, outside).await?;
            task::spawn("writer", task::lasting("writer", is_used(&jobs), writer.run(queue)));
            seen
        } else {
            on_a_thread(url.clone(), outside, (is_used(&jobs), queue)).await?
        };
        Ok(Store { jobs, world, trouble, pulse, shared })
    }

    /// Runs a function on the world and makes its changes durable. The writer runs the function again if another server was faster or a
    /// neighbour in its transaction failed, so it must have no effect outside its [`Txn`].
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

    /// The newest world that this process knows.
    pub fn world(&self) -> World {
        self.world.borrow().clone()
    }

    /// A world that contains every write that any server answered before this call.
    pub async fn fresh(&self) -> Result<World, Fault> {
        if self.shared {
            return self.ask(READ_LIMIT, |answer| writer::Job::Refresh { answer }).await;
        }
        Ok(self.world())
    }

    /// Whether a revision is the store's present or a past one.
    pub async fn contains(&self, revision: Revision) -> Result<bool, Fault> {
        self.ask(READ_LIMIT, |answer| writer::Job::Contains { revision, answer }).await
    }

    /// Queues a job and waits a limited time for its answer. The writer skips a job whose caller has stopped waiting.
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
                "The database did not reply in time. Check whether the change was made before you retry.",
            )),
        }
    }

    /// Makes the queued changes, then closes the database. A SQLite file is then complete without its log. The store refuses later changes.
    pub async fn close(&self) -> Result<(), Fault> {
        self.ask(CHANGE_LIMIT, |answer| writer::Job::Close { answer }).await
    }

    /// Whether other servers may use the same database.
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    /// The reason why the database is unusable, if it is. For SQLite only a failed write shows that.
    pub fn trouble(&self) -> Option<String> {
        let silent = || self.silence().map(|age| format!("no reply for {} s", age.as_secs()));
        self.trouble.borrow().clone().or_else(silent)
    }

    /// The time since a shared database last answered, if that is too long.
    pub fn silence(&self) -> Option<Duration> {
        Some(self.pulse.age()).filter(|age| self.shared && *age >= pulse::SILENT)
    }

    /// A receiver of every new world.
    pub fn subscribe(&self) -> watch::Receiver<World> {
        self.world.clone()
    }
}

/// Whether any handle of the store is left.
fn is_used(jobs: &mpsc::Sender<writer::Job>) -> impl Fn() -> bool + Send + use<> {
    let jobs = jobs.downgrade();
    move || jobs.strong_count() > 0
}

/// Runs the writer of a blocking database on a thread of its own, until the last handle is gone. A request changes threads only once: the
/// thread decides, writes and answers it.
async fn on_a_thread(
    url: Url,
    outside: watch::Receiver<Arc<Outside>>,
    (used, queue): (impl Fn() -> bool + Send + 'static, mpsc::Receiver<writer::Job>),
) -> Result<writer::WriterState, StoreError> {
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
