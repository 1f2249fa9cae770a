//! Files and directories that nobody but their owner may read, whatever the umask of the process is.

use std::fs::{DirBuilder, OpenOptions, Permissions, set_permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Creates a directory, with those above it, for the owner alone. One that is there stays as it is: its mode was somebody's choice.
pub fn create_dir(path: &Path) -> io::Result<()> {
    match DirBuilder::new().recursive(true).mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        other => other,
    }
}

/// Creates an empty file for the owner alone, or takes the rights of others from one that is there.
///
/// A file that is there is not opened: to close it again would give up the locks that this process has on it.
pub fn create_file(path: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => tighten(path),
        Err(error) => Err(error),
    }
}

/// Takes the rights of others from a file. Only its owner can; whoever else may use it has no say in its mode.
pub fn tighten(path: &Path) -> io::Result<()> {
    match std::fs::metadata(path) {
        Ok(found) if found.permissions().mode() & 0o077 != 0 => {
            match set_permissions(path, Permissions::from_mode(0o600)) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
                other => other,
            }
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
