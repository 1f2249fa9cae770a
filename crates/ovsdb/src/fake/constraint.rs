//! Parses values by a column's type, and refuses those that violate its constraints.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;

use serde_json::Value;
use uuid::Uuid;

use super::refusal::Refusal;
use crate::model::Str;
use crate::wire::atom::{Atom, AtomKind};
use crate::wire::datum::Datum;
use crate::wire::schema::{BaseKind, ColumnKind};

/// The rows that a transaction knows by name.
#[derive(Debug, Default)]
pub(super) struct Symbols(BTreeMap<Str, Symbol>);

/// The row behind a named UUID. It may be used before the insert that creates it.
#[derive(Clone, Copy, Debug)]
struct Symbol {
    uuid: Uuid,
    created: bool,
}

impl Symbols {
    fn lookup(&mut self, name: &str) -> &mut Symbol {
        self.0.entry(name.into()).or_insert_with(|| Symbol { uuid: Uuid::new_v4(), created: false })
    }

    /// Assigns the name to an inserted row: with the UUID that the client chose, else the name's own.
    pub(super) fn create(&mut self, name: &str, chosen: Option<Uuid>) -> Result<Uuid, Refusal> {
        let symbol = self.lookup(name);
        if symbol.created {
            return Err(Refusal::new(
                "duplicate uuid-name",
                format!("{name} named an earlier insert already."),
            ));
        }
        symbol.created = true;
        symbol.uuid = chosen.unwrap_or(symbol.uuid);
        Ok(symbol.uuid)
    }
}

/// Whether a string is an `<id>` of RFC 7047.
pub(super) fn is_id(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A UUID in the only form that the server accepts.
pub(super) fn uuid(text: &str) -> Option<Uuid> {
    (text.len() == 36).then(|| Uuid::try_parse(text).ok()).flatten()
}

/// Parses a column's value and checks all constraints.
pub(super) fn datum(kind: &ColumnKind, value: &Value, symbols: &mut Symbols) -> Result<Datum, Refusal> {
    let tag = value.get(0).and_then(Value::as_str);
    match &kind.value {
        Some(base) => {
            let items = tagged(value, "map")?;
            counted(kind, items.len())?;
            let mut pairs = Vec::with_capacity(items.len());
            for item in items {
                let Some([k, v]) = item.as_array().map(Vec::as_slice) else {
                    return Err(Refusal::syntax("expected 2-element array"));
                };
                pairs.push((atom(&kind.key, k, symbols)?, atom(base, v, symbols)?));
            }
            let count = pairs.len();
            let map = Datum::map(pairs);
            distinct(map, count, "map contains duplicate key")
        }
        None if tag == Some("set") => {
            let items = tagged(value, "set")?;
            counted(kind, items.len())?;
            let atoms: Vec<_> =
                items.iter().map(|item| atom(&kind.key, item, symbols)).collect::<Result<_, _>>()?;
            let count = atoms.len();
            distinct(Datum::set(atoms), count, "set contains duplicate")
        }
        None => atom(&kind.key, value, symbols).map(Datum::from),
    }
}

fn distinct(datum: Datum, count: usize, problem: &str) -> Result<Datum, Refusal> {
    if datum.len() == count { Ok(datum) } else { Err(Refusal::new("ovsdb error", problem)) }
}

fn tagged<'a>(value: &'a Value, tag: &str) -> Result<&'a [Value], Refusal> {
    match value.as_array().map(Vec::as_slice) {
        Some([Value::String(found), Value::Array(items)]) if found == tag => Ok(items),
        _ => Err(Refusal::syntax(format!("expected [\"{tag}\", <array>]"))),
    }
}

fn counted(kind: &ColumnKind, count: usize) -> Result<(), Refusal> {
    if fits(kind, count) {
        return Ok(());
    }
    Err(Refusal::syntax(format!("{count} members are present in a {kind}")))
}

/// Whether the column allows this many elements.
pub(super) fn fits(kind: &ColumnKind, count: usize) -> bool {
    let count = count as u64;
    count >= kind.min && kind.max.is_none_or(|max| count <= max)
}

fn atom(base: &BaseKind, value: &Value, symbols: &mut Symbols) -> Result<Atom, Refusal> {
    let atom = match (base.atom, value) {
        (AtomKind::Integer, Value::Number(_)) => integer(value).map(Atom::Integer),
        (AtomKind::Real, Value::Number(number)) => number.as_f64().map(Atom::Real),
        (AtomKind::Boolean, Value::Bool(flag)) => Some(Atom::Boolean(*flag)),
        (AtomKind::String, Value::String(text)) => Some(Atom::String(text.into())),
        (AtomKind::Uuid, Value::Array(_)) => return reference(value, symbols),
        _ => None,
    };
    let atom = atom.ok_or_else(|| Refusal::syntax(format!("expected {}", base.atom)))?;
    check(base, &atom)?;
    Ok(atom)
}

/// A whole number in any notation.
fn integer(value: &Value) -> Option<i64> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    let real =
        || value.as_f64().filter(|v| v.fract() == 0.0 && *v >= -LIMIT && *v < LIMIT && !value.is_u64());
    value.as_i64().or_else(|| real().map(|v| v as i64))
}

fn reference(value: &Value, symbols: &mut Symbols) -> Result<Atom, Refusal> {
    let Some([Value::String(tag), Value::String(text)]) = value.as_array().map(Vec::as_slice) else {
        return Err(Refusal::syntax("expected [\"uuid\", <string>]"));
    };
    match tag.as_str() {
        "uuid" => uuid(text).map(Atom::Uuid).ok_or_else(|| Refusal::syntax(format!("{text} is no UUID"))),
        "named-uuid" if is_id(text) => Ok(Atom::Uuid(symbols.lookup(text).uuid)),
        "named-uuid" => Err(Refusal::syntax("named-uuid string is not a valid <id>")),
        _ => Err(Refusal::syntax("expected [\"uuid\", <string>] or [\"named-uuid\", <id>]")),
    }
}

/// Checks enum, range and length of one atom.
pub(super) fn check(base: &BaseKind, atom: &Atom) -> Result<(), Refusal> {
    let limits = base.limits();
    if let Some(Datum::Set(choices)) = &limits.choices
        && !choices.contains(atom)
    {
        return Err(Refusal::constraint(format!("{atom} is not one of the allowed values")));
    }
    let low = limits.min.as_ref().is_some_and(|min| atom < min);
    let high = limits.max.as_ref().is_some_and(|max| atom > max);
    if low || high {
        return Err(Refusal::constraint(format!("{atom} is not in the valid range")));
    }
    if let Atom::String(text) = atom {
        let length = text.chars().count() as u64;
        if limits.min_length.is_some_and(|min| length < min)
            || limits.max_length.is_some_and(|max| length > max)
        {
            return Err(Refusal::constraint(format!(
                "{text:?} has a length of {length}, which is not allowed"
            )));
        }
    }
    Ok(())
}

/// Checks all atoms of a value that may be a default and was not checked before.
pub(super) fn check_all(kind: &ColumnKind, datum: &Datum) -> Result<(), Refusal> {
    match datum {
        Datum::Set(atoms) => atoms.iter().try_for_each(|atom| check(&kind.key, atom)),
        Datum::Map(pairs) => pairs.iter().try_for_each(|(k, v)| {
            check(&kind.key, k)?;
            kind.value.as_ref().map_or(Ok(()), |base| check(base, v))
        }),
    }
}
