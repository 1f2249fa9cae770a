//! Programs of other packages: where they are, and what they say.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Finds a program on the PATH, or in the directories of system programs that a user's PATH often leaves out.
pub fn find_program(name: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/bin", "/sbin"].map(|dir| Path::new(dir).to_path_buf()))
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
        .with_context(|| format!("cannot find the program `{name}`: install its Debian package"))
}

/// A command as one would type it.
pub(crate) fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Runs a command to its end and gives what it printed; what it complained about is in the error.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let out = command.output().with_context(|| format!("cannot run `{}`", shown(command)))?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        bail!("`{}` failed ({}): {}", shown(command), out.status, said.trim());
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}
