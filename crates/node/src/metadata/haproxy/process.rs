//! Processes of haproxy: started in a namespace, found again after a restart of the agent, ended.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::files::HaproxyFiles;
use crate::netns::inside::inside;

/// The program.
const PROGRAM: &str = "haproxy";
/// How long a start may take.
const START: Duration = Duration::from_secs(20);
/// How long a process may take to end before it is killed.
const END: Duration = Duration::from_secs(5);
/// Interval between two looks at a process.
const RETRY: Duration = Duration::from_millis(10);
/// Maximum length of an error message.
const MESSAGE: usize = 500;

impl HaproxyFiles {
    /// Starts haproxy in a namespace. Once it listens, it has the former processes finish their requests and end.
    pub(super) fn start(&self, namespace: &File, former: &[i32]) -> io::Result<i32> {
        let log = &self.log;
        let mut command = Command::new(PROGRAM);
        command.arg("-D").arg("-f").arg(&self.config).arg("-p").arg(&self.pid);
        if !former.is_empty() {
            command.arg("-sf").args(former.iter().map(i32::to_string));
            // The successor goes on with the same sockets, so that nobody who waits in their queues is reset. Neutron's has no such
            // socket.
            if UnixStream::connect(&self.listeners).is_ok() {
                command.arg("-x").arg(&self.listeners);
            }
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(log)?);
        let mut child = inside(namespace, || command.spawn())?.map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("cannot start {PROGRAM}: {error}; install it, or set proxy_backend = builtin"),
            )
        })?;
        // The first process ends when the one that serves listens.
        let until = Instant::now() + START;
        let status = loop {
            match child.try_wait()? {
                Some(status) => break status,
                None if Instant::now() >= until => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "haproxy did not start in time"));
                }
                None => sleep(RETRY),
            }
        };
        let said = fs::read_to_string(log).unwrap_or_default();
        let _ = fs::remove_file(log);
        if !status.success() {
            let said: String =
                said.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MESSAGE).collect();
            return Err(io::Error::other(format!("haproxy ended with {status}: {said}")));
        }
        self.process().ok_or_else(|| io::Error::other("haproxy has written no process id"))
    }
}

/// Whether a process is a haproxy, wherever.
pub(super) fn is_alive(pid: i32) -> bool {
    is_haproxy(&PathBuf::from(format!("/proc/{pid}")))
}

/// Whether a process is a haproxy in a namespace.
pub(super) fn runs(pid: i32, namespace: u64) -> bool {
    let process = PathBuf::from(format!("/proc/{pid}"));
    is_haproxy(&process) && namespace_of(&process) == Some(namespace)
}

fn is_haproxy(process: &Path) -> bool {
    fs::read_to_string(process.join("comm")).is_ok_and(|name| name.trim_end() == PROGRAM)
}

fn namespace_of(process: &Path) -> Option<u64> {
    fs::metadata(process.join("ns/net")).ok().map(|file| file.ino())
}

/// All haproxies in a namespace, whoever started them. Only metadata agents start any there.
pub(in crate::metadata) fn haproxies(namespace: u64) -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| runs(*pid, namespace)).collect()
}

/// Has processes close their listening sockets, finish their requests and end.
pub(in crate::metadata) fn retire(pids: &[i32]) {
    pids.iter().for_each(|pid| signal(*pid, Signal::SIGUSR1));
}

/// Ends the haproxies of a namespace with their connections, which would keep it alive. Blocks until they are gone.
pub(in crate::metadata) fn end(namespace: u64) {
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let left = haproxies(namespace);
        left.into_iter().for_each(|pid| self::signal(pid, signal));
        let until = Instant::now() + END;
        while Instant::now() < until {
            if haproxies(namespace).is_empty() {
                return;
            }
            sleep(RETRY);
        }
    }
    tracing::warn!(namespace, "a haproxy does not end, and keeps its namespace alive");
}

fn signal(pid: i32, signal: Signal) {
    if let Err(error) = kill(Pid::from_raw(pid), signal) {
        tracing::debug!(pid, %error, "cannot send {signal} to a haproxy");
    }
}

#[cfg(test)]
mod tests {
    use listener::Limits;
    use metadata_proxy::control::Family;
    use ovsdb::Uuid;

    use super::super::config::{HaproxyConfig, render};
    use super::*;

    /// By the haproxy of the host, which is Debian 12's 2.6; the lab's guests run a later one.
    #[test]
    fn haproxy_accepts_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("haproxy.cfg");
        let short = dir.path().join("x.sock");
        let long = PathBuf::from(format!("/{}", "x".repeat(200)));
        for (families, listeners) in
            [(&[Family::Ipv4][..], &short), (&[Family::Ipv4, Family::Ipv6], &short), (&[Family::Ipv4], &long)]
        {
            let text = render(&HaproxyConfig {
                network: Uuid::from_u128(7),
                families,
                inner: &"tap11111111-21".into(),
                user: (990, 991),
                backend: Path::new("/run/meridian-metadata/requests.sock"),
                listeners,
                limits: Limits { connections: 1024, per_client: 64, ..Limits::default() },
            });
            assert_eq!(text.contains("stats socket"), listeners == &short, "{text}");
            fs::write(&file, &text).unwrap();
            let out = Command::new(PROGRAM).arg("-c").arg("-f").arg(&file).output().unwrap();
            let said = String::from_utf8_lossy(&out.stderr).into_owned();
            assert!(out.status.success() && !said.contains("WARNING"), "{said}\n{text}");
        }
    }
}
