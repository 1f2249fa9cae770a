//! The comparison of two store revisions: whether one is in the other's past.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use ovn::writer::Revision;

/// The number of past changes that a store lists. A server that is further behind reads all rows.
pub(crate) const CHANGES_KEPT: u64 = 10_000;

/// The relation of one revision to another, as far as the two values show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ancestry {
    /// The same revision, or a past one.
    Ancestor,
    /// Not a past one: the store is another, or it has never come so far.
    Stranger,
    /// Unknown from the values: search the store's list of changes.
    Listed,
}

impl Ancestry {
    /// Whether `past` is `present` or a revision of its past. The list of changes goes back [`CHANGES_KEPT`] numbers; for an older revision
    /// the store's name decides.
    pub(crate) fn of(past: Revision, present: Revision) -> Ancestry {
        if present.store != past.store || present.seq < past.seq {
            Ancestry::Stranger
        } else if present == past || past.seq == 0 || present.seq - past.seq >= CHANGES_KEPT {
            Ancestry::Ancestor
        } else {
            Ancestry::Listed
        }
    }
}
