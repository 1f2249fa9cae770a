//! A plan without what it deletes.
//!
//! A writer may be wrong about what exists: its store may be an old copy. Rows that it inserts or changes by mistake are
//! easily put right; rows that it deletes take a tenant's traffic with them. So a writer whose knowledge is in doubt goes on
//! with everything but deletions.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;

use ovsdb::Uuid;
use reconcile::Plan;

use super::element::uuids;
use super::op::Op;

/// How many rows a plan deletes.
pub fn deletions(plan: &Plan<Op>) -> usize {
    plan.steps.iter().filter(|step| matches!(step.op, Op::Delete(_))).count()
}

/// Withholds the deletions of a plan, and the steps that take the same rows out of the columns that hold them: a row of most
/// tables goes as soon as nothing refers to it.
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
