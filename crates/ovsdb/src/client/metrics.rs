//! The counters of a client: plain numbers, for any exporter.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::txn::CommitError;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counts since the client was opened.
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
            /// Reads all counters, each on its own.
            pub(crate) fn read(&self) -> Metrics {
                Metrics { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Received bytes.
    bytes_received,
    /// Sent bytes.
    bytes_sent,
    /// Received complete messages.
    messages_received,
    /// Sent messages.
    messages_sent,
    /// Established connections.
    connections,
    /// Closed connections and failed attempts.
    disconnections,
    /// Deltas that were published.
    deltas,
    /// Rows that changed in them.
    rows_changed,
    /// Times a feed's reader was too slow, so that its changes were merged.
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

/// Increments a counter.
pub(crate) fn count(counter: &AtomicU64) {
    add(counter, 1);
}

/// Adds to a counter.
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
