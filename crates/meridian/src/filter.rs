//! The expressions of `--where`: each compares a column with a value of the type that the server's schema defines.
//!
//! The forms are `column=value`, `!=`, `<`, `<=`, `>`, `>=`, `column includes value`, `column excludes value`, and `column:key=value` for
//! maps. Values are bare or quoted as in JSON; sets are `[a, b]`, maps `{k=v}`. The parser produces clauses that the server evaluates.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use ovsdb::Uuid;
use ovsdb::wire::Datum;
use ovsdb::wire::{Atom, AtomKind};
use ovsdb::wire::{BaseKind, ColumnKind, TableSchema};
use ovsdb::wire::{Clause, Function};
use thiserror::Error;

use crate::nearest;

/// The description of the expressions in `--help`.
pub(crate) const LANGUAGE: &str = "\
Expressions of --where:
  COLUMN=VALUE, COLUMN!=VALUE          equal or not, as a whole
  COLUMN<VALUE, <=, >, >=              for numbers
  COLUMN includes VALUE                has all of these elements
  COLUMN excludes VALUE                has none of them
  COLUMN:KEY=VALUE, COLUMN:KEY!=VALUE  a map has this pair, or not
  VALUE: a word, or quoted as in JSON; a set [a, b], a map {k=v}, nothing []
  COLUMN: any of the table, and _uuid. Several --where must all hold.";

/// The error of an invalid expression.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("--where `{expression}`: {problem}")]
pub(crate) struct FilterError {
    expression: String,
    problem: String,
}

/// Parses one expression against the table's schema.
pub(crate) fn parse(expression: &str, table_name: &str, table: &TableSchema) -> Result<Clause, FilterError> {
    clause(expression, table_name, table)
        .map_err(|problem| FilterError { expression: expression.to_owned(), problem })
}

fn clause(expression: &str, table_name: &str, table: &TableSchema) -> Result<Clause, String> {
    let text = expression.trim();
    let name_end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
    let (name, rest) = text.split_at(name_end);
    if name.is_empty() {
        return Err("a column's name comes first".into());
    }
    let kind = column(name, table_name, table)?;
    let rest = rest.trim_start();
    if let Some(rest) = rest.strip_prefix(':') {
        return pair(name, &kind, rest);
    }
    let (function, value) = operator(rest)?;
    let ordered = matches!(
        function,
        Function::Less | Function::LessOrEqual | Function::Greater | Function::GreaterOrEqual
    );
    let number = matches!(kind.key.atom, AtomKind::Integer | AtomKind::Real);
    if ordered && !(number && kind.value.is_none() && kind.max == Some(1)) {
        return Err(format!("`{function}` compares single numbers, and {name} is {}", a(&kind)));
    }
    let datum = datum(value, &kind).map_err(|why| format!("{name} is {}: {why}", a(&kind)))?;
    if ordered && datum.is_empty() {
        return Err(format!("`{function}` needs a number"));
    }
    if function == Function::Equal && kind.min == 1 && datum.is_empty() {
        return Err(format!("{name} is {} and never empty", a(&kind)));
    }
    Ok(Clause { column: name.into(), function, value: datum })
}

fn a(kind: &ColumnKind) -> String {
    let text = kind.to_string();
    format!("{} {text}", if text.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" })
}

/// The type of a column, including `_uuid` and `_version`.
pub(crate) fn column(name: &str, table_name: &str, table: &TableSchema) -> Result<ColumnKind, String> {
    if let Some(column) = table.columns.get(name) {
        return Ok(column.kind.clone());
    }
    if name == "_uuid" || name == "_version" {
        let key = BaseKind::any(AtomKind::Uuid);
        return Ok(ColumnKind { key, value: None, min: 1, max: Some(1) });
    }
    let known = || table.columns.keys().map(|name| name.as_str()).chain(["_uuid"]);
    let hint = match nearest::nearest(name, known()) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => format!("; it has {}", known().collect::<Vec<_>>().join(", ")),
    };
    Err(format!("table {table_name} has no column `{name}`{hint}"))
}

/// Parses the `KEY=VALUE` of `COLUMN:KEY=VALUE`.
fn pair(name: &str, kind: &ColumnKind, rest: &str) -> Result<Clause, String> {
    let Some(value_kind) = &kind.value else {
        return Err(format!("`{name}:` is for maps, and {name} is {}", a(kind)));
    };
    let rest = rest.trim_start();
    let (key, rest) = if rest.starts_with('"') {
        quoted(rest)?
    } else {
        let end = rest.find(['=', '!', '<', '>']).unwrap_or(rest.len());
        (rest[..end].trim_end().to_owned(), &rest[end..])
    };
    let (function, value) = operator(rest.trim_start())?;
    let function = match function {
        Function::Equal => Function::Includes,
        Function::NotEqual => Function::Excludes,
        other => return Err(format!("a pair of a map is compared with = or !=, not `{other}`")),
    };
    let key = atom(&key, &kind.key).map_err(|why| format!("the key of {name}: {why}"))?;
    let (value, tail) = word(value.trim(), &[])?;
    if !tail.is_empty() {
        return Err(format!("unexpected `{tail}` behind the value"));
    }
    let value = atom(&value, value_kind).map_err(|why| format!("the value of {name}: {why}"))?;
    Ok(Clause { column: name.into(), function, value: Datum::map([(key, value)]) })
}

fn operator(text: &str) -> Result<(Function, &str), String> {
    const SIGNS: [(&str, Function); 7] = [
        ("==", Function::Equal),
        ("!=", Function::NotEqual),
        ("<=", Function::LessOrEqual),
        (">=", Function::GreaterOrEqual),
        ("=", Function::Equal),
        ("<", Function::Less),
        (">", Function::Greater),
    ];
    for (sign, function) in SIGNS {
        if let Some(rest) = text.strip_prefix(sign) {
            return Ok((function, rest.trim()));
        }
    }
    for function in [Function::Includes, Function::Excludes] {
        if let Some(rest) = text.strip_prefix(function.name())
            && rest.starts_with([' ', '[', '{', '"'])
        {
            return Ok((function, rest.trim()));
        }
    }
    Err("behind the column comes one of =, !=, <, <=, >, >=, includes, excludes".into())
}

/// Parses the whole value of a column.
fn datum(text: &str, kind: &ColumnKind) -> Result<Datum, String> {
    let inside = |open, close| text.strip_prefix(open).and_then(|rest: &str| rest.strip_suffix(close));
    if let Some(value_kind) = &kind.value {
        if text == "[]" {
            return Ok(Datum::Map(Vec::new()));
        }
        let inside = inside('{', '}').ok_or("write a map as {key=value, ...}, or column:key=value")?;
        let mut pairs = Vec::new();
        let mut rest = inside.trim_start();
        while !rest.is_empty() {
            let (key, tail) = word(rest, &['='])?;
            let tail = tail.strip_prefix('=').ok_or_else(|| format!("`=` is missing behind `{key}`"))?;
            let (value, tail) = word(tail.trim_start(), &[','])?;
            pairs.push((atom(&key, &kind.key)?, atom(&value, value_kind)?));
            rest = next(tail)?;
        }
        return Ok(Datum::map(pairs));
    }
    if let Some(inside) = inside('[', ']') {
        let mut atoms = Vec::new();
        let mut rest = inside.trim_start();
        while !rest.is_empty() {
            let (text, tail) = word(rest, &[','])?;
            atoms.push(atom(&text, &kind.key)?);
            rest = next(tail)?;
        }
        return Ok(Datum::set(atoms));
    }
    // A single value is the whole string, including commas and spaces.
    let (text, tail) = word(text, &[])?;
    if !tail.is_empty() {
        return Err(format!("unexpected `{tail}` behind the value"));
    }
    Ok(Datum::from(atom(&text, &kind.key)?))
}

/// The rest after an element: the next element behind a comma, or nothing.
fn next(tail: &str) -> Result<&str, String> {
    match tail.strip_prefix(',') {
        Some(rest) => Ok(rest.trim_start()),
        None if tail.is_empty() => Ok(tail),
        None => Err(format!("unexpected `{tail}` behind an element")),
    }
}

/// Parses one token, bare up to a stop character or quoted. Returns it with the rest, without the space between them.
fn word<'a>(text: &'a str, stops: &[char]) -> Result<(String, &'a str), String> {
    if text.starts_with('"') {
        let (word, rest) = quoted(text)?;
        return Ok((word, rest.trim_start()));
    }
    let end = text.find(stops).unwrap_or(text.len());
    Ok((text[..end].trim_end().to_owned(), &text[end..]))
}

/// Parses the JSON string at the start, and returns it with the rest.
fn quoted(text: &str) -> Result<(String, &str), String> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<String>();
    match values.next() {
        Some(Ok(word)) => {
            let end = values.byte_offset();
            Ok((word, &text[end..]))
        }
        _ => Err(format!("`{text}` is no JSON string: a quote is missing or an escape is wrong")),
    }
}

fn atom(text: &str, base: &BaseKind) -> Result<Atom, String> {
    let wrong = |what: &str| format!("`{text}` is no {what}");
    let atom = match base.atom {
        AtomKind::Integer => Atom::Integer(text.parse().map_err(|_| wrong("integer"))?),
        AtomKind::Real => {
            let real: f64 = text.parse().map_err(|_| wrong("number"))?;
            if !real.is_finite() {
                return Err(wrong("number"));
            }
            Atom::Real(real)
        }
        AtomKind::Boolean => {
            Atom::Boolean(text.parse().map_err(|_| format!("`{text}` is neither true nor false"))?)
        }
        AtomKind::String => Atom::String(text.into()),
        AtomKind::Uuid => Atom::Uuid(Uuid::try_parse(text).map_err(|_| wrong("UUID"))?),
    };
    if let Some(Datum::Set(choices)) = &base.limits().choices
        && !choices.contains(&atom)
    {
        let words: Vec<_> = choices.iter().map(ToString::to_string).collect();
        return Err(format!("`{text}` is none of {}", words.join(", ")));
    }
    Ok(atom)
}

#[cfg(test)]
mod tests;
