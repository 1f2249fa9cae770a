//! PID 1 of new namespaces on the host's own kernel. When it ends, the kernel ends everything in them, mounts included.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use nix::mount::{MsFlags, mount};
use nix::sys::prctl;
use nix::sys::signal::Signal;

use super::mounts::{bind, enter, mount_at, overlay, settle, usual};
use super::supervise;
use crate::guest::tools;
use crate::job::{INSIDE, OPENSTACK, Spec};

/// The host's devices that a lab uses.
const DEVICES: &[&str] = &["full", "net/tun", "null", "random", "tty", "urandom", "zero"];

pub(super) fn main(args: &[OsString]) -> Result<ExitCode> {
    prctl::set_pdeathsig(Signal::SIGKILL).context("cannot bind to the parent's life")?;
    let [root, job] = args else { bail!("PID 1 needs a root file system and a job") };
    let (lower, job) = (Path::new(root), Path::new(job));
    // Later mounts must not propagate to the host.
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
        .context("cannot keep mounts to ourselves")?;
    let scratch = job.join("mnt");
    mount_at("tmpfs", &scratch, "mode=755")?;
    let root = overlay(lower, &scratch)?;
    mount_at("tmpfs", &root.join("dev"), "mode=755")?;
    for name in DEVICES {
        device(&Path::new("/dev").join(name), &root.join("dev").join(name))?;
    }
    usual(&root)?;
    std::os::unix::fs::symlink("pts/ptmx", root.join("dev/ptmx")).context("cannot link /dev/ptmx")?;
    bind(job, &root.join(INSIDE.trim_start_matches('/')))?;
    if let Ok(tools) = job.join(tools::OPENSTACK).canonicalize() {
        let at = root.join(OPENSTACK.trim_start_matches('/'));
        fs::create_dir_all(&at).with_context(|| format!("cannot make {}", at.display()))?;
        bind(&tools, &at)?;
    }
    enter(&root)?;
    settle()?;
    let spec = Spec::inside()?;
    supervise(&spec, None)?;
    Ok(ExitCode::SUCCESS)
}

/// Binds a device of the host. A missing one is skipped.
fn device(from: &Path, at: &Path) -> Result<()> {
    if !from.exists() {
        return Ok(());
    }
    if let Some(dir) = at.parent() {
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    File::create(at).with_context(|| format!("cannot make {}", at.display()))?;
    bind(from, at)
}
