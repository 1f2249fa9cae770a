//! The typed builder of a transaction.
//!
//! Rows are named by UUIDs of the writer's choice, so references need no placeholders and a second attempt collides
//! with the first instead of making a twin. Updates mention only columns that differ, sets and maps only the elements
//! that differ: what others wrote stays. The text is written as the calls are made, in their order.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;

use serde::Serialize;
use smallvec::SmallVec;
use uuid::Uuid;

use super::compose;
use super::outcome::CommitError;
use crate::model::column::Mutation;
use crate::model::{ColumnSet, ColumnSpec, ColumnType, Ref, Str, Table};
use crate::wire::datum::Datum;
use crate::wire::write;

/// What is to be written, all or nothing.
///
/// ```
/// # use ovsdb::{Map, Str, Table, Transaction, Uuid};
/// #[derive(Clone, Debug, Default, PartialEq, Table)]
/// #[ovsdb(database = "OVN_Northbound", table = "Logical_Switch")]
/// struct Switch {
///     name: Str,
///     external_ids: Map<Str, Str>,
/// }
/// let before = Switch { name: "net".into(), ..Switch::default() };
/// let mut after = before.clone();
/// after.external_ids.insert("owner".into(), "us".into());
/// let mut txn = Transaction::new();
/// txn.update(Uuid::nil(), &before, &after); // one mutate of one key
/// assert_eq!(txn.len(), 1);
/// ```
#[derive(Clone, Default)]
pub struct Transaction {
    database: Option<&'static str>,
    text: Vec<u8>,
    ops: Vec<Op>,
    named: SmallVec<[Named; 2]>,
}

/// One operation: text that is already there, or an expectation whose columns depend on what the server has.
#[derive(Clone)]
struct Op {
    label: Label,
    body: Body,
}

#[derive(Clone)]
enum Body {
    /// Ends here in the text, begins where the one before ended.
    Text {
        end: usize,
    },
    Expect {
        row: Uuid,
        columns: Vec<(&'static str, Datum)>,
    },
}

/// Columns of a table without which the transaction has no meaning: those that are given a value or looked for by one.
#[derive(Clone)]
struct Named {
    table: &'static str,
    specs: &'static [ColumnSpec],
    columns: ColumnSet,
}

/// What an operation does, for errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// What it does.
    pub kind: OpKind,
    /// To which table; a lock's name for `assert`, nothing where it is not known.
    pub target: Str,
    /// To which row.
    pub row: Option<Uuid>,
}

/// The kinds of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpKind {
    /// A new row.
    Insert,
    /// Whole columns.
    Update,
    /// Elements of sets and maps.
    Mutate,
    /// A row goes.
    Delete,
    /// An expectation.
    Wait,
    /// A lock that must be held.
    Assert,
    /// A line for the log.
    Comment,
    /// Written by hand.
    Raw,
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.kind {
            OpKind::Insert => "insert into",
            OpKind::Update => "update of",
            OpKind::Mutate => "mutation of",
            OpKind::Delete => "deletion from",
            OpKind::Wait => "expectation on",
            OpKind::Assert => "assertion of lock",
            OpKind::Comment => return f.write_str("comment"),
            OpKind::Raw => return f.write_str("operation"),
        };
        write!(f, "{verb} {}", self.target)?;
        match self.row {
            Some(row) => write!(f, " {row}"),
            None => Ok(()),
        }
    }
}

impl Transaction {
    /// One that does nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Inserts a row under this UUID. A row that already has it makes the transaction fail.
    ///
    /// Columns that have the protocol's default (empty, zero, false) are not mentioned.
    pub fn insert<T: Table>(&mut self, row: impl Into<Ref<T>>, value: &T) -> &mut Self {
        let uuid = row.into().uuid();
        let columns = compose::insert(&mut self.text, uuid, value);
        self.names::<T>(columns);
        self.push(OpKind::Insert, Str::new_static(T::TABLE), Some(uuid))
    }

    /// Takes a row from `before` to `after`: whole columns where they hold one value, element by element where they
    /// hold many. Nothing is written where nothing differs.
    ///
    /// A row that is gone by then is not an error of its own, see [`Committed::missed`](super::Committed::missed) and
    /// [`Transaction::expect_exists`].
    pub fn update<T: Table>(&mut self, row: impl Into<Ref<T>>, before: &T, after: &T) -> &mut Self {
        let row = row.into();
        let mut whole = ColumnSet::EMPTY;
        let mut mutations: SmallVec<[(&str, Mutation); 4]> = SmallVec::new();
        let differing = before.differing(after);
        for at in differing.iter() {
            match before.mutation(at, after) {
                None => whole.insert(at),
                Some(mutation) => mutations.push((T::COLUMNS[at].name, mutation)),
            }
        }
        self.write(row, after, whole);
        if !mutations.is_empty() {
            compose::mutate(&mut self.text, T::TABLE, row.uuid(), mutations.into_iter());
            self.names::<T>(differing);
            self.push(OpKind::Mutate, Str::new_static(T::TABLE), Some(row.uuid()));
        }
        self
    }

    /// Writes these columns as a whole, sets and maps included: what others put there goes.
    pub fn write<T: Table>(&mut self, row: impl Into<Ref<T>>, value: &T, columns: ColumnSet) -> &mut Self {
        if columns.is_empty() {
            return self;
        }
        let uuid = row.into().uuid();
        compose::update(&mut self.text, uuid, value, columns);
        self.names::<T>(columns);
        self.push(OpKind::Update, Str::new_static(T::TABLE), Some(uuid))
    }

    /// Puts elements into one set or map column and takes others out.
    ///
    /// Afterwards each key of a map that was put in has the value given, whatever it had before.
    pub fn mutate<T: Table>(
        &mut self,
        row: impl Into<Ref<T>>,
        column: usize,
        mutation: Mutation,
    ) -> &mut Self {
        if mutation.delete.is_empty() && mutation.insert.is_empty() {
            return self;
        }
        let uuid = row.into().uuid();
        let mutations = std::iter::once((T::COLUMNS[column].name, mutation));
        compose::mutate(&mut self.text, T::TABLE, uuid, mutations);
        self.names::<T>([column].into_iter().collect());
        self.push(OpKind::Mutate, Str::new_static(T::TABLE), Some(uuid))
    }

    /// Deletes a row.
    pub fn delete<T: Table>(&mut self, row: impl Into<Ref<T>>) -> &mut Self {
        let uuid = row.into().uuid();
        self.database.get_or_insert(T::DATABASE);
        compose::delete(&mut self.text, T::TABLE, uuid);
        self.push(OpKind::Delete, Str::new_static(T::TABLE), Some(uuid))
    }

    /// Makes the transaction fail as a conflict unless these columns of the row still have these values. Columns that
    /// are only written, and those the server does not have, are not compared.
    pub fn expect<T: Table>(&mut self, row: impl Into<Ref<T>>, value: &T, columns: ColumnSet) -> &mut Self {
        let compared = columns.iter().filter(|at| !T::COLUMNS[*at].write_only);
        let columns = compared.map(|at| (T::COLUMNS[at].name, value.datum(at))).collect();
        self.database.get_or_insert(T::DATABASE);
        let row = row.into().uuid();
        let label = Label { kind: OpKind::Wait, target: Str::new_static(T::TABLE), row: Some(row) };
        self.ops.push(Op { label, body: Body::Expect { row, columns } });
        self
    }

    /// Makes the transaction fail as a conflict unless the row exists.
    pub fn expect_exists<T: Table>(&mut self, row: impl Into<Ref<T>>) -> &mut Self {
        self.expect(row, &T::default(), ColumnSet::EMPTY)
    }

    /// Makes the transaction fail as a conflict if the row exists.
    pub fn expect_absent<T: Table>(&mut self, row: impl Into<Ref<T>>) -> &mut Self {
        let uuid = row.into().uuid();
        self.database.get_or_insert(T::DATABASE);
        compose::expect_absent(&mut self.text, T::TABLE, uuid);
        self.push(OpKind::Wait, Str::new_static(T::TABLE), Some(uuid))
    }

    /// Makes the transaction fail as a conflict unless exactly these rows have this value in the column, which the server
    /// must have.
    pub fn expect_rows<T: Table>(
        &mut self,
        column: usize,
        value: &impl ColumnType,
        rows: &[Ref<T>],
    ) -> &mut Self {
        let rows: Vec<Uuid> = rows.iter().map(|row| row.uuid()).collect();
        compose::expect_rows(&mut self.text, T::TABLE, T::COLUMNS[column].name, &value.to_datum(), &rows);
        self.names::<T>([column].into_iter().collect());
        self.push(OpKind::Wait, Str::new_static(T::TABLE), None)
    }

    /// Makes the transaction fail unless this connection holds the lock.
    pub fn assert_lock(&mut self, lock: &str) -> &mut Self {
        compose::assert(&mut self.text, lock);
        self.push(OpKind::Assert, lock.into(), None)
    }

    /// Leaves a line in the server's log of the transaction.
    pub fn comment(&mut self, comment: &str) -> &mut Self {
        compose::comment(&mut self.text, comment);
        self.push(OpKind::Comment, Str::default(), None)
    }

    /// An operation written by hand: an object as RFC 7047 section 5.2 describes.
    pub fn raw(&mut self, op: &impl Serialize) -> &mut Self {
        write::json(&mut self.text, op);
        self.push(OpKind::Raw, Str::default(), None)
    }

    /// How many operations.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether it does nothing.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// About how many bytes it takes on the wire.
    pub fn size(&self) -> usize {
        self.text.len() + self.ops.len()
    }

    /// The database its tables are in, when it names any.
    pub fn database(&self) -> Option<&'static str> {
        self.database
    }

    /// Adds what another transaction does behind what this one does.
    pub fn append(&mut self, other: &Transaction) -> &mut Self {
        let offset = self.text.len();
        self.text.extend_from_slice(&other.text);
        self.ops.extend(other.ops.iter().cloned().map(|mut op| {
            if let Body::Text { end } = &mut op.body {
                *end += offset;
            }
            op
        }));
        for named in &other.named {
            self.note(named.clone());
        }
        self.database = self.database.or(other.database);
        self
    }

    /// The operations as text, for a server that lacks the columns for which `lacks` holds: it is given a table and a
    /// column by their names, as several structs may stand for one table.
    pub fn compose(&self, lacks: impl Fn(&str, &str) -> bool) -> Result<Composed, CommitError> {
        for named in &self.named {
            let mut names = named.columns.iter().map(|at| named.specs[at].name);
            if let Some(column) = names.find(|column| lacks(named.table, column)) {
                return Err(CommitError::Unsupported {
                    table: Str::new_static(named.table),
                    column: Str::new_static(column),
                });
            }
        }
        let mut out = Vec::with_capacity(self.text.len() + 256 * (self.ops.len() / 8) + self.ops.len());
        let mut begin = 0;
        for (at, op) in self.ops.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            match &op.body {
                Body::Text { end } => {
                    out.extend_from_slice(&self.text[begin..*end]);
                    begin = *end;
                }
                Body::Expect { row, columns } => {
                    let there = columns.iter().filter(|(name, _)| !lacks(&op.label.target, name));
                    let there = there.map(|(name, datum)| (*name, datum));
                    compose::expect_row(&mut out, &op.label.target, *row, there);
                }
            }
        }
        let text = String::from_utf8(out).expect("JSON of ours is UTF-8");
        Ok(Composed { text, labels: self.ops.iter().map(|op| op.label.clone()).collect() })
    }

    fn push(&mut self, kind: OpKind, target: Str, row: Option<Uuid>) -> &mut Self {
        self.ops.push(Op { label: Label { kind, target, row }, body: Body::Text { end: self.text.len() } });
        self
    }

    fn names<T: Table>(&mut self, columns: ColumnSet) {
        self.database.get_or_insert(T::DATABASE);
        self.note(Named { table: T::TABLE, specs: T::COLUMNS, columns });
    }

    fn note(&mut self, named: Named) {
        if named.columns.is_empty() {
            return;
        }
        match self.named.iter_mut().find(|known| known.table == named.table) {
            // Two structs may stand for one table; their positions differ, so they are kept apart.
            Some(known) if std::ptr::eq(known.specs, named.specs) => {
                known.columns = known.columns.or(named.columns);
            }
            _ => self.named.push(named),
        }
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ops.iter().map(|op| op.label.to_string())).finish()
    }
}

/// Operations as they are sent, with what each of them does.
#[derive(Clone, Debug)]
pub struct Composed {
    /// The operations, separated by commas, without the brackets around them.
    pub text: String,
    /// What each operation does.
    pub labels: Vec<Label>,
}
