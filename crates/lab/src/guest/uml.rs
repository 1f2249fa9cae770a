//! A User Mode Linux guest's command line.
//!
//! The guest starts in its job folder, which holds links to everything it needs: `root` (its root file system), `g` (its
//! kernel's C library), `init` (this binary). `hostfs=/proc/self/cwd` confines it to that folder: a faulty test can write
//! nothing else on the host, and no path, however long or odd, is on the command line. This protects against mistakes, not
//! against attackers: it does not stop a mount that leaves the folder through `..`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::statvfs::{FsFlags, statvfs};

use super::keeper;
use crate::job::Folder;
use crate::kernel::Kernel;
use crate::rootfs::{FIRST, Rootfs};

/// The usual folder for a guest's memory, if it has enough space.
const SHARED_MEMORY: &str = "/dev/shm";

/// A kernel initialisation that a guest does not need: it measures the fastest algorithm for RAID checksums, which takes two thirds of the
/// boot time. The argument has its names in current and earlier kernels.
const LEFT_OUT: &str = "initcall_blacklist=raid6_init,raid6_select_algo";

/// The connection of a guest's terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consoles {
    /// Kernel messages to standard output, the test's own to standard input, which is the writing end of a pipe.
    Streams,
    /// The terminal of this process.
    Terminal,
}

/// The command that boots a guest on `folder`.
pub(crate) fn command(
    folder: &Folder,
    rootfs: &Rootfs,
    kernel: &Kernel,
    cpu: usize,
    megabytes: u64,
    consoles: Consoles,
) -> Result<Command> {
    furnish(folder.path(), rootfs)?;
    let library = kernel.has_own_library().then_some("g");
    let mut command = keeper::command(Some(cpu), library, kernel.path());
    command
        .args(["hostfs=/proc/self/cwd", "root=/dev/root", "rootfstype=hostfs", "rootflags=/root", "ro"])
        .arg(LEFT_OUT)
        .arg(format!("init={FIRST}"))
        .arg(format!("mem={megabytes}M"))
        .args(["uml_dir=uml/", "umid=guest", "noreboot", "seccomp=on", "quiet", "con=null", "ssl=null"])
        .args(match consoles {
            Consoles::Streams => ["con0=null,fd:1", "con1=null,fd:0"],
            Consoles::Terminal => ["con0=fd:0,fd:1", "con1=null"],
        })
        .arg("LAB_GUEST=uml")
        .current_dir(folder.path())
        .env_clear()
        .env("PATH", "/usr/bin:/bin");
    if let Some(elsewhere) = memory_folder(Path::new(SHARED_MEMORY), folder.path(), megabytes)? {
        command.env("TMPDIR", elsewhere);
    }
    Ok(command)
}

/// Puts the files that the guest needs to start into the job folder.
fn furnish(job: &Path, rootfs: &Rootfs) -> Result<()> {
    let cannot = || format!("cannot prepare the job folder {}", job.display());
    symlink(rootfs.root(), job.join("root")).with_context(cannot)?;
    symlink(rootfs.library(), job.join("g")).with_context(cannot)?;
    binary(job)
}

/// Puts this binary into the job folder, by a link if the file system allows it, else by a copy.
pub(crate) fn binary(job: &Path) -> Result<()> {
    let (me, there) =
        (std::env::current_exe().context("cannot tell which program this is")?, job.join("init"));
    if fs::hard_link(&me, &there).is_ok() {
        return Ok(());
    }
    fs::copy("/proc/self/exe", &there)
        .map(|_| ())
        .with_context(|| format!("cannot copy {} to {}", me.display(), there.display()))
}

/// Another folder for the guest's memory if the usual one does not suffice: a file system in memory that allows executable files and has
/// enough space.
fn memory_folder(usual: &Path, job: &Path, megabytes: u64) -> Result<Option<PathBuf>> {
    let free = |path: &Path| -> Option<(u64, bool)> {
        let stat = statvfs(path).ok()?;
        let runs = !stat.flags().contains(FsFlags::ST_NOEXEC);
        Some(((stat.blocks_available() * stat.fragment_size()) >> 20, runs))
    };
    if free(usual).is_some_and(|(room, runs)| runs && room > megabytes) {
        return Ok(None);
    }
    match free(job) {
        Some((room, true)) if room > megabytes => Ok(Some(job.to_path_buf())),
        Some((_, false)) => bail!(
            "{} has no {megabytes} MB for the guest's memory, and programs may not run in {}",
            usual.display(),
            job.display()
        ),
        other => {
            ensure!(other.is_some(), "cannot look at {}", job.display());
            bail!(
                "no {megabytes} MB for the guest's memory, neither in {} nor in {}: make room, or set LAB_MEMORY to less",
                usual.display(),
                job.display()
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_goes_to_the_job_folder_when_there_is_no_better_place_and_nowhere_when_there_is_no_room() {
        let job = tempfile::tempdir().unwrap();
        let gone = Path::new("/nonexistent");
        assert_eq!(memory_folder(job.path(), job.path(), 1).unwrap(), None);
        assert_eq!(memory_folder(gone, job.path(), 1).unwrap().as_deref(), Some(job.path()));
        let error = memory_folder(gone, job.path(), u64::MAX).unwrap_err();
        assert!(error.to_string().contains("LAB_MEMORY"), "{error}");
        assert!(memory_folder(gone, gone, 1).is_err());
    }
}
