//! Group commit: sends many small transactions as one, and each still gets its own reply.
//!
//! While one batch is in flight, the next one gathers. If a batch succeeds, all of its transactions succeed. A failed batch has changed
//! nothing, so it is split. If the server names the failed operation, its transaction is sent alone, between those before and those after
//! it. If it names none (references, unique indexes), the batch is halved until the bad transaction is alone. Order is kept throughout:
//! transactions are sent in the order of the queue, and one is rejected only by a reply to itself alone.
//!
//! The server's deferred checks see the batch as a whole: a transaction that breaks a reference and a later one that repairs it succeed
//! together, though they would not separately.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::VecDeque;

use super::builder::{ComposedTransaction, Label, OpKind};
use super::outcome::{self, Answer, CommitError, Committed, Failure, OpResult};
use crate::model::Str;

/// The size of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupLimits {
    /// Most operations.
    pub ops: usize,
    /// Maximum number of bytes. A larger single transaction is sent alone.
    pub bytes: usize,
}

impl Default for GroupLimits {
    /// Large enough to make the round trip cheap, small enough to make splitting a batch cheap.
    fn default() -> Self {
        Self { ops: 1000, bytes: 1 << 20 }
    }
}

/// The outcome of one transaction, with its key in the queue.
pub type Settled<K> = (K, Result<Committed, CommitError>);

/// The queue of transactions of one connection. At most one batch is in flight.
#[derive(Debug)]
pub struct Group<K> {
    limits: GroupLimits,
    waiting: VecDeque<Entry<K>>,
    /// Parts of failed batches, in order; they are sent before waiting transactions.
    parts: VecDeque<Vec<Entry<K>>>,
    sent: Option<Vec<Entry<K>>>,
    /// Bytes of waiting transactions and parts.
    queued: usize,
}

#[derive(Debug)]
struct Entry<K> {
    key: K,
    composed: ComposedTransaction,
}

impl<K> Entry<K> {
    /// Bytes in a batch, with the comma.
    fn size(&self) -> usize {
        self.composed.text.len() + 1
    }

    fn asserts(&self, lock: &Str) -> bool {
        self.composed.labels.iter().any(|label| label.kind == OpKind::Assert && label.target == *lock)
    }
}

impl<K> Group<K> {
    /// An empty queue.
    pub fn new(limits: GroupLimits) -> Self {
        Self { limits, waiting: VecDeque::new(), parts: VecDeque::new(), sent: None, queued: 0 }
    }

    /// Queues a transaction.
    pub fn push(&mut self, key: K, composed: ComposedTransaction) {
        let entry = Entry { key, composed };
        self.queued += entry.size();
        self.waiting.push_back(entry);
    }

    /// The number of queued bytes, without those in flight.
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// Whether nothing is queued or in flight.
    pub fn is_empty(&self) -> bool {
        self.sent.is_none() && self.parts.is_empty() && self.waiting.is_empty()
    }

    /// The next batch to send, as an array of operations; `None` while one is in flight or none is queued.
    pub fn next_batch(&mut self) -> Option<String> {
        if self.sent.is_some() || self.queued == 0 {
            return None;
        }
        let batch = self.parts.pop_front().unwrap_or_else(|| self.gather());
        let size = size(&batch);
        self.queued -= size;
        let mut text = String::with_capacity(size + 1);
        text.push('[');
        for composed in batch.iter().map(|entry| &entry.composed).filter(|c| !c.text.is_empty()) {
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(&composed.text);
        }
        text.push(']');
        self.sent = Some(batch);
        Some(text)
    }

    /// Processes the reply to the batch in flight; returns the outcomes of the transactions that it settles.
    pub fn answer(&mut self, answer: Answer<'_>) -> Vec<Settled<K>> {
        let Some(batch) = self.sent.take() else { return Vec::new() };
        let count = batch.iter().map(|entry| entry.composed.labels.len()).sum();
        match answer {
            Answer::NotSent => settle(batch, || CommitError::NotConnected),
            Answer::Lost => {
                settle(batch, || CommitError::Unknown { reason: "the connection was lost".into() })
            }
            Answer::Error(error) => {
                let failure = outcome::read_refusal(error);
                settle(batch, || CommitError::refused(&failure.error, &failure.details, None))
            }
            Answer::Result(result) => match outcome::read(result, count) {
                Err(reason) => settle(batch, || CommitError::Unknown { reason: reason.clone() }),
                Ok(Ok(results)) => share(batch, results),
                Ok(Err(failure)) => self.take_apart(batch, failure),
            },
        }
    }

    /// Cancels the transactions that have not been sent.
    pub fn abandon(&mut self, error: impl Fn() -> CommitError) -> Vec<Settled<K>> {
        self.queued = 0;
        let parts = std::mem::take(&mut self.parts).into_iter().flatten();
        parts.chain(std::mem::take(&mut self.waiting)).map(|entry| (entry.key, Err(error()))).collect()
    }

    fn gather(&mut self) -> Vec<Entry<K>> {
        let (mut ops, mut bytes) = (0, 0);
        let fits = |entry: &Entry<K>| {
            ops += entry.composed.labels.len();
            bytes += entry.size();
            ops <= self.limits.ops && bytes <= self.limits.bytes
        };
        let count = self.waiting.iter().map(fits).take_while(|fits| *fits).count();
        let count = count.max(1).min(self.waiting.len());
        self.waiting.drain(..count).collect()
    }

    /// Splits a failed batch; a lone transaction is settled by its failure.
    fn take_apart(&mut self, mut batch: Vec<Entry<K>>, failure: Failure) -> Vec<Settled<K>> {
        let blamed = failure.at.and_then(|at| blame(&batch, at));
        let label = blamed.map(|(entry, op)| (op, batch[entry].composed.labels[op].clone()));
        let error = CommitError::refused(&failure.error, &failure.details, label);
        if batch.len() == 1 {
            return settle(batch, || error.clone());
        }
        match (&error, blamed) {
            // These errors do not blame a single transaction.
            (CommitError::Unknown { .. }, _) => settle(batch, || error.clone()),
            (_, None) if outcome::is_transient(&failure.error) => settle(batch, || error.clone()),
            // A transaction that asserts a lock which we do not hold fails without a retry.
            (CommitError::NotOwner { lock }, _) => {
                let (lost, rest): (Vec<_>, Vec<_>) = batch.into_iter().partition(|entry| entry.asserts(lock));
                self.put_back([rest]);
                settle(lost, || error.clone())
            }
            (_, Some((at, _))) => {
                let behind = batch.split_off(at + 1);
                let blamed = batch.split_off(at);
                self.put_back([batch, blamed, behind]);
                Vec::new()
            }
            (_, None) => {
                let behind = batch.split_off(batch.len() / 2);
                self.put_back([batch, behind]);
                Vec::new()
            }
        }
    }

    fn put_back<const N: usize>(&mut self, parts: [Vec<Entry<K>>; N]) {
        for part in parts.into_iter().rev().filter(|part| !part.is_empty()) {
            self.queued += size(&part);
            self.parts.push_front(part);
        }
    }
}

fn size<K>(entries: &[Entry<K>]) -> usize {
    entries.iter().map(Entry::size).sum()
}

/// The entry that an operation of a batch belongs to, and the operation's position in it.
fn blame<K>(batch: &[Entry<K>], at: usize) -> Option<(usize, usize)> {
    let mut first = 0;
    for (position, entry) in batch.iter().enumerate() {
        let count = entry.composed.labels.len();
        if at < first + count {
            return Some((position, at - first));
        }
        first += count;
    }
    None
}

fn settle<K>(batch: Vec<Entry<K>>, error: impl Fn() -> CommitError) -> Vec<Settled<K>> {
    batch.into_iter().map(|entry| (entry.key, Err(error()))).collect()
}

/// Assigns each transaction the results of its own operations.
fn share<K>(batch: Vec<Entry<K>>, results: Vec<OpResult>) -> Vec<Settled<K>> {
    let mut results = results.into_iter();
    let mut own = |labels: &[Label]| results.by_ref().take(labels.len()).collect();
    batch.into_iter().map(|entry| (entry.key, Ok(Committed::new(own(&entry.composed.labels))))).collect()
}

#[cfg(test)]
mod tests;
