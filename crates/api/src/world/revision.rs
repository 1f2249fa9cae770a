//! Whether one state of a store is of another's past.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use ovn::writer::Revision;

/// How many sequence numbers back a store lists its changes one by one; a server that is further behind reads everything.
pub(crate) const CHANGES_KEPT: u64 = 10_000;

/// Whether one state is of another's past, as far as the two tell by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ancestry {
    /// It is the same state, or one of its past.
    Ancestor,
    /// It is not: the store is another one, or it has never come so far.
    Stranger,
    /// The store's list of changes tells.
    Listed,
}

impl Ancestry {
    /// Whether `past` is `present` or a state of its past. The list of changes goes back [`CHANGES_KEPT`] numbers; of what is
    /// older, the store's name tells.
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
