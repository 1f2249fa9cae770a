//! The data plane of this node as a target of the loop.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use ovsdb::Client;
use reconcile::{Applied, Class, ObjectId, Plan, Scope, Step, StepResult, Target, TargetError};
use tokio::sync::watch;
use tracing::info;

use super::drain::Drains;
use super::plan;
use super::preconditions::Ground;
use super::state::{Act, Desired, Observed, Op};
use super::view::{Looks, View};
use crate::flows;
use crate::flows::{FlowError, Flows};
use crate::frr::{self, Frr, VtyError};
use crate::kernel::plan::settled::SettledKernel;
use crate::kernel::{self, Dev, Family, Kernel, KernelError};
use crate::part::kind::Counts;
use crate::part::phase::Phase;
use crate::ports::{PortMark, Ports};

/// Maximum number of steps between two yields to other tasks of the process.
const BATCH: usize = 256;

/// The files and sockets of the data plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// iproute2's file of table names.
    pub rt_tables: PathBuf,
    /// Open vSwitch's run directory, in which the sockets of bridges are (`OVS_RUNDIR`).
    pub ovs_rundir: PathBuf,
    /// The mark of the ports of the role that owns this data plane.
    pub port_mark: PortMark,
    /// FRR.
    pub frr: frr::Config,
}

impl Config {
    /// The usual places, for a role whose ports have this mark.
    pub fn new(port_mark: PortMark) -> Self {
        Config {
            rt_tables: "/etc/iproute2/rt_tables".into(),
            ovs_rundir: "/run/openvswitch".into(),
            port_mark,
            frr: frr::Config::default(),
        }
    }
}

/// Kernel, ports, flows and FRR of the network namespace it was opened in.
#[derive(Debug)]
pub struct Plane {
    kernel: Kernel,
    ports: Ports,
    flows: Flows,
    frr: Frr,
    drains: Drains,
    /// The part of the kernel that agreed with the desired state since the last full observation. It saves work and never changes the
    /// result.
    settled: Option<SettledKernel>,
    /// The counts of the last plan.
    counts: Counts,
    looks: Looks,
    /// Whether this is not the first whole plan: what that one takes away was there before us.
    settled_in: bool,
    /// Whether the last plan was whole.
    whole: bool,
}

impl Plane {
    /// Opens the parts. Nothing is changed, and a bridge or FRR that is not there yet is no error. Must be called within a
    /// tokio runtime, on a thread in the network namespace that is meant.
    pub fn open(config: Config) -> Result<Self, KernelError> {
        let frr = Frr::open(config.frr);
        let looks = Looks::new(frr.answering());
        Ok(Plane {
            kernel: Kernel::open(config.rt_tables)?,
            ports: Ports::nowhere(config.port_mark),
            flows: Flows::open(config.ovs_rundir),
            frr,
            drains: Drains::default(),
            settled: None,
            counts: Counts::default(),
            looks,
            settled_in: false,
            whole: false,
        })
    }

    /// Reads and writes ports in the database of the local switch, which holds bridges, ports and interfaces. Without it no ports
    /// are made.
    #[must_use]
    pub fn with_switch(mut self, vswitch: Client) -> Self {
        self.ports = Ports::of(vswitch, self.ports.mark());
        self
    }

    /// Each changes whenever somebody, or time, changed a part of the data plane: what a component has to follow.
    pub fn changes(&self) -> [watch::Receiver<u64>; 5] {
        let (frr, late) = (self.frr.changes(), self.frr.late_answers());
        [self.kernel.changes(), self.flows.changes(), frr, late, self.drains.changes()]
    }

    /// A reader of the last observation.
    pub fn view(&self) -> View {
        self.looks.view()
    }

    /// Carries out steps of one phase, and says what became of each; nothing for those that may not be made now.
    async fn run(&mut self, steps: &[&Step<Op>]) -> Vec<Option<Result<(), TargetError>>> {
        let allowed: Vec<bool> = {
            let (kernel, flows) = (self.kernel.glance(), self.flows.glance());
            let mut ground = Ground::new(&kernel, &flows);
            steps.iter().map(|step| ground.allows(&step.op)).collect()
        };
        let mut results: Vec<Option<Result<(), TargetError>>> = steps.iter().map(|_| None).collect();
        let mut kernel: Vec<(usize, &kernel::Op)> = Vec::new();
        let mut bridges: BTreeMap<&Dev, Vec<(usize, &flows::Op)>> = BTreeMap::new();
        for (at, step) in steps.iter().enumerate().filter(|(at, _)| allowed[*at]) {
            match &step.op.act {
                Act::Kernel(op) => kernel.push((at, op)),
                Act::Port(op) => {
                    let result = self.ports.apply(op).await;
                    results[at] = Some(result.map_err(|error| failed(&step.op, error.class(), error)));
                }
                Act::Flow(op) => bridges.entry(op.bridge()).or_default().push((at, op)),
                Act::Frr(op) => {
                    let result = self.frr.apply(op).await;
                    results[at] = Some(result.map_err(|error| failed(&step.op, frr_class(&error), error)));
                }
            }
        }
        if !kernel.is_empty() {
            let ops: Vec<&kernel::Op> = kernel.iter().map(|(_, op)| *op).collect();
            if steps.iter().any(|step| step.op.phase == Phase::Stanza) {
                self.frr.act_on_last();
            }
            for ((at, _), result) in kernel.iter().zip(self.kernel.apply(&ops)) {
                let failed = |error: kernel::OpError| failed(&steps[*at].op, error.class(), error);
                results[*at] = match result {
                    // No failure to wait after: the next plan knows, and has another way or a word for it.
                    Err(kernel::OpError::NoVlans) => None,
                    result => Some(result.map_err(failed)),
                };
            }
        }
        for (bridge, ops) in bridges {
            let only: Vec<&flows::Op> = ops.iter().map(|(_, op)| *op).collect();
            match self.flows.apply(bridge, &only).await {
                Ok(answers) => {
                    for ((at, _), answer) in ops.iter().zip(answers) {
                        let failed = |error| failed(&steps[*at].op, Class::Refused, error);
                        results[*at] = Some(answer.map_err(failed));
                    }
                }
                Err(error) => {
                    let why = crate::cause::chain(&error);
                    for (at, _) in ops {
                        results[at] = Some(Err(failed(&steps[at].op, flow_class(&error), why.clone())));
                    }
                }
            }
        }
        results
    }
}

/// Advice for an operator who wants to keep a foreign object that looks like ours.
fn how_to_keep(op: &Op) -> Option<&'static str> {
    let Act::Kernel(op) = &op.act else { return None };
    Some(match op {
        kernel::Op::DelAddress(_) => "To keep such an address, put it on another device than bgp_nic",
        kernel::Op::DelRule(_) => "To keep such a rule, give it another priority than rule_priority",
        kernel::Op::DelRoute(_) => "To keep such a route, make it with `proto static`",
        kernel::Op::DelNeighbour { .. } => {
            "To keep such a neighbour, see that its address is no router's gateway"
        }
        kernel::Op::DelProxy { .. } => "To keep such an NDP proxy, name it in ndp_proxy_extra",
        kernel::Op::DelLink { .. } => {
            "To keep such a VLAN device, take the address in 169.254.0.0/16 from it"
        }
        _ => return None,
    })
}

fn failed(op: &Op, class: Class, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> TargetError {
    TargetError::new(class, op.to_string()).because(why)
}

fn frr_class(error: &VtyError) -> Class {
    match error {
        VtyError::Refused { .. } => Class::Refused,
        _ => Class::Transient,
    }
}

fn flow_class(error: &FlowError) -> Class {
    match error {
        FlowError::Refused(_) => Class::Refused,
        _ => Class::Transient,
    }
}

/// The bridges on which flows of ours may be: those that have, or had, a table, by its name or by its base.
fn bridges(kernel: &kernel::Observed) -> BTreeSet<Dev> {
    let named = kernel.names.iter().map(|(_, name)| name);
    let bases = kernel.tables().flat_map(|table| Family::BOTH.map(|family| (table, family.default_net())));
    let bases = bases.flat_map(|(table, default)| kernel.routes_to(table, default));
    let based =
        bases.filter_map(|route| route.hop.as_ref()).filter(|hop| hop.via.is_none()).map(|hop| &hop.dev);
    named.chain(based).filter(|name| kernel.links.contains_key(*name)).cloned().collect()
}

impl Target for Plane {
    type Desired = Desired;
    type Observed = Observed;
    type Op = Op;

    fn plan(&mut self, want: &Desired, keep: &BTreeSet<ObjectId>, have: &Observed) -> Plan<Op> {
        let (plan, counts) = plan::plan_after(&mut self.settled, want, keep, have);
        self.counts = counts;
        self.whole = !want.partial;
        self.settled_in |= !want.partial && plan.is_empty();
        plan
    }

    fn publish(&mut self, want: &Desired, have: &Observed) {
        self.looks.leave(want, have, self.counts);
    }

    async fn observe(&mut self, scope: Scope) -> Result<Observed, TargetError> {
        if scope == Scope::Full {
            self.settled = None;
        }
        let kernel = self.kernel.observe(scope);
        let kernel = kernel.map_err(|e| TargetError::new(Class::Transient, "read the kernel").because(e))?;
        let ports = self.ports.observe();
        let bridges = bridges(&kernel);
        let flows = self.flows.observe(scope, bridges).await;
        let frr = self.frr.observe(scope, &kernel).await;
        let draining = self.drains.observe();
        Ok(Observed { kernel, ports, flows, frr, draining })
    }

    async fn apply(&mut self, plan: &Plan<Op>) -> Result<Applied, TargetError> {
        if self.whole && !std::mem::replace(&mut self.settled_in, true) {
            plan.steps.iter().filter_map(|step| Some((&step.op, how_to_keep(&step.op)?))).for_each(
                |(op, how)| {
                    info!("taking over what was here before: {op}. {how}");
                },
            );
        }
        let mut results = Vec::with_capacity(plan.steps.len());
        // Objects of which a step failed or could not be made: what follows for them relies on it.
        let mut stopped: BTreeSet<&ObjectId> = BTreeSet::new();
        let mut rest = &plan.steps[..];
        let mut since_pause = 0;
        while let Some(first) = rest.first() {
            let same = rest.iter().take(BATCH).take_while(|step| step.op.phase == first.op.phase).count();
            let (batch, after) = rest.split_at(same);
            rest = after;
            let goes: Vec<bool> = batch.iter().map(|step| !stopped.contains(&step.object)).collect();
            let going: Vec<&Step<Op>> =
                batch.iter().zip(&goes).filter(|(_, go)| **go).map(|(s, _)| s).collect();
            let ran = self.run(&going).await;
            let done = || {
                going
                    .iter()
                    .zip(&ran)
                    .filter(|(_, ran)| matches!(ran, Some(Ok(()))))
                    .map(|(step, _)| &step.op)
            };
            done().filter_map(Op::announced).for_each(|ip| self.drains.cancel(ip));
            let drained = done().filter(|op| !op.drain.is_zero());
            self.drains.begin(drained.filter_map(|op| Some((op.withdrawn()?, op.drain))));
            let mut ran = ran.into_iter();
            for (step, go) in batch.iter().zip(goes) {
                let result = if go { ran.next().flatten() } else { None };
                if !matches!(result, Some(Ok(()))) {
                    stopped.insert(&step.object);
                }
                results.push(match result {
                    Some(Ok(())) => StepResult::Done,
                    Some(Err(error)) => StepResult::Failed(error),
                    None => StepResult::Skipped,
                });
            }
            // What the kernel tells of it is read before it is too much to be told.
            since_pause += same;
            if since_pause >= BATCH {
                since_pause = 0;
                tokio::task::yield_now().await;
            }
        }
        Ok(Applied { results })
    }
}
