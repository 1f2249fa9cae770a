//! Converts the events of feeds to lines.

use std::collections::BTreeMap;

use ovsdb::client::{Feed, FeedEvent};
use ovsdb::replica::{Delta, Snapshot};
use ovsdb::session::SyncKind;

use super::soon;
use super::stable::Horse;

/// The next event.
pub async fn next(feed: &mut Feed) -> FeedEvent {
    soon("the feed goes on", feed.next()).await.expect("the client is open")
}

/// The next change; other events are passed over.
pub async fn next_change(feed: &mut Feed) -> Vec<String> {
    loop {
        if let FeedEvent::Changed { delta, .. } = next(feed).await {
            return horses(&delta);
        }
    }
}

/// Changed horses as `name: before -> after`, with their sequence numbers.
pub fn horses(delta: &Delta) -> Vec<String> {
    let mut lines: Vec<String> = delta
        .table::<Horse>()
        .map(|change| {
            let seq = |horse: &Option<std::sync::Arc<Horse>>| {
                horse.as_ref().map_or_else(|| "none".into(), |horse| horse.seq.to_string())
            };
            let name = change.after.as_ref().or(change.before.as_ref()).unwrap().name.clone();
            format!("{name}: {} -> {}", seq(&change.before), seq(&change.after))
        })
        .collect();
    lines.sort();
    lines
}

/// A reader that knows only the reported changes: horses by name, each with its sequence number.
pub struct Reader {
    pub horses: BTreeMap<String, i64>,
}

impl Reader {
    /// A state that begins with the rows of a snapshot.
    pub fn of(snapshot: &Snapshot) -> Self {
        let horses = snapshot.table::<Horse>().iter();
        Self { horses: horses.map(|(_, horse)| (horse.name.to_string(), horse.seq)).collect() }
    }

    /// Reads until these are the horses and the server is back, and checks each change against those before; returns how it
    /// came back.
    pub async fn until(&mut self, feed: &mut Feed, wanted: &BTreeMap<String, i64>) -> Vec<SyncKind> {
        let mut back = Vec::new();
        while self.horses != *wanted || back.is_empty() {
            match next(feed).await {
                FeedEvent::Changed { delta, .. } => self.take(&delta),
                FeedEvent::Reconnected { how } => back.push(how),
                FeedEvent::Disconnected { .. } => {}
                FeedEvent::Synced { .. } => panic!("it was in sync before"),
            }
        }
        back
    }

    fn take(&mut self, delta: &Delta) {
        for change in delta.table::<Horse>() {
            if let Some(before) = &change.before {
                assert_eq!(self.horses.remove(before.name.as_str()), Some(before.seq), "told before");
            }
            if let Some(after) = &change.after {
                assert_eq!(self.horses.insert(after.name.to_string(), after.seq), None, "told twice");
            }
        }
    }
}
