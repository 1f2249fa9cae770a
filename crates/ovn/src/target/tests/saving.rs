//! The gain of the planner's memory: after one change among a thousand rows, its plan equals the whole plan.
//!
//! ARCHITECTURE.md states the gain, in instructions. To measure again, run this test under callgrind and compare the inclusive cost of
//! `from_last_plan` and `from_scratch_plan`: `valgrind --tool=callgrind TEST_BINARY saving`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ovsdb::replica::Replica;
use ovsdb::wire::DatabaseSchema;
use ovsdb::{Map, Ref};
use reconcile::Plan;

use super::{object, ownership, switch, uuid};
use crate::nb;
use crate::target::memory::Memory;
use crate::target::{Desired, Op, Rules, SnapshotView, Tables, View, plan};

const PORTS: u128 = 1000;
const SWITCH: u128 = 1 << 40;

fn port(name: &str) -> nb::LogicalSwitchPort {
    nb::LogicalSwitchPort { name: name.into(), ..Default::default() }
}

fn ports() -> ovsdb::Set<Ref<nb::LogicalSwitchPort>> {
    (0..PORTS).map(|n| Ref::new(uuid(n))).collect()
}

/// The desired rows, port 7 under this name.
fn desired(seventh: &str) -> Desired {
    let mut want = Desired::new();
    want.own(object("network", "n"), uuid(SWITCH), nb::LogicalSwitch { ports: ports(), ..switch("net") });
    for n in 0..PORTS {
        let name = if n == 7 { seventh.to_owned() } else { format!("p{n}") };
        want.own(object("port", &n.to_string()), uuid(n), port(&name));
    }
    want
}

fn mark(kind: &str, id: &str) -> Map<ovsdb::Str, ovsdb::Str> {
    let object = format!("{kind}/{id}");
    [("meridian:owner".into(), "cloud".into()), ("meridian:object".into(), object.as_str().into())].into()
}

/// A replica in which all rows are as desired.
fn observed() -> SnapshotView {
    let schema = include_str!("../../../testdata/schema/ovn-nb-26.03.json");
    let (schema, tables) = (Arc::new(DatabaseSchema::parse(schema).unwrap()), Arc::new(Tables::northbound()));
    let mut replica = Replica::new(tables.model(None));
    replica.fit(&schema).unwrap();
    let network = nb::LogicalSwitch { ports: ports(), external_ids: mark("network", "n"), ..switch("net") };
    replica.edit(BTreeMap::from([(uuid(SWITCH), Some(network))]));
    let rows = (0..PORTS).map(|n| {
        let external_ids = mark("port", &n.to_string());
        (uuid(n), Some(nb::LogicalSwitchPort { external_ids, ..port(&format!("p{n}")) }))
    });
    replica.edit(rows.collect());
    SnapshotView::new(replica.snapshot(), schema, tables)
}

#[inline(never)]
fn from_last_plan(memory: &mut Memory<SnapshotView>, want: &Desired, have: &SnapshotView) -> Plan<Op> {
    memory.plan(want, &BTreeSet::new(), have, &ownership(), &Rules::northbound())
}

#[inline(never)]
fn from_scratch_plan(want: &Desired, have: &dyn View) -> Plan<Op> {
    plan(want, &BTreeSet::new(), have, &ownership(), &Rules::northbound())
}

#[test]
fn saving_of_one_change_among_a_thousand_rows() {
    let (have, before, after) = (observed(), desired("p7"), desired("renamed"));
    let mut memory = Memory::default();
    let idle = memory.plan(&before, &BTreeSet::new(), &have, &ownership(), &Rules::northbound());
    assert!(idle.steps.is_empty(), "{:?}", idle.steps.first().map(|step| step.op.to_string()));
    // The decider shares what did not change, so the two states must share it here, too.
    let mut want = before.clone();
    let (mut old, mut new) = (crate::target::Part::new(), crate::target::Part::new());
    old.own(object("port", "7"), uuid(7), port("p7"));
    new.own(object("port", "7"), uuid(7), port("renamed"));
    want.exchange(&old, &new);
    assert_eq!(want.len(), after.len());
    let scratch = from_scratch_plan(&want, &have);
    let plan = from_last_plan(&mut memory, &want, &have);
    let lines = |plan: &Plan<Op>| plan.steps.iter().map(|step| step.op.to_string()).collect::<Vec<_>>();
    assert_eq!((lines(&plan), plan.steps.len()), (lines(&scratch), 1));
}
