//! Runs a job, seen from the host: starts the guest, forwards its output, enforces the time limit, reports the result.
//!
//! `uml` and `native` are the two kernels that a job can run on, `keeper` is the process between us and either, `cpu` assigns
//! CPUs, `console` keeps the last lines of a guest's kernel, `tools` provides the programs that a test requests. The guest's
//! side is in `inside`.

mod console;
mod cpu;
pub(crate) mod keeper;
pub(crate) mod native;
pub(crate) mod tools;
pub(crate) mod uml;

use std::fs::File;
use std::io::{BufRead, BufReader, PipeReader, Write, pipe};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::sys::statvfs::statvfs;
use nix::unistd::Pid;

use crate::home::Home;
use crate::job::{Backend, Folder, Outcome, Spec};
use crate::kernel::Kernel;
use crate::rootfs::Rootfs;
use console::Console;
use cpu::Cpu;

/// Time for a keeper to clean up before it is killed as well.
const GRACE: Duration = Duration::from_secs(5);

/// The resources of a guest.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The time limit of the job, from its start.
    pub time: Duration,
    /// The guest's memory in megabytes. The host provides only what the guest uses.
    pub megabytes: u64,
}

/// The end of a job, from the host's view.
#[derive(Debug)]
pub enum End {
    /// The guest reported its result.
    Told(Outcome),
    /// The guest was killed at its time limit.
    Late(String),
    /// The guest ended without a result.
    Died(String),
}

/// Everything that starting jobs needs.
#[derive(Clone, Debug)]
pub struct Host {
    /// The cache.
    pub home: Home,
    /// The directory of job folders.
    pub jobs: PathBuf,
    /// The root file system, built if it is missing.
    pub rootfs: Rootfs,
    /// The kernel of guests.
    pub kernel: Kernel,
}

impl Host {
    /// The cache, root file system and kernel that the environment selects.
    pub fn prepare(jobs: &Path) -> Result<Host> {
        let home = Home::locate()?;
        let rootfs = Rootfs::ensure(&home)?;
        let kernel = Kernel::chosen(&rootfs)?;
        Ok(Host { home, jobs: jobs.to_path_buf(), rootfs, kernel })
    }

    /// Runs a job in its folder, to its end. Calls `heard` with each line of the test as it arrives, and the time since the start.
    pub fn run(
        &self,
        folder: &Folder,
        spec: &Spec,
        limits: Limits,
        mut heard: impl FnMut(Duration, &str),
    ) -> Result<End> {
        folder.assign(spec)?;
        let terminal = spec.task.on_terminal();
        // For the native back end the CPU is only a token that limits the number of concurrent jobs.
        let cpu = Cpu::take(&self.home)?;
        let (mut command, on_terminal) = match spec.backend {
            Backend::Uml => {
                let consoles = if terminal { uml::Consoles::Terminal } else { uml::Consoles::Streams };
                let command =
                    uml::command(folder, &self.rootfs, &self.kernel, cpu.number, limits.megabytes, consoles)?;
                (command, terminal)
            }
            Backend::Native => (native::command(folder, &self.rootfs)?, terminal),
        };
        if on_terminal {
            let mut guest = Guest::start(&mut command)?;
            drop(command);
            let status = guest.wait(None)?;
            return self.ended(folder, status, &Console::default(), limits);
        }
        let (lines, console) = streams(&mut command, spec.backend, folder)?;
        let begin = Instant::now();
        let mut guest = Guest::start(&mut command)?;
        // Dropping the command closes our copies of the pipes' writing ends. Otherwise the streams would never end.
        drop(command);
        let seen = Arc::new(Mutex::new(Console::default()));
        let log = File::create(folder.path().join("console.log")).context("cannot make console.log")?;
        let listener = console.map(|stream| {
            let seen = Arc::clone(&seen);
            std::thread::spawn(move || record(stream, log, &seen))
        });
        let (send, receive) = std::sync::mpsc::channel::<Vec<u8>>();
        let speaker = std::thread::spawn(move || {
            for line in BufReader::new(lines).split(b'\n').map_while(|line| line.ok()) {
                let _ = send.send(line);
            }
        });
        let mut log = File::create(folder.path().join("output.log")).context("cannot make output.log")?;
        let mut status = None;
        let mut late = false;
        loop {
            match receive.recv_timeout(Duration::from_millis(10)) {
                Ok(line) => {
                    let line = String::from_utf8_lossy(&line);
                    let line = line.trim_end_matches('\r');
                    let _ = writeln!(log, "{:8.3} {line}", begin.elapsed().as_secs_f64());
                    heard(begin.elapsed(), line);
                    continue;
                }
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) if status.is_some() => break,
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => {
                    std::thread::sleep(Duration::from_millis(5))
                }
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
            }
            if status.is_none() {
                status = guest.ended()?;
            }
            if status.is_none() && !late && begin.elapsed() > limits.time {
                late = true;
                status = Some(guest.stop()?);
            }
        }
        let _ = speaker.join();
        listener.map(|listener| listener.join());
        let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        let status = status.unwrap_or_default();
        if late && Outcome::read(folder.path())?.is_none() {
            let limit = limits.time.as_secs_f64();
            return Ok(End::Late(with_tail(format!("the test did not end within {limit} s"), folder, &seen)));
        }
        self.ended(folder, status, &seen, limits)
    }

    /// The result of the job, from its folder and the exit status.
    fn ended(&self, folder: &Folder, status: ExitStatus, console: &Console, limits: Limits) -> Result<End> {
        if let Some(outcome) = Outcome::read(folder.path())? {
            return Ok(End::Told(outcome));
        }
        let why = match console.panic() {
            Some(panic) => format!("the guest's kernel gave up: {panic}"),
            None if full(folder.path()) => no_room(folder.path()),
            None if status.code() == Some(137) => "the guest was killed".to_owned(),
            None => {
                format!("the guest died without a word ({status}; it had {} MB of memory)", limits.megabytes)
            }
        };
        Ok(End::Died(with_tail(why, folder, console)))
    }
}

/// Advice about a full disk.
pub(crate) fn no_room(job: &Path) -> String {
    format!("the disk is full that holds {}: make room, or name another place in LAB_JOBS", job.display())
}

/// Whether a folder's file system has practically no space left.
pub(crate) fn full(dir: &Path) -> bool {
    statvfs(dir).is_ok_and(|stat| stat.blocks_available() * stat.fragment_size() < 64 << 10)
}

/// The number of guests that currently run on this cache.
pub fn running(home: &Home) -> Result<usize> {
    cpu::taken(home)
}

/// Adds the last output of the guest's kernel, and of the programs around it.
fn with_tail(mut why: String, folder: &Folder, console: &Console) -> String {
    let errors = std::fs::read_to_string(folder.path().join("guest.err")).unwrap_or_default();
    if !errors.trim().is_empty() {
        why.push_str("\n  around the guest:\n");
        errors.lines().take(20).for_each(|line| why.push_str(&format!("    {line}\n")));
    }
    if !console.tail().is_empty() {
        why.push_str("\n  the end of its console:\n");
        why.push_str(&console.tail());
    }
    why
}

/// Connects a command's streams: returns the one with the test's lines, and the console if there is one.
fn streams(
    command: &mut Command,
    backend: Backend,
    folder: &Folder,
) -> Result<(PipeReader, Option<PipeReader>)> {
    let errors = File::create(folder.path().join("guest.err")).context("cannot make guest.err")?;
    let (lines, writer) = pipe().context("cannot make a pipe")?;
    match backend {
        Backend::Uml => {
            let (console, kernel) = pipe().context("cannot make a pipe")?;
            // The guest's second console writes to descriptor 0, because only the three standard descriptors can be passed without extra
            // work.
            command.stdin(Stdio::from(writer)).stdout(Stdio::from(kernel)).stderr(Stdio::from(errors));
            Ok((lines, Some(console)))
        }
        Backend::Native => {
            command.stdin(Stdio::null()).stdout(Stdio::from(writer)).stderr(Stdio::from(errors));
            Ok((lines, None))
        }
    }
}

/// Writes a console to its file, and keeps its end.
fn record(stream: PipeReader, mut log: File, seen: &Mutex<Console>) {
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    while stream.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        // A full disk must not stop the guest: if this loop ended, the guest would block on its output.
        let _ = log.write_all(&line);
        seen.lock().unwrap_or_else(PoisonError::into_inner).see(&line);
        line.clear();
    }
}

/// A running guest, represented by its keeper. Dropping it ends the guest.
struct Guest {
    keeper: Child,
    ended: bool,
}

impl Guest {
    fn start(command: &mut Command) -> Result<Guest> {
        Ok(Guest { keeper: command.spawn().context("cannot start the guest's keeper")?, ended: false })
    }

    /// The exit status, if the guest has ended.
    fn ended(&mut self) -> Result<Option<ExitStatus>> {
        let status = self.keeper.try_wait().context("cannot wait for the guest")?;
        self.ended |= status.is_some();
        Ok(status)
    }

    /// Waits until the guest ends, or the limit passes.
    fn wait(&mut self, limit: Option<Duration>) -> Result<ExitStatus> {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            if limit.is_some_and(|limit| begin.elapsed() > limit) {
                self.keeper.kill().context("cannot kill the guest's keeper")?;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends the guest, and waits until all its processes are gone.
    fn stop(&mut self) -> Result<ExitStatus> {
        if let Some(status) = self.ended()? {
            return Ok(status);
        }
        let _ = kill(Pid::from_raw(self.keeper.id() as i32), Signal::SIGTERM);
        self.wait(Some(GRACE))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.stop();
        }
    }
}
