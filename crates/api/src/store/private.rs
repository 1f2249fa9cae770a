//! Files and directories that only their owner may read, whatever the umask of the process is.

use std::fs::{DirBuilder, OpenOptions, Permissions, set_permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Creates a directory and its parents for the owner alone. An existing directory keeps its mode: somebody chose it.
pub fn create_dir(path: &Path) -> io::Result<()> {
    match DirBuilder::new().recursive(true).mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        other => other,
    }
}

/// Creates an empty file for the owner alone. If the file exists, removes the permissions of others from it.
///
/// An existing file is not opened: closing it again would release the locks that this process holds on it.
pub fn create_file(path: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => tighten(path),
        Err(error) => Err(error),
    }
}

/// Removes the permissions of others from a file. Only the owner can do that; for any other user the mode stays.
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
