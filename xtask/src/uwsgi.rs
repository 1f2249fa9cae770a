//! Python web services of peers in uWSGI, as their operators run them: plain HTTP behind a proxy, every answer closes its connection.
//!
//! With `http11-socket` instead, a client that keeps its connection occupies one of the few workers while it is idle. Other requests
//! then wait for seconds, and a comparison would measure that.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::command::{heading, output, target_dir};

/// The number of workers.
pub(crate) const WORKERS: usize = 2;
/// Debian's interpreter, which has a module for virtual environments by a package of ours.
const PYTHON: &str = "/usr/bin/python3";
/// Timeout of a start.
const START: Duration = Duration::from_secs(180);

/// Returns a virtual environment in the target directory, and creates it on first use.
pub(crate) fn environment(name: &str, packages: &[&str]) -> Result<PathBuf> {
    let dir = target_dir().join(name);
    let mark = dir.join("ready");
    if !fs::read_to_string(&mark).is_ok_and(|text| text == packages.join(" ")) {
        heading(&format!("a Python environment with {} (once)", packages[0]));
        output(Command::new(PYTHON).args(["-m", "venv", "--clear"]).arg(&dir))?;
        output(Command::new(dir.join("bin/pip")).args(["install", "--quiet"]).args(packages))
            .with_context(|| format!("cannot install {}; is PyPI reachable?", packages[0]))?;
        fs::write(&mark, packages.join(" "))?;
    }
    Ok(dir)
}

/// A web service in uWSGI. It ends with its value.
pub(crate) struct Uwsgi {
    /// The URL of the service.
    pub(crate) url: String,
    child: Child,
}

impl Uwsgi {
    /// Starts a WSGI module of an environment and waits until all workers have loaded it. `configure` adds to the command.
    pub(crate) fn start(
        environment: &Path,
        module: &str,
        log: &Path,
        configure: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Result<Uwsgi> {
        // The port is released here and bound by uWSGI a moment later. No other program on this machine takes ports meanwhile.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let mut command = Command::new(environment.join("bin/uwsgi"));
        command.arg("--http-socket").arg(address.to_string()).args(["--add-header", "Connection: close"]);
        command.args(["--module", module, "--master", "--lazy-apps", "--enable-threads", "--die-on-term"]);
        command.args(["--processes", &WORKERS.to_string(), "--buffer-size", "65535", "--disable-logging"]);
        command.arg("--virtualenv").arg(environment);
        configure(&mut command).stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(log)?);
        let child = command.spawn().context("cannot run uWSGI")?;
        let mut uwsgi = Uwsgi { url: format!("http://{address}"), child };
        uwsgi.ready(module, log)?;
        Ok(uwsgi)
    }

    fn ready(&mut self, module: &str, log: &Path) -> Result<()> {
        let begin = Instant::now();
        loop {
            let text = fs::read_to_string(log).unwrap_or_default();
            let last = || {
                let lines: Vec<_> = text.lines().collect();
                lines[lines.len().saturating_sub(5)..].join("; ")
            };
            if text.matches("WSGI app 0").count() >= WORKERS {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("{module} ended ({status}): {}", last());
            }
            if begin.elapsed() > START {
                bail!("{module} does not answer: {}", last());
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// The process id of its first process, the parent of the workers.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Uwsgi {
    fn drop(&mut self) {
        use nix::sys::signal::{Signal, kill};
        let _ = kill(nix::unistd::Pid::from_raw(self.child.id().cast_signed()), Signal::SIGTERM);
        let _ = self.child.wait();
    }
}
