//! The back end on the host's own kernel, in new namespaces.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};
use nix::sched::{CloneFlags, unshare};

use super::{keeper, uml};
use crate::job::Folder;
use crate::rootfs::Rootfs;

/// The first argument that makes this binary enter new namespaces.
const NATIVE: &str = "--lab-native";

/// The command that runs a job on `folder` in fresh namespaces.
pub(crate) fn command(folder: &Folder, rootfs: &Rootfs) -> Result<Command> {
    ensure!(
        nix::unistd::geteuid().is_root(),
        "LAB_BACKEND=native needs root (it makes network namespaces on the host's own kernel); without root leave \
         LAB_BACKEND unset"
    );
    uml::binary(folder.path())?;
    std::fs::create_dir(folder.path().join("mnt")).context("cannot make the job's mount point")?;
    let mut command = keeper::command(None, None, Path::new("/proc/self/exe"));
    command
        .arg(NATIVE)
        .arg(rootfs.root())
        .arg(folder.path())
        .current_dir("/")
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    Ok(command)
}

/// Enters new namespaces and starts PID 1 in them, if the arguments say so.
pub(crate) fn main(args: &[OsString]) -> Option<Result<ExitCode>> {
    (args.first()? == NATIVE).then(|| enter(&args[1..]))
}

fn enter(args: &[OsString]) -> Result<ExitCode> {
    let [root, job] = args else { bail!("namespaces need a root file system and a job") };
    unshare(
        CloneFlags::CLONE_NEWNS
            | CloneFlags::CLONE_NEWNET
            | CloneFlags::CLONE_NEWPID
            | CloneFlags::CLONE_NEWUTS
            | CloneFlags::CLONE_NEWIPC,
    )
    .context("cannot make namespaces")?;
    let status = Command::new("/proc/self/exe")
        .arg(crate::inside::NATIVE_INIT)
        .arg(root)
        .arg(job)
        .status()
        .context("cannot start the first process of the namespaces")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
