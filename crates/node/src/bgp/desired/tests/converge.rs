//! From rows to the data plane, with everything that comes between: changes of the Southbound in any order, some of them twice;
//! others who delete and add things in kernel and switch; an agent that is ended in the middle of a plan. After every single
//! operation of ours no announced address may be without its way that was not so before; in the end all is as decided. And
//! decisions and plans that are made from the ones before are those that would have been made from nothing.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::net::IpAddr;

use proptest::prelude::*;
use reconcile::ObjectId;

use super::properties::{Edit, apply, edit};
use super::world::World;
use crate::bgp::desired::{Decided, rewire, wire};
use crate::kernel::plan::settled::Settled;
use crate::plane::phase::Phase;
use crate::plane::plan::tests::{model, planned};
use crate::plane::{self, Desired};

/// What happens.
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
    /// What an agent of another day left comes to light.
    Stale,
    /// The agent decides and acts, and is ended after so many operations if it does not get to the end before.
    Run(usize),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        6 => edit().prop_map(Event::Change),
        1 => Just(Event::Again),
        2 => any::<u64>().prop_map(Event::Deleted),
        1 => Just(Event::Foreign),
        1 => Just(Event::Stale),
        4 => (0usize..40).prop_map(Event::Run),
    ];
    proptest::collection::vec(event, 1..24)
}

/// What the agent remembers from one run to the next.
#[derive(Default)]
struct Memory {
    decided: Option<(Decided, Desired)>,
    settled: Option<Settled>,
}

impl Memory {
    /// The agent's decision about the rows, with what it could not decide about: made from the one before, and the same as one
    /// that is made from nothing.
    fn decided(&mut self, rows: &mut World) -> (Desired, BTreeSet<ObjectId>) {
        let snapshot = rows.snapshot();
        let outcome = rows.decide();
        let want = wire(&snapshot, &outcome.value);
        let (decided, wired) = match self.decided.take() {
            None => (Decided::new(&snapshot), want.clone()),
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

/// Plans, and takes the first steps of it; what the agent made worse, if anything, and whether there was nothing to do.
fn act(
    memory: &mut Memory,
    node: &mut model::World,
    want: &Desired,
    keep: &BTreeSet<ObjectId>,
    most: usize,
) -> (Option<String>, bool) {
    let mut plan = planned(&mut memory.settled, want, keep, &node.observed());
    plan.steps.retain(|step| !keep.contains(&step.object));
    let (taken, worse) = (Cell::new(0), RefCell::new(None));
    let stranded = RefCell::new(node.stranded());
    let ended = |_: &reconcile::Step<plane::Op>| {
        taken.set(taken.get() + 1);
        taken.get() > most
    };
    node.run(&plan, &ended, &mut |node, op| {
        let now = node.stranded();
        let mut worse = worse.borrow_mut();
        if !now.is_subset(&stranded.borrow()) && worse.is_none() {
            *worse = Some(format!("{op} strands {now:?}"));
        }
        if op.phase == Phase::Announce && !node.has_flows(&want.flows) && worse.is_none() {
            *worse = Some(format!("{op} although flows are missing"));
        }
        *stranded.borrow_mut() = now;
    });
    (worse.into_inner(), plan.steps.is_empty())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn changes_and_foreign_edits_in_any_order_converge_and_no_operation_strands_an_address(events in events(), without_vlans: bool) {
        let mut rows = World::new().tenants();
        let mut node = model::World::bare().without_vlans(without_vlans);
        let mut memory = Memory::default();
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
                    let (worse, _) = act(&mut memory, &mut node, &want, &keep, *most);
                    prop_assert_eq!(worse, None);
                }
            }
            prop_assert!(node.foreign() == foreign, "after {:?}: {:?} instead of {:?}", event, node.foreign(), foreign);
        }
        let mut rounds = 0;
        let (want, keep) = loop {
            let (want, keep) = memory.decided(&mut rows);
            let (worse, done) = act(&mut memory, &mut node, &want, &keep, usize::MAX);
            prop_assert_eq!(worse, None);
            if done {
                break (want, keep);
            }
            rounds += 1;
            prop_assert!(rounds < 8, "there is no end to it");
        };
        prop_assert!(node.stranded().is_empty(), "{:?} have no way", node.stranded());
        prop_assert!(node.has_flows(&want.flows));
        let announce = &want.kernel.own.announce;
        let wanted = want.kernel.addresses.iter().filter(|address| address.dev == *announce);
        let wanted: BTreeSet<IpAddr> = wanted.map(|address| address.net.addr()).collect();
        let announced: BTreeSet<IpAddr> = node.announced().collect();
        prop_assert!(wanted.is_subset(&announced), "{:?} are not announced", wanted.difference(&announced));
        // What could not be decided about stays as it was; all else is announced because it is wanted.
        if keep.is_empty() {
            prop_assert_eq!(announced, wanted);
        }
        prop_assert!(node.foreign() == foreign);
    }
}
