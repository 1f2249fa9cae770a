//! The contribution of one target to the node's common plan: its steps with their phases, its counts, and its problems.
//!
//! | file | holds |
//! |---|---|
//! | [`phase`] | the order of changes across the parts |
//! | [`kind`] | what they are made of, counted |
//! | [`object`] | how objects are named |
//! | [`keep`] | what a decider could not decide about, and so has to stay |
//!
//! The targets (`kernel`, `ports`, `flows`, `frr`) know this and not [`plane`](crate::plane), which puts them together.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod keep;
pub mod kind;
pub mod object;
pub mod phase;

use reconcile::ObjectId;

use kind::{Counts, Kind};
use phase::Phase;

/// A change with its time and the object it serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedStep<Op> {
    /// The phase.
    pub phase: Phase,
    /// For what.
    pub object: ObjectId,
    /// The change.
    pub op: Op,
}

/// The contribution of one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part<Op> {
    /// Its changes, in no order but that of their phases.
    pub steps: Vec<PlannedStep<Op>>,
    /// The number of desired objects, and the number of them that are in place.
    pub counts: Counts,
    /// The problems of objects that cannot be planned.
    pub problems: Vec<reconcile::Problem>,
}

impl<Op> Default for Part<Op> {
    fn default() -> Self {
        Part { steps: Vec::new(), counts: Counts::default(), problems: Vec::new() }
    }
}

impl<Op> Part<Op> {
    /// Adds a change.
    pub fn push(&mut self, phase: Phase, object: ObjectId, op: Op) {
        self.steps.push(PlannedStep { phase, object, op });
    }

    /// Counts a wanted thing, and whether it is there.
    pub fn count(&mut self, kind: Kind, there: bool) -> bool {
        let count = self.counts.of_mut(kind);
        count.want += 1;
        count.have += usize::from(there);
        there
    }
}
