//! From rows to the data plane, with everything that comes between: changes of the Southbound in any order, some of them twice;
//! others who delete and add things in kernel and switch; a switch that does not tell all the time what its flows are made from; an
//! agent that is ended in the middle of a plan. After every single operation of ours no announced address may be without its way
//! there and back that was not so before; in the end all is as decided. And decisions and plans that are made from the ones before
//! are those that would have been made from nothing.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ovn::MacAddr;
use proptest::prelude::*;
use reconcile::ObjectId;

use super::properties::{Edit, apply, edit, told};
use super::world::World;
use crate::bgp::desired::{IncrementalDecision, rewire, wire};
use crate::flows::{Bridge, Seen};
use crate::kernel::plan::settled::SettledKernel;
use crate::plane::plan::tests::{model, planned};
use crate::plane::{self, Desired};

/// The event.
#[derive(Clone, Debug)]
enum Event {
    /// The Southbound, or a setting, changes.
    Change(Edit),
    /// The same change is told again.
    Again,
    /// Others delete things, ours among them.
    Deleted(u64),
    /// Others add things of their own.
    Foreign,
    /// The test reveals announcements of an earlier agent.
    Stale,
    /// The agent decides and acts, and is ended after so many operations if it does not get to the end before.
    Run(usize),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        6 => edit().prop_map(Event::Change),
        2 => told().prop_map(Event::Change),
        1 => Just(Event::Again),
        2 => any::<u64>().prop_map(Event::Deleted),
        1 => Just(Event::Foreign),
        1 => Just(Event::Stale),
        4 => prop_oneof![0usize..40, Just(usize::MAX)].prop_map(Event::Run),
    ];
    proptest::collection::vec(event, 1..24)
}

/// The state that the agent keeps from one run to the next.
#[derive(Default)]
struct Memory {
    decided: Option<(IncrementalDecision, Desired)>,
    settled: Option<SettledKernel>,
}

impl Memory {
    /// The agent's decision about the rows, with what it could not decide about: made from the one before, and the same as one
    /// that is made from nothing.
    fn decided(&mut self, rows: &mut World) -> (Desired, BTreeSet<ObjectId>) {
        let snapshot = rows.snapshot();
        let outcome = rows.decide();
        let want = wire(&snapshot, &outcome.value);
        let (decided, wired) = match self.decided.take() {
            None => (IncrementalDecision::new(&snapshot), want.clone()),
            Some((last, wired)) => {
                let before = last.outcome.value.clone();
                let decided = last.next(&snapshot);
                let wired = rewire(&snapshot, (&before, wired), &decided.outcome.value);
                (decided, wired)
            }
        };
        assert_eq!(decided.outcome, outcome);
        assert_eq!(wired, want);
        self.decided = Some((decided, wired));
        rows.settle();
        (want, outcome.keep)
    }
}

/// The switch as it is, whatever it tells: a bridge, and its patch ports by their names.
#[derive(Default)]
struct Switch {
    mac: Option<MacAddr>,
    numbers: BTreeMap<String, u32>,
    ports: BTreeSet<String>,
}

impl Switch {
    /// Takes in what is told. What was never told is not known here either.
    fn look(&mut self, rows: &World) {
        self.mac = rows.bridges["br-ex"].as_ref().map(|mac| mac.parse().unwrap()).or(self.mac);
        self.ports.clear();
        for (name, (_, number)) in &rows.patches {
            match number.map(u32::try_from) {
                Some(Ok(number)) => _ = self.numbers.insert(name.clone(), number),
                Some(Err(_)) => continue,
                None => {}
            }
            self.ports.insert(name.clone());
        }
    }

    /// Announced addresses without a way there, or without the flows of every patch port by which their packets come back. All
    /// networks are on the bridge itself.
    fn broken(&self, node: &model::World) -> BTreeSet<IpAddr> {
        let mut broken = node.stranded();
        let Some(Seen::Flows(seen)) = node.observed().flows.get("br-ex").cloned() else { unreachable!() };
        let is_there = |port: &String| {
            let bridge = Bridge { mac: self.mac, ..Default::default() };
            let mut flows =
                self.numbers.get(port).into_iter().flat_map(|number| bridge.flows_of(*number)).peekable();
            flows.peek().is_some() && flows.all(|flow| seen.iter().any(|seen| seen.flow == Some(flow)))
        };
        if !self.ports.iter().all(is_there) {
            broken.extend(node.announced());
        }
        broken
    }
}

/// Plans, and takes the first steps of it; what the agent made worse, if anything, and whether there was nothing to do.
fn act(
    memory: &mut Memory,
    switch: &Switch,
    node: &mut model::World,
    (want, keep): (&Desired, &BTreeSet<ObjectId>),
    most: usize,
) -> (Option<String>, bool) {
    let mut plan = planned(&mut memory.settled, want, keep, &node.observed());
    plan.steps.retain(|step| !keep.contains(&step.object));
    let (taken, worse) = (Cell::new(0), RefCell::new(None));
    let broken = RefCell::new(switch.broken(node));
    let ended = |_: &reconcile::Step<plane::Op>| {
        taken.set(taken.get() + 1);
        taken.get() > most
    };
    node.run(&plan, &ended, &mut |node, op| {
        let now = switch.broken(node);
        let mut worse = worse.borrow_mut();
        if !now.is_subset(&broken.borrow()) && worse.is_none() {
            *worse = Some(format!("{op} takes the way, there or back, of {now:?}"));
        }
        *broken.borrow_mut() = now;
    });
    (worse.into_inner(), plan.steps.is_empty())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn changes_and_foreign_edits_in_any_order_converge_and_no_operation_strands_an_address(
        events in events(), fresh: bool, without_vlans: bool,
    ) {
        let mut switch = Switch::default();
        let mut rows = World::new().tenants();
        let mut node = model::World::bare().without_vlans(without_vlans);
        let mut memory = Memory::default();
        if !fresh {
            rows.vif("p0", "neutron-pub", &["fa:16:3e:00:00:01 172.24.4.10"]).bind("p0", "ch-a");
            rows.vif("p1", "neutron-ten", &["fa:16:3e:00:00:02 10.1.0.5"]).bind("p1", "ch-b").bind("cr-lrp-gw1", "ch-a");
            let (want, keep) = memory.decided(&mut rows);
            switch.look(&rows);
            let (worse, _) = act(&mut memory, &switch, &mut node, (&want, &keep), usize::MAX);
            prop_assert_eq!(worse, None);
        }
        let (mut last, mut foreign) = (None, node.foreign());
        for event in &events {
            match event {
                Event::Change(edit) => {
                    apply(&mut rows, edit);
                    last = Some(edit);
                }
                Event::Again => last.into_iter().for_each(|edit| apply(&mut rows, edit)),
                Event::Deleted(which) => {
                    node.lose(*which);
                    foreign = node.foreign();
                }
                Event::Foreign => {
                    node.add_foreign();
                    foreign = node.foreign();
                }
                Event::Stale => node.add_stale(),
                Event::Run(most) => {
                    let (want, keep) = memory.decided(&mut rows);
                    switch.look(&rows);
                    let (worse, _) = act(&mut memory, &switch, &mut node, (&want, &keep), *most);
                    prop_assert_eq!(worse, None);
                }
            }
            prop_assert!(node.foreign() == foreign, "after {:?}: {:?} instead of {:?}", event, node.foreign(), foreign);
        }
        // In the end the switch tells all.
        apply(&mut rows, &Edit::Mac { which: 1 });
        apply(&mut rows, &Edit::Patch { which: 1 });
        switch.look(&rows);
        let mut rounds = 0;
        let (want, keep) = loop {
            let (want, keep) = memory.decided(&mut rows);
            let (worse, done) = act(&mut memory, &switch, &mut node, (&want, &keep), usize::MAX);
            prop_assert_eq!(worse, None);
            if done {
                break (want, keep);
            }
            rounds += 1;
            prop_assert!(rounds < 8, "there is no end to it");
        };
        prop_assert!(switch.broken(&node).is_empty(), "{:?} have no way, there or back", switch.broken(&node));
        prop_assert!(node.has_flows(&want.flows));
        let announce = &want.kernel.own.announce;
        let wanted = want.kernel.addresses.iter().filter(|address| address.dev == *announce);
        let wanted: BTreeSet<IpAddr> = wanted.map(|address| address.net.addr()).collect();
        let announced: BTreeSet<IpAddr> = node.announced().collect();
        prop_assert!(wanted.is_subset(&announced), "{:?} are not announced", wanted.difference(&announced));
        // What could not be decided about stays as it was; all else is announced because it is wanted.
        let unclaimed = |ip: &IpAddr| want.unclaimed.as_ref().is_some_and(|unclaimed| unclaimed.has(*ip));
        let announced: BTreeSet<IpAddr> = announced.into_iter().filter(|ip| !unclaimed(ip)).collect();
        if keep.is_empty() {
            prop_assert_eq!(announced, wanted);
        }
        prop_assert!(node.foreign() == foreign, "{:?} instead of {:?}", node.foreign(), foreign);
    }
}

/// A node with an address that was announced when the switch told all, and another that came when it did not.
#[test]
fn an_address_is_announced_once_its_flows_are_known_and_there() {
    let mut rows = World::new();
    let (mut node, mut memory, mut switch) = (model::World::bare(), Memory::default(), Switch::default());
    let mut run = |rows: &mut World| {
        let (want, keep) = memory.decided(rows);
        switch.look(rows);
        for _ in 0..4 {
            let (worse, _) = act(&mut memory, &switch, &mut node, (&want, &keep), usize::MAX);
            assert_eq!(worse, None);
        }
        let flows = match node.observed().flows.get("br-ex") {
            Some(Seen::Flows(flows)) => flows.len(),
            _ => unreachable!(),
        };
        (node.announced().map(|ip| ip.to_string()).collect::<Vec<_>>(), flows)
    };
    let strings = |texts: &[&str]| texts.iter().map(|text| text.to_string()).collect::<Vec<_>>();
    let told = |rows: &mut World, mac, port| {
        apply(rows, &Edit::Mac { which: mac });
        apply(rows, &Edit::Patch { which: port });
    };
    rows.vif("p0", "neutron-pub", &["fa:16:3e:00:00:01 172.24.4.10"]).bind("p0", "ch-a");
    for (mac, port, what) in [(0, 1, "no Ethernet address"), (1, 0, "no number"), (0, 0, "neither")] {
        // Nothing was ever told.
        rows.before = Default::default();
        told(&mut rows, mac, port);
        assert_eq!(run(&mut rows), (vec![], 0), "{what}");
    }
    told(&mut rows, 1, 1);
    assert_eq!(run(&mut rows), (strings(&["172.24.4.10"]), 2));
    // The switch's database restarts.
    told(&mut rows, 0, 0);
    rows.vif("p1", "neutron-pub", &["fa:16:3e:00:00:02 172.24.4.11"]).bind("p1", "ch-a");
    assert_eq!(
        run(&mut rows),
        (strings(&["172.24.4.10", "172.24.4.11"]), 2),
        "they are those that were there"
    );
    // The agent restarts as well, and knows of nothing.
    rows.before = Default::default();
    rows.vif("p2", "neutron-pub", &["fa:16:3e:00:00:03 172.24.4.12"]).bind("p2", "ch-a");
    assert_eq!(run(&mut rows), (strings(&["172.24.4.10", "172.24.4.11"]), 2), "nothing more, nothing less");
    told(&mut rows, 2, 2);
    assert_eq!(run(&mut rows), (strings(&["172.24.4.10", "172.24.4.11", "172.24.4.12"]), 2));
}
