//! The name of one state of the store from which rows follow.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

/// One state of one store.
///
/// The sequence number alone does not distinguish two states. A database that was restored from a backup counts through the same numbers
/// again with other changes. So each number comes with the random name of the transaction that wrote it, and with the random name of the
/// store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Revision {
    /// The store's name; it was chosen when the store was created.
    pub store: Uuid,
    /// The number of transactions of the store so far.
    pub seq: u64,
    /// The transaction that wrote `seq`.
    pub batch: Uuid,
}

/// `<store>/<seq>/<batch>`, the form in `NB_Global`.
impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.store, self.seq, self.batch)
    }
}

/// The error of a string that is no revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a revision; expected STORE/SEQUENCE/BATCH")]
pub struct RevisionError;

impl FromStr for Revision {
    type Err = RevisionError;

    fn from_str(text: &str) -> Result<Self, RevisionError> {
        let mut parts = text.split('/');
        let mut part = || parts.next().ok_or(RevisionError);
        let (store, seq, batch) = (part()?, part()?, part()?);
        if parts.next().is_some() {
            return Err(RevisionError);
        }
        Ok(Revision {
            store: store.parse().map_err(|_| RevisionError)?,
            seq: seq.parse().map_err(|_| RevisionError)?,
            batch: batch.parse().map_err(|_| RevisionError)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_is_read_back_as_it_was_written() {
        let revision = Revision { store: Uuid::from_u128(7), seq: 42, batch: Uuid::from_u128(9) };
        assert_eq!(revision.to_string().parse(), Ok(revision));
        let nil = Uuid::nil();
        for bad in ["", "7", &format!("{nil}/1"), &format!("{nil}/x/{nil}"), &format!("{nil}/1/{nil}/")] {
            assert_eq!(bad.parse::<Revision>(), Err(RevisionError), "{bad:?}");
        }
    }
}
