//! The rows of a database that roles ask for. The connection requests the union, table by table: a row that one role asks for
//! reaches all of them.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;

use ovsdb::{AnyCondition, Model, Str};

/// The rows of each table that one role asks for. Of a table that is not named it asks for none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowConditions(BTreeMap<Str, AnyCondition>);

/// The tables of a model with the conditions that they begin with.
impl From<&Model> for RowConditions {
    fn from(model: &Model) -> Self {
        Self(model.tables().map(|(table, condition)| (table.clone(), condition.clone())).collect())
    }
}

impl RowConditions {
    /// The condition of a table.
    pub fn of(&self, table: &str) -> AnyCondition {
        self.0.get(table).cloned().unwrap_or(AnyCondition::None)
    }
}

/// The rows that all roles of a process ask for.
#[derive(Clone, Debug, Default)]
pub(super) struct AskedRows {
    roles: BTreeMap<u64, RowConditions>,
    last_role: u64,
    revision: u64,
}

impl AskedRows {
    /// Adds a role without rows; returns its number.
    pub(super) fn join(&mut self) -> u64 {
        self.last_role += 1;
        self.last_role
    }

    /// Replaces the rows of a role; returns the revision that has them.
    pub(super) fn ask(&mut self, role: u64, rows: RowConditions) -> u64 {
        self.roles.insert(role, rows);
        self.revision += 1;
        self.revision
    }

    /// Removes a role with its rows.
    pub(super) fn leave(&mut self, role: u64) {
        if self.roles.remove(&role).is_some() {
            self.revision += 1;
        }
    }

    /// Increases with each change.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// The rows of a table that any role asks for.
    pub(super) fn union(&self, table: &str) -> AnyCondition {
        self.roles.values().map(|rows| rows.of(table)).fold(AnyCondition::None, AnyCondition::or)
    }
}

#[cfg(test)]
mod tests {
    use ovn::PortType;
    use ovn::sb::{Chassis, PortBinding, SbGlobal};
    use ovsdb::{Condition, Function, Table};

    use super::*;

    #[test]
    fn a_row_is_held_while_any_role_asks_for_it() {
        let kind = |kind| Condition::column(PortBinding::KIND, Function::Equal, &kind);
        let sb = || Model::new("OVN_Southbound");
        let one = RowConditions::from(&sb().table_where::<PortBinding>(kind(PortType::Patch)));
        let other = sb().table_where::<PortBinding>(kind(PortType::Localport)).table::<SbGlobal>();
        let mut asked = AskedRows::default();
        let (a, b) = (asked.join(), asked.join());
        assert_eq!(asked.union(PortBinding::TABLE), AnyCondition::None, "nobody has asked");
        asked.ask(a, one.clone());
        let revision = asked.ask(b, (&other).into());
        assert_eq!((revision, asked.revision()), (2, 2));
        let both = kind(PortType::Patch).or(kind(PortType::Localport));
        assert_eq!(asked.union(PortBinding::TABLE), both.into());
        assert_eq!(asked.union(SbGlobal::TABLE), AnyCondition::All);
        assert_eq!(asked.union(Chassis::TABLE), AnyCondition::None);
        asked.leave(b);
        asked.leave(b);
        assert_eq!((asked.union(PortBinding::TABLE), asked.revision()), (kind(PortType::Patch).into(), 3));
        assert_eq!(asked.union(SbGlobal::TABLE), AnyCondition::None);
        assert_ne!(asked.join(), b, "a later role is another one");
    }
}
