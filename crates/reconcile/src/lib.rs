//! The loop that every part of Meridian runs on. It knows no domain.
//!
//! ```text
//!   inputs ──wake──▶ coalesce ──▶ snapshot ──▶ desire ──▶ observe ──▶ plan ──▶ apply ──▶ report
//!  (any number,      (Schedule)   (newest of    pure,      reads       pure     writes     │
//!   level-triggered)     ▲         all inputs)  no IO      the world            the world  ▼
//!                        │                                                              Status,
//!                        └── look again · retry after back-off · full resync ◀────────  Metrics
//! ```
//!
//! Start, event, resync, reconnect and repair of foreign changes take one path: take the newest inputs, compute the desired
//! state, observe the actual state, apply the difference. Events only wake the loop; none carries data that could get lost.
//!
//! # The contract
//!
//! - [`Desire::desire`] and [`Target::plan`] are **pure**: no IO, no clock, no randomness, no waiting. Modules that hold them
//!   deny `clippy::disallowed_methods` and `clippy::disallowed_types` at their head, so the rule is checked.
//! - A decider **never fails**: it reports objects that it cannot decide in its [`Outcome`], and the loop keeps them as they
//!   are. One bad object stops no other and withdraws nothing that works.
//! - A plan is **ordered and idempotent**: make before break, parents before children. It may be cut off after any step.
//! - **Converged** means that an observation found nothing to do, not that the last write succeeded. After a run that changed
//!   something, the loop observes again.
//! - A **failing object** waits on its own, longer each time, and is retried at once when its plan changes. A **failing
//!   target** backs off the component; new input does not shorten that wait, [`Handle::run_now`] does. A **failing pure step**
//!   (a panic, our bug) is contained, reported, and retried on new input. The loop never gives up.
//! - An **unknown outcome** is a [`Class::Conflict`]: observe again, never repeat blindly.
//! - Steps that succeed and come back unchanged are slowed down and reported, not repeated in a hot loop.
//!
//! # A component in 40 lines
//!
//! A decider, a target that writes one key at a time, and the wiring:
//!
//! ```
//! use std::collections::{BTreeMap, BTreeSet};
//! use reconcile::*;
//! use tokio::sync::watch;
//!
//! type Routes = BTreeMap<String, String>;
//!
//! struct Decide;
//! impl Desire for Decide {
//!     type Snapshot = Routes;
//!     type Desired = Routes;
//!     fn desire(&mut self, asked: &Routes) -> Outcome<Routes> {
//!         let mut out = Outcome::<Routes>::default();
//!         for (prefix, hop) in asked {
//!             if hop.is_empty() {
//!                 let object = ObjectId::new("route", prefix);
//!                 out.undecided(Problem::error(object, Class::Refused, "no-next-hop", "has no next hop; give it one"));
//!             } else {
//!                 out.value.insert(prefix.clone(), hop.clone());
//!             }
//!         }
//!         out
//!     }
//! }
//!
//! struct Table(Routes); // stands for the kernel
//! impl Target for Table {
//!     type Desired = Routes;
//!     type Observed = Routes;
//!     type Op = String;
//!     fn plan(&mut self, want: &Routes, _keep: &BTreeSet<ObjectId>, have: &Routes) -> Plan<String> {
//!         let diff = keyed::diff(want, have);
//!         let mut plan = Plan::new(want.len(), diff.unchanged.len());
//!         let set = diff.added.into_iter().chain(diff.changed.into_iter().map(|(k, w, _)| (k, w)));
//!         set.for_each(|(k, hop)| plan.push(ObjectId::new("route", k), format!("{k} via {hop}")));
//!         diff.removed.into_iter().for_each(|(k, _)| plan.push(ObjectId::new("route", k), k.clone()));
//!         plan
//!     }
//!     async fn observe(&mut self, _scope: Scope) -> Result<Routes, TargetError> {
//!         Ok(self.0.clone())
//!     }
//!     async fn apply(&mut self, plan: &Plan<String>) -> Result<Applied, TargetError> {
//!         let mut walk = Walk::new(plan);
//!         while let Some(op) = walk.next_op() {
//!             match op.split_once(" via ") {
//!                 Some((prefix, hop)) => self.0.insert(prefix.into(), hop.into()),
//!                 None => self.0.remove(op),
//!             };
//!             walk.record(Ok(()));
//!         }
//!         Ok(walk.finish())
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let (ask, asked) = watch::channel(Routes::from([("10.0.0.0/8".into(), "eth0".into())]));
//! let newest = asked.clone();
//! let inputs = move || Ok(newest.borrow().clone());
//! let driver = Driver::new("routes", Timing::default(), inputs, Decide, Table(Routes::new()));
//! let handle = driver.handle();
//! handle.follow(asked); // every change of this input wakes the loop; a component follows all of its inputs
//! let running = tokio::spawn(driver.run());
//!
//! let mut status = handle.status();
//! status.wait_for(|s| s.state == State::Converged && s.have == 1).await.unwrap();
//! ask.send_modify(|routes| drop(routes.insert("10.1.0.0/16".into(), "".into())));
//! let now = status.wait_for(|s| !s.problems.is_empty()).await.unwrap().clone();
//! assert_eq!((now.have, now.problems[0].code.as_str()), (1, "no-next-hop"));
//! handle.stop();
//! running.await.unwrap();
//! # }
//! ```
//!
//! # Several targets, several deciders
//!
//! A driver has one decider and one target. A part that decides for several targets runs one driver for each over the same
//! inputs: each fails, waits and recovers on its own. If a target needs another one in place first, it takes the other's
//! [`Status`] or state as an input. There is no other order between drivers.
//!
//! # Reading order
//!
//! [`Desire`] and [`Target`], then [`Outcome`], [`Plan`] and [`Problem`]; [`keyed`] for planners; [`schedule`] for the timing;
//! [`Driver`] and [`Handle`] for wiring; [`Status`] and [`Metrics`] for operators; [`units`] when a full recomputation gets too
//! slow.

pub mod backoff;
mod driver;
mod dry_run;
mod handle;
mod holds;
pub mod keyed;
mod loop_code;
mod metrics;
mod outcome;
mod plan;
mod problem;
mod reconciler;
pub mod schedule;
mod status;
mod text_id;
pub mod units;

pub use driver::{Driver, Waiting};
pub use dry_run::DryRun;
pub use handle::{Handle, NoPlan, Preview, PreviewStep};
pub use loop_code::LoopCode;
pub use metrics::Metrics;
pub use outcome::Outcome;
pub use plan::{Applied, Plan, Step, StepResult, Walk};
pub use problem::{Class, ObjectId, Problem, Severity};
pub use reconciler::{Desire, Scope, Target, TargetError};
pub use schedule::Timing;
pub use status::{LastError, Stage, StageTime, State, Status};
pub use text_id::TextId;
