//! Daemons: started on a node or on the host itself, stopped and restarted at will, with their output kept.
//!
//! They run in the foreground as children of the test, so the test knows their process ids and notices their death. On the
//! host, where a killed test cleans up nothing, they are bound to the life of the test's process.

mod host;

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::netns::Netns;

/// Timeout of a daemon's first answer.
const START: Duration = Duration::from_secs(60);
/// Time for a dropped daemon to end after its signal.
const GOODBYE: Duration = Duration::from_secs(10);
/// Timeout of one attempt to connect.
const ATTEMPT: Duration = Duration::from_secs(1);

/// The command that starts a daemon.
#[derive(Clone, Debug)]
pub struct Recipe {
    program: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
    user: Option<(u32, u32)>,
    goodbye: Signal,
    ready: Option<Ready>,
}

/// The sign that a daemon is ready.
#[derive(Clone, Debug)]
enum Ready {
    Socket(PathBuf),
    Port(SocketAddr),
}

impl Recipe {
    /// A program, found on the path.
    pub fn new(program: &str) -> Recipe {
        Recipe {
            program: program.to_owned(),
            args: Vec::new(),
            env: Vec::new(),
            user: None,
            goodbye: Signal::SIGKILL,
            ready: None,
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Recipe {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<'a>(mut self, args: impl IntoIterator<Item = &'a str>) -> Recipe {
        self.args.extend(args.into_iter().map(|arg| arg.to_owned()));
        self
    }

    /// Runs it through another program, which gets these arguments and then the command: `setpriv --reuid 990`.
    #[must_use]
    pub fn under<'a>(mut self, words: impl IntoIterator<Item = &'a str>) -> Recipe {
        let mut words = words.into_iter().map(|word| word.to_owned());
        if let Some(program) = words.next() {
            let inner = std::mem::replace(&mut self.program, program);
            self.args = words.chain([inner]).chain(self.args).collect();
        }
        self
    }

    /// Adds a variable.
    #[must_use]
    pub fn env(mut self, key: &str, value: impl Into<String>) -> Recipe {
        self.env.push((key.to_owned(), value.into()));
        self
    }

    /// Runs as this user and group, for programs that refuse to run as root.
    #[must_use]
    pub fn user(mut self, user: u32, group: u32) -> Recipe {
        self.user = Some((user, group));
        self
    }

    /// Sets the signal that stops the daemon. Without one, it is killed.
    #[must_use]
    pub fn goodbye(mut self, signal: Signal) -> Recipe {
        self.goodbye = signal;
        self
    }

    /// The daemon is ready when this unix socket accepts connections.
    #[must_use]
    pub fn ready(mut self, socket: impl Into<PathBuf>) -> Recipe {
        self.ready = Some(Ready::Socket(socket.into()));
        self
    }

    /// The daemon is ready when this address accepts connections.
    #[must_use]
    pub fn ready_at(mut self, address: SocketAddr) -> Recipe {
        self.ready = Some(Ready::Port(address));
        self
    }
}

/// A daemon.
#[derive(Debug)]
pub struct Daemon {
    /// The node's name, for reports.
    node: String,
    name: String,
    /// The network namespace; `None` on the host.
    netns: Option<Arc<Netns>>,
    recipe: Recipe,
    /// The file with its standard output and error, in addition to its own log.
    said: PathBuf,
    child: Mutex<Option<Child>>,
}

impl Daemon {
    /// Starts a daemon in a namespace and does not wait for it. Its standard output and error go to the file `said`.
    pub(crate) fn start(
        netns: &Arc<Netns>,
        node: &str,
        name: &str,
        said: &Path,
        recipe: Recipe,
    ) -> Result<Daemon> {
        Daemon::begin(Some(Arc::clone(netns)), node, name, said, recipe)
    }

    /// Starts a daemon on the host, for a test outside of any guest, and does not wait for it. It does not outlive the test's process. Its
    /// standard output and error go to the file `said`.
    pub fn start_here(name: &str, said: &Path, recipe: Recipe) -> Result<Daemon> {
        Daemon::begin(None, "this host", name, said, recipe)
    }

    fn begin(
        netns: Option<Arc<Netns>>,
        node: &str,
        name: &str,
        said: &Path,
        recipe: Recipe,
    ) -> Result<Daemon> {
        let daemon = Daemon {
            node: node.to_owned(),
            name: name.to_owned(),
            netns,
            recipe,
            said: said.to_path_buf(),
            child: Mutex::new(None),
        };
        daemon.launch()?;
        Ok(daemon)
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn launch(&self) -> Result<()> {
        if let Some(Ready::Socket(socket)) = &self.recipe.ready {
            // A socket left behind by a killed daemon would look like a ready one.
            let _ = fs::remove_file(socket);
        }
        let said = File::options()
            .create(true)
            .append(true)
            .open(&self.said)
            .with_context(|| format!("cannot open {}", self.said.display()))?;
        let mut command = match &self.netns {
            Some(_) => Command::new(&self.recipe.program),
            None => host::bound(&self.recipe.program, self.recipe.goodbye),
        };
        command
            .args(&self.recipe.args)
            .envs(self.recipe.env.iter().map(|(key, value)| (key, value)))
            .stdin(Stdio::null())
            .stdout(said.try_clone().context("cannot share a file")?)
            .stderr(said);
        if let Some((user, group)) = self.recipe.user {
            command.uid(user).gid(group);
        }
        *self.child() = Some(match &self.netns {
            Some(netns) => netns.spawn(&mut command)?,
            None => host::spawn(command).with_context(|| format!("cannot start {}", self.recipe.program))?,
        });
        Ok(())
    }

    /// Waits until it answers.
    pub fn ready(&self) -> Result<()> {
        let Some(ready) = &self.recipe.ready else { return Ok(()) };
        let (begin, mut pause) = (Instant::now(), Duration::from_millis(3));
        while !self.answers(ready)? {
            if !self.alive() {
                bail!("{} of {} ended at its start: {}", self.name, self.node, self.last_words());
            }
            if begin.elapsed() > START {
                let at = match ready {
                    Ready::Socket(socket) => socket.display().to_string(),
                    Ready::Port(address) => address.to_string(),
                };
                bail!("{} of {} does not answer on {at}: {}", self.name, self.node, self.last_words());
            }
            sleep(pause);
            // The interval grows with the wait. In a guest, each check takes CPU time from the daemon.
            pause = (pause * 2).min(match ready {
                Ready::Socket(_) => Duration::from_millis(10),
                Ready::Port(_) => Duration::from_millis(50),
            });
        }
        Ok(())
    }

    fn answers(&self, ready: &Ready) -> Result<bool> {
        match (ready, &self.netns) {
            (Ready::Socket(socket), _) => Ok(UnixStream::connect(socket).is_ok()),
            (Ready::Port(address), None) => Ok(TcpStream::connect_timeout(address, ATTEMPT).is_ok()),
            (Ready::Port(address), Some(netns)) => {
                netns.enter(|| TcpStream::connect_timeout(address, ATTEMPT).is_ok())
            }
        }
    }

    /// Whether the daemon runs.
    pub fn alive(&self) -> bool {
        self.child().as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// The process id, unless the daemon was killed or stopped.
    pub fn pid(&self) -> Option<u32> {
        self.child().as_ref().map(|child| child.id())
    }

    /// Sends a signal to the daemon and does not wait: `SIGHUP` to reload its configuration, `SIGSTOP` to make it hang.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let child = self.child();
        let Some(child) = child.as_ref() else { bail!("{} of {} does not run", self.name, self.node) };
        send(child, signal).with_context(|| format!("cannot send {signal} to {}", self.name))
    }

    /// Kills it with SIGKILL.
    pub fn kill(&self) -> Result<()> {
        let Some(mut child) = self.child().take() else { bail!("{} does not run", self.name) };
        child.kill().and_then(|()| child.wait()).with_context(|| format!("cannot kill {}", self.name))?;
        println!("killed {} of {}", self.name, self.node);
        Ok(())
    }

    /// Sends `SIGTERM` and waits until the daemon has ended; returns its exit status.
    pub fn stop(&self, within: Duration) -> Result<ExitStatus> {
        self.signal(Signal::SIGTERM)?;
        let status = self.ended(within)?;
        println!("stopped {} of {} ({status})", self.name, self.node);
        Ok(status)
    }

    /// Waits until the daemon ends on its own; returns its exit status.
    pub fn ended(&self, within: Duration) -> Result<ExitStatus> {
        let Some(mut child) = self.child().take() else { bail!("{} does not run", self.name) };
        match waited(&mut child, within) {
            Some(status) => Ok(status),
            None => {
                *self.child() = Some(child);
                bail!("{} of {} did not end within {within:?}: {}", self.name, self.node, self.last_words())
            }
        }
    }

    /// Restarts the daemon with its first command, and waits until it is ready.
    pub fn start_again(&self) -> Result<()> {
        if self.alive() {
            bail!("{} of {} runs already", self.name, self.node);
        }
        self.launch()?;
        self.ready()
    }

    /// Kills the daemon and restarts it.
    pub fn restart(&self) -> Result<()> {
        self.kill()?;
        self.start_again()
    }

    /// The recipe, to start another daemon that is almost equal.
    pub fn recipe(&self) -> Recipe {
        self.recipe.clone()
    }

    /// The daemon's name on its node.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The standard output and error of all its runs so far.
    pub fn said(&self) -> String {
        fs::read(&self.said).map(|text| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default()
    }

    fn last_words(&self) -> String {
        let text = self.said();
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines[lines.len().saturating_sub(3)..].join("; ");
        if tail.is_empty() { format!("it left no word, see {}", self.said.display()) } else { tail }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(mut child) = self.child().take() {
            if self.recipe.goodbye != Signal::SIGKILL
                && send(&child, self.recipe.goodbye).is_ok()
                && waited(&mut child, GOODBYE).is_some()
            {
                return;
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn send(child: &Child, signal: Signal) -> Result<()> {
    Ok(kill(Pid::from_raw(i32::try_from(child.id()).context("a pid is an i32")?), signal)?)
}

/// Waits for a process to end; `None` if it did not.
fn waited(child: &mut Child, within: Duration) -> Option<ExitStatus> {
    let begin = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if begin.elapsed() < within => sleep(Duration::from_millis(10)),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests;
