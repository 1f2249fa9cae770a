//! SQLite: one file. Its calls block, so its user runs on a thread of its own.

use std::path::Path;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OptionalExtension, ToSql, TransactionBehavior};
use uuid::Uuid;

use super::columns::{self, SqlValue, Statement};
use super::engine::{Contents, Decide, MissedChanges, StoreError};
use super::file_lock::FileLock;
use super::{private, schema};
use crate::world::{Ancestry, Kind, Revision};

/// An open database file, locked against all other servers.
#[derive(Debug)]
pub(super) struct Sqlite {
    connection: Connection,
    /// Released after the connection is closed: fields are dropped in this order.
    _lock: FileLock,
}

impl Sqlite {
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let lock = FileLock::take(path)?;
        Ok(Sqlite { connection: connect(path)?, _lock: lock })
    }

    /// Writes the log into the file and removes the log. Otherwise a copy of the file alone would be empty or out of date.
    pub(super) fn close(self) -> Result<(), StoreError> {
        close(self.connection)
    }

    pub(super) fn load(&mut self) -> Result<Contents, StoreError> {
        load(&mut self.connection)
    }

    pub(super) fn commit(&mut self, known: Revision, decide: Decide) -> Result<Revision, StoreError> {
        commit(&mut self.connection, known, decide)
    }

    pub(super) fn contains(&mut self, revision: Revision) -> Result<bool, StoreError> {
        match Ancestry::of(revision, read_revision(&self.connection)?) {
            Ancestry::Ancestor => return Ok(true),
            Ancestry::Stranger => return Ok(false),
            Ancestry::Listed => {}
        }
        let key = (i64::try_from(revision.seq).unwrap_or(i64::MAX), revision.batch.to_string());
        let statement = self.connection.prepare_cached(schema::HAS_BATCH);
        let count = statement.and_then(|mut it| it.query_row(key, |row| row.get::<_, i64>(0)));
        let count = count.map_err(|error| failed("look for a transaction of the past".into(), error))?;
        Ok(count > 0)
    }
}

fn connect(path: &Path) -> Result<Connection, StoreError> {
    let tried = || format!("open the database {}", path.display());
    // SQLite gives its log and its index the mode of the database file.
    for suffix in ["", "-wal", "-shm"] {
        let mut file = path.as_os_str().to_owned();
        file.push(suffix);
        let file = Path::new(&file);
        let made = if suffix.is_empty() { private::create_file(file) } else { private::tighten(file) };
        made.map_err(|error| StoreError::Refused { tried: tried(), source: error.into() })?;
    }
    let mut connection = Connection::open(path).map_err(|error| failed(tried(), error))?;
    // The log is on disk before a commit returns, so an answered request survives a power cut.
    let prepare = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;
        PRAGMA busy_timeout = 5000;";
    connection.execute_batch(prepare).map_err(|error| failed(tried(), error))?;
    connection.set_prepared_statement_cache_capacity(128);
    migrate(&mut connection)?;
    Ok(connection)
}

/// Reads a database as a starting server would, and leaves it without a log.
pub(super) fn check(path: &Path) -> Result<(), StoreError> {
    let mut connection = connect(path)?;
    load(&mut connection)?;
    close(connection)
}

/// Writes the log of a database that no process uses into its file, and removes the log.
pub(super) fn checkpoint(path: &Path) -> Result<(), StoreError> {
    let opened = Connection::open(path).map_err(|error| failed(format!("open {}", path.display()), error))?;
    close(opened)
}

fn close(connection: Connection) -> Result<(), StoreError> {
    let tried = || "close the database".to_owned();
    // SQLite does this itself when the last connection closes, but another process may be running a backup.
    connection
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .map_err(|error| failed(tried(), error))?;
    connection.close().map_err(|(_, error)| failed(tried(), error))
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
    let steps = schema::steps();
    let known = steps.len() as i64;
    let found = version.unwrap_or(0);
    if found > known {
        return Err(StoreError::Newer { found, known });
    }
    for step in &steps[usize::try_from(found).unwrap_or(0)..] {
        txn.execute_batch(step).map_err(|error| failed(tried(), error))?;
    }
    txn.execute("DELETE FROM schema_version", []).map_err(|error| failed(tried(), error))?;
    txn.execute("INSERT INTO schema_version (version) VALUES ($1)", [known])
        .map_err(|error| failed(tried(), error))?;
    txn.execute(schema::NAME_STORE, [Uuid::new_v4().to_string()]).map_err(|error| failed(tried(), error))?;
    txn.commit().map_err(|error| failed(tried(), error))
}

fn load(connection: &mut Connection) -> Result<Contents, StoreError> {
    let tried = || "read the database".to_owned();
    let txn = connection.transaction().map_err(|error| failed(tried(), error))?;
    let mut contents = Contents { revision: read_revision(&txn)?, rows: Vec::new() };
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

fn commit(connection: &mut Connection, known: Revision, decide: Decide) -> Result<Revision, StoreError> {
    let tried = || "write to the database".to_owned();
    let txn = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(|error| failed(tried(), error))?;
    let found = read_revision(&txn)?;
    if found != known {
        // Our lock keeps out other servers, but not an operator's `sqlite3`.
        let why = format!(
            "it is at change {} instead of {}: another program writes to it; stop that program and restart this server",
            found.seq, known.seq
        );
        return Err(StoreError::Refused { tried: tried(), source: why.into() });
    }
    let changes = decide(MissedChanges::Changes { revision: known, changes: Vec::new() });
    if changes.is_empty() {
        return Ok(known);
    }
    let next = Revision { seq: known.seq + 1, batch: Uuid::new_v4(), ..known };
    for statement in columns::statements(next, &changes) {
        run(&txn, &statement).map_err(|error| failed(tried(), error))?;
    }
    txn.commit().map_err(|error| failed(tried(), error))?;
    Ok(next)
}

fn read_revision(connection: &Connection) -> Result<Revision, StoreError> {
    let statement = connection.prepare_cached(schema::REVISION);
    let read = statement.and_then(|mut statement| {
        let columns = |row: &rusqlite::Row<'_>| {
            let (store, batch): (String, String) = (row.get(0)?, row.get(2)?);
            Ok(schema::revision(&store, row.get(1)?, &batch))
        };
        statement.query_row([], columns)
    });
    read.map_err(|error| failed("read the state of the database".into(), error))
}

fn run(connection: &Connection, statement: &Statement) -> rusqlite::Result<()> {
    let mut prepared = connection.prepare_cached(&statement.sql)?;
    prepared.execute(rusqlite::params_from_iter(&statement.values)).map(drop)
}

impl ToSql for SqlValue {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            SqlValue::Text(Some(text)) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            SqlValue::Text(None) => ToSqlOutput::Borrowed(ValueRef::Null),
            SqlValue::Number(number) => ToSqlOutput::Owned((*number).into()),
            SqlValue::Flag(flag) => ToSqlOutput::Owned((*flag).into()),
        })
    }
}

pub(super) fn failed(tried: String, error: rusqlite::Error) -> StoreError {
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
