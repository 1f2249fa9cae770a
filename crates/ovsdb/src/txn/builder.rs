//! The typed builder of a transaction.
//!
//! The writer chooses the UUIDs of rows, so references need no placeholders, and a second attempt collides with the first instead of
//! creating a duplicate. Updates contain only columns that differ, and of sets and maps only the elements that differ, so foreign content
//! stays. The builder writes the JSON during the calls, in their order.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;

use smallvec::SmallVec;
use uuid::Uuid;

use super::compose;
use super::filter::RowFilter;
use super::outcome::CommitError;
use crate::model::Mutation;
use crate::model::{Column, ColumnSet, ColumnSpec, ColumnType, Ref, Str, Table, TableColumns};
use crate::wire::datum::Datum;

/// A transaction to be committed, all or nothing.
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
#[must_use = "a transaction does nothing until a client commits it"]
pub struct Transaction {
    database: Option<&'static str>,
    text: Vec<u8>,
    ops: Vec<Op>,
    named: SmallVec<[NamedColumns; 2]>,
    /// UUIDs that represent rows whose UUID the server chooses.
    placeholders: Vec<Uuid>,
}

/// One operation: finished JSON, or an expectation whose columns depend on the server's schema.
#[derive(Clone)]
struct Op {
    label: Label,
    body: Body,
}

#[derive(Clone)]
enum Body {
    /// JSON that ends at this position of the buffer and begins at the end of the previous operation.
    Text {
        end: usize,
    },
    Expect {
        row: Uuid,
        columns: Vec<(&'static str, Datum)>,
    },
}

/// Columns of a table that the transaction cannot do without: those that it writes or selects by.
#[derive(Clone)]
struct NamedColumns {
    table: &'static str,
    specs: &'static [ColumnSpec],
    columns: ColumnSet,
}

/// The description of an operation, for errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The kind of operation.
    pub kind: OpKind,
    /// The table; for `assert` the lock's name; empty if it is unknown.
    pub target: Str,
    /// The row.
    pub row: Option<Uuid>,
}

/// The kinds of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OpKind {
    /// A new row.
    Insert,
    /// Whole columns.
    Update,
    /// Elements of sets and maps.
    Mutate,
    /// A row is deleted.
    Delete,
    /// An expectation.
    Wait,
    /// A lock that must be held.
    Assert,
    /// A line for the log.
    Comment,
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
        };
        write!(f, "{verb} {}", self.target)?;
        match self.row {
            Some(row) => write!(f, " {row}"),
            None => Ok(()),
        }
    }
}

impl Transaction {
    /// An empty transaction.
    pub fn new() -> Self {
        Self::default()
    }

    /// Inserts a row whose UUID the server chooses, for servers that do not let the client choose. In this transaction the placeholder
    /// represents it: a reference with that UUID becomes a reference to the new row.
    pub fn insert_unnumbered<T: Table>(&mut self, placeholder: Ref<T>, value: &T) -> &mut Self {
        let columns = compose::insert(&mut self.text, placeholder.uuid(), value);
        self.names::<T>(columns);
        self.placeholders.push(placeholder.uuid());
        self.push(OpKind::Insert, Str::new_static(T::TABLE), None)
    }

    /// Inserts a row under this UUID. If a row already has this UUID, the transaction fails.
    ///
    /// Columns with the protocol's default (empty, zero, false) are omitted.
    pub fn insert<T: Table>(&mut self, row: impl Into<Ref<T>>, value: &T) -> &mut Self {
        let uuid = row.into().uuid();
        let columns = compose::insert(&mut self.text, uuid, value);
        self.names::<T>(columns);
        self.push(OpKind::Insert, Str::new_static(T::TABLE), Some(uuid))
    }

    /// Updates a row from `before` to `after`: columns with a single value as a whole, sets and maps element by element. Nothing is written
    /// if nothing differs.
    ///
    /// A row that was deleted meanwhile is not an error of its own, see [`Committed::missed`](super::Committed::missed) and
    /// [`Transaction::expect_some`].
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
        self.write_set(row, after, whole);
        if !mutations.is_empty() {
            compose::mutate(&mut self.text, T::TABLE, row.uuid(), mutations.into_iter());
            self.names::<T>(differing);
            self.push(OpKind::Mutate, Str::new_static(T::TABLE), Some(row.uuid()));
        }
        self
    }

    /// Writes these columns as a whole, sets and maps included: foreign elements are lost.
    pub fn write<T: Table>(
        &mut self,
        row: impl Into<Ref<T>>,
        value: &T,
        columns: impl Into<TableColumns<T>>,
    ) -> &mut Self {
        self.write_set(row.into(), value, columns.into().positions())
    }

    fn write_set<T: Table>(&mut self, row: Ref<T>, value: &T, columns: ColumnSet) -> &mut Self {
        if columns.is_empty() {
            return self;
        }
        let uuid = row.uuid();
        compose::update(&mut self.text, uuid, value, columns);
        self.names::<T>(columns);
        self.push(OpKind::Update, Str::new_static(T::TABLE), Some(uuid))
    }

    /// Adds elements to one set or map column and removes others.
    ///
    /// Afterwards each added key of a map has the given value, regardless of its previous one.
    pub(crate) fn mutate<T: Table, V: ColumnType>(
        &mut self,
        row: impl Into<Ref<T>>,
        column: Column<T, V>,
        mutation: Mutation,
    ) -> &mut Self {
        if mutation.delete.is_empty() && mutation.insert.is_empty() {
            return self;
        }
        let uuid = row.into().uuid();
        let mutations = std::iter::once((column.name(), mutation));
        compose::mutate(&mut self.text, T::TABLE, uuid, mutations);
        self.names::<T>(TableColumns::from(column).positions());
        self.push(OpKind::Mutate, Str::new_static(T::TABLE), Some(uuid))
    }

    /// Adds these elements to a set or map column. Existing keys get the new value.
    pub fn put<T: Table, V: ColumnType>(
        &mut self,
        row: impl Into<Ref<T>>,
        column: Column<T, V>,
        elements: &V,
    ) -> &mut Self {
        self.mutate(row, column, Mutation { insert: elements.to_datum(), ..Mutation::default() })
    }

    /// Adds these elements to a set or map column of every selected row.
    pub fn put_where<T: Table, V: ColumnType>(
        &mut self,
        rows: &RowFilter<T>,
        column: Column<T, V>,
        elements: &V,
    ) -> &mut Self {
        compose::put_where(&mut self.text, T::TABLE, rows.clauses(), column.name(), elements.to_datum());
        self.names::<T>(rows.columns().or(TableColumns::from(column).positions()));
        self.push(OpKind::Mutate, Str::new_static(T::TABLE), None)
    }

    /// Adds to a number, regardless of its current value.
    pub fn add<T: Table>(
        &mut self,
        row: impl Into<Ref<T>>,
        column: Column<T, i64>,
        amount: i64,
    ) -> &mut Self {
        let uuid = row.into().uuid();
        compose::add(&mut self.text, T::TABLE, uuid, column.name(), amount);
        self.names::<T>(TableColumns::from(column).positions());
        self.push(OpKind::Mutate, Str::new_static(T::TABLE), Some(uuid))
    }

    /// Deletes every selected row.
    pub fn delete_where<T: Table>(&mut self, rows: &RowFilter<T>) -> &mut Self {
        compose::delete_where(&mut self.text, T::TABLE, rows.clauses());
        self.names::<T>(rows.columns());
        self.push(OpKind::Delete, Str::new_static(T::TABLE), None)
    }

    /// Makes the transaction fail as a conflict unless the filter selects at least one row.
    pub fn expect_some<T: Table>(&mut self, rows: &RowFilter<T>) -> &mut Self {
        compose::expect_some(&mut self.text, T::TABLE, rows.clauses());
        self.names::<T>(rows.columns());
        self.push(OpKind::Wait, Str::new_static(T::TABLE), None)
    }

    /// Deletes a row.
    pub fn delete<T: Table>(&mut self, row: impl Into<Ref<T>>) -> &mut Self {
        let uuid = row.into().uuid();
        self.database.get_or_insert(T::DATABASE);
        compose::delete(&mut self.text, T::TABLE, uuid);
        self.push(OpKind::Delete, Str::new_static(T::TABLE), Some(uuid))
    }

    /// Makes the transaction fail as a conflict unless these columns of the row still have these values. Columns that are write-only, and
    /// those that the server lacks, are not compared.
    pub(crate) fn expect<T: Table>(
        &mut self,
        row: impl Into<Ref<T>>,
        value: &T,
        columns: impl Into<TableColumns<T>>,
    ) -> &mut Self {
        let columns = columns.into().positions();
        let compared = columns.iter().filter(|at| !T::COLUMNS[*at].write_only);
        let columns = compared.map(|at| (T::COLUMNS[at].name, value.datum(at))).collect();
        self.database.get_or_insert(T::DATABASE);
        let row = row.into().uuid();
        let label = Label { kind: OpKind::Wait, target: Str::new_static(T::TABLE), row: Some(row) };
        self.ops.push(Op { label, body: Body::Expect { row, columns } });
        self
    }

    /// Makes the transaction fail as a conflict if the row exists.
    pub(crate) fn expect_absent<T: Table>(&mut self, row: impl Into<Ref<T>>) -> &mut Self {
        let uuid = row.into().uuid();
        self.database.get_or_insert(T::DATABASE);
        compose::expect_absent(&mut self.text, T::TABLE, uuid);
        self.push(OpKind::Wait, Str::new_static(T::TABLE), Some(uuid))
    }

    /// Makes the transaction fail as a conflict unless exactly these rows have this value in the column, which the server
    /// must have.
    pub(crate) fn expect_rows<T: Table, V: ColumnType>(
        &mut self,
        column: Column<T, V>,
        value: &V,
        rows: &[Ref<T>],
    ) -> &mut Self {
        let rows: Vec<Uuid> = rows.iter().map(|row| row.uuid()).collect();
        compose::expect_rows(&mut self.text, T::TABLE, column.name(), &value.to_datum(), &rows);
        self.names::<T>(TableColumns::from(column).positions());
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

    /// The number of operations.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether the transaction is empty.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// The approximate number of bytes on the wire.
    pub fn size(&self) -> usize {
        self.text.len() + self.ops.len()
    }

    /// The database of its tables; `None` if it names no table.
    pub fn database(&self) -> Option<&'static str> {
        self.database
    }

    /// Appends the operations of another transaction.
    pub(crate) fn append(&mut self, other: &Transaction) -> &mut Self {
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
        self.placeholders.extend_from_slice(&other.placeholders);
        self.database = self.database.or(other.database);
        self
    }

    /// The operations as JSON, for a server that lacks the columns for which `lacks` is true. `lacks` gets the names of a table and a
    /// column, because several structs may describe one table.
    pub fn compose(&self, lacks: impl Fn(&str, &str) -> bool) -> Result<ComposedTransaction, CommitError> {
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
        let mut text = String::from_utf8(out).expect("JSON of ours is UTF-8");
        // Quotes inside of strings are escaped, so only UUIDs match this pattern.
        for uuid in &self.placeholders {
            let name = format!("row{}", uuid.simple());
            text = text.replace(&format!(r#""uuid":"{uuid}""#), &format!(r#""uuid-name":"{name}""#));
            text = text.replace(&format!(r#"["uuid","{uuid}"]"#), &format!(r#"["named-uuid","{name}"]"#));
        }
        Ok(ComposedTransaction { text, labels: self.ops.iter().map(|op| op.label.clone()).collect() })
    }

    pub(super) fn text_mut(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }

    pub(super) fn push(&mut self, kind: OpKind, target: Str, row: Option<Uuid>) -> &mut Self {
        self.ops.push(Op { label: Label { kind, target, row }, body: Body::Text { end: self.text.len() } });
        self
    }

    fn names<T: Table>(&mut self, columns: ColumnSet) {
        self.database.get_or_insert(T::DATABASE);
        self.note(NamedColumns { table: T::TABLE, specs: T::COLUMNS, columns });
    }

    fn note(&mut self, named: NamedColumns) {
        if named.columns.is_empty() {
            return;
        }
        match self.named.iter_mut().find(|known| known.table == named.table) {
            // Two structs may describe one table. Their column positions differ, so they are kept apart.
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

/// The operations of a request, with the label of each.
#[derive(Clone, Debug)]
pub struct ComposedTransaction {
    /// The operations, separated by commas, without the brackets around them.
    pub text: String,
    /// The description of each operation.
    pub labels: Vec<Label>,
}
