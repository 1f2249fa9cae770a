//! The plans of the parts merged into one order, with what each step needs.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use reconcile::{Class, ObjectId, Plan, Problem};

use super::preconditions::Ground;
use super::state::{Act, Desired, MASS, Needs, Observed, Op};
use super::vlans::ArrangedVlans;
use crate::ProblemCode;
use crate::kernel::paths::{DesiredWays, ObservedWays, OurRules, RemovedWays};
use crate::kernel::plan::settled::{self, SettledKernel};
use crate::kernel::{Address, Select};
use crate::part::keep::Keep;
use crate::part::kind::Counts;
use crate::part::object;
use crate::part::phase::Phase;
use crate::part::{Part, PlannedStep};
use crate::{flows, frr, kernel, ports};

/// The steps from `have` to `want`.
pub fn plan(want: &Desired, keep: &BTreeSet<ObjectId>, have: &Observed) -> Plan<Op> {
    plan_after(&mut None, want, keep, have).0
}

/// The same, by way of what is known to be settled, with how many of each kind there are. It is noted what is settled now.
pub fn plan_after(
    settled: &mut Option<SettledKernel>,
    want: &Desired,
    keep: &BTreeSet<ObjectId>,
    have: &Observed,
) -> (Plan<Op>, Counts) {
    let mut keep = Keep::new(keep);
    let spared = spare(&mut keep, want, have);
    let vlans = ArrangedVlans::new(want, have);
    let device = |dev: &kernel::Dev| have.kernel.links.contains_key(dev);
    let mut all = Part::default();
    absorb(&mut all, settled::plan(settled, &vlans.kernel, &keep, &vlans.seen), Act::Kernel);
    absorb(&mut all, ports::plan::plan(&vlans.ports, &keep, &have.ports, device), Act::Port);
    absorb(&mut all, flows::plan::plan(&want.flows, &keep, &have.flows), Act::Flow);
    if let Some(frr) = &want.frr {
        absorb(&mut all, frr::plan::plan(frr, &have.frr), Act::Frr);
        absorb(&mut all, renew(frr, want, have), Act::Kernel);
    }
    let Part { mut steps, mut counts, mut problems } = all;
    problems.extend(spared);
    if want.guard {
        problems.extend(hold_mass_withdrawal(&mut steps, want, have));
    }
    if want.partial {
        steps.retain(|step| step.phase < Phase::WithdrawPrefix || is_reserved(want, &step.op));
    }
    let mut plan = Plan { problems, ..Plan::new(counts.want(), counts.have()) };
    if steps.is_empty() {
        return (plan, counts);
    }
    steps.sort_by_key(|step| step.phase);
    let (ways, rules) = (DesiredWays::new(&want.kernel), OurRules::new(&want.kernel, &have.kernel));
    for PlannedStep { phase, object, op: act } in steps {
        let at_once = is_reserved(want, &act);
        let needs = if at_once { Needs::Nothing } else { needs(&act, phase, want, &ways, &rules) };
        let drain = if phase.withdraws() && !at_once { want.drain } else { Duration::ZERO };
        plan.push(object, Op { act, needs, phase, drain });
    }
    carry_on(&mut plan, &vlans.seen, have);
    for kind in plan.steps.iter().filter_map(|step| step.op.kind()) {
        counts.of_mut(kind).pending += 1;
    }
    (plan, counts)
}

/// Whether a change takes away something of a prefix that this node lives by. An earlier version, or ovn-bgp-agent, may have wired
/// one, and then the database that would tell of it may be out of reach: such a change waits for nothing.
fn is_reserved(want: &Desired, act: &Act) -> bool {
    let net = match act {
        Act::Kernel(kernel::Op::DelAddress(address)) if want.kernel.own.announces(address) => address.net,
        Act::Kernel(kernel::Op::DelRule(kernel::SeenRule { select: Some(Select::To(net)), .. })) => *net,
        Act::Kernel(kernel::Op::DelRoute(route)) if route.dst.prefix_len() > 0 => route.dst,
        _ => return false,
    };
    want.reserved.overlap(net).is_some()
}

fn absorb<O>(all: &mut Part<Act>, part: Part<O>, act: impl Fn(O) -> Act) {
    all.counts.absorb(&part.counts);
    all.problems.extend(part.problems);
    all.steps.extend(part.steps.into_iter().map(|step| PlannedStep {
        phase: step.phase,
        object: step.object,
        op: act(step.op),
    }));
}

/// Has the announcing device made anew where zebra has lost track of it. That costs nothing, as bgpd has none of its addresses.
fn renew(frr: &frr::Desired, want: &Desired, have: &Observed) -> Part<kernel::Op> {
    let mut part = Part::default();
    let frr::Observed::Bgpd(state) = &*have.frr else { return part };
    let behind = state.behind.get(&frr.vrf).filter(|behind| behind.cure == Some(frr::behind::Cure::Device));
    let own = &want.kernel.own;
    let lost = |behind: &frr::behind::Behind| {
        let mut announced = have.kernel.addresses.iter().filter(|address| own.announces(address));
        announced.all(|address| behind.difference.missing.contains(&address.net))
    };
    if behind.is_some_and(lost) {
        let dev = own.announce.clone();
        part.push(Phase::Stanza, object::device(&dev), kernel::Op::DelLink { dev });
    }
    part
}

/// The addresses and prefixes that are announced.
fn announced<'a>(own: &'a kernel::Own, have: &'a kernel::Observed) -> impl Iterator<Item = IpNet> + 'a {
    let addresses = have.addresses.iter().filter(|address| own.announces(address));
    let prefixes = have.routes_in(own.vrf_table).filter(|route| own.announces_prefix(route));
    addresses.map(|address| address.net).chain(prefixes.map(|route| route.dst))
}

/// Keeps announcements that work and nobody is known to want, where they may be of what cannot be read.
fn spare(keep: &mut Keep, want: &Desired, have: &Observed) -> Option<Problem> {
    let unclaimed = want.unclaimed.as_ref()?;
    let own = &want.kernel.own;
    let ways = ObservedWays::new(OurRules::new(&want.kernel, &have.kernel), &have.kernel);
    let works = |net: &IpNet| ways.has_way(net.network(), &RemovedWays::default());
    let spared: BTreeSet<IpNet> = announced(own, &have.kernel)
        .filter(|net| unclaimed.has(net.network()) && works(net) && want.reserved.overlap(*net).is_none())
        .collect();
    spared.iter().for_each(|net| keep.announcement(*net));
    let message = format!(
        "{} addresses and prefixes, {} among them, were announced before the agent started, and no row that can be read has them; \
         they stay until all rows can be read, which others of these problems name",
        spared.len(),
        spared.first()?
    );
    let object = ObjectId::new("announcements", own.announce.clone());
    Some(Problem::warning(object, Class::Refused, ProblemCode::KeptUnclaimed, message))
}

/// Leaves out withdrawals, and the removals that follow from them, when they are too many to be believed at once.
fn hold_mass_withdrawal(
    steps: &mut Vec<PlannedStep<Act>>,
    want: &Desired,
    have: &Observed,
) -> Option<Problem> {
    let own = &want.kernel.own;
    let withdrawal = |step: &PlannedStep<Act>| match &step.op {
        Act::Kernel(kernel::Op::DelAddress(address)) => own.announces(address),
        Act::Kernel(kernel::Op::DelRoute(route)) => own.announces_prefix(route),
        _ => false,
    };
    let withdrawn = steps.iter().filter(|step| withdrawal(step)).count();
    if withdrawn <= MASS {
        return None;
    }
    let announced = announced(own, &have.kernel).count();
    if withdrawn * 2 <= announced {
        return None;
    }
    steps.retain(|step| step.phase < Phase::WithdrawPrefix || is_reserved(want, &step.op));
    let message = format!(
        "{withdrawn} of {announced} announced addresses and prefixes are no longer wanted, shortly after the databases came \
         back; they are held for a while and withdrawn if that lasts"
    );
    let object = ObjectId::new("announcements", own.announce.clone());
    Some(Problem::warning(object, Class::Transient, ProblemCode::MassWithdrawHeld, message))
}

/// Leaves out what would take the way from an address that was withdrawn a moment ago, or is withdrawn by this plan and then
/// carried for a while. It is planned again when that is over.
fn carry_on(plan: &mut Plan<Op>, kernel: &kernel::Observed, have: &Observed) {
    let withdrawn = plan.steps.iter().filter(|step| !step.op.drain.is_zero());
    let mut carried: BTreeSet<IpAddr> = withdrawn.filter_map(|step| step.op.withdrawn()).collect();
    carried.extend(have.draining.iter());
    if carried.is_empty() {
        return;
    }
    let mut ground = Ground::carrying(&carried, kernel, &have.flows);
    plan.steps.retain(|step| !step.op.phase.removes() || ground.allows(&step.op));
}

fn needs(act: &Act, phase: Phase, want: &Desired, ways: &DesiredWays<'_>, rules: &OurRules) -> Needs {
    let way = |ip| {
        let way = ways.way(ip).and_then(|(bridge, hop)| Some((hop, flows_for(bridge, hop, want)?)));
        let (hop, flows) = way.unzip();
        Needs::Way { rules: rules.clone(), hop: hop.cloned(), flows: flows.unwrap_or_default() }
    };
    let idle = || Needs::Idle { announce: want.kernel.own.announce.clone(), rules: rules.clone() };
    let op = match act {
        Act::Kernel(op) => op,
        Act::Port(ports::Op::Delete { .. }) => return idle(),
        Act::Port(_) | Act::Flow(_) | Act::Frr(_) => return Needs::Nothing,
    };
    match (phase, op) {
        (Phase::Rule, kernel::Op::AddRule { select: Select::To(_), .. }) => Needs::Route(rules.clone()),
        (Phase::Announce, kernel::Op::AddAddress(Address { net, .. })) => way(net.addr()),
        (Phase::AnnouncePrefix, kernel::Op::SetRoute { dst, .. }) => way(dst.network()),
        (phase, _) if phase.removes() => idle(),
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
