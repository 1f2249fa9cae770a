//! A small world with all kinds of reads: rows by id, an index by switch, an index by name that may find nothing, a row that
//! every unit reads, references that dangle, and units that come and go.

use super::*;
use proptest::prelude::*;

type Id = u8;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Port {
    switch: Id,
    name: u8,
    /// The name of another port, which need not exist.
    peer: Option<u8>,
}

#[derive(Debug, Clone, Default)]
struct World {
    mtu: u8,
    switches: BTreeMap<Id, u8>,
    ports: BTreeMap<Id, Port>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Fact {
    Mtu,
    Switch(Id),
    SwitchIds,
    Port(Id),
    PortIds,
    PortsOfSwitch(Id),
    PortByName(u8),
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Switch(Id),
    /// Only ports with a peer are units of their own.
    Link(Id),
}

/// The split into units. On request it panics on one of them.
#[derive(Default)]
struct Net {
    panics_on: std::cell::Cell<Option<Id>>,
}

type View<'w> = Tracked<'w, World, Fact>;

fn port<'w>(world: &View<'w>, id: Id) -> Option<&'w Port> {
    world.read(Fact::Port(id), |w| w.ports.get(&id))
}

fn by_name(world: &View<'_>, name: u8) -> Option<Id> {
    world.read(Fact::PortByName(name), |w| w.ports.iter().find(|(_, p)| p.name == name).map(|(id, _)| *id))
}

fn ports_of(world: &View<'_>, switch: Id) -> Vec<Id> {
    world.read(Fact::PortsOfSwitch(switch), |w| {
        w.ports.iter().filter(|(_, p)| p.switch == switch).map(|(id, _)| *id).collect()
    })
}

impl Units for Net {
    type View = World;
    type Fact = Fact;
    type Key = Key;
    type Value = String;

    fn keys(&self, world: &View<'_>) -> Vec<Key> {
        let switches: Vec<Id> = world.read(Fact::SwitchIds, |w| w.switches.keys().copied().collect());
        let ports: Vec<Id> = world.read(Fact::PortIds, |w| w.ports.keys().copied().collect());
        let linked = ports.into_iter().filter(|id| port(world, *id).is_some_and(|p| p.peer.is_some()));
        let linked: Vec<Key> = linked.map(Key::Link).collect();
        switches.into_iter().map(Key::Switch).chain(linked).collect()
    }

    fn compile(&self, key: &Key, world: &View<'_>) -> String {
        match key {
            Key::Switch(id) => {
                assert_ne!(self.panics_on.get(), Some(*id));
                let tag = world.read(Fact::Switch(*id), |w| w.switches.get(id).copied());
                let mtu = world.read(Fact::Mtu, |w| w.mtu);
                let names: Vec<Option<u8>> =
                    ports_of(world, *id).into_iter().map(|p| port(world, p).map(|p| p.name)).collect();
                format!("{tag:?} {mtu} {names:?}")
            }
            Key::Link(id) => {
                let Some(here) = port(world, *id) else { return "no port".into() };
                // A chain of dependent reads: own row, the peer's name in an index, the peer's row, its switch's row.
                let there = here.peer.and_then(|name| by_name(world, name)).and_then(|id| port(world, id));
                let tag = there.map(|p| world.read(Fact::Switch(p.switch), |w| w.switches.get(&p.switch)));
                format!("{here:?} {there:?} {tag:?}")
            }
        }
    }
}

#[derive(Debug, Clone)]
enum Edit {
    Mtu(u8),
    Switch(Id, Option<u8>),
    Port(Id, Option<Port>),
}

/// Applies an edit and returns the facts that it changes, of the old and the new row, as for an OVSDB delta.
fn edit(world: &mut World, edit: Edit) -> Vec<Fact> {
    match edit {
        Edit::Mtu(mtu) => {
            world.mtu = mtu;
            vec![Fact::Mtu]
        }
        Edit::Switch(id, tag) => {
            let before = match tag {
                Some(tag) => world.switches.insert(id, tag),
                None => world.switches.remove(&id),
            };
            let mut facts = vec![Fact::Switch(id)];
            if before.is_some() != tag.is_some() {
                facts.push(Fact::SwitchIds);
            }
            facts
        }
        Edit::Port(id, after) => {
            let before = match after.clone() {
                Some(port) => world.ports.insert(id, port),
                None => world.ports.remove(&id),
            };
            let mut facts = vec![Fact::Port(id)];
            for port in before.iter().chain(&after) {
                facts.extend([Fact::PortsOfSwitch(port.switch), Fact::PortByName(port.name)]);
            }
            if before.is_some() != after.is_some() {
                facts.push(Fact::PortIds);
            }
            facts
        }
    }
}

fn edits() -> impl Strategy<Value = Edit> {
    let port = (0u8..4, 0u8..6, proptest::option::of(0u8..6));
    let port = port.prop_map(|(switch, name, peer)| Port { switch, name, peer });
    prop_oneof![
        1 => (0u8..3).prop_map(Edit::Mtu),
        3 => (0u8..4, proptest::option::of(0u8..3)).prop_map(|(id, tag)| Edit::Switch(id, tag)),
        6 => (0u8..8, proptest::option::weighted(0.7, port)).prop_map(|(id, port)| Edit::Port(id, port)),
    ]
}

fn values(compiler: &Compiler<Net>) -> BTreeMap<Key, String> {
    compiler.values().map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn full(world: &World) -> BTreeMap<Key, String> {
    let mut compiler = Compiler::new(Net::default());
    compiler.update(world, Delta::Everything);
    values(&compiler)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn incremental_equals_full(batches in proptest::collection::vec(proptest::collection::vec(edits(), 0..4), 1..25)) {
        let mut world = World::default();
        let mut compiler = Compiler::new(Net::default());
        compiler.update(&world, Delta::Everything);
        for batch in batches {
            let before = values(&compiler);
            let facts = batch.into_iter().flat_map(|e| edit(&mut world, e)).collect();
            let update = compiler.update(&world, Delta::Facts(facts));
            let want = full(&world);
            let diff = crate::keyed::diff(&want, &before);
            let fresh = diff.added.iter().map(|a| a.0).chain(diff.changed.iter().map(|c| c.0));
            prop_assert_eq!(update.changed, fresh.cloned().collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>());
            prop_assert_eq!(update.removed, diff.removed.iter().map(|r| r.0.clone()).collect::<Vec<_>>());
            prop_assert_eq!(values(&compiler), want);
        }
    }

    #[test]
    fn known_comings_and_goings_equal_a_listing(
        batches in proptest::collection::vec(proptest::collection::vec(edits(), 0..4), 1..25)
    ) {
        let mut world = World::default();
        let mut compiler = Compiler::new(Net::default());
        for batch in batches {
            let before: BTreeSet<Key> = values(&compiler).into_keys().collect();
            let facts: Vec<Fact> = batch.into_iter().flat_map(|e| edit(&mut world, e)).collect();
            let want = full(&world);
            let after: BTreeSet<Key> = want.keys().cloned().collect();
            let (came, gone) = (after.difference(&before).cloned().collect(), before.difference(&after).cloned().collect());
            let update = compiler.edit(&world, &facts, came, gone);
            prop_assert_eq!(update.removed, before.difference(&after).cloned().collect::<Vec<_>>());
            prop_assert_eq!(values(&compiler), want);
        }
    }

    #[test]
    fn verify_finds_and_mends_whatever_a_wrong_delta_leaves(
        start in proptest::collection::vec(edits(), 0..20),
        unseen in proptest::collection::vec(edits(), 1..5),
    ) {
        let mut world = World::default();
        start.into_iter().for_each(|e| drop(edit(&mut world, e)));
        let mut compiler = Compiler::new(Net::default()).verify(true);
        compiler.update(&world, Delta::Everything);
        let before = values(&compiler);
        unseen.into_iter().for_each(|e| drop(edit(&mut world, e)));
        let update = compiler.update(&world, Delta::Facts(vec![]));
        let want = full(&world);
        prop_assert_eq!(update.problems.is_empty(), want == before);
        prop_assert!(update.problems.iter().all(|p| p.class == Class::Bug));
        prop_assert_eq!(update.problems.len(), update.changed.len() + update.removed.len());
        prop_assert_eq!(values(&compiler), want);
    }
}

fn small_world() -> World {
    let mut world = World::default();
    for id in 0..4 {
        edit(&mut world, Edit::Switch(id, Some(0)));
        edit(&mut world, Edit::Port(id, Some(Port { switch: id, name: id, peer: None })));
    }
    edit(&mut world, Edit::Port(7, Some(Port { switch: 0, name: 7, peer: Some(9) })));
    world
}

#[test]
fn only_units_that_read_a_touched_fact_compile() {
    let mut world = small_world();
    let mut compiler = Compiler::new(Net::default());
    assert_eq!(compiler.update(&world, Delta::Everything).compiled, 5);
    // (edit, number of compiled units): a tag concerns its switch; the MTU concerns all switches; a new port concerns the link that did not
    // find its name before, and the port's switch.
    let found = Port { switch: 1, name: 9, peer: None };
    for (change, compiled) in
        [(Edit::Switch(2, Some(1)), 1), (Edit::Mtu(9), 4), (Edit::Port(6, Some(found)), 2)]
    {
        let facts = edit(&mut world, change.clone());
        assert_eq!(compiler.update(&world, Delta::Facts(facts)).compiled, compiled, "{change:?}");
    }
    assert_eq!(compiler.update(&world, Delta::Facts(vec![])).compiled, 0);
    assert_eq!(values(&compiler), full(&world));
}

#[test]
fn a_value_that_comes_out_the_same_is_not_called_changed() {
    let world = small_world();
    let mut compiler = Compiler::new(Net::default());
    compiler.update(&world, Delta::Everything);
    let update = compiler.update(&world, Delta::Facts(vec![Fact::Switch(1)]));
    assert_eq!((update.compiled, update.changed.len()), (1, 0));
}

#[test]
fn forgetting_leaves_no_reader_behind_and_compiles_all_again() {
    let mut world = small_world();
    let mut compiler = Compiler::new(Net::default());
    compiler.update(&world, Delta::Everything);
    compiler.forget();
    assert!(compiler.readers.0.is_empty());
    assert_eq!(compiler.update(&world, Delta::Facts(vec![])).compiled, 5);
    world = World::default();
    assert_eq!(compiler.update(&world, Delta::Everything).removed.len(), 5);
    assert!(compiler.readers.0.is_empty(), "a removed unit leaves no reader behind");
}

#[test]
fn an_update_that_panics_loses_no_change() {
    let mut world = small_world();
    let mut compiler = Compiler::new(Net::default());
    compiler.update(&world, Delta::Everything);
    let facts = edit(&mut world, Edit::Mtu(9));
    compiler.units.panics_on.set(Some(2));
    let panicked = task::contain::sync(|| compiler.update(&world, Delta::Facts(facts)));
    assert!(panicked.is_err());
    compiler.units.panics_on.set(None);
    compiler.update(&world, Delta::Facts(vec![]));
    assert_eq!(values(&compiler), full(&world));
}
