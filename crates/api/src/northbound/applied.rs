//! How far the writer has come, told to the other servers: requests that wait for the Northbound may reach any of them.
//!
//! The number of the newest change of the world stands in `NB_Global` and is written with the rows themselves, so it costs
//! no transaction of its own, is true at every instant, and needs no second channel. Only a change that asks for no rows, or
//! whose rows had to be written in parts, is told by itself. A server that shares its store with nobody writes none of this.

use ovn::nb::NbGlobal;
use ovsdb::client::LockState;
use ovsdb::{Client, Str, Transaction, Uuid};
use serde_json::{Value, json};
use tokio::sync::watch;
use tracing::debug;

use super::fence::Fence;

/// Where the number is.
pub(super) fn key(owner: &str) -> Str {
    Str::new(format!("meridian:applied:{owner}"))
}

/// The operation that writes the number.
pub(super) fn note(row: Uuid, key: &Str, seq: u64) -> Value {
    json!({
        "op": "mutate", "table": "NB_Global", "where": [["_uuid", "==", ["uuid", row.to_string()]]],
        "mutations": [
            ["external_ids", "delete", ["set", [key]]],
            ["external_ids", "insert", ["map", [[key, seq.to_string()]]]],
        ],
    })
}

/// Tells the others, and hears from them.
pub(super) struct Exchange {
    pub(super) nb: Client,
    pub(super) fence: Fence,
    pub(super) lock: String,
    pub(super) key: Str,
    pub(super) held: watch::Receiver<LockState>,
    /// What this server has written itself.
    pub(super) own: watch::Receiver<u64>,
    /// What is written, by whichever server.
    pub(super) known: watch::Sender<u64>,
}

impl Exchange {
    /// Runs until the loop ends.
    pub(super) async fn run(mut self) {
        let mut feed = self.nb.subscribe_all();
        loop {
            let own = *self.own.borrow_and_update();
            let told = self.told();
            let is_writer = *self.held.borrow_and_update() == LockState::Held;
            let newest = if is_writer { own } else { told };
            self.known.send_if_modified(|known| std::mem::replace(known, newest) != newest);
            if is_writer && told < own {
                self.tell(own).await;
            }
            tokio::select! {
                changed = self.held.changed() => if changed.is_err() { return },
                changed = self.own.changed() => if changed.is_err() { return },
                event = feed.next() => if event.is_none() { return },
            }
        }
    }

    fn told(&self) -> u64 {
        let snapshot = self.nb.snapshot();
        let global = snapshot.table::<NbGlobal>().iter().next();
        let text = global.and_then(|(_, global)| global.external_ids.get(self.key.as_str()).cloned());
        text.and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    async fn tell(&self, seq: u64) {
        let (Some(row), Some(guard)) = (self.fence.row(), self.fence.guard()) else { return };
        let mut txn = Transaction::new();
        txn.assert_lock(&self.lock);
        txn.raw(&guard);
        txn.raw(&note(row, &self.key, seq));
        if let Err(error) = self.nb.commit(&txn).await {
            // Whoever waits waits longer; the next change tells both.
            debug!(%error, "could not tell how far the rows have come");
        }
    }
}
