//! Columns of references: the members to add and to remove.
//!
//! A switch or a port group has thousands of members, and most are in place. With an earlier plan, the planner examines only
//! the members that were added, removed or planned for since; without one, all.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;

use ovsdb::Uuid;
use ovsdb::model::ColumnSpec;
use ovsdb::wire::Atom;
use ovsdb::wire::Datum;
use reconcile::ObjectId;

use super::Planner;
use crate::target::desired::{Want, WantedRow};
use crate::target::element::{Element, atoms};
use crate::target::op::Op;
use crate::target::state::{Row, RowId};

impl<'a> Planner<'a> {
    /// Removes references to rejected rows from the sets.
    pub(super) fn forget_refused(&mut self) {
        let refused = std::mem::take(&mut self.refused);
        if refused.is_empty() {
            return;
        }
        let stays = |atom: &Atom| !matches!(atom, Atom::Uuid(uuid) if refused.contains(uuid));
        self.puts.retain(|_, items| {
            items.retain(|item| matches!(item, Element::Pair(..)) || stays(item.key()));
            !items.is_empty()
        });
        for (_, op) in &mut self.inserts {
            let Op::Insert { values, .. } = op else { continue };
            for (_, value) in values {
                if let Datum::Set(atoms) = value {
                    atoms.retain(stays);
                }
            }
        }
    }

    pub(super) fn members(
        &mut self,
        id: RowId,
        at: usize,
        spec: &'static ColumnSpec,
        spoken: &[&'a Want],
        wanted: &'a WantedRow,
        row: &dyn Row,
    ) {
        let surplus = match self.moved(id, at, spec, wanted, row) {
            Some(moved) => self.moved_members(id, at, spec, wanted, row, moved),
            None => self.all_members(id, at, spec, spoken, wanted, row.datum(at)),
        };
        // Claims of members are not a claim of the whole column. Its other elements may be wanted by other programs.
        let Some(speaker) = spoken.first() else { return };
        for atom in surplus {
            if !self.is_ours(spec, &atom) {
                continue;
            }
            let object = self.holder(spec, &atom).unwrap_or_else(|| speaker.object.clone());
            let takes = if self.is_lapsing(spec, &atom) { &mut self.lapsing } else { &mut self.takes };
            takes.entry((id, spec.name, object)).or_default().push(Element::Atom(atom));
        }
    }

    /// Removes weak references to deleted rows where the server would not.
    ///
    /// The server clears them, but Open vSwitch 3.1 forgets those of a row that the same transaction changes otherwise: a switch that loses
    /// a load balancer together with the port of its VIP kept the reference for ever. The other references stay in `lapsing`: the next plan
    /// may change their row.
    pub(super) fn take_lapsing(&mut self) {
        let sets = self.sets.iter().map(|(_, op)| op.row());
        let elements = self.puts.keys().chain(self.takes.keys()).map(|(row, ..)| *row);
        let changed: BTreeSet<RowId> = sets.chain(elements).collect();
        for (place, items) in std::mem::take(&mut self.lapsing) {
            if changed.contains(&place.0) {
                self.takes.entry(place).or_default().extend(items);
            } else {
                self.lapsing.insert(place, items);
            }
        }
    }

    /// The members of a column that may be out of place, if all others are known to be in place: the row had no problem, and
    /// the same objects have claims on the column as then, without listing members themselves.
    fn moved(
        &self,
        id: RowId,
        at: usize,
        spec: &'static ColumnSpec,
        wanted: &WantedRow,
        row: &dyn Row,
    ) -> Option<BTreeSet<Uuid>> {
        let since = self.since.filter(|since| !since.open.troubled.contains(&id))?;
        let (before, had) = (since.want.wanted(id)?, since.have.row(id)?);
        let speakers = |wanted: &WantedRow| {
            let voices = wanted.voices().filter(|want| want.columns.contains(at));
            voices.map(|want| want.row.datum(at).is_empty().then(|| want.object.clone())).collect()
        };
        let speak: Option<Vec<ObjectId>> = speakers(wanted);
        if speak.is_none() || speak != speakers(before) {
            return None;
        }
        let mut moved: BTreeSet<Uuid> = wanted.moved(before, at).collect();
        moved.extend(since.open.members.get(&(id, spec.name)).into_iter().flatten());
        if !std::ptr::addr_eq(had, row) {
            moved.extend(had.moved(at, row)?);
        }
        Some(moved)
    }

    /// Examines some members, and returns those that exist and are not desired.
    fn moved_members(
        &mut self,
        id: RowId,
        at: usize,
        spec: &'static ColumnSpec,
        wanted: &'a WantedRow,
        row: &dyn Row,
        moved: BTreeSet<Uuid>,
    ) -> Vec<Atom> {
        let mut surplus = Vec::new();
        for uuid in moved {
            let member = wanted.wanting(at, uuid).find(|member| !self.keep.contains(&member.object));
            match (member, row.refers(at, uuid)) {
                (Some(member), false) => self.put_member(id, spec, &member.object, Atom::Uuid(uuid)),
                (None, true) => surplus.push(Atom::Uuid(uuid)),
                _ => {}
            }
        }
        surplus
    }

    /// Examines all members, and returns those that exist and are not desired. It walks over both sides in order: a switch may
    /// have thousands of ports, and most are in place.
    fn all_members(
        &mut self,
        id: RowId,
        at: usize,
        spec: &'static ColumnSpec,
        spoken: &[&'a Want],
        wanted: &'a WantedRow,
        from: Datum,
    ) -> Vec<Atom> {
        let keep = self.keep;
        let said = spoken.iter().flat_map(|want| {
            let object = &want.object;
            atoms(want.row.datum(at)).map(move |atom| (atom, object))
        });
        let said: Vec<(Atom, &ObjectId)> = said.collect();
        let joined = wanted.members(at).filter(move |member| !keep.contains(&member.object));
        let joined = joined.map(|member| (Atom::Uuid(member.uuid), &member.object));
        // The members that joined one by one are sorted already. In large columns they are usually the only ones.
        let wanted: Box<dyn Iterator<Item = (Atom, &'a ObjectId)>> = if said.is_empty() {
            Box::new(joined)
        } else {
            let mut all: Vec<_> = said.into_iter().chain(joined).collect();
            all.sort_by(|a, b| a.0.cmp(&b.0));
            Box::new(all.into_iter())
        };
        let mut have: Vec<Atom> = atoms(from).collect();
        if !have.is_sorted() {
            have.sort();
        }
        let mut have = have.into_iter().peekable();
        let mut surplus = Vec::new();
        let mut last = None;
        for (atom, object) in wanted {
            // Of two that want the same member, the first has it.
            if last.as_ref() == Some(&atom) {
                continue;
            }
            while let Some(other) = have.next_if(|other| *other < atom) {
                surplus.push(other);
            }
            if have.next_if_eq(&atom).is_none() {
                self.put_member(id, spec, object, atom.clone());
            }
            last = Some(atom);
        }
        surplus.extend(have);
        surplus
    }

    fn put_member(&mut self, id: RowId, spec: &'static ColumnSpec, object: &ObjectId, atom: Atom) {
        let element = Element::Atom(atom);
        let object = self.object_of(spec, &element).unwrap_or(object).clone();
        self.put(id, spec.name, object, element);
    }
}
