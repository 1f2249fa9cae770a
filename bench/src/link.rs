//! The client as a program without tasks of its own uses it: on a runtime that runs while something is waited for.

use anyhow::{Context, Result};
use ovsdb::replica::Delta;
use ovsdb::session::Remotes;
use ovsdb::{Client, ClientConfig, Feed, FeedEvent, Model, Snapshot, Transaction};
use tokio::runtime::Runtime;

/// A client in sync.
pub(crate) struct Link {
    // Before the runtime that its task runs on.
    feed: Feed,
    client: Client,
    runtime: Runtime,
}

impl Link {
    /// Connects and loads.
    pub(crate) fn open(remote: &str, model: Model) -> Result<Link> {
        let remotes: Remotes = remote.parse()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let client = runtime.block_on(async {
            let client = Client::open(ClientConfig::new(remotes), model);
            client.synced().await.map(|_| client)
        })?;
        Ok(Link { feed: client.subscribe(), client, runtime })
    }

    /// What is there now.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.client.snapshot()
    }

    /// Waits for the next change.
    pub(crate) fn next_delta(&mut self) -> Result<()> {
        self.follow(|_| Ok(false))
    }

    /// Hands over changes, as long as they are wanted.
    pub(crate) fn follow(&mut self, mut see: impl FnMut(&Delta) -> Result<bool>) -> Result<()> {
        let feed = &mut self.feed;
        self.runtime.block_on(async move {
            loop {
                match feed.next().await.context("the client is closed")? {
                    FeedEvent::Changed { delta, .. } => {
                        if !see(&delta)? {
                            return Ok(());
                        }
                    }
                    FeedEvent::Disconnected { reason } => return Err(reason).context("the connection broke"),
                    FeedEvent::Synced { .. } | FeedEvent::Reconnected { .. } => {}
                }
            }
        })
    }

    /// Commits and waits for the answer; what the feed tells of it is left aside.
    pub(crate) fn commit(&mut self, transaction: &Transaction) -> Result<()> {
        self.runtime.block_on(self.client.commit(transaction))?;
        while self.feed.try_next().is_some() {}
        Ok(())
    }
}
