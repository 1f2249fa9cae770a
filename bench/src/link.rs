//! The client with a feed of its changes, as a component of Meridian uses it.

use anyhow::{Context, Result};
use ovsdb::replica::Delta;
use ovsdb::session::Remotes;
use ovsdb::{Client, ClientConfig, Feed, FeedEvent, Model, Snapshot, Transaction};

/// A client in sync.
pub(crate) struct Link {
    feed: Feed,
    client: Client,
}

impl Link {
    /// Connects and loads.
    pub(crate) async fn open(remotes: Remotes, model: Model) -> Result<Link> {
        let client = Client::open(ClientConfig::new(remotes), model);
        client.synced().await?;
        Ok(Link { feed: client.subscribe(), client })
    }

    /// The current snapshot.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.client.snapshot()
    }

    /// Waits for the next change.
    pub(crate) async fn next_delta(&mut self) -> Result<()> {
        self.follow(|_| Ok(false)).await
    }

    /// Passes each change to `see` until it returns false.
    pub(crate) async fn follow(&mut self, mut see: impl FnMut(&Delta) -> Result<bool>) -> Result<()> {
        loop {
            match self.feed.next().await.context("the client is closed")? {
                FeedEvent::Changed { delta, .. } => {
                    if !see(&delta)? {
                        return Ok(());
                    }
                }
                FeedEvent::Disconnected { reason } => return Err(reason).context("the connection broke"),
                FeedEvent::Synced { .. } | FeedEvent::Reconnected { .. } => {}
            }
        }
    }

    /// Commits and waits for the reply. Drops the events of the feed.
    pub(crate) async fn commit(&mut self, transaction: &Transaction) -> Result<()> {
        self.client.commit(transaction).await?;
        while self.feed.try_next().is_some() {}
        Ok(())
    }
}
