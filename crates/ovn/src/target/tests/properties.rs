//! For any desired and any observed rows: after planning and applying, all rows are as desired, nothing foreign has changed,
//! and a second plan is empty.

use std::collections::{BTreeMap, BTreeSet};

use ovsdb::Uuid;
use ovsdb::model::Arity;
use ovsdb::wire::Atom;
use ovsdb::wire::Datum;
use proptest::prelude::*;
use reconcile::{ObjectId, Plan};

use super::model::Model;
use super::ownership;
use super::world::{Cloud, Meddling, cloud, meddling};
use crate::target::desired::WantedRow;
use crate::target::element::{atoms, pairs, uuids};
use crate::target::memory::Memory;
use crate::target::{Desired, Op, RowId, Rules, View, plan};

fn planned(want: &Desired, keep: &BTreeSet<ObjectId>, have: &Model) -> Plan<Op> {
    plan(want, keep, have, &ownership(), &Rules::northbound())
}

fn is_ours(db: &Model, id: RowId) -> bool {
    db.row(id).is_some_and(|row| ownership().claim(id, row).is_some())
}

/// Foreign rows with their values.
fn foreign(db: &Model, want: &Desired) -> BTreeMap<RowId, Vec<Datum>> {
    db.values().into_iter().filter(|(id, _)| !is_ours(db, *id) && want.owner(*id).is_none()).collect()
}

/// Whether a row was collected because all rows that referred to it were deleted.
fn orphaned(before: &Model, after: &Model, id: RowId) -> bool {
    let holders: Vec<RowId> = before.ids().filter(|holder| holds(before, *holder, id)).collect();
    !holders.is_empty() && holders.iter().all(|holder| after.row(*holder).is_none())
}

fn holds(db: &Model, holder: RowId, held: RowId) -> bool {
    let Some(row) = db.row(holder) else { return false };
    row.columns().iter().enumerate().any(|(at, spec)| {
        matches!(spec.shape.refers, Some((table, true)) if table == held.table)
            && uuids(&row.datum(at)).any(|uuid| uuid == held.uuid)
    })
}

/// A foreign row's value without references to rows of ours: those come and go with our rows.
fn stripped(datum: &Datum, ours: &BTreeSet<Uuid>) -> Datum {
    match datum {
        Datum::Set(atoms) => Datum::set(
            atoms
                .iter()
                .filter(|atom| !uuids(&Datum::from((*atom).clone())).any(|u| ours.contains(&u)))
                .cloned(),
        ),
        map => map.clone(),
    }
}

/// Keys that only other programs write, whatever the rules list.
fn is_junk(key: &Atom) -> bool {
    matches!(key, Atom::String(key) if key == "junk" || key == "theirs")
}

/// Pairs that others wrote.
fn junk(db: &Model) -> Vec<(RowId, usize, (Atom, Atom))> {
    let mut found = Vec::new();
    for id in db.ids() {
        let Some(row) = db.row(id) else { continue };
        for at in 0..row.columns().len() {
            let theirs = pairs(row.datum(at)).filter(|(key, _)| is_junk(key));
            found.extend(theirs.map(|pair| (id, at, pair)));
        }
    }
    found
}

/// The expected final content of a column, computed from the observed and desired content without the planner: everything
/// desired, everything foreign, and nothing else.
fn expected(
    before: &Model,
    after: &Model,
    ours: &BTreeSet<Uuid>,
    (id, wanted): (RowId, &WantedRow),
    at: usize,
) -> Datum {
    let spec = &after.row(id).unwrap().columns()[at];
    let voices: Vec<_> = wanted.voices().filter(|want| want.columns.contains(at)).collect();
    let members = wanted.members(at).map(|member| Atom::Uuid(member.uuid));
    let was = before.row(id).map(|row| row.datum(at)).unwrap_or_default();
    match (spec.shape.refers, voices.first()) {
        (Some((table, _)), speaker) => {
            let said = voices.iter().flat_map(|want| atoms(want.row.datum(at))).chain(members);
            let there = |uuid: &Uuid| after.row(RowId { table, uuid: *uuid }).is_some();
            // If no claim covers the column, our own members may stay in it.
            let foreign = uuids(&was).filter(|uuid| speaker.is_none() || !ours.contains(uuid));
            Datum::set(said.chain(foreign.filter(there).map(Atom::Uuid)))
        }
        (None, None) => was,
        (None, Some(_)) if spec.shape.arity == Arity::Map => {
            let text = |text: &str| Atom::String(text.into());
            let owner = wanted.own.iter().filter(|_| spec.name == "external_ids").flat_map(|own| {
                let object = text(&own.object.to_string());
                [(text("meridian:owner"), text("cloud")), (text("meridian:object"), object)]
            });
            let said = voices.iter().flat_map(|want| pairs(want.row.datum(at)));
            let foreign = pairs(was).filter(|(key, _)| is_junk(key));
            Datum::map(said.chain(owner).chain(foreign).collect::<BTreeMap<_, _>>())
        }
        (None, Some(speaker)) => speaker.row.datum(at),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn one_plan_is_enough(before in cloud(), meddlings in meddling(), after in cloud(), old in any::<bool>()) {
        let mut db = Model::new(if old { "23.03" } else { "26.03" });
        db.run(&before.desired(), &ownership());
        meddlings.iter().for_each(|meddling| meddling.apply(&mut db));
        // An empty transaction clears dangling weak references, as the server does.
        db.apply(std::iter::empty()).unwrap();
        let want = after.desired();
        let theirs = foreign(&db, &want);
        let junk_before = junk(&db);
        let was = db.copy();
        let ours: BTreeSet<Uuid> = db.ids().filter(|id| is_ours(&db, *id)).map(|id| id.uuid)
            .chain(want.rows().map(|(id, _)| id).filter(|id| want.owner(*id).is_some()).map(|id| id.uuid)).collect();

        let first = planned(&want, &BTreeSet::new(), &db);
        prop_assert!(first.steps.iter().is_sorted_by_key(|step| phase(&step.op)), "{}", first);
        db.apply(first.steps.iter().map(|step| &step.op)).map_err(|e| TestCaseError::fail(format!("{e}\n{first}")))?;

        let second = planned(&want, &BTreeSet::new(), &db);
        prop_assert!(second.is_empty(), "left over after\n{}\n:\n{}", first, second);
        prop_assert_eq!(second.want, second.have);

        for (id, wanted) in want.rows() {
            let Some(row) = db.row(id) else {
                prop_assert!(wanted.own.is_none(), "{} is missing", id);
                continue;
            };
            for (at, spec) in row.columns().iter().enumerate() {
                let expected = expected(&was, &db, &ours, (id, wanted), at);
                prop_assert_eq!(row.datum(at), expected, "{} {} after\n{}", id, spec.name, first);
            }
        }
        for id in db.ids().filter(|id| is_ours(&db, *id)) {
            prop_assert!(want.owner(id).is_some(), "{} should be gone", id);
        }
        for (id, values) in theirs {
            match db.row(id) {
                Some(row) => {
                    let kept: Vec<Datum> = (0..values.len()).map(|at| stripped(&row.datum(at), &ours)).collect();
                    let had: Vec<Datum> = values.iter().map(|value| stripped(value, &ours)).collect();
                    prop_assert_eq!(kept, had, "{} was touched", id);
                }
                None => prop_assert!(orphaned(&was, &db, id), "{} is gone", id),
            }
        }
        for (id, at, pair) in junk_before {
            if let Some(row) = db.row(id) {
                let column = row.columns()[at].name;
                prop_assert!(pairs(row.datum(at)).any(|kept| kept == pair), "{} {} {:?} is gone", id, column, pair);
            }
        }
    }

    /// Any object's steps can be left out (held back, undecided) and the rest still commits.
    #[test]
    fn objects_do_not_hang_on_each_other(
        before in cloud(),
        after in cloud(),
        dropped in proptest::collection::btree_set(("network|port|lb|nat|router|floatingip", 0u8..4), 0..4),
    ) {
        let mut db = Model::new("26.03");
        db.run(&before.desired(), &ownership());
        let want = after.desired();
        let keep: BTreeSet<ObjectId> =
            dropped.into_iter().map(|(kind, n)| ObjectId::new(kind, n.to_string())).collect();
        let plan_all = planned(&want, &BTreeSet::new(), &db);
        let rest = plan_all.steps.iter().filter(|step| !keep.contains(&step.object)).map(|step| &step.op);
        let done = db.copy().apply(rest);
        prop_assert!(done.is_ok(), "{:?} without {:?}\n{}", done, keep, plan_all);
    }

    #[test]
    fn undecided_objects_rows_stay(before in cloud(), after in cloud(), n in 0u8..4) {
        let mut db = Model::new("26.03");
        db.run(&before.desired(), &ownership());
        let keep = BTreeSet::from([ObjectId::new("port", n.to_string())]);
        let had: BTreeMap<RowId, Vec<Datum>> = db.values().into_iter().filter(|(id, _)| {
            let owned = db.row(*id).and_then(|row| ownership().claim(*id, row));
            owned.is_some_and(|owned| owned.object().is_some_and(|object| keep.contains(object)))
        }).collect();
        let plan = planned(&after.desired(), &keep, &db);
        let steps: Vec<_> = plan.steps.iter().filter(|step| !keep.contains(&step.object)).map(|step| &step.op).collect();
        let holders: BTreeSet<RowId> = db.ids().filter(|id| had.keys().any(|held| holds(&db, *id, *held))).collect();
        let gone = steps.iter().any(|op| matches!(op, Op::Delete(owned) if holders.contains(&owned.row())));
        db.apply(steps.into_iter()).unwrap();
        for (id, values) in had {
            match db.row(id) {
                // Its floating IP is another object's key in its row.
                Some(row) => prop_assert_eq!(
                    (0..values.len()).filter(|at| row.columns()[*at].name != "external_ids").map(|at| row.datum(at)).collect::<Vec<_>>(),
                    (0..values.len()).filter(|at| row.columns()[*at].name != "external_ids").map(|at| values[at].clone()).collect::<Vec<_>>()
                ),
                None => prop_assert!(gone, "{} is gone", id),
            }
        }
    }
}

/// One round of a test: the next desired rows, the foreign changes meanwhile, and the steps that are carried out.
#[derive(Clone, Debug)]
struct Round {
    cloud: Cloud,
    meddlings: Vec<Meddling>,
    done: u8,
}

fn rounds() -> impl Strategy<Value = Vec<Round>> {
    let round = (cloud(), meddling(), any::<u8>()).prop_map(|(cloud, meddlings, done)| Round {
        cloud,
        meddlings,
        done,
    });
    proptest::collection::vec(round, 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A plan with a memory equals a plan without one, through changes of the desired and the observed rows, and through partly applied
    /// plans.
    #[test]
    fn a_plan_from_memory_is_the_whole_plan(rounds in rounds()) {
        let (ownership, rules) = (ownership(), Rules::northbound());
        let mut db = Model::new("26.03");
        let mut memory = Memory::default();
        let (mut want, mut parts) = (Desired::new(), BTreeMap::new());
        for round in rounds {
            let mut next = round.cloud.parts().0;
            for (_, part) in parts.iter().filter(|(object, _)| !next.contains_key(*object)) {
                want.remove(part);
            }
            for (object, part) in &mut next {
                match parts.get(object) {
                    Some(before) if before == part => {}
                    Some(before) => {
                        part.reuse(before);
                        want.exchange(before, part);
                    }
                    None => want.add(part),
                }
            }
            // Parts that are equal keep their rows, as they do in an incremental decider.
            parts = next.into_iter().map(|(object, part)| match parts.remove(&object) {
                Some(before) if before == part => (object, before),
                _ => (object, part),
            }).collect();
            round.meddlings.iter().for_each(|meddling| meddling.apply(&mut db));
            db.apply(std::iter::empty()).unwrap();
            let full = planned(&want, &BTreeSet::new(), &db);
            let from_memory = memory.plan(&want, &BTreeSet::new(), &db, &ownership, &rules);
            prop_assert_eq!(&from_memory, &full, "{}\n---\n{}", from_memory, full);
            let fresh = planned(&round.cloud.desired(), &BTreeSet::new(), &db);
            // Tables that were named once keep their place in the order of steps.
            let sorted = |plan: &Plan<Op>| {
                let mut lines: Vec<_> = plan.steps.iter().map(|s| format!("{}: {}", s.object, s.op)).collect();
                lines.sort();
                (lines, plan.want, plan.have, plan.problems.clone())
            };
            prop_assert_eq!(sorted(&fresh), sorted(&full), "parts that came and went leave no trace");
            if round.done > 60 {
                let steps = full.steps.iter().enumerate().filter(|(n, _)| round.done > 120 || n % 2 == 0);
                // A part of a plan may be refused as a whole; then nothing was done.
                let _ = db.apply(steps.map(|(_, step)| &step.op));
            }
        }
    }
}

fn phase(op: &Op) -> u8 {
    match op {
        Op::Insert { .. } => 0,
        Op::Set { .. } => 1,
        Op::Put { .. } => 2,
        Op::Take { .. } => 3,
        Op::Delete(_) => 4,
    }
}
