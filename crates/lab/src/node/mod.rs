//! Nodes: a namespace, a folder, and the daemons in it. The other files of this directory turn a node into a chassis, a central
//! or a VM.

pub mod central;
pub mod chassis;
pub mod controller;
pub mod frr;
pub mod systemd;
pub mod vm;

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};

use crate::netns::Netns;
use crate::process::{Daemon, Recipe};
use crate::topology::trace::Failures;

/// A machine of the lab, as far as its network is concerned.
#[derive(Debug)]
pub struct Node {
    netns: Arc<Netns>,
    dir: PathBuf,
    logs: PathBuf,
    daemons: Mutex<Vec<Arc<Daemon>>>,
    failures: Arc<Failures>,
}

impl Node {
    /// A node of this name in a namespace: sockets and databases in a folder of its own, logs among all logs.
    pub(crate) fn new(name: &str, netns: Arc<Netns>, logs: &Path, failures: &Arc<Failures>) -> Result<Node> {
        let dir = Path::new("/run").join(name);
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        Ok(Node {
            netns,
            dir,
            logs: logs.to_path_buf(),
            daemons: Mutex::new(Vec::new()),
            failures: Arc::clone(failures),
        })
    }

    /// The folder with the node's sockets and databases.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The log file of a daemon of this node.
    pub fn log(&self, daemon: &str) -> PathBuf {
        self.logs.join(format!("{}-{daemon}.log", self.label()))
    }

    /// The node's name; a central in the lab's own namespace has one as well.
    pub fn label(&self) -> &str {
        self.dir.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// Starts a daemon and does not wait for it.
    pub fn start(&self, name: &str, recipe: Recipe) -> Result<Arc<Daemon>> {
        let said = self.logs.join(format!("{}-{name}.out", self.label()));
        let daemon = Arc::new(Daemon::start(&self.netns, self.label(), name, &said, recipe)?);
        self.daemons.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&daemon));
        Ok(daemon)
    }

    /// Starts the workspace's own `meridian` with these arguments, under a given name, and does not wait for it. The test must
    /// request it with [`Test::meridian`](crate::Test::meridian). Its output is kept with all logs. A test stops it
    /// ([`Daemon::stop`], [`Daemon::kill`]) and starts it again like any daemon.
    pub fn meridian(&self, name: &str, args: &[&str]) -> Result<Arc<Daemon>> {
        self.start(name, Recipe::new("meridian").args(args.iter().copied()))
            .context("is the test registered with `.meridian()`?")
    }

    /// All daemons that the test started on this node.
    pub fn daemons(&self) -> Vec<Arc<Daemon>> {
        self.daemons.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A daemon by its name: `ovn-controller`, `ovs-vswitchd`, `bgpd`.
    pub fn daemon(&self, name: &str) -> Result<Arc<Daemon>> {
        let all = self.daemons();
        let known = || all.iter().map(|daemon| daemon.name()).collect::<Vec<_>>().join(", ");
        all.iter()
            .rev()
            .find(|daemon| daemon.name() == name)
            .cloned()
            .with_context(|| format!("{} has no daemon `{name}`, it has: {}", self.label(), known()))
    }

    /// Kills every daemon at once, as in a power failure.
    pub fn kill_all(&self) -> Result<()> {
        self.daemons().iter().filter(|daemon| daemon.alive()).try_for_each(|daemon| daemon.kill())
    }

    /// The list of the targets that this node did not reach.
    pub(crate) fn failures(&self) -> &Arc<Failures> {
        &self.failures
    }

    /// The node's namespace, to be shared.
    pub(crate) fn netns(&self) -> &Arc<Netns> {
        &self.netns
    }
}

impl Deref for Node {
    type Target = Netns;

    fn deref(&self) -> &Netns {
        &self.netns
    }
}
