//! What can be wanted of a database.
//!
//! [`Part`] is what one decision says: rows of our own, shares in rows of others, members of columns. [`Desired`] is the sum
//! of parts. Parts can be put in and taken out one by one, a copy costs nothing and two copies are compared by what differs
//! between them, so that a small change of a large cloud stays small all the way to the plan.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use imbl::ordmap::DiffItem;
use imbl::ordset::DiffItem as SetDiff;
use imbl::{OrdMap, OrdSet};
use ovsdb::model::{ColumnSet, ColumnSpec};
use ovsdb::{Table, Uuid};
use reconcile::ObjectId;

use super::state::{Row, RowId, View, Writable};

/// What one object says about a row.
#[derive(Clone, Debug)]
pub(super) struct Want {
    pub(super) object: ObjectId,
    pub(super) row: Arc<dyn Row>,
    pub(super) columns: ColumnSet,
}

impl PartialEq for Want {
    fn eq(&self, other: &Self) -> bool {
        let same = || self.row.differing(&*other.row).and(self.columns).is_empty();
        self.object == other.object
            && self.columns == other.columns
            && (Arc::ptr_eq(&self.row, &other.row) || same())
    }
}

/// One member of a column of references, and the object that wants it there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Member {
    pub(super) column: usize,
    pub(super) uuid: Uuid,
    pub(super) object: ObjectId,
}

impl Member {
    /// Comes before all members of a column.
    fn first_of(column: usize) -> Member {
        Member { column, uuid: Uuid::nil(), object: ObjectId::new("", "") }
    }
}

/// Everything said about one row.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    /// Who makes the row and deletes it.
    pub(super) own: Option<Want>,
    /// Who would do so as well, had not another been first.
    rivals: Vec<Want>,
    /// Who else puts keys or members into it, in order of object.
    pub(super) shares: Vec<Want>,
    /// Members put in one by one.
    pub(super) members: OrdSet<Member>,
}

impl Wanted {
    fn is_empty(&self) -> bool {
        self.own.is_none() && self.shares.is_empty() && self.members.is_empty()
    }

    /// The columns that have members. Looks at one member of each, however many there are.
    pub(super) fn joined(&self) -> ColumnSet {
        let mut columns = Vec::new();
        let mut next = 0;
        while let Some(column) =
            self.members.range(Member::first_of(next)..).next().map(|member| member.column)
        {
            columns.push(column);
            next = column + 1;
        }
        columns.into_iter().collect()
    }

    /// Who wants a member in a column.
    pub(super) fn wanting(&self, column: usize, uuid: Uuid) -> impl Iterator<Item = &Member> {
        let from = Member { uuid, ..Member::first_of(column) };
        self.members.range(from..).take_while(move |member| member.column == column && member.uuid == uuid)
    }

    /// The members of a column that come or go between an older wish and this one. Costs as much as there is difference.
    pub(super) fn moved<'w>(&'w self, older: &'w Wanted, column: usize) -> impl Iterator<Item = Uuid> + 'w {
        let moved = older.members.diff(&self.members).map(|item| match item {
            SetDiff::Add(member) | SetDiff::Remove(member) => member,
        });
        moved.filter(move |member| member.column == column).map(|member| member.uuid)
    }

    /// Everybody who speaks of columns, those before others who have the last word.
    pub(super) fn voices(&self) -> impl Iterator<Item = &Want> {
        self.own.iter().chain(&self.shares)
    }

    /// The members of a column, in order.
    pub(super) fn members(&self, column: usize) -> impl Iterator<Item = &Member> {
        self.members.range(Member::first_of(column)..).take_while(move |member| member.column == column)
    }
}

/// One thing a part says.
#[derive(Clone, Debug, PartialEq)]
enum Entry {
    Own(Want),
    Share(Want),
    Member(Member),
    Adopted(ObjectId),
}

impl Entry {
    /// The object that says it, unless nothing is said but whose a row is.
    fn object(&self) -> Option<&ObjectId> {
        match self {
            Entry::Own(want) | Entry::Share(want) => Some(&want.object),
            Entry::Member(member) => Some(&member.object),
            Entry::Adopted(_) => None,
        }
    }
}

/// What one decision wants of the database.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Part {
    entries: Vec<(RowId, Entry)>,
}

impl Part {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Wants a row of our own: made if it is missing, kept as given, deleted when it is wanted no more. Columns that other
    /// programs fill in are left to them. In tables without `external_ids` the UUID must be from
    /// [`ident::marked_uuid`](crate::ident::marked_uuid), or the row would not be known again.
    pub fn own<T: Writable + fmt::Debug>(&mut self, object: ObjectId, uuid: Uuid, row: T) {
        let reported = T::REPORTED.iter().filter_map(|name| T::position(name)).collect();
        self.own_columns(object, uuid, row, ColumnSet::all::<T>().without(reported));
    }

    /// The same, with an opinion on these columns only.
    pub fn own_columns<T: Writable + fmt::Debug>(
        &mut self,
        object: ObjectId,
        uuid: Uuid,
        row: T,
        columns: ColumnSet,
    ) {
        let want = Want { object, row: Arc::new(row), columns };
        self.entries.push((RowId::of::<T>(uuid), Entry::Own(want)));
    }

    /// Wants keys and members in a row that is somebody else's, or another object's: what is in these columns of `row`, and
    /// nothing more. The row is neither made nor deleted. Members of ours that nobody wants there any more are taken out of
    /// these columns, so the last one out still says so, with an empty column.
    pub fn share<T: Writable + fmt::Debug>(
        &mut self,
        object: ObjectId,
        uuid: Uuid,
        row: T,
        columns: impl IntoIterator<Item = usize>,
    ) {
        let columns = columns.into_iter().collect();
        let want = Want { object, row: Arc::new(row), columns };
        self.entries.push((RowId::of::<T>(uuid), Entry::Share(want)));
    }

    /// Wants one member in a column of references of a row that somebody else speaks for: a port in its switch. Costs less
    /// than a share, however many there are.
    pub fn member<T: Table>(&mut self, object: ObjectId, uuid: Uuid, column: usize, member: Uuid) {
        let member = Member { column, uuid: member, object };
        self.entries.push((RowId::of::<T>(uuid), Entry::Member(member)));
    }

    /// Knows a row as ours that does not carry the mark, because it was taken over from another program.
    pub fn adopt(&mut self, row: RowId, object: ObjectId) {
        self.entries.push((row, Entry::Adopted(object)));
    }

    /// Whether it wants nothing.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Takes what it has in common with its forerunner from there, so that it is in memory once.
    pub fn reuse(&mut self, before: &Part) {
        for (old, new) in self.in_common(before) {
            self.entries[new] = before.entries[old].clone();
        }
    }

    /// The places in a forerunner and here of what both say.
    fn in_common(&self, before: &Part) -> Vec<(usize, usize)> {
        let by_row = |part: &Part| {
            let mut order: Vec<usize> = (0..part.entries.len()).collect();
            order.sort_by_key(|at| part.entries[*at].0);
            order
        };
        let (olds, news) = (by_row(before), by_row(self));
        let mut common = Vec::with_capacity(olds.len());
        let mut taken = vec![false; self.entries.len()];
        let mut from = 0;
        for old in olds {
            let (id, entry) = &before.entries[old];
            while news.get(from).is_some_and(|new| self.entries[*new].0 < *id) {
                from += 1;
            }
            let mut same_row = news[from..].iter().take_while(|new| self.entries[**new].0 == *id);
            if let Some(new) = same_row.find(|new| !taken[**new] && self.entries[**new].1 == *entry) {
                taken[*new] = true;
                common.push((old, *new));
            }
        }
        common
    }

    /// The rows of our own in it, for those who want to look at them.
    pub fn rows(&self) -> impl Iterator<Item = (RowId, &dyn Row)> {
        self.entries.iter().filter_map(|(id, entry)| match entry {
            Entry::Own(want) => Some((*id, &*want.row)),
            _ => None,
        })
    }

    /// The members it wants in columns: the row, the column's position, the member.
    pub fn members(&self) -> impl Iterator<Item = (RowId, usize, Uuid)> {
        self.entries.iter().filter_map(|(id, entry)| match entry {
            Entry::Member(member) => Some((*id, member.column, member.uuid)),
            _ => None,
        })
    }
}

/// Compared by identity: a row that nobody touched is the same allocation.
#[derive(Clone, Debug)]
struct Held(Arc<Wanted>);

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The rows that should be.
#[derive(Clone, Debug, Default)]
pub struct Desired {
    rows: OrdMap<RowId, Held>,
    /// Objects with how much each says.
    objects: OrdMap<ObjectId, usize>,
    /// Rows that two objects claim as their own; the first has it.
    twice: OrdSet<(RowId, ObjectId)>,
    adopted: OrdMap<RowId, ObjectId>,
    /// What is known of each table that was ever named.
    tables: BTreeMap<&'static str, &'static [ColumnSpec]>,
}

impl Desired {
    /// Nothing is wanted: everything of ours goes.
    pub fn new() -> Self {
        Self::default()
    }

    /// See [`Part::own`].
    pub fn own<T: Writable + fmt::Debug>(&mut self, object: ObjectId, uuid: Uuid, row: T) {
        self.say(|part| part.own(object, uuid, row));
    }

    /// See [`Part::own_columns`].
    pub fn own_columns<T: Writable + fmt::Debug>(
        &mut self,
        object: ObjectId,
        uuid: Uuid,
        row: T,
        columns: ColumnSet,
    ) {
        self.say(|part| part.own_columns(object, uuid, row, columns));
    }

    /// See [`Part::share`].
    pub fn share<T: Writable + fmt::Debug>(
        &mut self,
        object: ObjectId,
        uuid: Uuid,
        row: T,
        columns: impl IntoIterator<Item = usize>,
    ) {
        self.say(|part| part.share(object, uuid, row, columns));
    }

    fn say(&mut self, say: impl FnOnce(&mut Part)) {
        let mut part = Part::new();
        say(&mut part);
        self.add(&part);
    }

    /// Wants what a part wants, too.
    pub fn add(&mut self, part: &Part) {
        self.swap([].iter(), part.entries.iter());
    }

    /// Wants no longer what a part wants; it must have been added.
    pub fn remove(&mut self, part: &Part) {
        self.swap(part.entries.iter(), [].iter());
    }

    /// Wants what a part wants, and no longer what its forerunner wanted. What both say stays as it is: nobody needs to look at
    /// it again.
    pub fn exchange(&mut self, before: &Part, after: &Part) {
        let (mut stays, mut kept) = (vec![false; before.entries.len()], vec![false; after.entries.len()]);
        for (old, new) in after.in_common(before) {
            (stays[old], kept[new]) = (true, true);
        }
        let goes = before.entries.iter().zip(stays).filter(|(_, stays)| !stays).map(|(said, _)| said);
        let comes = after.entries.iter().zip(kept).filter(|(_, kept)| !kept).map(|(said, _)| said);
        self.swap(goes, comes);
    }

    /// How much each object says is counted once for all of it: most parts speak for one object.
    fn swap<'p>(
        &mut self,
        goes: impl Iterator<Item = &'p (RowId, Entry)>,
        comes: impl Iterator<Item = &'p (RowId, Entry)>,
    ) {
        let mut said: BTreeMap<&ObjectId, isize> = BTreeMap::new();
        for (id, entry) in goes {
            entry.object().into_iter().for_each(|object| *said.entry(object).or_default() -= 1);
            self.take_out(*id, entry);
        }
        for (id, entry) in comes {
            entry.object().into_iter().for_each(|object| *said.entry(object).or_default() += 1);
            self.put_in(*id, entry);
        }
        said.into_iter().for_each(|(object, by)| self.count(object, by));
    }

    fn put_in(&mut self, id: RowId, entry: &Entry) {
        if let Entry::Adopted(object) = entry {
            self.adopted.insert(id, object.clone());
            return;
        }
        if let Entry::Own(want) | Entry::Share(want) = entry {
            self.tables.entry(id.table).or_insert(want.row.columns());
        }
        let mut wanted = self.rows.get(&id).map(|held| Wanted::clone(&held.0)).unwrap_or_default();
        match entry {
            Entry::Own(want) if wanted.own.is_some() => {
                self.twice.insert((id, want.object.clone()));
                wanted.rivals.push(want.clone());
            }
            Entry::Own(want) => wanted.own = Some(want.clone()),
            Entry::Share(want) => {
                let at = wanted.shares.partition_point(|share| share.object <= want.object);
                wanted.shares.insert(at, want.clone());
            }
            Entry::Member(member) => drop(wanted.members.insert(member.clone())),
            Entry::Adopted(_) => {}
        }
        self.rows.insert(id, Held(Arc::new(wanted)));
    }

    fn take_out(&mut self, id: RowId, entry: &Entry) {
        if let Entry::Adopted(_) = entry {
            self.adopted.remove(&id);
            return;
        }
        let Some(mut wanted) = self.rows.get(&id).map(|held| Wanted::clone(&held.0)) else { return };
        match entry {
            Entry::Own(want) if wanted.own.as_ref() == Some(want) => {
                wanted.own = (!wanted.rivals.is_empty()).then(|| wanted.rivals.remove(0));
                if let Some(own) = &wanted.own {
                    self.twice.remove(&(id, own.object.clone()));
                }
            }
            Entry::Own(want) => {
                if let Some(at) = wanted.rivals.iter().position(|rival| rival == want) {
                    wanted.rivals.remove(at);
                }
                self.twice.remove(&(id, want.object.clone()));
            }
            Entry::Share(want) => {
                if let Some(at) = wanted.shares.iter().position(|share| share == want) {
                    wanted.shares.remove(at);
                }
            }
            Entry::Member(member) => drop(wanted.members.remove(member)),
            Entry::Adopted(_) => {}
        }
        match wanted.is_empty() {
            true => drop(self.rows.remove(&id)),
            false => drop(self.rows.insert(id, Held(Arc::new(wanted)))),
        }
    }

    /// Counts that an object says so much more, or less.
    fn count(&mut self, object: &ObjectId, by: isize) {
        if by == 0 {
            return;
        }
        let n = self.objects.get(object).copied().unwrap_or(0).saturating_add_signed(by);
        match n {
            0 => drop(self.objects.remove(object)),
            n => drop(self.objects.insert(object.clone(), n)),
        }
    }

    /// The object that owns a wanted row.
    pub fn owner(&self, row: RowId) -> Option<&ObjectId> {
        self.wanted(row)?.own.as_ref().map(|want| &want.object)
    }

    /// How many rows of our own are wanted.
    pub fn len(&self) -> usize {
        self.rows.values().filter(|held| held.0.own.is_some()).count()
    }

    /// Whether nothing is wanted.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn wanted(&self, row: RowId) -> Option<&Wanted> {
        self.rows.get(&row).map(|held| &*held.0)
    }

    /// Every row that somebody says something about.
    pub(super) fn rows(&self) -> impl Iterator<Item = (RowId, &Wanted)> {
        self.rows.iter().map(|(id, held)| (*id, &*held.0))
    }

    /// Rows about which something else is said than in another copy. Costs as much as there is difference.
    pub(super) fn differing<'d>(&'d self, other: &'d Desired) -> impl Iterator<Item = RowId> + 'd {
        other.rows.diff(&self.rows).map(|item| match item {
            DiffItem::Add(id, _) | DiffItem::Remove(id, _) | DiffItem::Update { new: (id, _), .. } => *id,
        })
    }

    pub(super) fn twice(&self) -> impl Iterator<Item = &(RowId, ObjectId)> {
        self.twice.iter()
    }

    /// Rows that were taken over and are over and done with: nobody wants them and they are not there. Looks at every row that
    /// was taken over.
    pub fn spent<'d>(&'d self, have: &'d dyn View) -> impl Iterator<Item = (RowId, &'d ObjectId)> {
        let adopted = self.adopted.iter().map(|(row, object)| (*row, object));
        adopted.filter(|(row, _)| self.owner(*row).is_none() && have.row(*row).is_none() && !have.hides(*row))
    }

    pub(super) fn adopted(&self) -> &OrdMap<RowId, ObjectId> {
        &self.adopted
    }

    pub(super) fn objects(&self) -> &OrdMap<ObjectId, usize> {
        &self.objects
    }

    pub(super) fn tables(&self) -> &BTreeMap<&'static str, &'static [ColumnSpec]> {
        &self.tables
    }
}
