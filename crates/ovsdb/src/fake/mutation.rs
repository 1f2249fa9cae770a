//! The mutators of `mutate`.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use serde_json::Value;

use super::constraint::{self, Symbols};
use super::refusal::Refusal;
use super::store::Table;
use crate::model::Str;
use crate::wire::atom::{Atom, AtomKind};
use crate::wire::datum::Datum;
use crate::wire::schema::{ColumnKind, Limits};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Insert,
    Delete,
}

/// One parsed mutation.
#[derive(Clone, Debug)]
pub(super) struct Mutation {
    pub(super) column: Str,
    kind: ColumnKind,
    mutator: Mutator,
    argument: Datum,
}

impl Mutation {
    /// Reads a mutation by the table's schema.
    pub(super) fn parse(table: &Table, value: &Value, symbols: &mut Symbols) -> Result<Self, Refusal> {
        let Some([Value::String(column), Value::String(word), argument]) =
            value.as_array().map(Vec::as_slice)
        else {
            return Err(Refusal::syntax("Parse error in mutation."));
        };
        let (column, schema) = table
            .columns
            .get_key_value(column.as_str())
            .ok_or_else(|| Refusal::unknown_column(column, &table.name))?;
        if !schema.mutable {
            let problem = format!("Cannot mutate immutable column {column} in table {}.", table.name);
            return Err(Refusal::constraint(problem));
        }
        let mutator = match word.as_str() {
            "+=" => Mutator::Add,
            "-=" => Mutator::Subtract,
            "*=" => Mutator::Multiply,
            "/=" => Mutator::Divide,
            "%=" => Mutator::Remainder,
            "insert" => Mutator::Insert,
            "delete" => Mutator::Delete,
            _ => return Err(Refusal::new("unknown mutator", format!("No mutator named {word}."))),
        };
        let kind = schema.kind.clone();
        let mut taken = kind.clone();
        let number = matches!(kind.key.atom, AtomKind::Integer | AtomKind::Real);
        let scalar = kind.value.is_none() && kind.min == 1 && kind.max == Some(1);
        let fits = match mutator {
            Mutator::Insert | Mutator::Delete => !scalar,
            Mutator::Remainder => kind.value.is_none() && kind.key.atom == AtomKind::Integer,
            _ => kind.value.is_none() && number,
        };
        if !fits {
            return Err(Refusal::syntax(format!(
                "\"{word}\" may not be applied to column {column} of type {kind}."
            )));
        }
        let argument = match mutator {
            Mutator::Insert => {
                taken.min = 0;
                constraint::datum(&taken, argument, symbols)?
            }
            Mutator::Delete => {
                (taken.min, taken.max) = (0, None);
                constraint::datum(&taken, argument, symbols).or_else(|refusal| {
                    // From a map, a deletion may name keys without values.
                    if taken.value.take().is_none() {
                        return Err(refusal);
                    }
                    constraint::datum(&taken, argument, symbols)
                })?
            }
            _ => {
                (taken.min, taken.max) = (1, Some(1));
                taken.key.limit(Limits { choices: None, min: None, max: None, ..taken.key.limits().clone() });
                constraint::datum(&taken, argument, symbols)?
            }
        };
        Ok(Self { column: column.clone(), kind, mutator, argument })
    }

    /// Changes a column's value.
    pub(super) fn apply(&self, datum: &mut Datum) -> Result<(), Refusal> {
        match self.mutator {
            Mutator::Insert => self.insert(datum)?,
            Mutator::Delete => self.delete(datum),
            _ => return self.calculate(datum),
        }
        if constraint::fits(&self.kind, datum.len()) {
            return Ok(());
        }
        Err(Refusal::constraint(format!("Attempted to store {} elements in {}.", datum.len(), self.kind)))
    }

    fn insert(&self, datum: &mut Datum) -> Result<(), Refusal> {
        *datum = match (std::mem::take(datum), self.argument.clone()) {
            (Datum::Set(have), Datum::Set(new)) => Datum::set(have.into_iter().chain(new)),
            // `insert` keeps the values of existing keys. `Datum::map` keeps the last of equal keys.
            (Datum::Map(have), Datum::Map(new)) => Datum::map(new.into_iter().chain(have)),
            (have, _) => have,
        };
        Ok(())
    }

    fn delete(&self, datum: &mut Datum) {
        match (datum, &self.argument) {
            (Datum::Set(have), Datum::Set(gone)) => have.retain(|atom| gone.binary_search(atom).is_err()),
            (Datum::Map(have), Datum::Map(gone)) => have.retain(|pair| gone.binary_search(pair).is_err()),
            (Datum::Map(have), Datum::Set(gone)) => have.retain(|(key, _)| gone.binary_search(key).is_err()),
            (Datum::Set(_), Datum::Map(_)) => {}
        }
    }

    fn calculate(&self, datum: &mut Datum) -> Result<(), Refusal> {
        let (Datum::Set(atoms), Some(by)) = (&*datum, self.argument.scalar()) else { return Ok(()) };
        let count = atoms.len();
        let results: Vec<_> =
            atoms.iter().map(|atom| self.calculated(atom, by)).collect::<Result<_, Refusal>>()?;
        results.iter().try_for_each(|atom| constraint::check(&self.kind.key, atom))?;
        *datum = Datum::set(results);
        if datum.len() == count {
            return Ok(());
        }
        Err(Refusal::constraint("The result contains duplicates."))
    }

    fn calculated(&self, atom: &Atom, by: &Atom) -> Result<Atom, Refusal> {
        let range = || Refusal::new("range error", "The result is out of range.");
        match (atom, by) {
            (Atom::Integer(x), Atom::Integer(y)) => {
                if *y == 0 && matches!(self.mutator, Mutator::Divide | Mutator::Remainder) {
                    return Err(Refusal::new("domain error", "Division by zero."));
                }
                let result = match self.mutator {
                    Mutator::Add => x.checked_add(*y),
                    Mutator::Subtract => x.checked_sub(*y),
                    Mutator::Multiply => x.checked_mul(*y),
                    Mutator::Divide => x.checked_div(*y),
                    _ => x.checked_rem(*y),
                };
                result.map(Atom::Integer).ok_or_else(range)
            }
            (Atom::Real(x), Atom::Real(y)) => {
                if *y == 0.0 && self.mutator == Mutator::Divide {
                    return Err(Refusal::new("domain error", "Division by zero."));
                }
                let result = match self.mutator {
                    Mutator::Add => x + y,
                    Mutator::Subtract => x - y,
                    Mutator::Multiply => x * y,
                    _ => x / y,
                };
                if result.is_finite() { Ok(Atom::Real(result)) } else { Err(range()) }
            }
            _ => Ok(atom.clone()),
        }
    }
}
