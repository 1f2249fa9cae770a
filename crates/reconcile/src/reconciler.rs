//! The two roles of the loop: [`Desire`] computes the desired state, [`Target`] establishes it.
//!
//! This module is the contract; [`Driver`](crate::Driver) is the loop that calls it. `desire` and `plan` are pure: no IO, no
//! clock, no randomness, no waiting. `observe` and `apply` are the only places where a component touches the world, and `publish` is
//! where it tells others.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;

use serde::Serialize;

use crate::outcome::Outcome;
use crate::plan::{Applied, Plan};
use crate::problem::{Class, ObjectId};

/// Computes the desired state. Pure.
pub trait Desire: Send {
    /// All inputs at one instant. Cheap to take: reference-counted snapshots, not copies.
    type Snapshot: Send;
    /// The desired state of one target.
    type Desired: Send;

    /// Maps the inputs to the desired state. Equal snapshots give equal outcomes.
    ///
    /// `&mut` is for memory that only saves work (see [`units`](crate::units)) and for what [`publish`](Self::publish) will tell;
    /// the result must not depend on it.
    fn desire(&mut self, snapshot: &Self::Snapshot) -> Outcome<Self::Desired>;

    /// Tells others of the last decision: publishes it, logs it. The driver calls this after each [`desire`](Self::desire), so that
    /// deciding itself has no effect.
    fn publish(&mut self) {}

    /// The part of the desired state that is certain while an input is missing, if any. The target must keep everything else as
    /// it is. The component still counts as waiting.
    fn meanwhile(&mut self) -> Option<Self::Desired> {
        None
    }

    /// Drops all such memory. The driver calls it after a panic, when a change may be lost or the memory half-written. A
    /// decider that remembers anything must implement it.
    fn forget(&mut self) {}
}

/// How far an observation may rely on remembered state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The observation may use memory that events keep current, if the target has one.
    Cached,
    /// Read the world again: at the start, at the periodic resync, and after any failure.
    Full,
}

/// A part of the world that can be read and changed: database rows, kernel routes, flows, a daemon's configuration.
pub trait Target: Send {
    /// The desired state.
    type Desired: Send;
    /// The observed state.
    type Observed: Send;
    /// One idempotent change. `meridian plan` prints it as a string or as JSON. The loop compares ops to notice a step that is planned
    /// again and again.
    type Op: Display + Serialize + PartialEq + Send + Sync;

    /// The steps from `have` to `want`. Pure. If `have` is as desired, the plan is empty. The plan reports objects that the
    /// target would refuse, and has no steps for them.
    ///
    /// A plan touches only objects that are marked ours. `keep` names objects that could not be decided: the driver drops steps
    /// on them, but the planner must handle side effects on them, such as a parent's list that must still name them.
    ///
    /// `&mut` is for memory that only saves work, and for what [`publish`](Self::publish) will tell.
    fn plan(
        &mut self,
        want: &Self::Desired,
        keep: &BTreeSet<ObjectId>,
        have: &Self::Observed,
    ) -> Plan<Self::Op>;

    /// Tells others of the last plan: publishes what was found. The driver calls this after each [`plan`](Self::plan), so that
    /// planning itself has no effect.
    fn publish(&mut self, _want: &Self::Desired, _have: &Self::Observed) {}

    /// Reads the world. May be dropped at any await when the process stops.
    fn observe(&mut self, scope: Scope) -> impl Future<Output = Result<Self::Observed, TargetError>> + Send;

    /// Applies a plan: as one transaction, or step by step with [`Walk`](crate::Walk).
    ///
    /// An error means that the plan failed as a whole (no connection, unknown outcome) and backs off the component. The failure
    /// of single steps belongs into [`Applied`] and backs off only their objects.
    fn apply(&mut self, plan: &Plan<Self::Op>) -> impl Future<Output = Result<Applied, TargetError>> + Send;
}

/// The error of reading or changing a target.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{tried}")]
pub struct TargetError {
    class: Class,
    tried: String,
    #[source]
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl TargetError {
    /// A failure of `class`; `tried` names the attempted action (`commit 3 rows to OVN_Northbound`).
    pub fn new(class: Class, tried: impl Into<String>) -> Self {
        Self { class, tried: tried.into(), source: None }
    }

    /// Adds the cause.
    pub fn because(mut self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(Arc::from(cause.into()));
        self
    }

    /// The remedy.
    pub fn class(&self) -> Class {
        self.class
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::chain;

    #[test]
    fn the_chain_names_what_was_tried_and_why_it_failed_once_each() {
        let error = TargetError::new(Class::Transient, "dump routes").because("socket closed");
        assert_eq!(error.to_string(), "dump routes");
        assert_eq!(chain(&error), "dump routes: socket closed");
        assert_eq!(error.clone().class(), Class::Transient);
    }
}
