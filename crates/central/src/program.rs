//! Programs of other packages: finding them, running them, and reading their output.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Finds a program on the PATH, or in the directories of system programs that a user's PATH often lacks.
pub fn find_program(name: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/bin", "/sbin"].map(|dir| Path::new(dir).to_path_buf()))
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
        .ok_or_else(|| MissingProgram(name.to_owned()).into())
}

/// A program that is not installed.
#[derive(Debug)]
pub struct MissingProgram(pub String);

impl fmt::Display for MissingProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot find the program `{}`: install its Debian package", self.0)
    }
}

impl std::error::Error for MissingProgram {}

/// A command as a user would type it.
pub(crate) fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Runs a command to its end and returns its standard output. An error contains its standard error.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let out = command.output().with_context(|| format!("cannot run `{}`", shown(command)))?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        bail!("`{}` failed ({}): {}", shown(command), out.status, said.trim());
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}
