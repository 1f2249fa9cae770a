//! Reading feeds as lines.

use ovsdb::client::{Feed, FeedEvent};
use ovsdb::replica::Delta;

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

/// Changed horses as `name: before -> after`, by what their sequence numbers are.
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
