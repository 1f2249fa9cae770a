//! The writer's generation: a number in `NB_Global` that every new writer raises, and that every transaction of its expects.
//!
//! Beside it, where several servers share the work, stands how far the writer has come ([`super::applied`]).
//!
//! The lock lives in one server's memory. When the leader of a cluster changes, two writers may each believe for a moment
//! that they hold it; the number is in the database itself, so the one that was overtaken writes nothing.

use std::sync::{Arc, Mutex, PoisonError};

use ovn::nb::NbGlobal;
use ovsdb::client::{Lock, LockState};
use ovsdb::{Client, Str, Transaction, Uuid};
use reconcile::Handle;
use serde_json::{Value, json};
use tracing::{info, warn};

/// What the writer's transactions expect.
#[derive(Clone, Debug, Default)]
pub(super) struct Fence(Arc<Mutex<State>>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum State {
    /// Not the writer, or not yet.
    #[default]
    Down,
    /// There is no row to hold the number; northd will make it.
    Bare,
    /// The number is ours.
    Up { row: Uuid, key: Str, generation: Str },
}

impl Fence {
    fn state(&self) -> State {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, state: State) -> bool {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = *held != state;
        *held = state;
        changed
    }

    /// Whether the writer may write.
    pub(super) fn is_up(&self) -> bool {
        self.state() != State::Down
    }

    /// The row that holds the number, while it is ours.
    pub(super) fn row(&self) -> Option<Uuid> {
        match self.state() {
            State::Up { row, .. } => Some(row),
            State::Down | State::Bare => None,
        }
    }

    /// The operation that fails where another writer has taken over.
    pub(super) fn guard(&self) -> Option<Value> {
        let State::Up { row, key, generation } = self.state() else { return None };
        Some(json!({
            "op": "wait", "table": "NB_Global", "timeout": 0,
            "where": [
                ["_uuid", "==", ["uuid", row.to_string()]],
                ["external_ids", "includes", ["map", [[key, generation]]]],
            ],
            "columns": ["_uuid"], "until": "!=", "rows": [],
        }))
    }
}

/// Raises the generation whenever this server becomes the writer, and again if the number is lost with the database. Holds
/// the lock until the loop is stopped.
pub(super) async fn keep(fence: Fence, nb: Client, lock: Lock, owner: String, handle: Handle) {
    let key = Str::new(format!("meridian:generation:{owner}"));
    let mut feed = nb.subscribe_all();
    let mut held = lock.state();
    let mut status = handle.status();
    loop {
        if *held.borrow_and_update() == LockState::Held {
            if let Some(state) = claim(&nb, lock.name(), &owner, &key, &fence.state()).await
                && fence.set(state)
            {
                handle.run_now();
            }
        } else if fence.set(State::Down) {
            info!("this server is not the writer of the Northbound any more");
        }
        tokio::select! {
            changed = held.changed() => if changed.is_err() { return },
            event = feed.next() => if event.is_none() { return },
            _ = status.wait_for(|status| status.state == reconcile::State::Stopped) => return,
        }
    }
}

/// The state that holds now; none if it cannot be told yet.
async fn claim(nb: &Client, lock: &str, owner: &str, key: &Str, known: &State) -> Option<State> {
    let snapshot = nb.snapshot();
    let Some((row, global)) = snapshot.table::<NbGlobal>().iter().next() else { return Some(State::Bare) };
    let there = global.external_ids.get(key.as_str());
    if let State::Up { row: ours, generation, .. } = known
        && *ours == row.uuid()
        && there == Some(generation)
    {
        return Some(known.clone());
    }
    let generation = there.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0) + 1;
    let generation = Str::new(generation.to_string());
    let r#where = json!([["_uuid", "==", ["uuid", row.uuid().to_string()]]]);
    let mut txn = Transaction::new();
    txn.assert_lock(lock);
    txn.raw(&json!({
        "op": "mutate", "table": "NB_Global", "where": r#where,
        "mutations": [
            // What the one before has told is not ours to answer for: it may even be about another store.
            ["external_ids", "delete", ["set", [key, super::applied::key(owner)]]],
            ["external_ids", "insert", ["map", [[key, generation]]]],
        ],
    }));
    match nb.commit(&txn).await {
        Ok(_) => {
            info!(%generation, "this server is the writer of the Northbound");
            Some(State::Up { row: row.uuid(), key: key.clone(), generation })
        }
        Err(error) => {
            warn!(%error, "could not become the writer of the Northbound; tried again when something changes");
            None
        }
    }
}
