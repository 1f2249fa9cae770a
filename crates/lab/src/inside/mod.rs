//! The guest's side: PID 1 of a guest (or of a set of namespaces), and the test itself.
//!
//! PID 1 prepares the system (`uml`, `native`), starts this binary once more for the test (`perform`), reaps dead processes,
//! and turns the guest off after the test. The test is a process of its own, so it may wait for its children in any way, and if
//! it is killed, PID 1 still reports that.

mod mounts;
mod native;
pub(crate) mod perform;
mod uml;

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use anyhow::{Context, Result, anyhow};
use nix::errno::Errno;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{Pid, getpid};

use crate::job::{INSIDE, Outcome, Spec};

/// The first argument that makes this binary PID 1 of namespaces.
pub(crate) const NATIVE_INIT: &str = "--lab-native-init";

/// Runs PID 1's work if this process is PID 1.
pub(crate) fn main(args: &[OsString]) -> Option<Result<ExitCode>> {
    if getpid().as_raw() != 1 {
        return None;
    }
    if std::env::var_os("LAB_GUEST").is_some_and(|kind| kind == "uml") {
        return Some(uml::main());
    }
    (args.first()? == NATIVE_INIT).then(|| native::main(&args[1..]))
}

/// Runs the job to its end, as its last ancestor, and writes its outcome if it cannot do so itself any more.
fn supervise(spec: &Spec, stdio: Option<&File>) -> Result<()> {
    let mut command = Command::new(Path::new(INSIDE).join("init"));
    command
        .arg(perform::PERFORM)
        .current_dir("/root")
        .env_clear()
        .envs([
            // The binary under test comes first, if the test requested it.
            ("PATH", "/job/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/frr"),
            ("HOME", "/root"),
            ("TERM", "linux"),
            ("LC_ALL", "C"),
            // Page faults and system calls are expensive in a guest, so the allocator takes memory in large pieces and keeps it.
            (
                "GLIBC_TUNABLES",
                "glibc.malloc.arena_max=1:glibc.malloc.top_pad=1048576:glibc.malloc.trim_threshold=67108864",
            ),
        ])
        // Errors need no backtrace, which takes seconds in a guest. Panics have one if requested.
        .env("RUST_LIB_BACKTRACE", "0")
        .envs(&spec.env);
    if let Some(file) = stdio {
        let copy = || file.try_clone().map(Stdio::from).context("cannot share the console");
        command.stdout(copy()?).stderr(copy()?);
        command.stdin(if spec.task.on_terminal() { copy()? } else { Stdio::null() });
    }
    let child = command.spawn().context("cannot start the test's process")?;
    let status = reap(Pid::from_raw(child.id() as i32))?;
    let folder = Path::new(INSIDE);
    if Outcome::read(folder)?.is_none() {
        let how = match status.signal() {
            Some(signal) => format!("the test's process was killed by signal {signal}"),
            None => format!("the test's process ended before the test did ({status})"),
        };
        fail(&anyhow!(how))?;
    }
    Ok(())
}

/// Reaps processes until `main` is reaped.
fn reap(main: Pid) -> Result<ExitStatus> {
    loop {
        match waitpid(None::<Pid>, None) {
            Ok(WaitStatus::Exited(pid, code)) if pid == main => return Ok(ExitStatus::from_raw(code << 8)),
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == main => {
                return Ok(ExitStatus::from_raw(signal as i32));
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error).context("cannot wait for the test's process"),
        }
    }
}

/// Records that the job failed outside of its test.
fn fail(error: &anyhow::Error) -> Result<()> {
    let outcome = Outcome { failure: Some(format!("{error:#}")), millis: 0, offered: Default::default() };
    outcome.write(Path::new(INSIDE))
}
