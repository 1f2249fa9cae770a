//! The plans of the parts merged into one order, with what each step needs.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;

use reconcile::{Class, ObjectId, Plan, Problem};

use super::keep::Keep;
use super::phase::{Part, Phase, Planned};
use super::state::{Act, Desired, MASS, Needs, Observed, Op};
use super::vlans::Arranged;
use crate::kernel::plan::settled::{self, Settled};
use crate::kernel::way::{OurRules, Wanted};
use crate::kernel::{Address, Select};
use crate::{flows, frr, kernel, ports};

/// What leads from `have` to `want`.
pub fn plan(want: &Desired, keep: &BTreeSet<ObjectId>, have: &Observed) -> Plan<Op> {
    plan_after(&mut None, want, keep, have)
}

/// The same, by way of what is known to be settled. It is noted what is settled now.
pub fn plan_after(
    settled: &mut Option<Settled>,
    want: &Desired,
    keep: &BTreeSet<ObjectId>,
    have: &Observed,
) -> Plan<Op> {
    let keep = Keep::new(keep);
    let mut steps: Vec<Planned<Act>> = Vec::new();
    let mut plan = Plan::new(0, 0);
    let vlans = Arranged::new(want, have);
    absorb(&mut plan, &mut steps, settled::plan(settled, &vlans.kernel, &keep, &vlans.seen), Act::Kernel);
    let device = |dev: &kernel::Dev| have.kernel.links.contains_key(dev);
    absorb(&mut plan, &mut steps, ports::plan::plan(&vlans.ports, &keep, &have.ports, device), Act::Port);
    absorb(&mut plan, &mut steps, flows::plan::plan(&want.flows, &keep, &have.flows), Act::Flow);
    if let Some(frr) = &want.frr {
        absorb(&mut plan, &mut steps, frr::plan::plan(frr, &have.frr), Act::Frr);
    }
    if want.guard {
        plan.problems.extend(hold_mass_withdrawal(&mut steps, want, have));
    }
    steps.extend(drain(&steps, want));
    steps.sort_by_key(|step| step.phase);
    if steps.is_empty() {
        return plan;
    }
    let (ways, rules) = (Wanted::new(&want.kernel), OurRules::new(&want.kernel, &have.kernel));
    for Planned { phase, object, op: act } in steps {
        let needs = needs(&act, phase, want, &ways, &rules);
        plan.push(object, Op { act, needs, phase });
    }
    plan
}

fn absorb<O>(plan: &mut Plan<Op>, steps: &mut Vec<Planned<Act>>, part: Part<O>, act: impl Fn(O) -> Act) {
    plan.want += part.want;
    plan.have += part.have;
    plan.problems.extend(part.problems);
    steps.extend(part.steps.into_iter().map(|step| Planned {
        phase: step.phase,
        object: step.object,
        op: act(step.op),
    }));
}

/// Leaves out withdrawals, and the removals that follow from them, when they are too many to be believed at once.
fn hold_mass_withdrawal(steps: &mut Vec<Planned<Act>>, want: &Desired, have: &Observed) -> Option<Problem> {
    let withdrawn = steps.iter().filter(|step| step.phase == Phase::Withdraw).count();
    if withdrawn <= MASS {
        return None;
    }
    let announced = have.kernel.addresses.iter().filter(|a| want.kernel.own.announces(a)).count();
    if withdrawn * 2 <= announced {
        return None;
    }
    steps.retain(|step| step.phase < Phase::WithdrawPrefix);
    let message = format!(
        "{withdrawn} of {announced} announced addresses are no longer wanted, shortly after the databases came back; they \
         are held for a while and withdrawn if that lasts"
    );
    let object = ObjectId::new("announcements", want.kernel.own.announce.clone());
    Some(Problem::warning(object, Class::Transient, "mass-withdraw-held", message))
}

/// A pause between withdrawals and what follows from them.
fn drain(steps: &[Planned<Act>], want: &Desired) -> Option<Planned<Act>> {
    let withdraws = steps.iter().any(|step| matches!(step.phase, Phase::Withdraw | Phase::WithdrawPrefix));
    let removes = steps.iter().any(|step| step.phase > Phase::Drain);
    let milliseconds = u64::try_from(want.drain.as_millis()).unwrap_or(u64::MAX);
    (withdraws && removes && milliseconds > 0).then(|| Planned {
        phase: Phase::Drain,
        object: ObjectId::new("drain", want.kernel.own.announce.clone()),
        op: Act::Drain { milliseconds },
    })
}

fn needs(act: &Act, phase: Phase, want: &Desired, ways: &Wanted<'_>, rules: &OurRules) -> Needs {
    let way = |ip| {
        let way = ways.way(ip).and_then(|(bridge, hop)| Some((hop, flows_for(bridge, hop, want)?)));
        let (hop, flows) = way.unzip();
        Needs::Way { rules: rules.clone(), hop: hop.cloned(), flows: flows.unwrap_or_default() }
    };
    let idle = || Needs::Idle { announce: want.kernel.own.announce.clone(), rules: rules.clone() };
    let op = match act {
        Act::Kernel(op) => op,
        Act::Port(ports::Op::Delete { .. }) => return idle(),
        Act::Port(_) | Act::Flow(_) | Act::Frr(_) | Act::Drain { .. } => return Needs::Nothing,
    };
    match (phase, op) {
        (Phase::Rule, kernel::Op::AddRule { select: Select::To(_), .. }) => Needs::Route(rules.clone()),
        (Phase::Announce, kernel::Op::AddAddress(Address { net, .. })) => way(net.addr()),
        (Phase::AnnouncePrefix, kernel::Op::SetRoute { dst, .. }) => way(dst.network()),
        (phase, _) if phase > Phase::Drain => idle(),
        _ => Needs::Nothing,
    }
}

/// The flows by which packets of an address come back: those of the patch ports of its network. Nothing while it is not known
/// which they are.
fn flows_for(
    bridge: &kernel::Dev,
    hop: &kernel::Hop,
    want: &Desired,
) -> Option<Vec<(kernel::Dev, flows::Flow)>> {
    let Some(wanted) = want.flows.get(bridge) else { return Some(Vec::new()) };
    let flows = wanted.flows_to(&hop.dev)?;
    Some(flows.into_iter().map(|flow| (bridge.clone(), flow)).collect())
}

#[cfg(test)]
pub(crate) mod tests;
