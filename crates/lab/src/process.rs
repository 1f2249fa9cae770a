//! Daemons: started in a namespace, killed and started again at will, their words kept in the job folder.
//!
//! They run in the foreground as children of the test, so that a pid is known without asking and a death is noticed.

use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::netns::Netns;

/// How long a daemon may take until it answers.
const START: Duration = Duration::from_secs(60);

/// How a daemon is started.
#[derive(Clone, Debug)]
pub struct Recipe {
    program: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
    ready: Option<PathBuf>,
}

impl Recipe {
    /// A program, found on the path.
    pub fn new(program: &str) -> Recipe {
        Recipe { program: program.to_owned(), args: Vec::new(), env: Vec::new(), ready: None }
    }

    /// One more argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Recipe {
        self.args.push(arg.into());
        self
    }

    /// One more variable.
    #[must_use]
    pub fn env(mut self, key: &str, value: impl Into<String>) -> Recipe {
        self.env.push((key.to_owned(), value.into()));
        self
    }

    /// It is ready when this unix socket takes connections.
    #[must_use]
    pub fn ready(mut self, socket: impl Into<PathBuf>) -> Recipe {
        self.ready = Some(socket.into());
        self
    }
}

/// A daemon.
#[derive(Debug)]
pub struct Daemon {
    node: String,
    name: String,
    netns: Arc<Netns>,
    recipe: Recipe,
    /// What it writes on its own accord, beside its log.
    said: PathBuf,
    child: Mutex<Option<Child>>,
}

impl Daemon {
    /// Starts a daemon and does not wait for it. `said` is the file that gets its standard output and error.
    pub(crate) fn start(
        netns: &Arc<Netns>,
        node: &str,
        name: &str,
        said: &Path,
        recipe: Recipe,
    ) -> Result<Daemon> {
        let daemon = Daemon {
            node: node.to_owned(),
            name: name.to_owned(),
            netns: Arc::clone(netns),
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
        if let Some(socket) = &self.recipe.ready {
            // What a killed one left would be taken for an answer to come.
            let _ = fs::remove_file(socket);
        }
        let said = File::options()
            .create(true)
            .append(true)
            .open(&self.said)
            .with_context(|| format!("cannot open {}", self.said.display()))?;
        let mut command = Command::new(&self.recipe.program);
        command
            .args(&self.recipe.args)
            .envs(self.recipe.env.iter().map(|(key, value)| (key, value)))
            .stdin(Stdio::null())
            .stdout(said.try_clone().context("cannot share a file")?)
            .stderr(said);
        *self.child() = Some(self.netns.spawn(&mut command)?);
        Ok(())
    }

    /// Waits until it answers.
    pub fn ready(&self) -> Result<()> {
        let Some(socket) = &self.recipe.ready else { return Ok(()) };
        let begin = Instant::now();
        while UnixStream::connect(socket).is_err() {
            if !self.alive() {
                bail!("{} of {} ended at its start: {}", self.name, self.node, self.last_words());
            }
            if begin.elapsed() > START {
                bail!("{} of {} does not answer on {}", self.name, self.node, socket.display());
            }
            sleep(Duration::from_millis(3));
        }
        Ok(())
    }

    /// Whether it lives.
    pub fn alive(&self) -> bool {
        self.child().as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Kills it, without giving it a chance to say goodbye.
    pub fn kill(&self) -> Result<()> {
        let Some(mut child) = self.child().take() else { bail!("{} does not run", self.name) };
        child.kill().and_then(|()| child.wait()).with_context(|| format!("cannot kill {}", self.name))?;
        println!("killed {} of {}", self.name, self.node);
        Ok(())
    }

    /// Starts it again, as it was started first, and waits until it answers.
    pub fn start_again(&self) -> Result<()> {
        if self.alive() {
            bail!("{} of {} runs already", self.name, self.node);
        }
        self.launch()?;
        self.ready()
    }

    /// Kills it and starts it again.
    pub fn restart(&self) -> Result<()> {
        self.kill()?;
        self.start_again()
    }

    /// What it is called on its node.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn last_words(&self) -> String {
        let text = fs::read_to_string(&self.said).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines[lines.len().saturating_sub(3)..].join("; ");
        if tail.is_empty() { format!("it left no word, see {}", self.said.display()) } else { tail }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(mut child) = self.child().take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
