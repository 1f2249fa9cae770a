//! The two roles of the loop: [`Desire`] decides what should be, [`Target`] makes it so.
//!
//! What is here is the contract; the loop that calls it is [`Driver`](crate::Driver). `desire` and `plan` are pure: no IO,
//! no clock, no randomness, no waiting. `observe` and `apply` are the only places where a component touches the world.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;

use serde::Serialize;

use crate::outcome::Outcome;
use crate::plan::{Applied, Plan};
use crate::problem::{Class, ObjectId};

/// Decides what should be. Pure.
pub trait Desire: Send {
    /// All inputs at one instant. Cheap to take: reference-counted snapshots, not copies.
    type Snapshot: Send;
    /// What one target should look like.
    type Desired: Send;

    /// Maps the inputs to what should be. Equal snapshots give equal outcomes.
    ///
    /// `&mut` is for memory that only saves work (see [`units`](crate::units)); the result must not depend on it.
    fn desire(&mut self, snapshot: &Self::Snapshot) -> Outcome<Self::Desired>;

    /// What is certain while an input is not there yet, if anything is. It is not all that should be: the target has to be told to
    /// keep whatever else is there. The component still counts as one that waits.
    fn meanwhile(&mut self) -> Option<Self::Desired> {
        None
    }

    /// Drops all such memory. The driver calls it after a panic, when a change may be lost or the memory half-written; a
    /// decider that remembers anything must implement it.
    fn forget(&mut self) {}
}

/// How much of a remembered world an observation may rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// A memory kept current by events is good enough, where there is one.
    Cached,
    /// Read the world again: at the start, on the periodic resync, and after any failure.
    Full,
}

/// A part of the world that can be read and changed: database rows, kernel routes, flows, a daemon's configuration.
pub trait Target: Send {
    /// What can be wanted of it.
    type Desired: Send;
    /// What can be seen of it.
    type Observed: Send;
    /// One idempotent change. Shown by `meridian plan` as text and as JSON; compared to notice a step that is planned again
    /// and again.
    type Op: Display + Serialize + PartialEq + Send + Sync;

    /// What leads from `have` to `want`. Pure. When `have` is as wanted the plan is empty. What the target would not take is
    /// reported in the plan, not tried.
    ///
    /// Only what is marked ours may be touched. `keep` names objects that could not be decided: the driver drops steps on
    /// them, but the planner must see to side effects on them, such as the parent's list that still has to name them.
    fn plan(&self, want: &Self::Desired, keep: &BTreeSet<ObjectId>, have: &Self::Observed) -> Plan<Self::Op>;

    /// Reads the world. May be dropped at any await when the process stops.
    fn observe(&mut self, scope: Scope) -> impl Future<Output = Result<Self::Observed, TargetError>> + Send;

    /// Carries out a plan: as one transaction, or step by step with [`Walk`](crate::Walk).
    ///
    /// An error means that the plan failed as a whole (no connection, unknown outcome) and backs off the component; the
    /// failure of single steps belongs into [`Applied`] and backs off their objects alone.
    fn apply(&mut self, plan: &Plan<Self::Op>) -> impl Future<Output = Result<Applied, TargetError>> + Send;
}

/// Why a target could not be read or changed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{tried}")]
pub struct TargetError {
    class: Class,
    tried: String,
    #[source]
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl TargetError {
    /// A failure of `class`; `tried` says what was attempted (`commit 3 rows to OVN_Northbound`).
    pub fn new(class: Class, tried: impl Into<String>) -> Self {
        Self { class, tried: tried.into(), source: None }
    }

    /// Adds why it failed.
    pub fn because(mut self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(Arc::from(cause.into()));
        self
    }

    /// What will help.
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
