//! The incremental schemes on a node with a thousand ports: after one change each gives the same result as a computation from scratch.
//!
//! ARCHITECTURE.md states the gain of each scheme, in instructions. To measure again, run this test under callgrind and compare the inclusive
//! cost of the functions `from_last_*` and `from_scratch_*`: `valgrind --tool=callgrind TEST_BINARY saving`.

use std::sync::Arc;

use ovsdb::replica::Replica;
use reconcile::Plan;

use super::world::World;
use crate::bgp::desired::{Decision, IncrementalDecision, rewire, wire};
use crate::bgp::northbound::tests::Cloud;
use crate::bgp::northbound::{self, Mirror};
use crate::bgp::snapshot::{Snapshot, southbound_model};
use crate::kernel::plan::settled::SettledKernel;
use crate::plane::plan::tests::model;
use crate::plane::{Desired, Observed, Op};

const PORTS: usize = 1000;

fn world() -> World {
    let mut world = World::new();
    for n in 0..PORTS {
        let (name, address) = (
            format!("vm{n}"),
            format!("fa:16:3e:00:{:02x}:{:02x} 172.24.{}.{}", n / 256, n % 256, 8 + n / 250, 1 + n % 250),
        );
        world.vif(&name, "neutron-pub", &[&address]).bind(&name, "ch-a");
    }
    world.unbind("vm7");
    world
}

#[inline(never)]
fn from_last_decide(last: IncrementalDecision, now: &Snapshot) -> IncrementalDecision {
    last.next(now)
}

#[inline(never)]
fn from_scratch_decide(now: &Snapshot) -> IncrementalDecision {
    IncrementalDecision::new(now)
}

#[inline(never)]
fn from_last_wire(now: &Snapshot, before: (&Decision, Desired), decision: &Decision) -> Desired {
    rewire(now, before, decision)
}

#[inline(never)]
fn from_scratch_wire(now: &Snapshot, decision: &Decision) -> Desired {
    wire(now, decision)
}

#[inline(never)]
fn from_last_plan(settled: &mut Option<SettledKernel>, want: &Desired, have: &Observed) -> Plan<Op> {
    crate::plane::plan::plan_after(settled, want, &Default::default(), have).0
}

#[inline(never)]
fn from_scratch_plan(want: &Desired, have: &Observed) -> Plan<Op> {
    crate::plane::plan::plan(want, &Default::default(), have)
}

#[test]
fn saving_of_one_change_on_a_thousand_ports() {
    let mut world = world();
    let mut replica = Replica::new(southbound_model());
    let first = Snapshot { sb: world.southbound().load_into(&mut replica), ..world.snapshot() };
    let last = IncrementalDecision::new(&first);
    let decision = last.outcome.value.clone();
    let wired = wire(&first, &decision);
    world.bind("vm7", "ch-a");
    let now = Snapshot {
        sb: world.southbound().load_into(&mut replica),
        vswitch: first.vswitch.clone(),
        config: Arc::clone(&first.config),
        reserved: Arc::clone(&first.reserved),
        before: Arc::new(decision.clone()),
        ..world.snapshot()
    };
    let scratch = from_scratch_decide(&now);
    let next = from_last_decide(last, &now);
    assert_eq!(next.outcome, scratch.outcome);
    assert_eq!(next.outcome.value.addresses.len(), decision.addresses.len() + 1);

    let whole = from_scratch_wire(&now, &next.outcome.value);
    let want = from_last_wire(&now, (&decision, wired.clone()), &next.outcome.value);
    assert_eq!(want, whole);

    let made = model::World::made(&wired).observed();
    let mut settled = None;
    let idle = crate::plane::plan::plan_after(&mut settled, &wired, &Default::default(), &made).0;
    assert!(settled.is_some(), "{:?}", idle.problems);
    let scratch = from_scratch_plan(&want, &made);
    let plan = from_last_plan(&mut settled, &want, &made);
    let sorted = |plan: &Plan<Op>| {
        let mut steps: Vec<String> = plan.steps.iter().map(|step| step.op.to_string()).collect();
        steps.sort();
        steps
    };
    assert_eq!(sorted(&plan), sorted(&scratch));
    assert_eq!(
        sorted(&plan).iter().filter(|step| step.contains("172.24.8.8")).count(),
        3,
        "address, rule, route"
    );
}

#[inline(never)]
fn from_last_mirror(mirror: &mut Mirror, nb: &ovsdb::Snapshot, cloud: &Cloud) -> ovsdb::Snapshot {
    mirror.look(nb, &cloud.own())
}

#[inline(never)]
fn from_scratch_mirror(nb: &ovsdb::Snapshot, cloud: &Cloud) -> ovsdb::Snapshot {
    Mirror::new(cloud.own()).look(nb, &cloud.own())
}

#[test]
fn saving_of_one_change_in_a_northbound_of_a_thousand_ports() {
    let mut cloud = Cloud::new();
    for n in 0..PORTS {
        let (name, address) = (
            format!("vm{n}"),
            format!("fa:16:3e:00:{:02x}:{:02x} 172.24.{}.{}", n / 256, n % 256, 8 + n / 250, 1 + n % 250),
        );
        cloud.vif(&name, "neutron-pub", &address);
        if n != 7 {
            cloud.runs(&name, "host-a");
        }
    }
    let mut replica = Replica::new(northbound::model());
    let first = cloud.body().load_into(&mut replica);
    let mut mirror = Mirror::new(cloud.own());
    mirror.look(&first, &cloud.own());
    cloud.runs("vm7", "host-a");
    let now = cloud.body().load_into(&mut replica);
    let scratch = from_scratch_mirror(&now, &cloud);
    let next = from_last_mirror(&mut mirror, &now, &cloud);
    assert!(next.diff(&scratch).is_empty());
}
