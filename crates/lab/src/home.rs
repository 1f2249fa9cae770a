//! The lab's directory between runs. The lab writes nowhere else but to it and to the job folders.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// The lab's cache: root file systems by key, and the lock files that labs of one user share.
#[derive(Clone, Debug)]
pub struct Home(PathBuf);

impl Home {
    /// The cache: `$LAB_CACHE`, else `meridian/lab` in `$XDG_CACHE_HOME` or `~/.cache`. Creates it if it does not exist.
    pub fn locate() -> Result<Home> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let path = set("LAB_CACHE")
            .or_else(|| set("XDG_CACHE_HOME").map(|dir| dir.join("meridian/lab")))
            .or_else(|| set("HOME").map(|dir| dir.join(".cache/meridian/lab")))
            .context("neither HOME nor XDG_CACHE_HOME is set: set LAB_CACHE to a folder for the lab's root file system")?;
        Home::at(&path)
    }

    /// The cache in a given folder.
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

/// The name of a folder in the cache, derived from its content.
pub(crate) fn key_of(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        // The length separates two lists whose concatenation is equal.
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_and_every_border_between_parts_counts() {
        let base = key_of(&["trixie", "forky", "a,b"]);
        assert_ne!(base, key_of(&["trixie", "forky", "a,c"]));
        assert_ne!(base, key_of(&["sid", "forky", "a,b"]));
        assert_ne!(key_of(&["ab", "c"]), key_of(&["a", "bc"]));
        assert_ne!(key_of(&["a"]), key_of(&["a", ""]));
    }
}
