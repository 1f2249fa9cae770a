//! The INI files of a command that takes the place of a program of OpenStack.

use std::path::{Path, PathBuf};

use node::ini::Ini;

use crate::failure::{Exit, Failure, Outcome};

/// The files, as oslo.config's programs take them.
#[derive(Debug, Default, clap::Args)]
pub(super) struct IniFiles {
    /// A configuration file; of several the later ones win
    #[arg(long, value_name = "FILE")]
    pub(super) config_file: Vec<PathBuf>,
    /// A directory whose *.conf files are read in the order of their names; a file is read, too
    #[arg(long, value_name = "DIR")]
    pub(super) config_dir: Vec<PathBuf>,
}

impl IniFiles {
    /// Whether any is named.
    pub(super) fn are_named(&self) -> bool {
        !self.config_file.is_empty() || !self.config_dir.is_empty()
    }

    /// Reads the files; `usual` if none is named and that one is there.
    pub(super) fn read(&self, usual: &str) -> Outcome<Ini> {
        let mut files = self.config_file.clone();
        for dir in &self.config_dir {
            files.extend(in_directory(dir)?);
        }
        if !self.are_named() && Path::new(usual).exists() {
            files.push(usual.into());
        }
        let mut ini = Ini::default();
        for file in files {
            let text = std::fs::read_to_string(&file).map_err(|error| unreadable(&file, error))?;
            ini.read(&file.display().to_string(), &text).map_err(|error| Failure::new(Exit::Usage, error))?;
        }
        Ok(ini)
    }
}

/// The files of a directory. Many start the agent with a file here, so that will do, too.
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
