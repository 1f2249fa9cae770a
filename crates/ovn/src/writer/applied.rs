//! The progress of the writer: the newest state of its store from which the Northbound's rows follow.
//!
//! The writer records it in `NB_Global` in the same transaction as the rows, so it costs no transaction of its own and is true at every
//! instant. Only a change that needs no rows, or whose rows had to be written in parts, needs a transaction for the note. The note has two
//! readers: servers on the same store, where a request that waits for the Northbound may have arrived at any of them; and the next writer,
//! which must not delete rows that follow from a newer store than its own ([`super::removals`]).

use std::sync::{Arc, Mutex, PoisonError};

use ovsdb::client::LockState;
use ovsdb::{Client, Str, Transaction};
use tokio::sync::watch;
use tracing::debug;

use super::fence::Fence;
use super::{Revision, SourceState};
use crate::nb::NbGlobal;

/// The key of the note.
pub(super) fn key(owner: &str) -> Str {
    Str::new(format!("meridian:applied:{owner}"))
}

/// The state that the rows follow from, as a writer has noted it.
pub(super) fn noted(nb: &Client, owner: &str) -> Option<Revision> {
    let snapshot = nb.snapshot();
    let (_, global) = snapshot.table::<NbGlobal>().iter().next()?;
    global.external_ids.get(key(owner).as_str())?.parse().ok()
}

/// Exchanges the progress with the other servers through the Northbound.
pub(super) struct AppliedExchange<S> {
    pub(super) nb: Client,
    pub(super) fence: Fence,
    pub(super) lock: String,
    pub(super) owner: String,
    pub(super) held: watch::Receiver<LockState>,
    pub(super) states: watch::Receiver<S>,
    /// The progress of this server itself.
    pub(super) own: watch::Receiver<Revision>,
    /// The revision that this server writes at present.
    pub(super) planned: Arc<Mutex<Revision>>,
    /// The sequence number of the newest written state, written by any server.
    pub(super) known: watch::Sender<u64>,
}

impl<S: SourceState> AppliedExchange<S> {
    /// Runs until the loop ends.
    pub(super) async fn run(mut self) {
        let mut feed = self.nb.subscribe_all();
        // Written in a former time of office; others may have written since.
        let mut former = Revision::default();
        loop {
            let own = *self.own.borrow_and_update();
            let noted = noted(&self.nb, &self.owner);
            let is_writer = *self.held.borrow_and_update() == LockState::Held;
            let newest = match noted {
                _ if is_writer => own.seq,
                Some(noted) if noted.store == self.states.borrow().revision().store => noted.seq,
                _ => 0,
            };
            self.known.send_if_modified(|known| std::mem::replace(known, newest) != newest);
            if !is_writer {
                former = own;
            } else if own != former && noted != Some(own) && !self.is_being_written(noted) {
                self.tell(own).await;
            }
            tokio::select! {
                changed = self.held.changed() => if changed.is_err() { return },
                changed = self.own.changed() => if changed.is_err() { return },
                event = feed.next() => if event.is_none() { return },
            }
        }
    }

    /// Whether a note is that of the rows that this server writes at present. The server sends the update before the reply, so the note is
    /// seen before `own` is. Without this check, this task would write the former state back over it, and then the new one again: two
    /// more transactions for each change, and in between a note that is older than the rows.
    fn is_being_written(&self, noted: Option<Revision>) -> bool {
        noted == Some(*self.planned.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn tell(&self, revision: Revision) {
        let mut txn = Transaction::new();
        txn.assert_lock(&self.lock);
        if !self.fence.guard(&mut txn) || !self.fence.note(revision, &mut txn) {
            return;
        }
        if let Err(error) = self.nb.commit(&txn).await {
            // Waiting requests wait longer; the next change writes the note for both.
            debug!(%error, "cannot record the progress of the writer");
        }
    }
}
