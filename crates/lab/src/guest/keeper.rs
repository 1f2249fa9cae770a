//! The process between a test and its guest, which ensures that no process outlives the test.
//!
//! A guest is many processes in a session of their own. The keeper is their last ancestor: it inherits and reaps orphans. On a request to
//! end, or when the test dies for any reason, it kills the guest's main process, with which all the others end. It is this same binary
//! started again, because no safe code can run between fork and exec.

use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpid, getppid};

/// The first argument that makes this binary a keeper.
pub(crate) const KEEP: &str = "--lab-keep";
/// The first argument with which the keeper starts this binary again, to become the guest.
const BECOME: &str = "--lab-become";
/// The placeholder for an absent argument.
const NONE: &str = "-";

/// The command of a keeper that runs `program`, pinned to `cpu` and with the C library in the folder `library`, if these are
/// given. Further arguments, environment and folder of the command belong to the program.
///
/// The library's folder is an argument and not a variable: the keeper itself must not use a foreign library.
pub(crate) fn command(cpu: Option<usize>, library: Option<&str>, program: &Path) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command
        .args([KEEP, &getpid().to_string()])
        .arg(cpu.map_or_else(|| NONE.to_owned(), |cpu| cpu.to_string()))
        .arg(library.unwrap_or(NONE))
        .arg(program);
    command
}

/// Runs as a keeper, if the arguments say so.
pub(crate) fn main(args: &[OsString]) -> Option<Result<ExitCode>> {
    match args.first()?.to_str()? {
        KEEP => Some(keep(&args[1..])),
        BECOME => Some(become_guest(&args[1..])),
        _ => None,
    }
}

fn keep(args: &[OsString]) -> Result<ExitCode> {
    let [parent, rest @ ..] = args else { bail!("a keeper needs to know its parent") };
    bind_to(parent, Signal::SIGTERM)?;
    prctl::set_child_subreaper(true).context("cannot become the ancestor of the guest's orphans")?;
    let signals = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGCHLD]);
    signals.thread_block().context("cannot hold back signals")?;
    let child = Command::new("/proc/self/exe")
        .arg(BECOME)
        .arg(getpid().to_string())
        .args(rest)
        .spawn()
        .context("cannot start the guest")?;
    let main = Pid::from_raw(child.id() as i32);
    let mut ended: Option<ExitStatus> = None;
    loop {
        // Reaps all processes that have ended. When no child is left, the guest has left no trace.
        loop {
            match waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => break,
                Ok(WaitStatus::Exited(pid, code)) if pid == main => {
                    ended = Some(ExitStatus::from_raw(code << 8))
                }
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == main => {
                    ended = Some(ExitStatus::from_raw(signal as i32));
                }
                Ok(_) | Err(Errno::EINTR) => {}
                Err(Errno::ECHILD) => return Ok(exit_code(ended)),
                Err(error) => return Err(error).context("cannot wait for the guest"),
            }
        }
        if signals.wait().context("cannot wait for a signal")? != Signal::SIGCHLD {
            let _ = kill(main, Signal::SIGKILL);
        }
    }
}

fn become_guest(args: &[OsString]) -> Result<ExitCode> {
    let [parent, cpu, library, program, rest @ ..] = args else { bail!("a guest needs a CPU and a program") };
    bind_to(parent, Signal::SIGKILL)?;
    SigSet::all().thread_unblock().context("cannot let signals through")?;
    // A kernel that panics aborts. Its core file would be large and useless.
    setrlimit(Resource::RLIMIT_CORE, 0, 0).context("cannot turn core files off")?;
    if let Some(cpu) = cpu.to_str().filter(|cpu| *cpu != NONE) {
        let mut set = CpuSet::new();
        cpu.parse().map_err(|_| Errno::EINVAL).and_then(|cpu| set.set(cpu)).context("no such CPU")?;
        sched_setaffinity(Pid::from_raw(0), &set)
            .with_context(|| format!("cannot pin the guest to CPU {cpu}"))?;
    }
    let mut command = Command::new(program);
    if library != NONE {
        command.env("LD_LIBRARY_PATH", library);
    }
    let error = command.args(rest).exec();
    Err(error).with_context(|| format!("cannot run {}", program.to_string_lossy()))
}

/// Requests `signal` for the death of the parent, and checks that it has not died before.
fn bind_to(parent: &OsString, signal: Signal) -> Result<()> {
    prctl::set_pdeathsig(signal).context("cannot bind to the parent's life")?;
    if parent.to_str().and_then(|pid| pid.parse().ok()) != Some(getppid().as_raw()) {
        bail!("the parent is gone");
    }
    Ok(())
}

/// The exit code that a shell would return: 128 plus the signal.
fn exit_code(ended: Option<ExitStatus>) -> ExitCode {
    let code =
        ended.map_or(255, |status| status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)));
    ExitCode::from(u8::try_from(code).unwrap_or(255))
}
