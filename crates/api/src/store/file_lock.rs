//! One process per database file.
//!
//! SQLite lets several processes write to one file, but each server keeps the whole content in memory: a second server would
//! not see what the first one writes, and as the writer of the Northbound it would delete the rows of all objects that it has
//! never heard of. So a server holds a lock on a file beside the database for as long as it runs. The lock belongs to the
//! open file and not to the path: the kernel releases it however the process ends, and no stale lock is ever left.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::engine::StoreError;
use super::private;

/// How long a server that is just ending may still hold the lock.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(10);

/// The lock of a database file; released when it is dropped.
#[derive(Debug)]
pub(super) struct FileLock {
    _file: File,
}

impl FileLock {
    /// Locks a database for this process, or tells which process has it.
    pub(super) fn take(database: &Path) -> Result<Self, StoreError> {
        let tried = || format!("lock the database {} for this process", database.display());
        let unusable = |error: io::Error| StoreError::Refused { tried: tried(), source: error.into() };
        let mut file =
            private::create_file(database).and_then(|()| open(&lock_path(database)?)).map_err(unusable)?;
        match try_for(PATIENCE, || file.try_lock()) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let holder = match pid(&mut file) {
                    Some(pid) => format!("process {pid}"),
                    None => "another process".to_owned(),
                };
                return Err(StoreError::InUse { path: database.to_owned(), holder });
            }
            Err(TryLockError::Error(error)) => return Err(unusable(error)),
        }
        // The number is for people; the lock works without it.
        let noted = file.set_len(0).and_then(|()| file.rewind());
        let noted = noted.and_then(|()| writeln!(file, "{}", std::process::id()));
        noted.map_err(unusable)?;
        Ok(FileLock { _file: file })
    }
}

/// Tries until it works or the time is up.
fn try_for(
    patience: Duration,
    mut attempt: impl FnMut() -> Result<(), TryLockError>,
) -> Result<(), TryLockError> {
    let give_up = Instant::now() + patience;
    loop {
        match attempt() {
            Err(TryLockError::WouldBlock) if Instant::now() < give_up => std::thread::sleep(PAUSE),
            done => return done,
        }
    }
}

/// `api.db.lock` beside `api.db`, wherever symbolic links lead, so that one file has one lock under all its names.
fn lock_path(database: &Path) -> io::Result<PathBuf> {
    let mut path = std::fs::canonicalize(database)?.into_os_string();
    path.push(".lock");
    Ok(path.into())
}

/// Only its owner may open the file: whoever can open it can hold the lock and so keep the server from starting.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// The process that holds the lock, as it noted itself.
fn pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
