//! The times at which ports arrive in the Northbound, observed by a client on a thread of its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ovsdb::replica::Columns;
use ovsdb::{Client, ClientConfig, FeedEvent, Model, Uuid};

use crate::clients::Answer;
use crate::monotonic;

/// The table of ports; a row's UUID is the port's id.
const TABLE: &str = "Logical_Switch_Port";
/// The time limit for the arrival of a row.
const PATIENCE: Duration = Duration::from_secs(120);

/// The arrival of every port since the watch began.
pub(crate) struct Sight(Arc<Mutex<HashMap<Uuid, i64>>>);

impl Sight {
    /// Connects, and returns when the replica has loaded the database.
    pub(crate) fn open(remote: &str) -> Result<Sight> {
        let remotes = remote.parse()?;
        let arrivals = Arc::new(Mutex::new(HashMap::new()));
        let (ready, is_ready) = std::sync::mpsc::channel();
        let seen = Arc::clone(&arrivals);
        std::thread::spawn(move || -> Result<()> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let columns = Columns::Named(vec!["name".into()]);
                let client = Client::open(
                    ClientConfig::new(remotes),
                    Model::new("OVN_Northbound").dynamic(TABLE, columns),
                );
                client.synced().await?;
                let mut feed = client.subscribe();
                let _ = ready.send(());
                while let Some(event) = feed.next().await {
                    let FeedEvent::Changed { delta, .. } = event else { continue };
                    let now = monotonic()?;
                    let mut seen = lock(&seen);
                    for change in delta.dynamic(TABLE).filter(|change| change.before.is_none()) {
                        seen.insert(change.uuid, now);
                    }
                }
                Ok(())
            })
        });
        is_ready.recv().context("cannot follow the Northbound")?;
        Ok(Sight(arrivals))
    }

    /// Adds to each answer the time at which the last of its ports arrived. Waits for ports that have not arrived yet.
    pub(crate) fn complete(&self, answers: &mut [Answer]) {
        let begin = Instant::now();
        loop {
            {
                let seen = lock(&self.0);
                for answer in
                    answers.iter_mut().filter(|answer| answer.seen.is_none() && !answer.ids.is_empty())
                {
                    let all: Option<Vec<i64>> = answer.ids.iter().map(|id| seen.get(id).copied()).collect();
                    answer.seen = all.and_then(|all| all.into_iter().max());
                }
            }
            let missing = answers.iter().any(|answer| answer.seen.is_none() && !answer.ids.is_empty());
            if !missing || begin.elapsed() > PATIENCE {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn lock(seen: &Mutex<HashMap<Uuid, i64>>) -> MutexGuard<'_, HashMap<Uuid, i64>> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}
