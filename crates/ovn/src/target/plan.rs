//! From desired rows and a database to ordered ops. Pure.
//!
//! The order is: new rows (referenced ones first), values, additions to shared columns, removals from them, and last the
//! deleted rows. All of it is one transaction, so the order only matters to human readers, except if the transaction must be
//! split. Then all steps of one object stay together. So a step belongs to the object that depends on it: listing a port in its
//! switch is the port's step, not the switch's. A port that is refused, held back or undecided then blocks nothing else.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod members;

use std::collections::{BTreeMap, BTreeSet};

use ovsdb::Uuid;
use ovsdb::model::Arity;
use ovsdb::model::{ColumnSet, ColumnSpec};
use ovsdb::wire::Atom;
use ovsdb::wire::Datum;
use reconcile::{Class, ObjectId, Plan, Problem};

use super::admit::{AdmittedColumns, admit};
use super::desired::{Desired, Want, WantedRow};
use super::element::{Element, atoms, datum, elements, has, pairs};
use super::op::Op;
use super::rules::{Keys, Rules, Share};
use super::state::{OwnedRow, Ownership, Row, RowId, View};

/// The steps from the observed to the desired rows, touching only what is ours.
///
/// Rows of objects in `keep` stay as they are, and so do references to them. If any object is kept, rows of ours that do not
/// name their object stay, too.
pub fn plan(
    want: &Desired,
    keep: &BTreeSet<ObjectId>,
    have: &dyn View,
    ownership: &Ownership,
    rules: &Rules,
) -> Plan<Op> {
    plan_rows(want, keep, have, ownership, rules, None).0
}

/// The basis of an earlier plan with the same `keep`, and the rows that may have changed since.
pub(super) struct Since<'a> {
    /// Rows whose desired or observed state changed, and those that were not as desired.
    pub(super) rows: BTreeSet<RowId>,
    /// The desired state then.
    pub(super) want: &'a Desired,
    /// The observed state then.
    pub(super) have: &'a dyn View,
    /// The open work then.
    pub(super) open: &'a Open,
}

/// The open work after a plan.
#[derive(Debug, Default)]
pub(super) struct Open {
    /// Rows that are not as desired.
    pub(super) rows: BTreeSet<RowId>,
    /// The rows among them that have problems.
    troubled: BTreeSet<RowId>,
    /// Members to add or remove, by row and column.
    members: BTreeMap<(RowId, &'static str), Vec<Uuid>>,
}

/// Like `plan`, but based on an earlier plan: it examines only rows, and members of large columns, that may have changed since. It also
/// returns the open work.
pub(super) fn plan_rows(
    want: &Desired,
    keep: &BTreeSet<ObjectId>,
    have: &dyn View,
    ownership: &Ownership,
    rules: &Rules,
    since: Option<Since<'_>>,
) -> (Plan<Op>, Open) {
    let ownership = &ownership.with_records(want.adopted());
    let mut planner = Planner::new(want, keep, have, ownership, rules, since.as_ref());
    planner.find_doomed();
    match &since {
        None => want.rows().for_each(|(id, wanted)| planner.row(id, wanted)),
        Some(since) => since
            .rows
            .iter()
            .for_each(|id| want.wanted(*id).into_iter().for_each(|wanted| planner.row(*id, wanted))),
    }
    planner.release_doomed();
    planner.claims();
    planner.take_lapsing();
    planner.finish()
}

struct Planner<'a> {
    want: &'a Desired,
    keep: &'a BTreeSet<ObjectId>,
    have: &'a dyn View,
    ownership: &'a Ownership,
    rules: &'a Rules,
    since: Option<&'a Since<'a>>,
    doomed: BTreeMap<RowId, OwnedRow>,
    /// Columns of surviving rows that are already handled.
    seen: BTreeSet<(RowId, &'static str)>,
    inserts: Vec<(ObjectId, Op)>,
    sets: Vec<(ObjectId, Op)>,
    puts: BTreeMap<Place, Vec<Element>>,
    put_already: BTreeSet<(RowId, &'static str, Atom)>,
    problems: BTreeSet<Problem>,
    /// Rows with problems.
    troubled: BTreeSet<RowId>,
    /// Desired rows that will not exist. No row may refer to them, or it would fail with them.
    refused: BTreeSet<Uuid>,
    takes: BTreeMap<Place, Vec<Element>>,
    /// Weak references to rows that the plan deletes; after the takes are known, only those that the server clears.
    lapsing: BTreeMap<Place, Vec<Element>>,
}

/// Elements of one column that belong to one object travel together.
type Place = (RowId, &'static str, ObjectId);

impl<'a> Planner<'a> {
    fn new(
        want: &'a Desired,
        keep: &'a BTreeSet<ObjectId>,
        have: &'a dyn View,
        ownership: &'a Ownership,
        rules: &'a Rules,
        since: Option<&'a Since<'a>>,
    ) -> Self {
        Planner {
            want,
            keep,
            have,
            ownership,
            rules,
            since,
            doomed: BTreeMap::new(),
            seen: BTreeSet::new(),
            inserts: Vec::new(),
            sets: Vec::new(),
            puts: BTreeMap::new(),
            put_already: BTreeSet::new(),
            problems: BTreeSet::new(),
            troubled: BTreeSet::new(),
            refused: BTreeSet::new(),
            takes: BTreeMap::new(),
            lapsing: BTreeMap::new(),
        }
    }

    /// Finds rows of ours that are not desired.
    fn find_doomed(&mut self) {
        let have = self.have;
        if let Some(since) = self.since {
            for id in &since.rows {
                have.row(*id).into_iter().for_each(|row| self.judge(*id, row));
            }
            return;
        }
        for &table in have.tables() {
            have.each(table, &mut |uuid, row| self.judge(RowId { table, uuid }, row));
        }
    }

    fn judge(&mut self, id: RowId, row: &dyn Row) {
        if self.want.owner(id).is_some() {
            return;
        }
        if let Some(owned) = self.ownership.claim(id, row) {
            let kept = match owned.object() {
                Some(object) => self.keep.contains(object),
                None => !self.keep.is_empty(),
            };
            if !kept {
                self.doomed.insert(id, owned);
            }
        }
    }

    fn row(&mut self, id: RowId, wanted: &'a WantedRow) {
        if self.doomed.contains_key(&id) {
            return;
        }
        let own = wanted.own.as_ref().filter(|own| !self.keep.contains(&own.object));
        match (self.have.row(id), own) {
            (Some(row), Some(own)) if self.ownership.is_others(id, row) => {
                let text =
                    format!("{id} has the mark of another deployment, so the writer does not change it");
                self.report(id, &own.object, Class::Refused, "foreign-row", text);
                self.change(id, None, wanted, row);
            }
            (Some(row), own) => self.change(id, own, wanted, row),
            (None, Some(own)) if self.have.hides(id) => {
                let text = format!("{id} exists but does not parse, so the writer does not change it");
                self.report(id, &own.object, Class::Refused, "unreadable-row", text);
            }
            (None, Some(own)) => self.insert(id, own, wanted),
            // A foreign row that does not exist any more cannot be shared.
            (None, None) => {}
        }
    }

    fn insert(&mut self, id: RowId, own: &'a Want, wanted: &'a WantedRow) {
        if !self.ownership.will_know(id, &*own.row) {
            let text = format!(
                "{id} cannot be marked as ours: its table has no external_ids, and its UUID is not derived from the mark"
            );
            self.report(id, &own.object, Class::Bug, "unmarked-row", text);
            return;
        }
        let admitted = self.admitted(id, own);
        let Some(schema) = self.have.schema().tables.get(id.table).filter(|_| admitted.row) else {
            self.refused.insert(id.uuid);
            return;
        };
        let mut values = Vec::new();
        for at in admitted.columns.iter() {
            let spec = &own.row.columns()[at];
            let Some(column) = schema.columns.get(spec.name) else { continue };
            let mut datum = own.row.datum(at);
            if spec.name == "external_ids" {
                datum = self.marked(id, own, datum);
            }
            // Other objects' rows are listed by their own steps, unless the column may not be empty.
            if self.rules.share(id.table, spec) == Share::Members && column.kind.min == 0 {
                let (mine, others) = self.split_members(spec, own, datum);
                datum = mine;
                for (object, atom) in others {
                    self.put(id, spec.name, object, Element::Atom(atom));
                }
            }
            if datum != column.kind.default_datum() {
                values.push((spec.name, datum));
            }
        }
        self.inserts.push((own.object.clone(), Op::Insert { row: id, values }));
        for share in wanted.shares.iter().filter(|share| !self.keep.contains(&share.object)) {
            self.share_into_new(id, own, share);
        }
        for member in wanted.members.iter().filter(|member| !self.keep.contains(&member.object)) {
            let column = own.row.columns()[member.column].name;
            self.put(id, column, member.object.clone(), Element::Atom(Atom::Uuid(member.uuid)));
        }
    }

    /// Adds the members of other objects to a row that this plan creates.
    fn share_into_new(&mut self, id: RowId, own: &'a Want, share: &'a Want) {
        for at in self.admitted(id, share).columns.iter() {
            let spec = &share.row.columns()[at];
            let to = share.row.datum(at);
            let spoken = own.columns.contains(at);
            match self.rules.share(id.table, spec) {
                Share::Whole | Share::Member if spoken => {}
                Share::Whole | Share::Member => {
                    let op = Op::Set { row: id, column: spec.name, from: Datum::default(), to };
                    self.sets.push((share.object.clone(), op));
                }
                Share::Members | Share::Keys(_) => {
                    let mine = if spoken { own.row.datum(at) } else { Datum::default() };
                    for element in elements(to).into_iter().filter(|element| !has(&mine, element)) {
                        let object = self.object_of(spec, &element).unwrap_or(&share.object).clone();
                        self.put(id, spec.name, object, element);
                    }
                }
            }
        }
    }

    fn change(&mut self, id: RowId, own: Option<&'a Want>, wanted: &'a WantedRow, row: &'a dyn Row) {
        // Most rows are as wanted; a comparison of typed columns finds that out without building values.
        let shares = wanted.shares.iter().filter(|share| !self.keep.contains(&share.object));
        let wants: Vec<&'a Want> = own.into_iter().chain(shares).collect();
        let differing = wants.iter().map(|want| want.row.differing(row).and(want.columns));
        let differing = differing.fold(ColumnSet::EMPTY, ColumnSet::or);
        let unmarked = own.is_some_and(|own| !self.ownership.is_marked(id, &*own.row, &own.object, row));
        let joined = wanted.joined();
        let differing = differing.or(joined);
        if differing.is_empty() && !unmarked {
            return;
        }
        if !unmarked
            && let [own] = wants[..]
            && self.differs_by_mark(id, own, row, differing)
        {
            return;
        }
        let mut voices = Vec::with_capacity(wants.len());
        for want in wants {
            let admitted = self.admitted(id, want);
            if admitted.row {
                voices.push((want, admitted.columns));
            }
        }
        for (at, spec) in row.columns().iter().enumerate() {
            let spoken: Vec<&'a Want> =
                voices.iter().filter(|(_, columns)| columns.contains(at)).map(|(want, _)| *want).collect();
            if spoken.is_empty() && joined.contains(at) {
                self.members(id, at, spec, &spoken, wanted, row);
            }
            let Some(first) = spoken.first().copied() else { continue };
            if matches!(spec.shape.refers, Some((_, true))) {
                self.seen.insert((id, spec.name));
            }
            let marking = unmarked && spec.name == "external_ids";
            if !differing.contains(at) && !marking {
                continue;
            }
            match self.rules.share(id.table, spec) {
                Share::Whole => self.whole(id, at, first, row.datum(at)),
                Share::Member => self.member(id, at, first, row.datum(at)),
                Share::Members => self.members(id, at, spec, &spoken, wanted, row),
                Share::Keys(keys) => self.keys(id, at, &spoken, own, keys, row.datum(at)),
            }
        }
    }

    /// Whether a marked row differs only in its mark and in foreign keys. That holds for nearly every row of ours.
    fn differs_by_mark(&self, id: RowId, own: &Want, row: &dyn Row, differing: ColumnSet) -> bool {
        let mut columns = differing.iter().map(|at| &row.columns()[at]);
        let (Some(spec), None) = (columns.next(), columns.next()) else { return false };
        let (Some(wanted), Some(have)) = (own.row.external_ids(), row.external_ids()) else { return false };
        if spec.name != "external_ids" || wanted.iter().any(|(key, value)| have.get(key) != Some(value)) {
            return false;
        }
        let Share::Keys(Some(listed)) = self.rules.share(id.table, spec) else { return true };
        let mark = self.ownership.mark(id, &*own.row, &own.object);
        have.iter().all(|(key, _)| {
            wanted.contains_key(key) || mark.iter().any(|(of, _)| of == key) || !listed.contains(key)
        })
    }

    /// The part of the desired columns that the server accepts; reports the rest.
    fn admitted(&mut self, id: RowId, want: &Want) -> AdmittedColumns {
        let mut admitted = admit(want, self.have.schema());
        for refusal in std::mem::take(&mut admitted.refusals) {
            self.report(id, &want.object, Class::Refused, "unsupported", refusal.to_string());
        }
        admitted
    }

    /// An object with many rows that miss one column has one problem, not one per row.
    fn report(&mut self, row: RowId, object: &ObjectId, class: Class, code: &'static str, text: String) {
        self.troubled.insert(row);
        self.problems.insert(Problem::error(object.clone(), class, code, text));
    }

    fn whole(&mut self, id: RowId, at: usize, want: &Want, from: Datum) {
        let (spec, to) = (&want.row.columns()[at], want.row.datum(at));
        if to != from {
            self.sets.push((want.object.clone(), Op::Set { row: id, column: spec.name, from, to }));
        }
    }

    /// A reference that is a single value. An empty desired value clears a reference of ours and leaves a foreign one.
    fn member(&mut self, id: RowId, at: usize, want: &Want, from: Datum) {
        let (spec, to) = (&want.row.columns()[at], want.row.datum(at));
        let foreign = |atom: &Atom| !self.is_ours(spec, atom);
        if to == from || (to.is_empty() && from.scalar().is_some_and(foreign)) {
            return;
        }
        self.sets.push((want.object.clone(), Op::Set { row: id, column: spec.name, from, to }));
    }

    fn keys(
        &mut self,
        id: RowId,
        at: usize,
        spoken: &[&'a Want],
        own: Option<&Want>,
        listed: Option<&Keys>,
        from: Datum,
    ) {
        let Some(spec) = spoken.first().map(|want| &want.row.columns()[at]) else { return };
        let have: BTreeMap<Atom, Atom> = pairs(from).collect();
        let mut wanted: BTreeMap<Atom, Atom> = BTreeMap::new();
        for want in spoken {
            let mut value = want.row.datum(at);
            if spec.name == "external_ids" && own.is_some_and(|own| std::ptr::eq(own, *want)) {
                value = self.marked(id, want, value);
            }
            for (key, value) in pairs(value) {
                if wanted.contains_key(&key) {
                    continue;
                }
                if have.get(&key) != Some(&value) {
                    let element = Element::Pair(key.clone(), value.clone());
                    self.put(id, spec.name, want.object.clone(), element);
                }
                wanted.insert(key, value);
            }
        }
        let Some(listed) = listed else { return };
        for key in have.keys().filter(|key| !wanted.contains_key(key)) {
            if matches!(key, Atom::String(text) if listed.contains(text)) {
                let place = self.takes.entry((id, spec.name, spoken[0].object.clone())).or_default();
                place.push(Element::Atom(key.clone()));
            }
        }
    }

    /// Removes references to deleted rows from the rows that hold them, unless these are deleted as part of the same object.
    fn release_doomed(&mut self) {
        if self.doomed.is_empty() {
            return;
        }
        let tables: BTreeSet<&str> = self.doomed.keys().map(|id| id.table).collect();
        let have = self.have;
        for &table in have.tables() {
            have.each(table, &mut |uuid, row| {
                let id = RowId { table, uuid };
                let going = self.doomed.get(&id).map(object_of_owned);
                for (at, spec) in row.columns().iter().enumerate() {
                    let Some((referred, true)) = spec.shape.refers else { continue };
                    if !tables.contains(referred) || self.seen.contains(&(id, spec.name)) {
                        continue;
                    }
                    let held: Vec<Atom> =
                        atoms(row.datum(at)).filter(|atom| self.is_doomed(spec, atom)).collect();
                    for atom in held {
                        let Some(object) = self.holder(spec, &atom) else { continue };
                        if going.as_ref() == Some(&object) {
                            continue;
                        }
                        match spec.shape.arity {
                            Arity::Set => {
                                self.takes
                                    .entry((id, spec.name, object))
                                    .or_default()
                                    .push(Element::Atom(atom));
                            }
                            Arity::Optional => {
                                let (from, to) = (Datum::from(atom), Datum::default());
                                self.sets.push((object, Op::Set { row: id, column: spec.name, from, to }));
                            }
                            // A reference that must not be empty stays. The server then rejects the deletion and names the reason.
                            Arity::One | Arity::Map => {}
                        }
                    }
                }
            });
        }
    }

    /// Rows that two objects want as their own.
    fn claims(&mut self) {
        let want = self.want;
        for (row, object) in want.twice() {
            let first = want.owner(*row).map(ToString::to_string).unwrap_or_default();
            let text = format!("{first} already owns {row}");
            self.report(*row, object, Class::Bug, "row-wanted-twice", text);
        }
    }

    fn finish(mut self) -> (Plan<Op>, Open) {
        let mut open = Open { troubled: std::mem::take(&mut self.troubled), ..Open::default() };
        for ((row, column, _), items) in self.puts.iter().chain(&self.takes).chain(&self.lapsing) {
            let members = items.iter().filter_map(|item| match item {
                Element::Atom(Atom::Uuid(uuid)) => Some(*uuid),
                _ => None,
            });
            open.members.entry((*row, *column)).or_default().extend(members);
        }
        self.forget_refused();
        let rank = self.ranks();
        let place = |id: &RowId| rank.get(id.table).copied().unwrap_or(usize::MAX);
        self.inserts.sort_by_key(|(_, op)| (place(&op.row()), op.row()));
        let mut steps = self.inserts;
        steps.extend(self.sets);
        steps.extend(
            self.puts.into_iter().map(|((row, column, object), items)| {
                (object, Op::Put { row, column, elements: datum(items) })
            }),
        );
        steps.extend(self.takes.into_iter().map(|((row, column, object), items)| {
            (object, Op::Take { row, column, elements: datum(items) })
        }));
        let mut deletes: Vec<OwnedRow> = self.doomed.into_values().collect();
        deletes.sort_by_key(|owned| (std::cmp::Reverse(place(&owned.row())), owned.row()));
        steps.extend(deletes.into_iter().map(|owned| (object_of_owned(&owned), Op::Delete(owned))));

        let objects = self.want.objects();
        let busy: BTreeSet<&ObjectId> = steps.iter().map(|(object, _)| object).collect();
        let busy = busy.into_iter().filter(|object| objects.contains_key(*object)).count();
        let mut plan = Plan::new(objects.len(), objects.len() - busy);
        open.rows.extend(open.troubled.iter().copied().chain(steps.iter().map(|(_, op)| op.row())));
        open.rows.extend(self.lapsing.keys().map(|(row, ..)| *row));
        steps.into_iter().for_each(|(object, op)| plan.push(object, op));
        plan.problems = self.problems.into_iter().collect();
        (plan, open)
    }

    /// Tables in an order in which each comes after those its rows refer to.
    fn ranks(&self) -> BTreeMap<&'static str, usize> {
        let specs = self.want.tables();
        let mut ranks = BTreeMap::new();
        let tables: Vec<&'static str> = specs.keys().copied().collect();
        tables.into_iter().for_each(|table| visit(table, specs, &mut ranks, &mut BTreeSet::new()));
        ranks
    }

    /// Adds an element to a column only once. If two objects want the same key, the first one wins.
    fn put(&mut self, row: RowId, column: &'static str, object: ObjectId, element: Element) {
        if self.put_already.insert((row, column, element.key().clone())) {
            self.puts.entry((row, column, object)).or_default().push(element);
        }
    }

    /// `external_ids` with our mark.
    fn marked(&self, id: RowId, own: &Want, ids: Datum) -> Datum {
        let mark = self.ownership.mark(id, &*own.row, &own.object);
        let mark = mark.into_iter().map(|(key, value)| (Atom::String(key), Atom::String(value)));
        Datum::map(pairs(ids).chain(mark))
    }

    /// Members that a new row lists itself (its own object's, or rows that we do not create), and those that other objects
    /// list.
    fn split_members(&self, spec: &ColumnSpec, own: &Want, all: Datum) -> (Datum, Vec<(ObjectId, Atom)>) {
        let mut mine = Vec::new();
        let mut others = Vec::new();
        for atom in atoms(all) {
            match self.object_of(spec, &Element::Atom(atom.clone())) {
                Some(object) if *object != own.object => others.push((object.clone(), atom)),
                _ => mine.push(atom),
            }
        }
        (Datum::set(mine), others)
    }

    /// The object that creates the row of a reference.
    fn object_of(&self, spec: &ColumnSpec, element: &Element) -> Option<&'a ObjectId> {
        let (Some((table, _)), Element::Atom(Atom::Uuid(uuid))) = (spec.shape.refers, element) else {
            return None;
        };
        self.want.owner(RowId { table, uuid: *uuid })
    }

    /// Whether a reference leads to a row of ours that the plan may change.
    fn is_ours(&self, spec: &ColumnSpec, atom: &Atom) -> bool {
        let Some(id) = referred(spec, atom) else { return false };
        if let Some(object) = self.want.owner(id) {
            return !self.keep.contains(object);
        }
        let Some(owned) = self.have.row(id).and_then(|row| self.ownership.claim(id, row)) else {
            return false;
        };
        match owned.object() {
            Some(object) => !self.keep.contains(object),
            None => self.keep.is_empty(),
        }
    }

    fn is_doomed(&self, spec: &ColumnSpec, atom: &Atom) -> bool {
        referred(spec, atom).is_some_and(|id| self.doomed.contains_key(&id))
    }

    /// Whether a reference is a weak one to a row that the plan deletes.
    fn is_lapsing(&self, spec: &ColumnSpec, atom: &Atom) -> bool {
        matches!(spec.shape.refers, Some((_, false))) && self.is_doomed(spec, atom)
    }

    /// The object of the row a reference leads to.
    fn holder(&self, spec: &ColumnSpec, atom: &Atom) -> Option<ObjectId> {
        let id = referred(spec, atom)?;
        match self.doomed.get(&id) {
            Some(owned) => Some(object_of_owned(owned)),
            None => self.want.owner(id).cloned(),
        }
    }
}

/// The object that represents a row of ours in reports; the row itself if it names none.
fn object_of_owned(owned: &OwnedRow) -> ObjectId {
    let row = owned.row();
    owned.object().cloned().unwrap_or_else(|| ObjectId::new(row.table, row.uuid.to_string()))
}

fn referred(spec: &ColumnSpec, atom: &Atom) -> Option<RowId> {
    match (spec.shape.refers, atom) {
        (Some((table, _)), Atom::Uuid(uuid)) => Some(RowId { table, uuid: *uuid }),
        _ => None,
    }
}

fn visit(
    table: &'static str,
    specs: &BTreeMap<&'static str, &'static [ColumnSpec]>,
    ranks: &mut BTreeMap<&'static str, usize>,
    path: &mut BTreeSet<&'static str>,
) {
    if ranks.contains_key(table) || !path.insert(table) {
        return;
    }
    for spec in specs.get(table).copied().unwrap_or_default() {
        if let Some((referred, _)) = spec.shape.refers {
            visit(referred, specs, ranks, path);
        }
    }
    ranks.insert(table, ranks.len());
}
