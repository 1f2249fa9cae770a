//! The operations of a transaction and their members; `execute` interprets them.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::{Map as Object, Value};

use super::constraint::is_id;
use super::refusal::Refusal;
use super::store::Database;

/// An operation with all required members, each of the right JSON type.
#[derive(Debug)]
pub(super) enum Op<'a> {
    Insert {
        table: &'a str,
        uuid: Option<&'a str>,
        name: Option<&'a str>,
        row: &'a Object<String, Value>,
    },
    Select {
        table: &'a str,
        filter: &'a [Value],
        columns: Option<&'a [Value]>,
        sort: Option<&'a [Value]>,
    },
    Update {
        table: &'a str,
        filter: &'a [Value],
        row: &'a Object<String, Value>,
    },
    Mutate {
        table: &'a str,
        filter: &'a [Value],
        mutations: &'a [Value],
    },
    Delete {
        table: &'a str,
        filter: &'a [Value],
    },
    Wait {
        table: &'a str,
        timeout: Option<i64>,
        filter: &'a [Value],
        columns: Option<&'a [Value]>,
        until: &'a str,
        rows: &'a [Value],
    },
    Commit,
    Abort,
    Comment,
    Assert {
        lock: &'a str,
    },
}

impl<'a> Op<'a> {
    /// Reads one operation.
    pub(super) fn parse(db: &Database, value: &'a Value) -> Result<Self, Refusal> {
        let members = Members::new(value)?;
        let op = match members.id("op")? {
            "insert" => Self::Insert {
                table: members.table(db)?,
                uuid: members.optional("uuid", Value::as_str)?,
                name: members.optional("uuid-name", as_id)?,
                row: members.required("row", Value::as_object)?,
            },
            "select" => Self::Select {
                table: members.table(db)?,
                filter: members.array("where")?,
                columns: members.optional_array("columns")?,
                sort: members.optional_array("sort")?,
            },
            "update" => Self::Update {
                table: members.table(db)?,
                filter: members.array("where")?,
                row: members.required("row", Value::as_object)?,
            },
            "mutate" => Self::Mutate {
                table: members.table(db)?,
                filter: members.array("where")?,
                mutations: members.array("mutations")?,
            },
            "delete" => Self::Delete { table: members.table(db)?, filter: members.array("where")? },
            "wait" => Self::Wait {
                table: members.table(db)?,
                timeout: members.optional("timeout", Value::as_i64)?,
                filter: members.array("where")?,
                columns: members.optional_array("columns")?,
                until: members.required("until", Value::as_str)?,
                rows: members.array("rows")?,
            },
            "commit" => {
                members.required("durable", Value::as_bool)?;
                Self::Commit
            }
            "abort" => Self::Abort,
            "comment" => {
                members.required("comment", Value::as_str)?;
                Self::Comment
            }
            "assert" => Self::Assert { lock: members.id("lock")? },
            other => return Err(Refusal::syntax(format!("No operation \"{other}\""))),
        };
        members.finish()?;
        Ok(op)
    }

    /// Whether the operation does not change the database.
    pub(super) fn reads_only(&self) -> bool {
        matches!(
            self,
            Self::Select { .. } | Self::Wait { .. } | Self::Abort | Self::Comment | Self::Assert { .. }
        )
    }
}

fn as_id(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| is_id(text))
}

/// The members of an object, each of which must be read.
pub(super) struct Members<'a> {
    object: &'a Object<String, Value>,
    asked: RefCell<BTreeSet<&'static str>>,
}

impl<'a> Members<'a> {
    pub(super) fn new(value: &'a Value) -> Result<Self, Refusal> {
        let object = value.as_object().ok_or_else(|| Refusal::syntax("Object expected."))?;
        Ok(Self { object, asked: RefCell::default() })
    }

    /// An optional member.
    pub(super) fn optional<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Refusal> {
        self.asked.borrow_mut().insert(name);
        match self.object.get(name) {
            None => Ok(None),
            Some(value) => read(value)
                .map(Some)
                .ok_or_else(|| Refusal::syntax(format!("Type mismatch for member '{name}'."))),
        }
    }

    /// A required member.
    pub(super) fn required<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<T, Refusal> {
        self.optional(name, read)?
            .ok_or_else(|| Refusal::syntax(format!("Required '{name}' member is missing.")))
    }

    pub(super) fn optional_array(&self, name: &'static str) -> Result<Option<&'a [Value]>, Refusal> {
        self.optional(name, |value| value.as_array().map(Vec::as_slice))
    }

    fn array(&self, name: &'static str) -> Result<&'a [Value], Refusal> {
        self.required(name, |value| value.as_array().map(Vec::as_slice))
    }

    fn id(&self, name: &'static str) -> Result<&'a str, Refusal> {
        self.required(name, as_id)
    }

    fn table(&self, db: &Database) -> Result<&'a str, Refusal> {
        let table = self.id("table")?;
        if db.tables.contains_key(table) {
            return Ok(table);
        }
        Err(Refusal::syntax(format!("No table named {table}.")))
    }

    /// Refuses unexpected members.
    pub(super) fn finish(self) -> Result<(), Refusal> {
        let asked = self.asked.into_inner();
        match self.object.keys().find(|name| !asked.contains(name.as_str())) {
            None => Ok(()),
            Some(name) => Err(Refusal::syntax(format!("Member '{name}' is present but not allowed here."))),
        }
    }
}
