//! Reports rows that could not be decoded. They are in no table, so only these reports mention them.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

use super::snapshot::UnreadableRow;
use super::table::RawRow;

/// Maximum number of rows of a table in one message. A new version that writes a column differently affects all rows.
const NAMED: usize = 20;

/// Records rows that became undecodable (`Some`) or decodable again. Each is logged once: not again when another column of it
/// changes, nor after a full reload.
pub(super) fn take(
    table: &str,
    aside: &mut BTreeMap<Uuid, Arc<RawRow>>,
    staged: Vec<(Uuid, Option<Arc<RawRow>>)>,
) {
    let mut new = 0;
    for (uuid, raw) in staged {
        let Some(raw) = raw else {
            aside.remove(&uuid);
            continue;
        };
        let known = |before: &Arc<RawRow>| before.column == raw.column && before.problem == raw.problem;
        if !aside.get(&uuid).is_some_and(known) {
            new += 1;
            if new <= NAMED {
                let (column, problem) = (&*raw.column, &raw.problem);
                tracing::warn!(
                    table, %uuid, column, %problem,
                    "cannot parse a row, so it is skipped; correct it, or upgrade this program"
                );
            }
        }
        aside.insert(uuid, raw);
    }
    if new > NAMED {
        let more = new - NAMED;
        tracing::warn!(table, more, "cannot parse more rows of this table");
    }
}

impl fmt::Display for UnreadableRow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, uuid, column, problem, .. } = self;
        write!(f, "{table} {uuid}, column {column}: {problem}")
    }
}
