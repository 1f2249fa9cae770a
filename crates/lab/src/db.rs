//! A database of the lab for blocking code: the project's own client behind blocking calls.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ovsdb::{Client, ClientConfig, CommitError, Committed, Model, Ref, Snapshot, Table, Transaction};
use tokio::runtime::Handle;
use tokio::time::timeout;

/// Timeout of a transaction, or of the first load of a database.
const LIMIT: Duration = Duration::from_secs(60);

/// A database.
#[derive(Clone, Debug)]
pub struct Db {
    client: Client,
    runtime: Handle,
}

impl Db {
    /// Opens the database behind a unix socket; returns when the replica has loaded it.
    pub(crate) fn open(runtime: &Handle, socket: &Path, model: Model) -> Result<Db> {
        let remotes = format!("unix:{}", socket.display()).parse().context("a socket's path is a remote")?;
        let client = {
            let _runtime = runtime.enter();
            Client::open(ClientConfig::new(remotes), model)
        };
        runtime
            .block_on(client.synced_within(LIMIT))
            .with_context(|| format!("cannot read the database at {}", socket.display()))?;
        Ok(Db { client, runtime: runtime.clone() })
    }

    /// The client itself, for calls without a blocking variant.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The database as it is.
    pub fn snapshot(&self) -> Snapshot {
        self.client.snapshot()
    }

    /// Commits a transaction; afterwards the snapshot contains it. Waits for a server that is just restarting.
    pub fn commit(&self, transaction: &Transaction) -> Result<()> {
        let done = self.runtime.block_on(async { timeout(LIMIT, self.send(transaction)).await });
        match done {
            Ok(outcome) => {
                outcome.with_context(|| format!("{} refused {transaction:?}", self.client.database()))?;
                Ok(())
            }
            Err(_) => bail!("{} did not answer within {LIMIT:?}: {transaction:?}", self.client.database()),
        }
    }

    /// Sends a transaction, and retries while it cannot be sent because there is no server.
    async fn send(&self, transaction: &Transaction) -> Result<Committed> {
        loop {
            self.client.synced().await?;
            match self.client.commit(transaction).await {
                Err(CommitError::NotConnected) => tokio::task::yield_now().await,
                outcome => return Ok(outcome?),
            }
        }
    }

    /// Waits, without polling, until `see` finds something in the snapshot.
    pub fn until<T>(&self, within: Duration, what: &str, see: impl Fn(&Snapshot) -> Option<T>) -> Result<T> {
        let wait = async {
            let mut feed = self.client.subscribe();
            loop {
                if let Some(seen) = see(&self.client.snapshot()) {
                    return Some(seen);
                }
                feed.next().await?;
            }
        };
        match self.runtime.block_on(async { timeout(within, wait).await }) {
            Ok(Some(seen)) => Ok(seen),
            Ok(None) => bail!("{what}: the client of {} was closed", self.client.database()),
            Err(_) => bail!("{what}: not within {within:?}"),
        }
    }

    /// The only row that matches.
    pub fn find<T: Table + Clone>(&self, holds: impl Fn(&T) -> bool) -> Result<(Ref<T>, T)> {
        let snapshot = self.snapshot();
        let mut found = snapshot.table::<T>().iter().filter(|(_, row)| holds(row));
        match (found.next(), found.next()) {
            (Some((row, value)), None) => Ok((row, value.clone())),
            (None, _) => bail!("no such row in {} of {}", T::TABLE, T::DATABASE),
            _ => bail!("several such rows in {} of {}", T::TABLE, T::DATABASE),
        }
    }

    /// Changes the only row that matches.
    pub fn change<T: Table + Clone>(
        &self,
        holds: impl Fn(&T) -> bool,
        change: impl FnOnce(&mut T),
    ) -> Result<()> {
        let (row, before) = self.find(holds)?;
        let mut after = before.clone();
        change(&mut after);
        let mut transaction = Transaction::new();
        transaction.update(row, &before, &after);
        self.commit(&transaction)
    }
}
