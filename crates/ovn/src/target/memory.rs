//! The basis of the last plan, so that the next one examines only rows that may have changed.
//!
//! A row's steps follow from its desired state, its observed state, and whether the rows that it refers to are ours. So the
//! planner can skip a row that was as desired in the last plan, if neither state has changed since. Some changes would make
//! this reasoning hard: another schema, unreadable rows, other kept objects, a row that gains or loses its mark, an existing
//! row that becomes ours. After those, the planner plans everything.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;

use reconcile::{ObjectId, Plan};

use super::desired::Desired;
use super::op::Op;
use super::plan::{Open, Since, plan_rows};
use super::rules::Rules;
use super::state::{Ownership, Row, RowId, View};

/// The last plan's inputs, and the rows that were not as desired. Empty before the first plan.
#[derive(Debug)]
pub(super) struct Memory<V> {
    last: Option<Last<V>>,
}

#[derive(Debug)]
struct Last<V> {
    want: Desired,
    keep: BTreeSet<ObjectId>,
    have: V,
    open: Open,
}

/// A view that can be compared with an older one of the same database.
pub(super) trait Comparable: View + Sized {
    /// A copy of the view.
    fn copied(&self) -> Self;

    /// Visits each row that changed since an older view; false if the two cannot be compared row by row.
    fn changes_since(&self, older: &Self, visit: &mut Compare<'_>) -> bool;
}

/// Callback with a row before and after.
pub(super) type Compare<'v> = dyn FnMut(RowId, Option<&dyn Row>, Option<&dyn Row>) + 'v;

impl<V> Default for Memory<V> {
    fn default() -> Self {
        Memory { last: None }
    }
}

impl<V: Comparable> Memory<V> {
    /// Plans, and examines as few rows as possible.
    pub(super) fn plan(
        &mut self,
        want: &Desired,
        keep: &BTreeSet<ObjectId>,
        have: &V,
        ownership: &Ownership,
        rules: &Rules,
    ) -> Plan<Op> {
        let since = self.last.as_ref().and_then(|last| {
            let rows = last.rows(want, keep, have, ownership)?;
            Some(Since { rows, want: &last.want, have: &last.have, open: &last.open })
        });
        let (plan, open) = plan_rows(want, keep, have, ownership, rules, since);
        self.last = Some(Last { want: want.clone(), keep: keep.clone(), have: have.copied(), open });
        plan
    }
}

impl<V: Comparable> Last<V> {
    /// The rows that may need steps now; `None` if that is unknown.
    fn rows(
        &self,
        want: &Desired,
        keep: &BTreeSet<ObjectId>,
        have: &V,
        ownership: &Ownership,
    ) -> Option<BTreeSet<RowId>> {
        if self.keep != *keep || self.want.adopted() != want.adopted() {
            return None;
        }
        let mut rows = self.open.rows.clone();
        for id in want.differing(&self.want) {
            // A row that was to go and is to stay: places that name it must be judged anew, and may be anywhere.
            if self.want.owner(id).is_none() && want.owner(id).is_some() && have.row(id).is_some() {
                return None;
            }
            rows.insert(id);
        }
        let mut marks_moved = false;
        let comparable = have.changes_since(&self.have, &mut |id, before, after| {
            if let (Some(before), Some(after)) = (before, after) {
                marks_moved |= ownership.claim(id, before).is_some() != ownership.claim(id, after).is_some();
            }
            rows.insert(id);
        });
        (comparable && !marks_moved).then_some(rows)
    }
}
