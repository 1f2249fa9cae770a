//! Checks values against the server's schema before they are sent.
//!
//! One refused value fails the whole transaction. So this module compares values with the schema first: a missing column, a
//! keyword that this OVN lacks, a number out of range. It leaves such a column out, or the whole row if the row cannot do
//! without it, and reports a problem of the object that names what its OVN lacks.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use ovsdb::model::ColumnSet;
use ovsdb::wire::Atom;
use ovsdb::wire::Datum;
use ovsdb::wire::{BaseKind, ColumnKind, DatabaseSchema};

use super::desired::Want;
use super::state::Row;

/// The reason why a value cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    /// The database has no such table.
    #[error("this OVN has no table {0}")]
    NoTable(&'static str),
    /// The table has no such column.
    #[error("this OVN has no column {1} in {0}")]
    NoColumn(&'static str, &'static str),
    /// More or fewer elements than the column allows.
    #[error("{column} accepts {min} to {max} elements, not {found}")]
    Count {
        /// The column.
        column: &'static str,
        /// The minimum.
        min: u64,
        /// The maximum, `any` if unlimited.
        max: String,
        /// The number of given elements.
        found: usize,
    },
    /// A string that no server can parse. It would end the connection, and with it the changes of all other objects.
    #[error("{0} contains a NUL character, which OVSDB cannot store")]
    Unreadable(&'static str),
    /// Not one of the values that the column allows.
    #[error("{column} does not accept {value} in this OVN")]
    Value {
        /// The column.
        column: &'static str,
        /// The given value.
        value: String,
    },
}

/// The columns of a desired row that can be written, and the reasons why the others cannot.
pub(super) struct AdmittedColumns {
    /// Columns to write.
    pub(super) columns: ColumnSet,
    /// Whether the row can be written at all.
    pub(super) row: bool,
    /// The omitted columns, with their reasons.
    pub(super) refusals: Vec<Refusal>,
}

/// Compares an object's desired columns of a row with the schema.
pub(super) fn admit(want: &Want, schema: &DatabaseSchema) -> AdmittedColumns {
    let row: &dyn Row = &*want.row;
    let Some(table) = schema.tables.get(row.table()) else {
        return AdmittedColumns {
            columns: ColumnSet::EMPTY,
            row: false,
            refusals: vec![Refusal::NoTable(row.table())],
        };
    };
    let mut admitted = AdmittedColumns { columns: ColumnSet::EMPTY, row: true, refusals: Vec::new() };
    for at in want.columns.iter() {
        let name = row.columns()[at].name;
        let datum = row.datum(at);
        match table.columns.get(name) {
            // A missing column does not matter if there is nothing to write to it.
            None if is_nothing(&datum) => {}
            None => admitted.refusals.push(Refusal::NoColumn(row.table(), name)),
            Some(column) => match check(name, &column.kind, &datum) {
                Ok(()) => admitted.columns.insert(at),
                Err(refusal) => {
                    // An empty column says less than it should; if the server rejects even that, the row is left out. A row whose value
                    // cannot be encoded is left out too: without all of its `external_ids` it might not be recognised as ours.
                    admitted.row &= column.kind.min == 0 && !matches!(refusal, Refusal::Unreadable(_));
                    admitted.refusals.push(refusal);
                }
            },
        }
    }
    admitted
}

fn is_nothing(datum: &Datum) -> bool {
    match datum.scalar() {
        Some(Atom::Integer(v)) => *v == 0,
        Some(Atom::Boolean(v)) => !v,
        Some(Atom::String(v)) => v.is_empty(),
        Some(_) => false,
        None => datum.is_empty(),
    }
}

fn check(column: &'static str, kind: &ColumnKind, datum: &Datum) -> Result<(), Refusal> {
    let count = datum.len() as u64;
    if count < kind.min || kind.max.is_some_and(|max| count > max) {
        let max = kind.max.map_or_else(|| "any".to_owned(), |max| max.to_string());
        return Err(Refusal::Count { column, min: kind.min, max, found: datum.len() });
    }
    let fits = |atom: &Atom, base: &BaseKind| match atom {
        Atom::String(text) if text.contains('\0') => Err(Refusal::Unreadable(column)),
        atom if !takes(base, atom) => Err(Refusal::Value { column, value: atom.to_string() }),
        _ => Ok(()),
    };
    match datum {
        Datum::Set(atoms) => atoms.iter().try_for_each(|atom| fits(atom, &kind.key)),
        Datum::Map(pairs) => pairs.iter().try_for_each(|(key, value)| {
            fits(key, &kind.key)?;
            kind.value.as_ref().map_or(Ok(()), |base| fits(value, base))
        }),
    }
}

fn takes(base: &BaseKind, atom: &Atom) -> bool {
    let limits = base.limits();
    if let Some(choices) = &limits.choices {
        return match choices {
            Datum::Set(atoms) => atoms.contains(atom),
            Datum::Map(_) => false,
        };
    }
    let low = limits.min.as_ref().is_none_or(|min| atom >= min);
    let high = limits.max.as_ref().is_none_or(|max| atom <= max);
    let length = match atom {
        Atom::String(text) => text.chars().count() as u64,
        _ => return low && high,
    };
    low && high
        && limits.min_length.is_none_or(|min| length >= min)
        && limits.max_length.is_none_or(|max| length <= max)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ovsdb::Set;
    use ovsdb::model::ColumnSet;
    use reconcile::ObjectId;

    use super::*;
    use crate::nb;
    use crate::target::state::Writable;

    fn admitted<T: Writable + std::fmt::Debug>(row: T, schema: &str) -> (Vec<String>, bool, usize) {
        let schema = DatabaseSchema::parse(schema).unwrap();
        let columns = ColumnSet::all::<T>();
        let want = Want { object: ObjectId::new("o", "1"), row: Arc::new(row), columns };
        let admitted = admit(&want, &schema);
        let left_out = columns.without(admitted.columns).len();
        (admitted.refusals.iter().map(ToString::to_string).collect(), admitted.row, left_out)
    }

    const OLD: &str = include_str!("../../testdata/schema/ovn-nb-23.03.json");
    const NEW: &str = include_str!("../../testdata/schema/ovn-nb-26.03.json");

    #[test]
    fn words_of_a_newer_ovn_empty_the_column_or_cost_the_row() {
        let fields = Set::from([nb::SelectionField::IpSrc, nb::SelectionField::Ipv6Src]);
        let balancer = nb::LoadBalancer { selection_fields: fields, ..Default::default() };
        let (refusals, row, left_out) = admitted(balancer.clone(), OLD);
        assert_eq!(refusals, ["selection_fields does not accept ipv6_src in this OVN"]);
        assert_eq!((row, left_out), (true, 1));
        assert_eq!(admitted(balancer, NEW), (vec![], true, 0));

        let policy = nb::LogicalRouterPolicy { action: nb::PolicyAction::Jump, ..Default::default() };
        let (refusals, row, _) = admitted(policy, OLD);
        assert_eq!(refusals, ["action does not accept jump in this OVN"]);
        assert!(!row, "an action cannot be empty");
    }

    #[test]
    fn numbers_out_of_range_and_missing_tables() {
        let acl = nb::Acl { priority: 40_000, ..Default::default() };
        let (refusals, row, _) = admitted(acl, NEW);
        assert_eq!(refusals, ["priority does not accept 40000 in this OVN"]);
        assert!(!row);
        let none = r#"{"name":"OVN_Northbound","version":"1.0.0","tables":{}}"#;
        let (refusals, row, _) = admitted(nb::Bfd::default(), none);
        assert_eq!(refusals, ["this OVN has no table BFD"]);
        assert!(!row);
    }

    #[test]
    fn text_that_no_server_can_read_costs_the_row() {
        let options = [("requested-chassis".into(), "h\0".into())].into();
        let port = nb::LogicalSwitchPort { options, ..Default::default() };
        let (refusals, row, _) = admitted(port, NEW);
        assert_eq!(refusals, ["options contains a NUL character, which OVSDB cannot store"]);
        assert!(!row);
        let key =
            nb::LogicalSwitchPort { external_ids: [("\0".into(), "".into())].into(), ..Default::default() };
        assert!(!admitted(key, NEW).1);
    }

    #[test]
    fn an_absent_column_without_a_value_is_no_loss() {
        assert_eq!(admitted(nb::Nat::default(), OLD), (vec![], true, 2));
        let nat = nb::Nat { matches: "ip4".into(), ..Default::default() };
        assert_eq!(admitted(nat, OLD), (vec!["this OVN has no column match in NAT".into()], true, 2));
    }
}
