//! SQLite: a file. Its calls block, so whoever uses it has a thread of its own.

use std::path::Path;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OptionalExtension, ToSql, TransactionBehavior};
use uuid::Uuid;

use super::columns::{self, Statement, Value};
use super::engine::{Contents, Decide, Missed, StoreError};
use super::{private, schema};
use crate::world::Kind;

/// An open file.
#[derive(Debug)]
pub(super) struct Sqlite(Connection);

impl Sqlite {
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        connect(path).map(Sqlite)
    }

    pub(super) fn load(&mut self) -> Result<Contents, StoreError> {
        load(&mut self.0)
    }

    pub(super) fn commit(&mut self, known: u64, decide: Decide) -> Result<u64, StoreError> {
        commit(&mut self.0, known, decide)
    }
}

fn connect(path: &Path) -> Result<Connection, StoreError> {
    let tried = || format!("open the database {}", path.display());
    // SQLite gives its log and its index the mode of the file.
    for suffix in ["", "-wal", "-shm"] {
        let mut file = path.as_os_str().to_owned();
        file.push(suffix);
        let file = Path::new(&file);
        let made = if suffix.is_empty() { private::create_file(file) } else { private::tighten(file) };
        made.map_err(|error| StoreError::Refused { tried: tried(), source: error.into() })?;
    }
    let mut connection = Connection::open(path).map_err(|error| failed(tried(), error))?;
    // The log is on disk before a commit returns: an answered request survives a power cut.
    let prepare = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;
        PRAGMA busy_timeout = 5000;";
    connection.execute_batch(prepare).map_err(|error| failed(tried(), error))?;
    connection.set_prepared_statement_cache_capacity(128);
    migrate(&mut connection)?;
    Ok(connection)
}

fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    let tried = || "bring the tables up to date".to_owned();
    let txn = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(|error| failed(tried(), error))?;
    txn.execute_batch(schema::VERSION_TABLE).map_err(|error| failed(tried(), error))?;
    let version: Option<i64> = txn
        .query_row("SELECT version FROM schema_version", [], |row| row.get(0))
        .optional()
        .map_err(|error| failed(tried(), error))?;
    let known = schema::STEPS.len() as i64;
    let found = version.unwrap_or(0);
    if found > known {
        return Err(StoreError::Newer { found, known });
    }
    for step in &schema::STEPS[usize::try_from(found).unwrap_or(0)..] {
        txn.execute_batch(step).map_err(|error| failed(tried(), error))?;
    }
    txn.execute("DELETE FROM schema_version", []).map_err(|error| failed(tried(), error))?;
    txn.execute("INSERT INTO schema_version (version) VALUES ($1)", [known])
        .map_err(|error| failed(tried(), error))?;
    txn.commit().map_err(|error| failed(tried(), error))
}

fn load(connection: &mut Connection) -> Result<Contents, StoreError> {
    let tried = || "read the database".to_owned();
    let txn = connection.transaction().map_err(|error| failed(tried(), error))?;
    let mut contents = Contents { seq: read_seq(&txn)?, rows: Vec::new() };
    for kind in Kind::ALL {
        let mut statement =
            txn.prepare(&schema::select_all(*kind)).map_err(|error| failed(tried(), error))?;
        let mut rows = statement.query([]).map_err(|error| failed(tried(), error))?;
        while let Some(row) = rows.next().map_err(|error| failed(tried(), error))? {
            let key: String = row.get(0).map_err(|error| failed(tried(), error))?;
            let body: String = row.get(1).map_err(|error| failed(tried(), error))?;
            let entity = kind.read(&body).map_err(|source| StoreError::Unreadable {
                table: kind.table(),
                key,
                source: source.into(),
            })?;
            contents.rows.push(entity);
        }
    }
    Ok(contents)
}

fn commit(connection: &mut Connection, known: u64, decide: Decide) -> Result<u64, StoreError> {
    let tried = || "write to the database".to_owned();
    let txn = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(|error| failed(tried(), error))?;
    let found = read_seq(&txn)?;
    if found != known {
        // The file is ours alone; a different number means that somebody else has it open.
        let why = format!("it is at change {found} instead of {known}: another process writes to it");
        return Err(StoreError::Refused { tried: tried(), source: why.into() });
    }
    let changes = decide(Missed::Changes { seq: known, changes: Vec::new() });
    if changes.is_empty() {
        return Ok(known);
    }
    let seq = known + 1;
    for statement in columns::statements(seq, Uuid::new_v4(), &changes) {
        run(&txn, &statement).map_err(|error| failed(tried(), error))?;
    }
    txn.commit().map_err(|error| failed(tried(), error))?;
    Ok(seq)
}

fn read_seq(connection: &Connection) -> Result<u64, StoreError> {
    let statement = connection.prepare_cached("SELECT seq FROM state WHERE one = 1");
    let read = statement.and_then(|mut statement| statement.query_row([], |row| row.get::<_, i64>(0)));
    let seq = read.map_err(|error| failed("read the state of the database".into(), error))?;
    Ok(u64::try_from(seq).unwrap_or(0))
}

fn run(connection: &Connection, statement: &Statement) -> rusqlite::Result<()> {
    let mut prepared = connection.prepare_cached(&statement.sql)?;
    prepared.execute(rusqlite::params_from_iter(&statement.values)).map(drop)
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Value::Text(Some(text)) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Value::Text(None) => ToSqlOutput::Borrowed(ValueRef::Null),
            Value::Number(number) => ToSqlOutput::Owned((*number).into()),
            Value::Flag(flag) => ToSqlOutput::Owned((*flag).into()),
        })
    }
}

fn failed(tried: String, error: rusqlite::Error) -> StoreError {
    let refused = match error.sqlite_error_code() {
        Some(
            ErrorCode::ConstraintViolation
            | ErrorCode::TypeMismatch
            | ErrorCode::PermissionDenied
            | ErrorCode::NotADatabase
            | ErrorCode::ReadOnly,
        ) => true,
        Some(_) => false,
        None => true,
    };
    let source = Box::new(error);
    if refused { StoreError::Refused { tried, source } } else { StoreError::Unavailable { tried, source } }
}
