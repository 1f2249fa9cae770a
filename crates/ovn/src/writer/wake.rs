//! Causes to run the writer's loop.

use ovsdb::{Client, FeedEvent};
use reconcile::Handle;
use tokio::sync::watch;
use tokio::time::Instant;

/// Wakes the loop at every change of the Northbound by any program. A restored connection ends every wait.
pub async fn wake_on_changes(nb: Client, handle: Handle) {
    let mut feed = nb.subscribe_all();
    drop(nb);
    while let Some(event) = feed.next().await {
        match event {
            FeedEvent::Changed { .. } => handle.wake(),
            _ => handle.run_now(),
        }
    }
}

/// Wakes the loop at a point in time, which each run may set anew.
pub async fn wake_at(mut alarms: watch::Receiver<Option<Instant>>, handle: Handle) {
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
