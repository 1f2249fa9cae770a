//! Where the lab keeps things between runs, and nothing else is ever written outside of it and the job folders.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The lab's cache: root file systems by key, and the lock files that labs of one user share.
#[derive(Clone, Debug)]
pub struct Home(PathBuf);

impl Home {
    /// `$LAB_CACHE`, else `meridian/lab` in `$XDG_CACHE_HOME` or `~/.cache`; made if it is not there.
    pub fn locate() -> Result<Home> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let path = set("LAB_CACHE")
            .or_else(|| set("XDG_CACHE_HOME").map(|dir| dir.join("meridian/lab")))
            .or_else(|| set("HOME").map(|dir| dir.join(".cache/meridian/lab")))
            .context("neither HOME nor XDG_CACHE_HOME is set: set LAB_CACHE to a folder for the lab's root file system")?;
        Home::at(&path)
    }

    /// A cache in a folder of one's choice.
    pub fn at(path: &Path) -> Result<Home> {
        fs::create_dir_all(path).with_context(|| {
            format!("cannot make the lab's cache {}; LAB_CACHE names another place", path.display())
        })?;
        // The guest's kernel and its loader are found through links in the job folder: they must not be relative.
        Ok(Home(path.canonicalize().with_context(|| format!("cannot resolve {}", path.display()))?))
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A lock file of this cache, opened and not yet locked.
    pub fn lock_file(&self, name: &str) -> Result<File> {
        let path = self.0.join(format!("{name}.lock"));
        File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .with_context(|| format!("cannot open the lock file {}", path.display()))
    }
}
