//! What the last plan was made of, so that the next one looks only at rows that can have changed.
//!
//! A row's steps follow from what is wanted of it, what it is, and whether the rows it refers to are ours. So a row can be
//! passed over if it was as wanted when the last plan was made and nobody has said or done anything else about it since.
//! Whatever would make that reasoning hard (another schema, rows that cannot be read, other objects to be kept, a row that
//! gains or loses its mark, a row that is there and becomes ours) is answered with a plan for everything.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;

use reconcile::{ObjectId, Plan};

use super::desired::Desired;
use super::op::Op;
use super::plan::{Open, Since, plan_rows};
use super::rules::Rules;
use super::state::{Ownership, Row, RowId, View};

/// The last plan's inputs, and the rows that were not as wanted. Empty before the first plan.
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
    /// Another one that shows the same.
    fn copied(&self) -> Self;

    /// What became of each row since an older view; false if the two cannot be compared row by row.
    fn changes_since(&self, older: &Self, visit: &mut Compare<'_>) -> bool;
}

/// Told of a row before and after.
pub(super) type Compare<'v> = dyn FnMut(RowId, Option<&dyn Row>, Option<&dyn Row>) + 'v;

impl<V> Default for Memory<V> {
    fn default() -> Self {
        Memory { last: None }
    }
}

impl<V: Comparable> Memory<V> {
    /// Plans, for as few rows as can be.
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
    /// The rows that can need steps now; none if that cannot be told.
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
