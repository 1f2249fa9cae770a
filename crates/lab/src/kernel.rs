//! The kernel of a guest, and its features.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::need::{Need, offered};
use crate::rootfs::{Rootfs, show_config};

/// A User Mode Linux kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    path: PathBuf,
    own_library: bool,
    offered: BTreeSet<Need>,
}

impl Kernel {
    /// The kernel in `LAB_KERNEL`, else the one of the root file system.
    pub fn chosen(rootfs: &Rootfs) -> Result<Kernel> {
        match std::env::var_os("LAB_KERNEL").filter(|path| !path.is_empty()) {
            Some(path) => Kernel::named(Path::new(&path)),
            None => Ok(Kernel {
                path: rootfs.kernel(),
                own_library: true,
                offered: offered(&rootfs.kernel_config()?),
            }),
        }
    }

    /// A custom kernel, which must run on this host without a library of its own.
    pub fn named(path: &Path) -> Result<Kernel> {
        let why = "LAB_KERNEL has to name a User Mode Linux kernel; without it the lab boots its own";
        if !path.is_file() {
            bail!("there is no kernel at {}: {why}", path.display());
        }
        let path = path.canonicalize().with_context(|| format!("cannot resolve {}", path.display()))?;
        let config = show_config(&path, Path::new("/")).context(why)?;
        Ok(Kernel { path, own_library: false, offered: offered(&config) })
    }

    /// The path of the kernel.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The features, built in or as modules.
    pub fn offered(&self) -> &BTreeSet<Need> {
        &self.offered
    }

    /// Whether the kernel runs with the C library that was packed with it.
    pub(crate) fn has_own_library(&self) -> bool {
        self.own_library
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_is_not_there_or_is_none_is_refused_with_what_to_do() {
        let error = Kernel::named(Path::new("/nonexistent/linux")).unwrap_err();
        assert!(
            error.to_string().starts_with("there is no kernel at /nonexistent/linux: LAB_KERNEL"),
            "{error:#}"
        );
        let error = format!("{:#}", Kernel::named(Path::new("/bin/false")).unwrap_err());
        assert!(error.contains("LAB_KERNEL") && error.contains("/bin/false"), "{error}");
        let error = format!("{:#}", Kernel::named(Path::new("/etc/passwd")).unwrap_err());
        assert!(error.contains("cannot run the kernel /etc/passwd"), "{error}");
    }
}
