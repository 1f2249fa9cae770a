//! A child process that runs until we end. It has its own process group, so that Ctrl-C reaches only us and we can stop
//! children in order. Dropping it sends SIGTERM. A later run recognises a child that a killed run left behind.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::program::shown;

/// Time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(5);

/// A running child process.
#[derive(Debug)]
pub struct Daemon {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Daemon {
    /// Starts the command with its standard error (and output, unless the command sets one) in `log`.
    pub fn start(name: &str, command: &mut Command, log: &Path) -> Result<Daemon> {
        let file = File::options().create(true).append(true).open(log);
        let file = file.with_context(|| format!("cannot write {}", log.display()))?;
        command.stdin(Stdio::null()).stderr(file).process_group(0);
        let child = command.spawn().with_context(|| format!("cannot run `{}`", shown(command)))?;
        Ok(Daemon { name: name.to_owned(), child, log: log.to_path_buf() })
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The child's standard output, if the command requested a pipe. Returns it once.
    pub fn take_stdout(&mut self) -> Option<std::process::ChildStdout> {
        self.child.stdout.take()
    }

    /// Returns an error with the end of the log if the child has ended. No child should end on its own.
    pub fn still_running(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let tail = lines[lines.len().saturating_sub(8)..].join("\n");
            bail!("{} ended by itself ({status}); the end of {}:\n{tail}", self.name, self.log.display());
        }
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let pid = Pid::from_raw(self.child.id().cast_signed());
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = kill(pid, Signal::SIGTERM);
            let begin = Instant::now();
            while matches!(self.child.try_wait(), Ok(None)) {
                if begin.elapsed() > GRACE {
                    let _ = self.child.kill();
                    let _ = self.child.wait();
                    return;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// Ends a process that an earlier, killed run left behind. Only a process that names this very pid file on its command line is
/// ours. A recycled process id belongs to a foreign process, which stays.
pub fn end_leftover(pidfile: &Path) -> Result<()> {
    let Ok(text) = std::fs::read_to_string(pidfile) else { return Ok(()) };
    if let Some(pid) = text.trim().parse().ok().filter(|pid| *pid > 0).map(Pid::from_raw)
        && is_ours(pid, pidfile)
    {
        eprintln!("ending process {} that an earlier run left behind", pid);
        let _ = kill(pid, Signal::SIGTERM);
        let begin = Instant::now();
        while is_ours(pid, pidfile) {
            if begin.elapsed() > GRACE {
                kill(pid, Signal::SIGKILL).with_context(|| format!("cannot end process {}", pid))?;
            }
            if begin.elapsed() > 2 * GRACE {
                bail!("process {} does not end; see {}", pid, pidfile.display());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    match std::fs::remove_file(pidfile) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", pidfile.display()))
        }
        _ => Ok(()),
    }
}

fn is_ours(pid: Pid, pidfile: &Path) -> bool {
    let cmdline = std::fs::read(format!("/proc/{}/cmdline", pid)).unwrap_or_default();
    let wanted = format!("--pidfile={}", pidfile.display());
    cmdline.split(|byte| *byte == 0).any(|arg| arg == wanted.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process with a `--pidfile=` argument, as the daemons have it. It runs until its input is closed.
    fn sleeper(pidfile: &Path) -> Child {
        Command::new("sh")
            .args(["-c", "read line", "sh", &format!("--pidfile={}", pidfile.display())])
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap()
    }

    #[test]
    fn a_leftover_is_ended_and_its_pid_file_removed() {
        let dir = tempfile::tempdir().unwrap();
        let pidfile = dir.path().join("x.pid");
        let mut child = sleeper(&pidfile);
        std::fs::write(&pidfile, format!("{}\n", child.id())).unwrap();
        // We are its parent here, so it stays a zombie (with an empty command line) until it is reaped.
        end_leftover(&pidfile).unwrap();
        assert!(!pidfile.exists());
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn a_stranger_with_the_same_number_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let pidfile = dir.path().join("x.pid");
        let mut stranger = sleeper(&dir.path().join("other.pid"));
        std::fs::write(&pidfile, stranger.id().to_string()).unwrap();
        end_leftover(&pidfile).unwrap();
        assert!(!pidfile.exists());
        assert!(stranger.try_wait().unwrap().is_none());
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }

    #[test]
    fn nonsense_in_a_pid_file_is_only_removed() {
        let dir = tempfile::tempdir().unwrap();
        let pidfile = dir.path().join("x.pid");
        std::fs::write(&pidfile, "not a number").unwrap();
        end_leftover(&pidfile).unwrap();
        assert!(!pidfile.exists());
        end_leftover(&pidfile).unwrap();
    }

    #[test]
    fn dropping_ends_the_program_and_an_early_end_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let daemon = Daemon::start("sleep", Command::new("sleep").arg("600"), &log).unwrap();
        let pid = daemon.pid();
        drop(daemon);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());

        let mut short =
            Daemon::start("short", Command::new("sh").args(["-c", "echo why >&2; exit 3"]), &log).unwrap();
        let begin = Instant::now();
        let error = loop {
            if let Err(error) = short.still_running() {
                break error.to_string();
            }
            assert!(begin.elapsed() < Duration::from_secs(30), "never seen to end");
            std::thread::sleep(Duration::from_millis(5));
        };
        assert!(error.contains("short ended by itself") && error.contains("why"), "{error}");
    }
}
