//! The INI files of a command that replaces a program of OpenStack.

use std::path::{Path, PathBuf};

use node::ini::Ini;

use crate::failure::{Exit, Failure, Outcome};

/// The flags that name INI files, as in programs that use oslo.config.
#[derive(Debug, Default, clap::Args)]
pub(super) struct IniFiles {
    /// Read this configuration file; if repeated, later files override earlier ones
    #[arg(long, value_name = "FILE")]
    pub(super) config_file: Vec<PathBuf>,
    /// Read the *.conf files of this directory in the order of their names; a file is accepted too
    #[arg(long, value_name = "DIR")]
    pub(super) config_dir: Vec<PathBuf>,
}

impl IniFiles {
    /// True if any file or directory is named.
    pub(super) fn are_named(&self) -> bool {
        !self.config_file.is_empty() || !self.config_dir.is_empty()
    }

    /// Reads the named files. If none is named, it reads those of the files `usual` that exist.
    pub(super) fn read(&self, usual: &[&str]) -> Outcome<Ini> {
        let mut files = self.config_file.clone();
        for dir in &self.config_dir {
            files.extend(in_directory(dir)?);
        }
        if !self.are_named() {
            files.extend(usual.iter().filter(|file| Path::new(file).exists()).map(PathBuf::from));
        }
        let mut ini = Ini::default();
        for file in files {
            let text = std::fs::read_to_string(&file).map_err(|error| unreadable(&file, error))?;
            ini.read(&file.display().to_string(), &text).map_err(|error| Failure::new(Exit::Usage, error))?;
        }
        Ok(ini)
    }
}

/// The `*.conf` files of a directory. A file is accepted too, because many deployments start the agent with a file here.
fn in_directory(dir: &Path) -> Outcome<Vec<PathBuf>> {
    if dir.is_file() {
        return Ok(vec![dir.to_owned()]);
    }
    let entries = std::fs::read_dir(dir).map_err(|error| unreadable(dir, error))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| unreadable(dir, error))?.path();
        if path.extension().is_some_and(|extension| extension == "conf") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn unreadable(path: &Path, error: std::io::Error) -> Failure {
    Failure::new(Exit::Usage, error).while_(format!("cannot read the configuration {}", path.display()))
}
