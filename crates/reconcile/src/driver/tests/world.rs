//! The world of the driver's tests: named numbers, desired and observed, with faults on demand.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prometheus_client::registry::Registry;
use serde::Serialize;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, span};

use crate::backoff::Delays;
use crate::plan::{Applied, Plan, Walk};
use crate::problem::{Class, ObjectId, Problem};
use crate::reconciler::{Desire, Scope, Target, TargetError};
use crate::status::Status;
use crate::{Driver, Handle, Metrics, Outcome, State, Timing, Waiting};

pub(super) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

type Things = BTreeMap<String, i32>;

#[derive(Debug, Clone, Copy)]
pub(super) enum Fault {
    Error(Class),
    Once(Class),
    Panic,
    Hang,
}

impl Fault {
    fn take(fault: &mut Option<Fault>) -> Option<Fault> {
        let now = *fault;
        *fault = now.filter(|fault| !matches!(fault, Fault::Once(_)));
        now
    }
}

#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) ready: bool,
    pub(super) want: Things,
    /// The desired state before the input is known.
    pub(super) certain: Option<Things>,
    pub(super) have: Things,
    pub(super) observe_fault: Option<Fault>,
    pub(super) apply_fault: Option<Fault>,
    pub(super) plan_panics: bool,
    pub(super) apply_takes: Duration,
    /// Objects whose steps fail.
    pub(super) bad: BTreeMap<String, Class>,
    /// Whether steps succeed without effect.
    pub(super) lies: bool,
    pub(super) observed: Vec<Scope>,
    pub(super) forgotten: usize,
    tries: Vec<Op>,
}

impl World {
    pub(super) fn tried(&self, id: &str) -> usize {
        self.tries.iter().filter(|op| op.id() == id).count()
    }

    /// Another program changes the target.
    pub(super) fn foreign(&mut self, id: &str, n: i32) {
        self.have.insert(id.into(), n);
    }

    /// Makes the steps of an object fail.
    pub(super) fn spoil(&mut self, id: u8, class: Class) {
        self.bad.insert(id.to_string(), class);
    }

    /// Ends all faults.
    pub(super) fn behave(&mut self) {
        self.ready = true;
        self.lies = false;
        self.bad.clear();
        (self.observe_fault, self.apply_fault) = (None, None);
    }
}

type Shared = Arc<Mutex<World>>;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) enum Op {
    Set(String, i32),
    Drop(String),
}

impl Op {
    fn id(&self) -> &str {
        match self {
            Op::Set(id, _) | Op::Drop(id) => id,
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Set(id, n) => write!(f, "set {id} to {n}"),
            Op::Drop(id) => write!(f, "drop {id}"),
        }
    }
}

struct Decide(Shared);

impl Desire for Decide {
    type Snapshot = Things;
    type Desired = Things;

    fn desire(&mut self, want: &Things) -> Outcome<Things> {
        let mut out = Outcome::<Things>::default();
        for (id, n) in want {
            assert!(id != "boom", "cannot think of {id}");
            if *n < 0 {
                let object = ObjectId::new("thing", id);
                out.undecided(Problem::error(
                    object,
                    Class::Refused,
                    "negative",
                    "is negative; make it positive",
                ));
            } else {
                out.value.insert(id.clone(), *n);
            }
        }
        out
    }

    fn meanwhile(&mut self) -> Option<Things> {
        self.0.lock().unwrap().certain.clone()
    }

    fn forget(&mut self) {
        self.0.lock().unwrap().forgotten += 1;
    }
}

struct Numbers(Shared);

impl Numbers {
    async fn suffer(fault: Option<Fault>, tried: &str) -> Result<(), TargetError> {
        match fault {
            None => Ok(()),
            Some(Fault::Error(class) | Fault::Once(class)) => {
                Err(TargetError::new(class, tried).because("out of order"))
            }
            Some(Fault::Panic) => panic!("cannot {tried}"),
            Some(Fault::Hang) => std::future::pending().await,
        }
    }
}

impl Target for Numbers {
    type Desired = Things;
    type Observed = Things;
    type Op = Op;

    fn plan(&mut self, want: &Things, _keep: &BTreeSet<ObjectId>, have: &Things) -> Plan<Op> {
        let panics = self.0.lock().unwrap().plan_panics;
        assert!(!panics, "cannot plan");
        let diff = crate::keyed::diff(want, have);
        let mut plan = Plan::new(want.len(), diff.unchanged.len());
        let set = diff.added.into_iter().chain(diff.changed.into_iter().map(|(id, want, _)| (id, want)));
        for (id, n) in set {
            let object = ObjectId::new("thing", id);
            if *n > 1_000 {
                plan.report(Problem::error(
                    object,
                    Class::Refused,
                    "too-big",
                    "is above 1000; make it smaller",
                ));
            } else {
                plan.push(object, Op::Set(id.clone(), *n));
            }
        }
        diff.removed
            .into_iter()
            .for_each(|(id, _)| plan.push(ObjectId::new("thing", id), Op::Drop(id.clone())));
        plan
    }

    async fn observe(&mut self, scope: Scope) -> Result<Things, TargetError> {
        let fault = {
            let mut world = self.0.lock().unwrap();
            world.observed.push(scope);
            Fault::take(&mut world.observe_fault)
        };
        Self::suffer(fault, "read").await?;
        Ok(self.0.lock().unwrap().have.clone())
    }

    async fn apply(&mut self, plan: &Plan<Op>) -> Result<Applied, TargetError> {
        let (fault, takes) = {
            let mut world = self.0.lock().unwrap();
            (Fault::take(&mut world.apply_fault), world.apply_takes)
        };
        sleep(takes).await;
        Self::suffer(fault, "write").await?;
        let mut world = self.0.lock().unwrap();
        let mut walk = Walk::new(plan);
        while let Some(op) = walk.next_op() {
            world.tries.push(op.clone());
            let bad = world.bad.get(op.id()).map(|class| TargetError::new(*class, op.to_string()));
            if bad.is_none() && !world.lies {
                match op {
                    Op::Set(id, n) => world.have.insert(id.clone(), *n),
                    Op::Drop(id) => world.have.remove(id),
                };
            }
            walk.record(bad.map_or(Ok(()), Err));
        }
        Ok(walk.finish())
    }
}

const TIMING: Timing = Timing {
    window: Duration::from_millis(10),
    max_delay: Duration::from_millis(50),
    resync: Duration::from_secs(60),
    backoff: Delays { first: Duration::from_millis(100), max: Duration::from_secs(1) },
    limit: Duration::from_secs(20),
    stop_grace: Duration::from_millis(400),
};

/// A running component and its world.
pub(super) struct Bench {
    world: Shared,
    pub(super) handle: Handle,
    registry: Registry,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Bench {
    pub(super) fn start<const N: usize>(want: [(&str, i32); N]) -> Self {
        let want = want.into_iter().map(|(id, n)| (id.to_string(), n)).collect();
        let world = Arc::new(Mutex::new(World { ready: true, want, ..World::default() }));
        let source = world.clone();
        let inputs = move || {
            let world = source.lock().unwrap();
            if world.ready { Ok(world.want.clone()) } else { Err(Waiting("the wishes".into())) }
        };
        let mut registry = Registry::default();
        let driver = Driver::new("test", TIMING, inputs, Decide(world.clone()), Numbers(world.clone()))
            .with_metrics(Metrics::register(&mut registry));
        let handle = driver.handle();
        Self { world, handle, registry, task: Mutex::new(Some(tokio::spawn(driver.run()))) }
    }

    pub(super) async fn converged<const N: usize>(want: [(&str, i32); N]) -> Self {
        let bench = Self::start(want);
        bench.settle().await;
        assert_eq!(bench.status().state, State::Converged);
        bench
    }

    pub(super) fn world<T>(&self, f: impl FnOnce(&mut World) -> T) -> T {
        f(&mut self.world.lock().unwrap())
    }

    pub(super) fn want(&self, id: &str, n: i32) {
        self.world(|w| w.want.insert(id.into(), n));
        self.handle.wake();
    }

    pub(super) fn unwant(&self, id: &str) {
        self.world(|w| w.want.remove(id));
        self.handle.wake();
    }

    pub(super) fn have(&self) -> Vec<(&'static str, i32)> {
        // The ids are few; leaking them makes the assertions readable.
        self.world(|w| w.have.iter().map(|(id, n)| (&*id.clone().leak(), *n)).collect())
    }

    pub(super) fn status(&self) -> Status {
        self.handle.status().borrow().clone()
    }

    /// Waits long enough for a run and the observation after it, and too short for a back-off.
    pub(super) async fn settle(&self) {
        sleep(ms(45)).await;
    }

    /// The value of one line of the metrics.
    pub(super) fn metric(&self, name: &str) -> Option<String> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_string())
    }

    pub(super) async fn stops_within(&self, limit: Duration) {
        let asked = Instant::now();
        self.handle.stop();
        let task = self.task.lock().unwrap().take().unwrap();
        tokio::time::timeout(Duration::from_secs(60), task).await.expect("it stops").unwrap();
        assert!(asked.elapsed() <= limit, "stopped after {:?}", asked.elapsed());
    }
}

/// Keeps the lines of the log at info and above, as level and message.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(super) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

struct Words {
    message: String,
    object: Option<String>,
}

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "object" => self.object = Some(format!("{value:?}")),
            _ => {}
        }
    }
}

impl tracing::Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO
    }
    fn event(&self, event: &Event<'_>) {
        let mut words = Words { message: String::new(), object: None };
        event.record(&mut words);
        let line = match (*event.metadata().level(), words.object) {
            (Level::INFO, _) => format!("info {}", words.message),
            (_, object) => format!("warn {}", object.unwrap_or_default().trim_start_matches("thing/")),
        };
        self.0.lock().unwrap().push(line);
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}
