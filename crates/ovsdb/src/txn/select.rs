//! A query: the rows of a table that the server selects.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use serde::Serialize;

use crate::wire::clause::Clause;

/// The operation `select` of RFC 7047, for [`Rpc::select`](crate::client::Rpc::select): a program that reads once needs no replica.
#[derive(Clone, Debug, Serialize)]
#[must_use]
pub struct Select<'a> {
    op: &'static str,
    table: &'a str,
    #[serde(rename = "where")]
    clauses: Vec<Clause>,
    columns: Vec<&'a str>,
}

impl<'a> Select<'a> {
    /// These columns of all rows of a table.
    pub fn new(table: &'a str, columns: impl IntoIterator<Item = &'a str>) -> Self {
        Self { op: "select", table, clauses: Vec::new(), columns: columns.into_iter().collect() }
    }

    /// Only rows for which these clauses hold, too.
    pub fn and(mut self, clauses: impl IntoIterator<Item = Clause>) -> Self {
        self.clauses.extend(clauses);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::atom::Atom;
    use crate::wire::clause::Function;

    #[test]
    fn a_query_is_as_the_rfc_has_it() {
        let named = Clause::new("name", Function::Equal, Atom::String("a".into()));
        let select = Select::new("Zebra", ["_uuid", "name"]).and([named]);
        assert_eq!(
            serde_json::to_string(&select).unwrap(),
            r#"{"op":"select","table":"Zebra","where":[["name","==","a"]],"columns":["_uuid","name"]}"#
        );
    }
}
