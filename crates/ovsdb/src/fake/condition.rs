//! Row selection: the `where` of operations (all clauses must hold) and of monitors (any clause suffices).

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::cmp::Ordering;

use serde_json::Value;
use uuid::Uuid;

use super::constraint::{self, Symbols};
use super::refusal::Refusal;
use super::store::{Row, Table};
use crate::model::Str;
use crate::wire::atom::{Atom, AtomKind};
use crate::wire::clause::{Clause, Function};
use crate::wire::datum::Datum;

/// One element of a condition.
#[derive(Clone, Debug, PartialEq)]
enum Test {
    Fixed(bool),
    Clause(Clause),
}

/// A parsed condition.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Condition(Vec<Test>);

impl Condition {
    /// Reads a condition by the table's schema.
    pub(super) fn parse(table: &Table, value: &[Value], symbols: &mut Symbols) -> Result<Self, Refusal> {
        value.iter().map(|test| Test::parse(table, test, symbols)).collect::<Result<_, _>>().map(Self)
    }

    /// Whether every clause matches, as operations require.
    pub(super) fn all(&self, row: &Row) -> bool {
        self.0.iter().all(|test| test.holds(row))
    }

    /// Whether any clause matches or there is none, as monitors require.
    pub(super) fn any(&self, row: &Row) -> bool {
        self.0.is_empty() || self.0.iter().any(|test| test.holds(row))
    }

    /// The columns of the condition.
    pub(super) fn columns(&self) -> impl Iterator<Item = &Str> {
        self.0.iter().filter_map(|test| match test {
            Test::Clause(clause) => Some(&clause.column),
            Test::Fixed(_) => None,
        })
    }

    /// The one row that can match, if a clause names its UUID.
    fn named(&self) -> Option<Uuid> {
        self.0.iter().find_map(|test| match test {
            Test::Clause(Clause { column, function: Function::Equal, value }) if column == "_uuid" => {
                match value.scalar() {
                    Some(Atom::Uuid(uuid)) => Some(*uuid),
                    _ => None,
                }
            }
            _ => None,
        })
    }

    /// The matching rows of a table.
    pub(super) fn query<'a>(&'a self, table: &'a Table) -> Vec<(Uuid, &'a Row)> {
        match self.named() {
            Some(uuid) => {
                table.rows.get(&uuid).filter(|row| self.all(row)).map(|row| (uuid, row)).into_iter().collect()
            }
            None => {
                table.rows.iter().filter(|(_, row)| self.all(row)).map(|(uuid, row)| (*uuid, row)).collect()
            }
        }
    }
}

impl Test {
    fn parse(table: &Table, value: &Value, symbols: &mut Symbols) -> Result<Self, Refusal> {
        if let Value::Bool(fixed) = value {
            return Ok(Self::Fixed(*fixed));
        }
        let Some([Value::String(column), Value::String(function), argument]) =
            value.as_array().map(Vec::as_slice)
        else {
            return Err(Refusal::syntax("Parse error in condition."));
        };
        let (column, schema) = table
            .columns
            .get_key_value(column.as_str())
            .ok_or_else(|| Refusal::unknown_column(column, &table.name))?;
        let function = Function::from_name(function)
            .ok_or_else(|| Refusal::new("unknown function", format!("No function named {function}.")))?;
        let mut kind = schema.kind.clone();
        let single = kind.value.is_none() && kind.max == Some(1);
        let scalar = single && kind.min == 1;
        match function {
            Function::Equal | Function::NotEqual => {}
            Function::Excludes if !scalar => (kind.min, kind.max) = (0, None),
            Function::Includes if !scalar => kind.min = 0,
            Function::Includes | Function::Excludes => {}
            _ if single && matches!(kind.key.atom, AtomKind::Integer | AtomKind::Real) => kind.min = 1,
            _ => {
                let problem = format!("\"{function}\" may not be applied to column {column} of type {kind}.");
                return Err(Refusal::syntax(problem));
            }
        }
        let value = constraint::datum(&kind, argument, symbols)?;
        Ok(Self::Clause(Clause { column: column.clone(), function, value }))
    }

    fn holds(&self, row: &Row) -> bool {
        match self {
            Self::Fixed(fixed) => *fixed,
            Self::Clause(clause) => row.get(&clause.column).is_some_and(|field| holds(clause, field)),
        }
    }
}

fn holds(clause: &Clause, field: &Datum) -> bool {
    let ordered = |wanted: fn(Ordering) -> bool| match (field.scalar(), clause.value.scalar()) {
        (Some(field), Some(value)) => wanted(field.cmp(value)),
        _ => false,
    };
    match clause.function {
        Function::Equal => *field == clause.value,
        Function::NotEqual => *field != clause.value,
        Function::Less => ordered(Ordering::is_lt),
        Function::LessOrEqual => ordered(Ordering::is_le),
        Function::GreaterOrEqual => ordered(Ordering::is_ge),
        Function::Greater => ordered(Ordering::is_gt),
        Function::Includes => shared(field, &clause.value) == clause.value.len(),
        Function::Excludes => shared(field, &clause.value) == 0,
    }
}

/// The number of elements of `value` that are also in `field`.
fn shared(field: &Datum, value: &Datum) -> usize {
    match (field, value) {
        (Datum::Set(field), Datum::Set(value)) => {
            value.iter().filter(|v| field.binary_search(v).is_ok()).count()
        }
        (Datum::Map(field), Datum::Map(value)) => {
            value.iter().filter(|v| field.binary_search(v).is_ok()).count()
        }
        _ => 0,
    }
}
