//! The programs that a test requests in addition to the root file system: the binary under test or its Debian package,
//! OpenStack's tools or ovn-bgp-agent, and a Kubernetes API server.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result, bail, ensure};

use crate::{kubernetes, python};

/// The link in a job folder to OpenStack's tools, or to ovn-bgp-agent in their place.
pub(crate) const OPENSTACK: &str = "openstack";

/// The Debian package of the binary under test, in a job folder.
pub(crate) const PACKAGE: &str = "meridian.deb";

/// The script that builds the package.
const PACKAGING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/deb");

/// The requested programs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tools {
    pub(crate) meridian: bool,
    pub(crate) package: bool,
    pub(crate) openstack: bool,
    pub(crate) ovn_bgp_agent: bool,
    pub(crate) kubernetes: bool,
}

/// The requested programs with their paths.
#[derive(Debug)]
pub(crate) struct Packed {
    meridian: Option<PathBuf>,
    package: Option<PathBuf>,
    openstack: Option<PathBuf>,
    kubernetes: Option<kubernetes::Programs>,
}

impl Tools {
    /// Finds all requested programs, before anything is started.
    pub(crate) fn find(self) -> Result<Packed> {
        Ok(Packed {
            meridian: self.meridian.then(Tools::built).transpose()?,
            package: self.package.then(Tools::built).transpose()?,
            openstack: match (self.openstack, self.ovn_bgp_agent) {
                (true, _) => Some(python::inside()?),
                (false, true) => Some(python::ovn_bgp_agent()?),
                (false, false) => None,
            },
            kubernetes: self.kubernetes.then(kubernetes::ensure).transpose()?,
        })
    }

    /// The binary under test: `LAB_MERIDIAN`, else the one that cargo built next to this test, unless it is older than its
    /// sources.
    pub(crate) fn built() -> Result<PathBuf> {
        if let Some(named) = std::env::var_os("LAB_MERIDIAN").filter(|named| !named.is_empty()) {
            let named = PathBuf::from(named);
            if !named.is_file() {
                bail!("LAB_MERIDIAN names {}, where there is no binary", named.display());
            }
            return Ok(named);
        }
        let me = std::env::current_exe().context("cannot tell which program this is")?;
        let dir = me.parent().and_then(|deps| deps.parent()).context("this program lies in no folder")?;
        let path = dir.join("meridian");
        match newer(&path) {
            None => {
                bail!("the binary under test, {}, is not built: `cargo build -p meridian`", path.display())
            }
            Some(Some(source)) => bail!(
                "the binary under test, {}, is older than {}: `cargo build -p meridian`",
                path.display(),
                source.display()
            ),
            Some(None) => Ok(path),
        }
    }
}

impl Packed {
    /// Copies the tools into a job folder.
    pub(crate) fn put(&self, job: &Path) -> Result<()> {
        if let Some(path) = &self.meridian {
            put_program(path, job)?;
        }
        if let Some(programs) = &self.kubernetes {
            let etcd = Path::new(kubernetes::ETCD);
            for path in [programs.server.as_path(), programs.kubectl.as_path(), etcd] {
                put_program(path, job)?;
            }
            kubernetes::write_key(&job.join("bin"))?;
        }
        if let Some(path) = &self.package {
            pack(path, job)?;
        }
        if let Some(path) = &self.openstack {
            symlink(path, job.join(OPENSTACK)).context("cannot link OpenStack's tools into the job")?;
        }
        Ok(())
    }
}

/// Puts a program where those inside find it.
fn put_program(path: &Path, job: &Path) -> Result<()> {
    let bin = job.join("bin");
    fs::create_dir_all(&bin).with_context(|| format!("cannot make {}", bin.display()))?;
    let there = bin.join(path.file_name().context("a program has a name")?);
    if fs::hard_link(path, &there).is_err() {
        fs::copy(path, &there)
            .with_context(|| format!("cannot copy {} to {}", path.display(), there.display()))?;
    }
    Ok(())
}

/// Builds the Debian package of a binary without compression, which would take longer than everything else.
fn pack(binary: &Path, job: &Path) -> Result<()> {
    let out = Command::new(PACKAGING).arg(binary).arg(job).arg("-Znone").output();
    let out = out.with_context(|| format!("cannot run {PACKAGING}"))?;
    let said = String::from_utf8_lossy(&out.stderr);
    ensure!(
        out.status.success(),
        "cannot make the Debian package (it needs binutils and dpkg): {}",
        said.trim()
    );
    let made = String::from_utf8_lossy(&out.stdout);
    fs::rename(made.trim(), job.join(PACKAGE)).context("the Debian package is not where it was said to be")
}

/// A source of a binary that is newer than the binary, according to the list that cargo wrote. `None` if the binary does not exist;
/// `Some(None)` if no listed source is newer.
fn newer(binary: &Path) -> Option<Option<PathBuf>> {
    let changed = |path: &Path| path.metadata().and_then(|found| found.modified()).ok();
    let built: SystemTime = changed(binary)?;
    let note = fs::read_to_string(binary.with_extension("d")).unwrap_or_default();
    Some(sources(&note).into_iter().find(|source| changed(source).is_some_and(|at| at > built)))
}

/// The prerequisites in a makefile rule. A blank in a name has a backslash before it.
fn sources(note: &str) -> Vec<PathBuf> {
    let Some((_, list)) = note.split_once(": ") else { return Vec::new() };
    let list = list.lines().next().unwrap_or_default().replace("\\ ", "\0");
    list.split(' ').filter(|name| !name.is_empty()).map(|name| name.replace('\0', " ").into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_that_is_older_than_a_source_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let [binary, source, spaced] = ["meridian", "main.rs", "a b.rs"].map(|name| dir.path().join(name));
        assert_eq!(newer(&binary), None);
        for path in [&binary, &source, &spaced] {
            fs::write(path, "").unwrap();
        }
        let long_ago = SystemTime::now() - std::time::Duration::from_secs(60);
        let age =
            |path: &Path| fs::File::options().write(true).open(path).unwrap().set_modified(long_ago).unwrap();
        age(&source);
        age(&spaced);
        let blank = spaced.display().to_string().replace(' ', "\\ ");
        fs::write(
            dir.path().join("meridian.d"),
            format!("{}: {} {blank}\n", binary.display(), source.display()),
        )
        .unwrap();
        assert_eq!(newer(&binary), Some(None));
        age(&binary);
        fs::write(&spaced, "changed").unwrap();
        assert_eq!(newer(&binary), Some(Some(spaced)));
    }
}
