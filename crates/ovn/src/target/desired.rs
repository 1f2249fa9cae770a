//! The desired state of a database.
//!
//! A [`Part`] is the result of one decision: rows of our own, shares in foreign rows, members of columns. [`Desired`] is the
//! sum of all parts. Parts can be added and removed one by one, a copy is free, and comparing two copies costs only as much as
//! they differ. So a small change of a large cloud stays small until the plan.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use imbl::ordmap::DiffItem;
use imbl::ordset::DiffItem as SetDiff;
use imbl::{OrdMap, OrdSet};
use ovsdb::model::{ColumnSet, ColumnSpec, ColumnType};
use ovsdb::{Column, Table, TableColumns, Uuid};
use reconcile::ObjectId;

use super::state::{Row, RowId, View, Writable};

/// One object's claim on a row.
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
    /// A lower bound: sorts before all members of a column.
    fn first_of(column: usize) -> Member {
        Member { column, uuid: Uuid::nil(), object: ObjectId::new("", "") }
    }
}

/// All claims on one row.
#[derive(Clone, Debug, Default)]
pub(super) struct WantedRow {
    /// The object that creates and deletes the row.
    pub(super) own: Option<Want>,
    /// Further objects that claim to own the row. The first one wins.
    rivals: Vec<Want>,
    /// The objects that add keys or members to it, in order.
    pub(super) shares: Vec<Want>,
    /// Members put in one by one.
    pub(super) members: OrdSet<Member>,
}

impl WantedRow {
    fn is_empty(&self) -> bool {
        self.own.is_none() && self.shares.is_empty() && self.members.is_empty()
    }

    /// The columns with members. Visits one member per column, however many there are.
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

    /// The objects that want a member in a column.
    pub(super) fn wanting(&self, column: usize, uuid: Uuid) -> impl Iterator<Item = &Member> {
        let from = Member { uuid, ..Member::first_of(column) };
        self.members.range(from..).take_while(move |member| member.column == column && member.uuid == uuid)
    }

    /// The members of a column that were added or removed since an older claim. The cost depends on the difference.
    pub(super) fn moved<'w>(
        &'w self,
        older: &'w WantedRow,
        column: usize,
    ) -> impl Iterator<Item = Uuid> + 'w {
        let moved = older.members.diff(&self.members).map(|item| match item {
            SetDiff::Add(member) | SetDiff::Remove(member) => member,
        });
        moved.filter(move |member| member.column == column).map(|member| member.uuid)
    }

    /// All claims on columns. If two of them claim the same key, the first one wins.
    pub(super) fn voices(&self) -> impl Iterator<Item = &Want> {
        self.own.iter().chain(&self.shares)
    }

    /// The members of a column, in order.
    pub(super) fn members(&self, column: usize) -> impl Iterator<Item = &Member> {
        self.members.range(Member::first_of(column)..).take_while(move |member| member.column == column)
    }
}

/// One entry of a part.
#[derive(Clone, Debug, PartialEq)]
enum Entry {
    Own(Want),
    Share(Want),
    Member(Member),
    Adopted(ObjectId),
}

impl Entry {
    /// The object of the entry; `None` for an entry that only records the ownership of a row.
    fn object(&self) -> Option<&ObjectId> {
        match self {
            Entry::Own(want) | Entry::Share(want) => Some(&want.object),
            Entry::Member(member) => Some(&member.object),
            Entry::Adopted(_) => None,
        }
    }
}

/// The desired state of the database according to one decision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Part {
    entries: Vec<(RowId, Entry)>,
}

impl Part {
    /// Creates an empty part.
    pub fn new() -> Self {
        Self::default()
    }

    /// Wants a row of our own: the target creates it if it is missing, keeps it as given, and deletes it when no part wants it.
    /// It leaves columns that other programs fill in to them. In tables without `external_ids` the UUID must come from
    /// [`ident::marked_uuid`](crate::ident::marked_uuid); otherwise we would not recognise the row.
    pub fn own<T: Writable + fmt::Debug>(&mut self, object: ObjectId, uuid: Uuid, row: T) {
        let reported = T::REPORTED.iter().filter_map(|name| T::position(name)).collect();
        self.own_columns(object, uuid, row, ColumnSet::all::<T>().without(reported));
    }

    /// Like `own`, for these columns only; all others are left unchanged.
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

    /// Wants keys and members in a foreign row, or in a row of another object: the content of these columns of `row`, and
    /// nothing more. The target neither creates nor deletes the row. It removes members of ours that no part wants any more
    /// from these columns. So a part that wants no member any more must still share the row, with an empty column.
    pub fn share<T: Writable + fmt::Debug>(
        &mut self,
        object: ObjectId,
        uuid: Uuid,
        row: T,
        columns: impl Into<TableColumns<T>>,
    ) {
        let columns = columns.into().positions();
        let want = Want { object, row: Arc::new(row), columns };
        self.entries.push((RowId::of::<T>(uuid), Entry::Share(want)));
    }

    /// Wants one member in a column of references of another object's row, such as a port in its switch. This is cheaper than a
    /// share, however many members there are.
    pub fn member<T: Table>(
        &mut self,
        object: ObjectId,
        uuid: Uuid,
        column: Column<T, impl ColumnType>,
        member: Uuid,
    ) {
        let member = Member { column: column.position(), uuid: member, object };
        self.entries.push((RowId::of::<T>(uuid), Entry::Member(member)));
    }

    /// Records a row as ours that does not carry the mark, because it was adopted from another program.
    pub fn adopt(&mut self, row: RowId, object: ObjectId) {
        self.entries.push((row, Entry::Adopted(object)));
    }

    /// Whether the part is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Shares memory with the previous version of the part, where both have the same content.
    pub fn reuse(&mut self, before: &Part) {
        for (old, new) in self.in_common(before) {
            self.entries[new] = before.entries[old].clone();
        }
    }

    /// The positions of the common entries in the previous version and in this one.
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

    /// The rows of our own in the part.
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

/// Compared by identity: an unchanged row is the same allocation.
#[derive(Clone, Debug)]
struct SharedRow(Arc<WantedRow>);

impl PartialEq for SharedRow {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The desired rows.
#[derive(Clone, Debug, Default)]
pub struct Desired {
    rows: OrdMap<RowId, SharedRow>,
    /// The number of claims of each object.
    objects: OrdMap<ObjectId, usize>,
    /// Rows that two objects claim as their own; the first has it.
    twice: OrdSet<(RowId, ObjectId)>,
    adopted: OrdMap<RowId, ObjectId>,
    /// The columns of each table that was ever named.
    tables: BTreeMap<&'static str, &'static [ColumnSpec]>,
}

impl Desired {
    /// An empty desired state: the target deletes everything of ours.
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
        columns: impl Into<TableColumns<T>>,
    ) {
        self.say(|part| part.share(object, uuid, row, columns));
    }

    fn say(&mut self, say: impl FnOnce(&mut Part)) {
        let mut part = Part::new();
        say(&mut part);
        self.add(&part);
    }

    /// Adds a part.
    pub fn add(&mut self, part: &Part) {
        self.swap([].iter(), part.entries.iter());
    }

    /// Removes a part, which must have been added.
    pub fn remove(&mut self, part: &Part) {
        self.swap(part.entries.iter(), [].iter());
    }

    /// Replaces a part by its new version. Entries that both have stay untouched, so the planner need not examine them
    /// again.
    pub fn exchange(&mut self, before: &Part, after: &Part) {
        let (mut stays, mut kept) = (vec![false; before.entries.len()], vec![false; after.entries.len()]);
        for (old, new) in after.in_common(before) {
            (stays[old], kept[new]) = (true, true);
        }
        let goes = before.entries.iter().zip(stays).filter(|(_, stays)| !stays).map(|(said, _)| said);
        let comes = after.entries.iter().zip(kept).filter(|(_, kept)| !kept).map(|(said, _)| said);
        self.swap(goes, comes);
    }

    /// Counts the claims of each object once for the whole part: most parts belong to one object.
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
        let mut wanted = self.rows.get(&id).map(|held| WantedRow::clone(&held.0)).unwrap_or_default();
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
        self.rows.insert(id, SharedRow(Arc::new(wanted)));
    }

    fn take_out(&mut self, id: RowId, entry: &Entry) {
        if let Entry::Adopted(_) = entry {
            self.adopted.remove(&id);
            return;
        }
        let Some(mut wanted) = self.rows.get(&id).map(|held| WantedRow::clone(&held.0)) else { return };
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
            false => drop(self.rows.insert(id, SharedRow(Arc::new(wanted)))),
        }
    }

    /// Adjusts the number of an object's claims.
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

    /// The object that owns a desired row.
    pub fn owner(&self, row: RowId) -> Option<&ObjectId> {
        self.wanted(row)?.own.as_ref().map(|want| &want.object)
    }

    /// The number of desired rows of our own.
    pub fn len(&self) -> usize {
        self.rows.values().filter(|held| held.0.own.is_some()).count()
    }

    /// Whether the desired state is empty.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn wanted(&self, row: RowId) -> Option<&WantedRow> {
        self.rows.get(&row).map(|held| &*held.0)
    }

    /// Every row with a claim.
    pub(super) fn rows(&self) -> impl Iterator<Item = (RowId, &WantedRow)> {
        self.rows.iter().map(|(id, held)| (*id, &*held.0))
    }

    /// Rows whose claims differ between two copies. The cost depends on the difference.
    pub(super) fn differing<'d>(&'d self, other: &'d Desired) -> impl Iterator<Item = RowId> + 'd {
        other.rows.diff(&self.rows).map(|item| match item {
            DiffItem::Add(id, _) | DiffItem::Remove(id, _) | DiffItem::Update { new: (id, _), .. } => *id,
        })
    }

    pub(super) fn twice(&self) -> impl Iterator<Item = &(RowId, ObjectId)> {
        self.twice.iter()
    }

    /// Adopted rows that are neither desired nor observed any more, so their records can go. Visits every adopted
    /// row.
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
