//! One process per database file.
//!
//! SQLite lets several processes write to one file, but each server keeps the whole content in memory. A second server would not see the
//! first one's changes, and as the writer of the Northbound it would delete the rows of all objects that it does not know. So a server
//! holds two locks for as long as it runs:
//!
//! * one on a file beside the database. `meridian restore` replaces the database itself, so that its path needs a lock, too;
//! * one on the database. A hard link or a bind mount is another path to the same file, with another file beside it.
//!
//! A lock belongs to the open file: the kernel releases it however the process ends, and no stale lock is ever left. SQLite
//! takes locks of another kind on the database (`fcntl`), and the two kinds do not see each other.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::engine::StoreError;
use super::private;

/// Time limit for a server that is just ending to release the lock.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(10);

/// The two locks of a database file, released on drop. Close the database before that: a process that closes any descriptor of a file loses
/// all of SQLite's locks on it.
#[derive(Debug)]
pub(super) struct FileLock {
    _database: File,
    _beside: File,
}

impl FileLock {
    /// Locks a database for this process. The error names the process that holds the lock.
    pub(super) fn take(database: &Path) -> Result<Self, StoreError> {
        let tried = || format!("lock the database {} for this process", database.display());
        let unusable = |error: io::Error| StoreError::Refused { tried: tried(), source: error.into() };
        let mut file =
            private::create_file(database).and_then(|()| open(&lock_path(database)?)).map_err(unusable)?;
        let in_use = |pid: Option<u32>| {
            let holder = pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"));
            StoreError::InUse { path: database.to_owned(), holder }
        };
        match try_for(PATIENCE, || file.try_lock()) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use(pid(&mut file))),
            Err(TryLockError::Error(error)) => return Err(unusable(error)),
        }
        let itself = File::open(database).map_err(unusable)?;
        match try_for(PATIENCE, || itself.try_lock()) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use(kernel_pid(&itself))),
            Err(TryLockError::Error(error)) => return Err(unusable(error)),
        }
        // The PID is only for error messages; the lock works without it.
        let noted = file.set_len(0).and_then(|()| file.rewind());
        let noted = noted.and_then(|()| writeln!(file, "{}", std::process::id()));
        noted.map_err(unusable)?;
        Ok(FileLock { _database: itself, _beside: file })
    }
}

/// Retries until the lock is taken or the time is up.
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

/// `api.db.lock` beside `api.db`, after resolving symbolic links, so that a file has one lock under all its names.
fn lock_path(database: &Path) -> io::Result<PathBuf> {
    let mut path = std::fs::canonicalize(database)?.into_os_string();
    path.push(".lock");
    Ok(path.into())
}

/// Only the owner may open the lock file: anybody who can open it can hold the lock and keep the server from starting.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// The process that holds the lock, from the PID that it wrote into the lock file.
fn pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// The process that holds the lock of a file, as the kernel lists it. It also finds a process that opened the database under another path,
/// whose lock file is elsewhere.
fn kernel_pid(file: &File) -> Option<u32> {
    let inode = file.metadata().ok()?.ino();
    holder(&std::fs::read_to_string("/proc/locks").ok()?, inode)
}

/// Reads lines such as `3: FLOCK  ADVISORY  WRITE 4711 fe:01:131099 0 EOF`, and compares only the inode. The device numbers here are not
/// always those of the file. Two file systems may use the same inode, and then the error names the wrong process, no more.
fn holder(locks: &str, inode: u64) -> Option<u32> {
    let inode = inode.to_string();
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_, "FLOCK", _, "WRITE", pid, file, ..] if file.rsplit(':').next() == Some(&inode) => {
                pid.parse().ok().filter(|pid| *pid > 0)
            }
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_lock_is_found_in_the_kernels_list() {
        let locks = "1: POSIX  ADVISORY  WRITE 10 fe:01:42 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 11 fe:01:421 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 12 fe:01:42 0 EOF\n\
                     3: FLOCK  ADVISORY  READ 13 fe:01:42 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 14 fe:01:42 0 EOF\nnonsense\n";
        assert_eq!(holder(locks, 42), Some(14));
        assert_eq!(holder(locks, 43), None);
        // A process of another container.
        assert_eq!(holder("4: FLOCK ADVISORY WRITE 0 fe:01:42 0 EOF", 42), None);
    }
}
