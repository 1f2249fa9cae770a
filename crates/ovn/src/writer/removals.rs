//! Whether the writer may delete rows.
//!
//! A server that becomes the writer compares the whole Northbound with its own store and deletes every row of ours that the store does not
//! contain. If the store is an old copy (a backup, a second SQLite file, the wrong PostgreSQL), it would delete the customers' network. So
//! the Northbound itself names the newest state that was written to it ([`Revision`]), and these rules apply:
//!
//! * A writer whose store does not have that state in its past deletes nothing.
//! * A new writer that would begin with a mass deletion does not begin with it.
//! * In both cases an operator decides, with `meridian allow-deletions`. Everything but deletions continues meanwhile.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use reconcile::{Class, ObjectId, Plan, Problem};

use super::Revision;
use crate::target::{Op, deletions, withhold_deletions};

/// Fewer rows than this are no mass deletion, however small the network is.
const FEW: usize = 10;

/// The deletions that the writer may make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Removals {
    /// All rows that its store does not contain: the store has proved to be the newest, or an operator permitted it.
    #[default]
    Allowed,
    /// At most this share of all rows, in percent: the writer is new.
    AtMost(u8),
    /// None: the Northbound was written from a state that this store never had.
    Withheld {
        /// The state in the Northbound.
        newest: Revision,
        /// The state of this server's store.
        own: Revision,
    },
}

impl Removals {
    /// Removes the forbidden deletions from a plan, and reports them. `rows` is the current number of rows of ours. Returns whether the
    /// whole plan may go on.
    pub(super) fn admit(self, plan: &mut Plan<Op>, rows: usize) -> bool {
        let count = deletions(plan);
        let why = match self {
            _ if count == 0 => return true,
            Removals::Allowed => return true,
            Removals::AtMost(percent) if count < FEW || count * 100 <= rows * usize::from(percent) => {
                return true;
            }
            Removals::AtMost(percent) => format!(
                "this server has just become the writer, and more than {percent} % of the rows would go \
                 (max_takeover_deletions)"
            ),
            Removals::Withheld { newest, own } if newest.store != own.store => format!(
                "store {} has written to this Northbound before, and this server's store is {}",
                newest.store, own.store
            ),
            Removals::Withheld { newest, own } => format!(
                "change {} of this server's store was written to this Northbound before, and the store as it is now (at change \
                 {}) does not have it: it was restored from a backup",
                newest.seq, own.seq
            ),
        };
        withhold_deletions(plan);
        let text = format!(
            "withholds the deletion of {count} of {rows} rows: {why}. `meridian plan` lists them. To delete them, run `meridian \
             allow-deletions`; otherwise stop this server and start the one with the right store"
        );
        let itself = ObjectId::new("component", "northbound");
        plan.report(Problem::error(itself, Class::Refused, "deletions-withheld", text));
        false
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::nb::LogicalSwitch;
    use crate::target::{Ownership, RowId};

    /// A plan that inserts one row and deletes some.
    fn plan_of(doomed: u128) -> Plan<Op> {
        let row = |n: u128| RowId::of::<LogicalSwitch>(Uuid::from_u128(n));
        let switch = LogicalSwitch {
            external_ids: [("meridian:owner".into(), "meridian".into())].into(),
            ..LogicalSwitch::default()
        };
        let ownership = Ownership::new("meridian");
        let mut plan = Plan::new(1, 0);
        plan.push(ObjectId::new("network", "new"), Op::Insert { row: row(0), values: Vec::new() });
        for n in 1..=doomed {
            let owned = ownership.claim(row(n), &switch).unwrap();
            plan.push(ObjectId::new("network", n.to_string()), Op::Delete(owned));
        }
        plan
    }

    #[test]
    fn deletions_go_on_or_wait_for_an_operator() {
        let own = Revision { store: Uuid::from_u128(1), seq: 5, batch: Uuid::from_u128(2) };
        let newer = Revision { seq: 9, ..own };
        let foreign = Revision { store: Uuid::from_u128(3), ..own };
        let withheld = |newest| Removals::Withheld { newest, own };
        let cases = [
            (Removals::Allowed, 200, 200, ""),
            (Removals::AtMost(10), 200, 20, ""),
            (Removals::AtMost(10), 200, 21, "more than 10 %"),
            (Removals::AtMost(10), 12, 9, ""),
            (Removals::AtMost(10), 12, 10, "more than 10 %"),
            (Removals::AtMost(100), 200, 200, ""),
            (withheld(newer), 200, 1, "restored from a backup"),
            (withheld(foreign), 200, 1, "store 00000000-0000-0000-0000-000000000003"),
            (withheld(foreign), 200, 0, ""),
        ];
        for (removals, rows, doomed, reason) in cases {
            let mut plan = plan_of(doomed);
            let before = plan.clone();
            assert_eq!(removals.admit(&mut plan, rows), reason.is_empty(), "{removals:?} {doomed} of {rows}");
            if reason.is_empty() {
                assert_eq!(plan, before);
                continue;
            }
            assert!(plan.problems[0].message.contains(reason), "{}", plan.problems[0].message);
            assert_eq!(plan.withheld.len(), usize::try_from(doomed).unwrap());
            assert!(plan.steps.iter().all(|step| matches!(step.op, Op::Insert { .. })), "{plan}");
            assert_eq!(plan.steps.len(), 1);
        }
    }
}
