//! Ops as one transaction.
//!
//! The target commits a plan as a whole. If the server refuses it, one object is to blame, and the others must not wait for it.
//! So the target splits the plan in halves by object, dependencies first, until each refused object is alone. It retries
//! nothing: failed steps come back with the next plan.

use std::collections::{BTreeMap, BTreeSet};

use ovsdb::txn::{Class as CommitClass, CommitError, OpResult};
use ovsdb::wire::{Atom, Datum};
use ovsdb::{ElementChange, Transaction, Uuid};
use reconcile::{Applied, Class, ObjectId, Plan, Scope, Step, StepResult, Target, TargetError};

use super::desired::Desired;
use super::element::{atoms, pairs, uuids};
use super::memory::Memory;
use super::observe::SnapshotView;
use super::op::Op;
use super::row_target::{Database, RowTarget};
use super::state::RowId;

impl<D: Database> RowTarget<D> {
    /// Commits the steps of some objects, or of all. `Ok` contains the steps whose row was already deleted.
    async fn commit(&mut self, steps: &[&Step<Op>], all: bool) -> Result<BTreeSet<usize>, CommitError> {
        let composed = RowWrites::of(steps.iter().map(|step| &step.op));
        let mut txn = Transaction::new();
        if let Some(lock) = &self.lock {
            txn.assert_lock(lock);
        }
        if let Some(guard) = &mut self.guard {
            guard(&mut txn);
        }
        let before = txn.len();
        for op in &composed.ops {
            op.add_to(&mut txn);
        }
        if let Some(note) = self.note.as_mut().filter(|_| all) {
            note(&mut txn);
        }
        let committed = self.database.commit(txn).await?;
        let missed = committed.results().iter().enumerate().skip(before).take(composed.ops.len());
        let missed = missed.filter(|(_, result)| matches!(result, OpResult::Counted(0)));
        Ok(missed.flat_map(|(at, _)| composed.steps[at - before].iter().copied()).collect())
    }
}

impl<D: Database> Target for RowTarget<D> {
    type Desired = Desired;
    type Observed = SnapshotView;
    type Op = Op;

    fn plan(&mut self, want: &Desired, keep: &BTreeSet<ObjectId>, have: &SnapshotView) -> Plan<Op> {
        self.memory.plan(want, keep, have, &self.ownership, &self.rules)
    }

    async fn observe(&mut self, scope: Scope) -> Result<SnapshotView, TargetError> {
        if scope == Scope::Full {
            self.memory = Memory::default();
        }
        self.database.observe().await
    }

    async fn apply(&mut self, plan: &Plan<Op>) -> Result<Applied, TargetError> {
        let mut results = vec![StepResult::Skipped; plan.steps.len()];
        // A stack of groups of objects. The first part of a refused group is committed first.
        let mut groups = vec![in_order(&plan.steps)];
        let mut committed = false;
        while let Some(mut objects) = groups.pop() {
            let chosen: BTreeSet<&ObjectId> = objects.iter().copied().collect();
            let positions: Vec<usize> =
                (0..plan.steps.len()).filter(|at| chosen.contains(&plan.steps[*at].object)).collect();
            if positions.is_empty() {
                continue;
            }
            let steps: Vec<&Step<Op>> = positions.iter().map(|at| &plan.steps[*at]).collect();
            match self.commit(&steps, steps.len() == plan.steps.len()).await {
                Ok(missed) => {
                    committed = true;
                    for (n, at) in positions.into_iter().enumerate() {
                        results[at] = match missed.contains(&n) && !matches!(plan.steps[at].op, Op::Delete(_))
                        {
                            true => StepResult::Failed(gone(plan.steps[at].op.row())),
                            false => StepResult::Done,
                        };
                    }
                }
                Err(error) if blames_an_object(&error) && objects.len() > 1 => {
                    groups.push(objects.split_off(objects.len() / 2));
                    groups.push(objects);
                }
                Err(error) if blames_an_object(&error) => {
                    let error = failure(error, steps.len());
                    positions.into_iter().for_each(|at| results[at] = StepResult::Failed(error.clone()));
                }
                // The error does not concern an object. The earlier commits stay, and the next observation shows them.
                Err(error) if committed => {
                    let error = failure(error, steps.len());
                    positions.into_iter().for_each(|at| results[at] = StepResult::Failed(error.clone()));
                    break;
                }
                Err(error) => return Err(failure(error, steps.len())),
            }
        }
        Ok(Applied { results })
    }
}

/// Whether the server rejected the content of the transaction.
fn blames_an_object(error: &CommitError) -> bool {
    error.class() == CommitClass::Refused && !error.is_read_only()
}

fn gone(row: RowId) -> TargetError {
    TargetError::new(Class::Conflict, format!("change {row}: another client deleted it"))
}

/// The remedy for a failed transaction. One that may have succeeded is a conflict: the next observation shows it.
pub fn class(error: &CommitError) -> Class {
    match (error, error.class()) {
        (CommitError::Unknown { .. }, _) | (_, CommitClass::Conflict) => Class::Conflict,
        (_, CommitClass::Transient) => Class::Transient,
        (_, CommitClass::Refused) => Class::Refused,
        (_, CommitClass::Bug) => Class::Bug,
    }
}

fn failure(error: CommitError, steps: usize) -> TargetError {
    let class = class(&error);
    TargetError::new(class, format!("commit {steps} changes of rows")).because(error)
}

/// The objects of a plan in dependency order: an object comes after the objects that create the rows which its own rows refer
/// to or are added to.
fn in_order(steps: &[Step<Op>]) -> Vec<&ObjectId> {
    let mut makers: BTreeMap<Uuid, &ObjectId> = BTreeMap::new();
    for step in steps {
        if let Op::Insert { row, .. } = &step.op {
            makers.insert(row.uuid, &step.object);
        }
    }
    let mut needs: BTreeMap<&ObjectId, BTreeSet<&ObjectId>> = BTreeMap::new();
    for step in steps {
        let needed = needs.entry(&step.object).or_default();
        let mut need = |uuid: Uuid| {
            if let Some(maker) = makers.get(&uuid).filter(|maker| **maker != &step.object) {
                needed.insert(maker);
            }
        };
        match &step.op {
            Op::Insert { values, .. } => {
                values.iter().for_each(|(_, value)| uuids(value).for_each(&mut need))
            }
            Op::Set { row, to, .. } => std::iter::once(row.uuid).chain(uuids(to)).for_each(&mut need),
            Op::Put { row, elements, .. } => {
                std::iter::once(row.uuid).chain(uuids(elements)).for_each(&mut need)
            }
            Op::Take { .. } | Op::Delete(_) => {}
        }
    }
    let mut order = Vec::with_capacity(needs.len());
    let mut seen = BTreeSet::new();
    for step in steps {
        visit(&step.object, &needs, &mut seen, &mut order);
    }
    order
}

/// Depth first without recursion: chains of objects may be long.
fn visit<'a>(
    object: &'a ObjectId,
    needs: &BTreeMap<&'a ObjectId, BTreeSet<&'a ObjectId>>,
    seen: &mut BTreeSet<&'a ObjectId>,
    order: &mut Vec<&'a ObjectId>,
) {
    if !seen.insert(object) {
        return;
    }
    let of = |object: &'a ObjectId| needs.get(object).into_iter().flatten().copied().collect::<Vec<_>>();
    let mut stack = vec![(object, of(object))];
    while let Some((object, rest)) = stack.last_mut() {
        match rest.pop() {
            Some(next) if seen.insert(next) => {
                let more = of(next);
                stack.push((next, more));
            }
            Some(_) => {}
            None => {
                order.push(object);
                stack.pop();
            }
        }
    }
}

/// Operations for the server. All changes of one row form one operation, whichever objects they belong to.
struct RowWrites {
    ops: Vec<RowWrite>,
    /// The steps in each operation.
    steps: Vec<Vec<usize>>,
}

/// All changes of one row.
enum RowWrite {
    Insert(RowId, BTreeMap<&'static str, Datum>),
    Update(RowId, BTreeMap<&'static str, Datum>),
    Change(RowId, Vec<(&'static str, ElementChange, Datum)>),
    Delete(RowId),
}

impl RowWrite {
    fn add_to(&self, txn: &mut Transaction) {
        match self {
            RowWrite::Insert(row, values) => {
                txn.insert_by_name(row.table, row.uuid, values.iter().map(|(name, value)| (*name, value)))
            }
            RowWrite::Update(row, values) => {
                txn.write_by_name(row.table, row.uuid, values.iter().map(|(name, value)| (*name, value)))
            }
            RowWrite::Change(row, steps) => {
                let steps = steps.iter().map(|(name, change, elements)| (*name, *change, elements));
                txn.change_by_name(row.table, row.uuid, steps)
            }
            RowWrite::Delete(row) => txn.delete_by_name(row.table, row.uuid),
        };
    }
}

/// The additions to and removals from one column.
#[derive(Default)]
struct Column {
    put: Vec<Datum>,
    take: Vec<Datum>,
}

impl RowWrites {
    fn of<'a>(ops: impl Iterator<Item = &'a Op>) -> Self {
        let mut inserts = Vec::new();
        let mut updates: BTreeMap<RowId, (Vec<usize>, BTreeMap<&'static str, Datum>)> = BTreeMap::new();
        let mut mutates: BTreeMap<RowId, (Vec<usize>, BTreeMap<&'static str, Column>)> = BTreeMap::new();
        let mut deletes = Vec::new();
        for (at, op) in ops.enumerate() {
            match op {
                Op::Insert { row, values } => {
                    inserts.push((vec![at], RowWrite::Insert(*row, values.iter().cloned().collect())));
                }
                Op::Set { row, column, to, .. } => {
                    let entry = updates.entry(*row).or_default();
                    entry.0.push(at);
                    entry.1.insert(column, to.clone());
                }
                Op::Put { row, column, elements } => {
                    let entry = mutates.entry(*row).or_default();
                    entry.0.push(at);
                    entry.1.entry(column).or_default().put.push(elements.clone());
                }
                Op::Take { row, column, elements } => {
                    let entry = mutates.entry(*row).or_default();
                    entry.0.push(at);
                    entry.1.entry(column).or_default().take.push(elements.clone());
                }
                Op::Delete(owned) => {
                    deletes.push((vec![at], RowWrite::Delete(owned.row())));
                }
            }
        }
        let updates =
            updates.into_iter().map(|(row, (steps, values))| (steps, RowWrite::Update(row, values)));
        let mutates = mutates.into_iter().map(|(row, (steps, columns))| {
            let mutations = columns.into_iter().flat_map(|(name, column)| column.mutations(name)).collect();
            (steps, RowWrite::Change(row, mutations))
        });
        let (steps, ops) = inserts.into_iter().chain(updates).chain(mutates).chain(deletes).unzip();
        RowWrites { ops, steps }
    }
}

impl Column {
    /// Mutations in the order that the server needs. A set may have a minimum size, so additions come first. A map's insert
    /// does not change an existing key, so removals come first.
    fn mutations(self, name: &'static str) -> Vec<(&'static str, ElementChange, Datum)> {
        let is_map = self.put.iter().any(|datum| matches!(datum, Datum::Map(_)));
        let mut take: Vec<Atom> = self.take.into_iter().flat_map(atoms).collect();
        let mut all = Vec::new();
        if is_map {
            let put: Vec<(Atom, Atom)> = self.put.into_iter().flat_map(pairs).collect();
            take.extend(put.iter().map(|(key, _)| key.clone()));
            all.push((name, ElementChange::Delete, Datum::set(take)));
            all.push((name, ElementChange::Insert, Datum::map(put)));
        } else {
            all.push((name, ElementChange::Insert, Datum::set(self.put.into_iter().flat_map(atoms))));
            all.push((name, ElementChange::Delete, Datum::set(take)));
        }
        all.retain(|(_, _, datum)| !datum.is_empty());
        all
    }
}

#[cfg(test)]
mod tests;
