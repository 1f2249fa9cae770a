//! The connections to both databases, and the task that follows them.

use std::sync::Arc;
use std::time::Duration;

use ovsdb::client::OpenError;
use ovsdb::replica::Delta;
use ovsdb::{Client, ClientConfig, FeedEvent, Model, Snapshot};
use tokio::sync::watch;

use crate::target::{ClientDatabase, Tables};

/// The interval between the time events of an observer.
const TICK: Duration = Duration::from_secs(5);

/// The connections to both databases. Clones are the same.
#[derive(Clone, Debug)]
pub struct Databases {
    nb: Client,
    sb: Client,
    tables: Arc<Tables>,
    seen: watch::Receiver<bool>,
}

/// One event of the databases.
#[derive(Clone, Copy, Debug)]
pub enum DatabaseEvent<'e> {
    /// Rows of the Northbound changed.
    NorthboundChanged(&'e Delta),
    /// Rows of the Southbound changed.
    SouthboundChanged(&'e Delta),
    /// The Southbound is read as a whole, for the first time or again.
    SouthboundSynced,
    /// Some time has passed.
    Tick,
}

/// Tracks the databases for a program, event by event.
pub trait DatabaseObserver: Send + 'static {
    /// Takes in an event. The snapshots contain it.
    fn observe(&mut self, event: DatabaseEvent<'_>, northbound: &Snapshot, southbound: &Snapshot);
}

impl Databases {
    /// Opens both connections in the present runtime, and follows them as long as any clone lives. The Northbound's model has
    /// the tables that the target writes.
    pub fn open(
        nb: ClientConfig,
        sb: ClientConfig,
        southbound: Model,
        observer: impl DatabaseObserver,
    ) -> Self {
        let tables = Tables::northbound();
        let nb = Client::open(nb, tables.model(None));
        let sb = Client::open(sb, southbound);
        let (tell, seen) = watch::channel(false);
        task::keep("sight", follow(nb.clone(), sb.clone(), observer, tell));
        Databases { nb, sb, tables: Arc::new(tables), seen }
    }

    /// The Northbound's client.
    pub fn northbound(&self) -> &Client {
        &self.nb
    }

    /// The Southbound's client.
    pub fn southbound(&self) -> &Client {
        &self.sb
    }

    /// The Northbound as the database of a row target.
    pub fn database(&self) -> ClientDatabase {
        ClientDatabase::of(self.nb.clone(), Arc::clone(&self.tables))
    }

    /// Waits until both databases have been read once, and the observer knows of it.
    pub async fn synced(&self) -> Result<(), OpenError> {
        self.nb.synced().await?;
        self.sb.synced().await?;
        let _ = self.seen.clone().wait_for(|seen| *seen).await;
        Ok(())
    }

    /// Whether the observer has seen the whole Southbound once, as a channel.
    pub fn has_seen_southbound(&self) -> watch::Receiver<bool> {
        self.seen.clone()
    }
}

async fn follow(nb: Client, sb: Client, mut observer: impl DatabaseObserver, seen: watch::Sender<bool>) {
    let (mut nb_feed, mut sb_feed) = (nb.subscribe_all(), sb.subscribe_all());
    // The feeds end with the clients, which end when everybody else has let go of them.
    drop((nb, sb));
    let mut tick = tokio::time::interval(TICK);
    loop {
        let (is_northbound, event) = tokio::select! {
            event = nb_feed.next() => match event {
                None => return,
                event => (true, event),
            },
            event = sb_feed.next() => match event {
                None => return,
                event => (false, event),
            },
            _ = tick.tick() => (false, None),
        };
        let event = match &event {
            None => DatabaseEvent::Tick,
            Some(FeedEvent::Changed { delta, .. }) if is_northbound => {
                DatabaseEvent::NorthboundChanged(delta)
            }
            Some(FeedEvent::Changed { delta, .. }) => DatabaseEvent::SouthboundChanged(delta),
            Some(FeedEvent::Synced { .. } | FeedEvent::Reconnected { .. }) if !is_northbound => {
                DatabaseEvent::SouthboundSynced
            }
            Some(_) => continue,
        };
        observer.observe(event, &nb_feed.snapshot(), &sb_feed.snapshot());
        // Only now: the reader that waits for this expects the observer to know the Southbound.
        if matches!(event, DatabaseEvent::SouthboundSynced) {
            seen.send_replace(true);
        }
    }
}
