//! What a client counts: plain numbers, for whatever exports them.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::txn::CommitError;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What was counted since the client was opened.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Metrics {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// The counters themselves.
        #[derive(Debug, Default)]
        pub(crate) struct Meters {
            $(pub(crate) $name: AtomicU64,)*
        }

        impl Meters {
            /// All of them, each read on its own.
            pub(crate) fn read(&self) -> Metrics {
                Metrics { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Bytes that came.
    bytes_received,
    /// Bytes that went.
    bytes_sent,
    /// Complete messages that came.
    messages_received,
    /// Messages that went.
    messages_sent,
    /// Connections that came about.
    connections,
    /// Connections and attempts that ended.
    disconnections,
    /// Deltas that were published.
    deltas,
    /// Rows that changed in them.
    rows_changed,
    /// Times a feed's reader was too slow and changes were summed up for it.
    feed_lags,
    /// Transactions that were committed.
    committed,
    /// Transactions that were refused.
    refused,
    /// Transactions that failed because an expectation did not hold.
    conflicts,
    /// Transactions whose outcome is unknown.
    unknown,
    /// Transactions that were not sent.
    unsent,
    /// Batches of grouped transactions that were sent.
    batches,
}

/// One more.
pub(crate) fn count(counter: &AtomicU64) {
    add(counter, 1);
}

/// So many more.
pub(crate) fn add(counter: &AtomicU64, more: usize) {
    counter.fetch_add(more as u64, Ordering::Relaxed);
}

impl Meters {
    pub(crate) fn settled<T>(&self, outcome: &Result<T, CommitError>) {
        count(match outcome {
            Ok(_) => &self.committed,
            Err(CommitError::Conflict { .. }) => &self.conflicts,
            Err(CommitError::Unknown { .. }) => &self.unknown,
            Err(CommitError::Refused { .. } | CommitError::NotOwner { .. }) => &self.refused,
            Err(_) => &self.unsent,
        });
    }
}
