//! Copies of a SQLite store: a backup while its server runs, and a restore while no server does.
//!
//! A copy is one file, without a write-ahead log beside it. A rename puts it in place, so that nobody ever finds half a copy there.
//! PostgreSQL has tools of its own for this.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::engine::StoreError;
use super::file_lock::FileLock;
use super::private;
use super::sqlite;

/// The outcome of `restore`: the change that the store is at now, and the database that was replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreReport {
    /// The number of the last change in the backup.
    pub seq: u64,
    /// The previous database, under its new name.
    pub replaced: Option<PathBuf>,
}

/// Copies a database to a new file that only its owner may read. Returns the number of the last change in it.
///
/// The database may be in use: SQLite gives readers one consistent state, and writers do not wait for them.
pub fn back_up(database: &Path, file: &Path) -> Result<u64, StoreError> {
    let tried = || format!("copy {} to {}", database.display(), file.display());
    let refused = |error: io::Error| StoreError::Refused { tried: tried(), source: error.into() };
    if file.symlink_metadata().is_ok() {
        return Err(refused(io::Error::new(io::ErrorKind::AlreadyExists, "the file is there already")));
    }
    // Not SQLITE_OPEN_READ_ONLY: only a connection that may write removes the log that a killed server left.
    let source = open(database, OpenFlags::SQLITE_OPEN_READ_WRITE, &tried)?;
    let partial = beside(file, ".partial");
    let seq = copy(&source, &partial, &tried)?;
    fs::rename(&partial, file).and_then(|()| sync_dir(file)).map_err(refused)?;
    Ok(seq)
}

/// Replaces a database with a backup and keeps the previous database under another name. Fails while a process uses the database, and if
/// this version cannot read the backup.
pub fn restore(file: &Path, database: &Path) -> Result<RestoreReport, StoreError> {
    let tried = || format!("restore {} to {}", file.display(), database.display());
    let refused = |error: io::Error| StoreError::Refused { tried: tried(), source: error.into() };
    let source = open(file, OpenFlags::SQLITE_OPEN_READ_ONLY, &tried)?;
    let existed = fs::metadata(database).is_ok_and(|found| found.len() > 0);
    let owner = match existed {
        true => fs::metadata(database),
        false => {
            fs::metadata(database.parent().filter(|dir| dir != &Path::new("")).unwrap_or(Path::new(".")))
        }
    };
    let owner = owner.map_err(refused)?;
    let _lock = FileLock::take(database)?;
    let partial = beside(database, ".restoring");
    let seq = copy(&source, &partial, &tried)?;
    // The server would run the same check at its start. A file that it cannot read must not replace one that it can.
    sqlite::check(&partial)?;
    let replaced = existed.then(|| beside(database, ".before-restore"));
    let place = || {
        // Root runs the restore for the server's user, who must be able to open these files.
        for path in [&partial, &beside(database, ".lock")] {
            give(path, &owner)?;
        }
        if let Some(replaced) = &replaced {
            set_aside(database, replaced)?;
        }
        fs::rename(&partial, database)?;
        sync_dir(database)
    };
    place().map_err(refused)?;
    Ok(RestoreReport { seq, replaced })
}

fn open(path: &Path, access: OpenFlags, tried: &impl Fn() -> String) -> Result<Connection, StoreError> {
    // Opened here because SQLite would only report that it is "unable to open" the file, without the cause.
    File::open(path).map_err(|error| StoreError::Refused {
        tried: format!("{}: open {}", tried(), path.display()),
        source: error.into(),
    })?;
    let connection = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX);
    let connection = connection.map_err(|error| sqlite::failed(tried(), error))?;
    connection
        .execute_batch("PRAGMA busy_timeout = 5000;")
        .map_err(|error| sqlite::failed(tried(), error))?;
    let version =
        connection.query_row("SELECT max(version) FROM schema_version", [], |row| row.get::<_, i64>(0));
    match version {
        Ok(1..) => Ok(connection),
        Ok(_) | Err(_) => Err(StoreError::Refused {
            tried: tried(),
            source: format!("{} is not a database of the network API", path.display()).into(),
        }),
    }
}

/// Writes one consistent state of a database to a separate file. Returns the number of the last change in it.
fn copy(source: &Connection, partial: &Path, tried: &impl Fn() -> String) -> Result<u64, StoreError> {
    let refused = |error: io::Error| StoreError::Refused { tried: tried(), source: error.into() };
    let failed = |error| sqlite::failed(tried(), error);
    // An interrupted copy leaves this file.
    match fs::remove_file(partial) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(refused(error)),
        _ => {}
    }
    private::create_file(partial).map_err(refused)?;
    let name = partial.to_str().ok_or_else(|| refused(io::Error::other("the path is not UTF-8")))?;
    let written = source.execute("VACUUM INTO ?1", [name]).map_err(failed);
    let written = written.and_then(|_| {
        let copy = Connection::open_with_flags(partial, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(failed)?;
        let whole: String = copy.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(failed)?;
        if whole != "ok" {
            return Err(refused(io::Error::other(format!("the copy is damaged: {whole}"))));
        }
        copy.query_row("SELECT seq FROM state WHERE one = 1", [], |row| row.get::<_, i64>(0)).map_err(failed)
    });
    // SQLite does not sync the output of VACUUM INTO.
    let synced = written.and_then(|seq| {
        File::open(partial).and_then(|file| file.sync_all()).map_err(refused)?;
        Ok(u64::try_from(seq).unwrap_or(0))
    });
    if synced.is_err() {
        let _ = fs::remove_file(partial);
    }
    synced
}

/// Renames a database that no process uses, with its log if it has one.
fn set_aside(database: &Path, replaced: &Path) -> io::Result<()> {
    // The log goes into the file first, if that works. A damaged database stays as it is: it may be the reason for the restore.
    if let Err(error) = sqlite::checkpoint(database) {
        tracing::warn!(%error, "cannot read the database that is replaced");
    }
    fs::rename(database, replaced)?;
    for (from, to) in [("-wal", Some("-wal")), ("-shm", None)] {
        let from = beside(database, from);
        let gone = match to {
            Some(suffix) => fs::rename(&from, beside(replaced, suffix)),
            None => fs::remove_file(&from),
        };
        match gone {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn give(path: &Path, owner: &fs::Metadata) -> io::Result<()> {
    let found = fs::metadata(path)?;
    if (found.uid(), found.gid()) == (owner.uid(), owner.gid()) {
        return Ok(());
    }
    chown(path, Some(owner.uid()), Some(owner.gid()))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Makes a rename survive a power cut.
fn sync_dir(file: &Path) -> io::Result<()> {
    let dir = file.parent().filter(|dir| dir != &Path::new("")).unwrap_or(Path::new("."));
    File::open(dir)?.sync_all()
}
