//! A plan without its deletions.
//!
//! A writer may be wrong about which objects exist: its store may be an old copy. Rows that it inserts or changes by mistake
//! are easy to correct; rows that it deletes interrupt a tenant's traffic. So a writer whose knowledge is in doubt does
//! everything but delete.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;

use ovsdb::Uuid;
use reconcile::Plan;

use super::element::uuids;
use super::op::Op;

/// The number of rows that a plan deletes.
pub fn deletions(plan: &Plan<Op>) -> usize {
    plan.steps.iter().filter(|step| matches!(step.op, Op::Delete(_))).count()
}

/// Withholds the deletions of a plan, and the steps that remove the same rows from the columns that hold them: in most tables,
/// a row disappears as soon as nothing refers to it.
pub fn withhold_deletions(plan: &mut Plan<Op>) {
    let doomed: BTreeSet<Uuid> = plan
        .steps
        .iter()
        .filter_map(|step| match &step.op {
            Op::Delete(owned) => Some(owned.row().uuid),
            _ => None,
        })
        .collect();
    plan.withhold(|op| match op {
        Op::Delete(_) => true,
        Op::Take { elements, .. } => uuids(elements).any(|uuid| doomed.contains(&uuid)),
        Op::Set { from, to, .. } => {
            uuids(from).any(|uuid| doomed.contains(&uuid) && !uuids(to).any(|kept| kept == uuid))
        }
        Op::Insert { .. } | Op::Put { .. } => false,
    });
}
