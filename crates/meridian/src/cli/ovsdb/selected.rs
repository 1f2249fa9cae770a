//! The rows that a `select` returned, decoded in one pass: values in the order of the requested columns.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use ovsdb::wire::ColumnKind;
use ovsdb::wire::Datum;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use thiserror::Error;

/// A column's name and type.
pub(super) type Column = (String, ColumnKind);

/// One row: a datum per column.
pub(super) type Row = Box<[Datum]>;

/// A `select` did not return rows.
#[derive(Debug, Error)]
pub(super) enum SelectError {
    /// The server rejected the operation.
    #[error("the server refused to select: {error}{}{details}", if details.is_empty() { "" } else { ": " })]
    Refused { error: String, details: String },
    /// The reply is not a list of rows of these columns.
    #[error("cannot parse the rows that the server sent")]
    Malformed(#[from] serde_json::Error),
}

/// Decodes the reply to a transaction with one `select`.
pub(super) fn read(answer: &RawValue, columns: &[Column]) -> Result<Vec<Row>, SelectError> {
    #[derive(Deserialize)]
    struct Result<'a> {
        #[serde(borrow)]
        rows: Option<&'a RawValue>,
        error: Option<String>,
        details: Option<String>,
    }
    let results: Vec<Result<'_>> = serde_json::from_str(answer.get())?;
    let result = results.into_iter().next().ok_or_else(|| serde_json::Error::custom("no result"))?;
    if let Some(error) = result.error {
        return Err(SelectError::Refused { error, details: result.details.unwrap_or_default() });
    }
    let rows = result.rows.ok_or_else(|| serde_json::Error::custom("neither rows nor an error"))?;
    Ok(Rows(columns).deserialize(&mut serde_json::Deserializer::from_str(rows.get()))?)
}

struct Rows<'a>(&'a [Column]);

impl<'de> DeserializeSeed<'de> for Rows<'_> {
    type Value = Vec<Row>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<Row>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Rows<'_> {
    type Value = Vec<Row>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of rows")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<Row>, A::Error> {
        let mut rows = Vec::new();
        while let Some(row) = seq.next_element_seed(OneRow(self.0))? {
            rows.push(row);
        }
        Ok(rows)
    }
}

struct OneRow<'a>(&'a [Column]);

impl<'de> DeserializeSeed<'de> for OneRow<'_> {
    type Value = Row;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Row, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for OneRow<'_> {
    type Value = Row;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a row")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Row, A::Error> {
        let mut row: Row = self.0.iter().map(|(_, kind)| kind.default_datum()).collect();
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            match self.0.iter().position(|(column, _)| *column == name) {
                Some(at) => row[at] = self.0[at].1.coerce(map.next_value()?),
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(row)
    }
}

/// Sorts rows by some of their columns; the first column in `order` counts most.
pub(super) fn sort(rows: &mut [Row], order: &[usize]) {
    let compare = |a: &Datum, b: &Datum| match (a, b) {
        (Datum::Set(a), Datum::Set(b)) => a.cmp(b),
        (Datum::Map(a), Datum::Map(b)) => a.cmp(b),
        _ => Ordering::Equal,
    };
    rows.sort_by(|a, b| {
        let orders = order.iter().map(|at| compare(&a[*at], &b[*at]));
        orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use ovsdb::wire::Atom;
    use ovsdb::wire::DatabaseSchema;

    fn columns() -> Vec<Column> {
        let schema = DatabaseSchema::parse(
            r#"{"name":"d","version":"1.0.0","tables":{"T":{"columns":{"a":{"type":"real"},
                "b":{"type":{"key":"string","value":"string","min":0,"max":"unlimited"}}}}}}"#,
        )
        .unwrap();
        schema.tables["T"]
            .columns
            .iter()
            .map(|(name, column)| (name.to_string(), column.kind.clone()))
            .collect()
    }

    fn read(text: &str) -> Result<Vec<Row>, SelectError> {
        super::read(&serde_json::from_str::<Box<RawValue>>(text).unwrap(), &columns())
    }

    #[test]
    fn rows_are_exact_and_in_the_order_asked() {
        let rows = read(r#"[{"rows":[{"x":[1,{}],"b":["set",[]],"a":1},{"\u0061":2.5}]}]"#).unwrap();
        let real = |value: f64| Datum::from(Atom::Real(value));
        assert_eq!(rows[0].as_ref(), [real(1.0), Datum::Map(Vec::new())]);
        assert_eq!(rows[1].as_ref(), [real(2.5), Datum::Map(Vec::new())]);
    }

    #[test]
    fn everything_else_is_an_error() {
        let problem = |text: &str| read(text).unwrap_err().to_string();
        assert_eq!(problem(r#"[{"error":"e","details":"d"}]"#), "the server refused to select: e: d");
        assert_eq!(problem(r#"[{"error":"e"}]"#), "the server refused to select: e");
        for text in ["[]", "7", "[null]", "[{}]", r#"[{"rows":7}]"#, r#"[{"rows":[{"a":{}}]}]"#] {
            assert_eq!(problem(text), "cannot parse the rows that the server sent", "{text}");
        }
    }
}
