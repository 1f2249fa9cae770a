//! A real Keystone: on the host for ordinary tests, on a node for tests in a guest.
//!
//! ```no_run
//! # fn test() -> anyhow::Result<()> {
//! let keystone = lab::keystone::Keystone::start(std::path::Path::new("/tmp/keystone"))?;
//! let (project, alice) = (keystone.project("demo")?, keystone.user("alice", "secret")?);
//! keystone.grant("member", &alice, &project)?;
//! let network = keystone.service("network", "meridian")?;
//! keystone.endpoint(&network, "public", "http://127.0.0.1:9696")?;
//! let token = keystone.token("alice", "secret", "demo")?;
//! # Ok(()) }
//! ```
//!
//! `setup` prepares a new Keystone, `rest` sends HTTP requests to it.

mod rest;
pub(crate) mod setup;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::job::OPENSTACK;
use crate::netns::Netns;
use crate::node::Node;
use crate::process::{Daemon, Recipe};
use crate::python;

/// Serves the loaded application at an address and a port. There is one thread, because SQLite rejects concurrent writes ("database is
/// locked").
const SERVE: &str = "waitress.serve(application, host=serve[0], port=int(serve[1]), threads=1)";

/// The number of retries with another port, if another process took the free port first.
const TRIES: usize = 5;
/// The port on a node.
const PORT: u16 = 5000;
/// Timeout of one answer.
const ANSWER: Duration = Duration::from_secs(60);

/// A running Keystone. Dropping it ends it.
#[derive(Debug)]
pub struct Keystone {
    daemon: Arc<Daemon>,
    url: String,
    /// The namespace of the requests; `None` on the host.
    netns: Option<Arc<Netns>>,
    agent: ureq::Agent,
    /// The token of `admin` for all requests. Valid for an hour, which is longer than any test.
    token: OnceLock<String>,
}

impl Keystone {
    /// Starts a Keystone on the host, on a free port of the loopback device, with its files in a folder. The Python environment
    /// is built if it is missing.
    pub fn start(dir: &Path) -> Result<Keystone> {
        let environment = python::openstack()?;
        let config = furnish(&environment, dir)?;
        let python = environment.join("bin/python3").display().to_string();
        for _ in 0..TRIES {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
            let address = free.context("cannot find a free port")?;
            let recipe = recipe(&python, &config, address);
            let daemon = Daemon::start_here("keystone", &dir.join("keystone.out"), recipe)?;
            match daemon.ready() {
                Err(_) if daemon.said().contains("Address already in use") => {}
                Err(error) => return Err(error),
                Ok(()) => return Keystone::up(Arc::new(daemon), &format!("http://{address}/v3"), None),
            }
        }
        bail!("no port of the loopback device stayed free for Keystone")
    }

    fn up(daemon: Arc<Daemon>, url: &str, netns: Option<Arc<Netns>>) -> Result<Keystone> {
        let agent = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(ANSWER));
        let keystone = Keystone {
            daemon,
            url: url.to_owned(),
            netns,
            agent: agent.build().into(),
            token: OnceLock::new(),
        };
        keystone.move_identity()?;
        Ok(keystone)
    }

    /// The URL, for `OS_AUTH_URL` and `www_authenticate_uri`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The password of the user `admin`, who has the role `admin` on the project `admin`.
    pub fn admin_password(&self) -> &'static str {
        setup::ADMIN_PASSWORD
    }

    /// The region of its endpoints.
    pub fn region(&self) -> &'static str {
        setup::REGION
    }

    /// The daemon, for tests that kill and restart it.
    pub fn daemon(&self) -> &Arc<Daemon> {
        &self.daemon
    }

    /// The variables with which `openstack` and the SDK act as a user of the domain `Default` in a project.
    pub fn env(&self, user: &str, password: &str, project: &str) -> Vec<(String, String)> {
        [
            ("OS_AUTH_URL", self.url.as_str()),
            ("OS_USERNAME", user),
            ("OS_PASSWORD", password),
            ("OS_PROJECT_NAME", project),
            ("OS_USER_DOMAIN_NAME", "Default"),
            ("OS_PROJECT_DOMAIN_NAME", "Default"),
            ("OS_REGION_NAME", setup::REGION),
            ("OS_IDENTITY_API_VERSION", "3"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
    }
}

impl Node {
    /// Starts Keystone on this node, on port 5000 of all its addresses; clients use `address`. The test must request the tools
    /// with [`Test::openstack`](crate::Test::openstack).
    pub fn keystone(&self, address: Ipv4Addr) -> Result<Keystone> {
        let environment = Path::new(OPENSTACK);
        if !environment.is_dir() {
            bail!("OpenStack's tools are not in this guest: register the test with `.openstack()`");
        }
        let config = furnish(environment, &self.dir().join("keystone"))?;
        let recipe = recipe("python3", &config, (Ipv4Addr::UNSPECIFIED, PORT).into())
            .env("PYTHONPATH", python::path_inside())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .ready_at((Ipv4Addr::LOCALHOST, PORT).into());
        let daemon = self.start("keystone", recipe)?;
        daemon.ready()?;
        let url = format!("http://{address}:{PORT}/v3");
        Keystone::up(daemon, &url, Some(Arc::clone(self.netns())))
    }

    /// Runs the `openstack` command here, with the variables of [`Keystone::env`]; returns its output.
    pub fn openstack(&self, env: &[(String, String)], args: &[&str]) -> Result<String> {
        let mut command = std::process::Command::new("python3");
        command.args(["-m", "openstackclient.shell"]).args(args).env("PYTHONPATH", python::path_inside());
        command.env("PYTHONDONTWRITEBYTECODE", "1").envs(env.iter().map(|(key, value)| (key, value)));
        self.output(&mut command, &format!("openstack {}", args.join(" ")))
    }

    /// Runs several `openstack` commands, a line each, in one process: it takes much longer to start than to run a command. A command that
    /// fails writes to standard error and the next one runs, so anything there is an error.
    pub fn openstack_lines(&self, env: &[(String, String)], lines: &[&str]) -> Result<String> {
        let (script, errors) = (self.dir().join("openstack.lines"), self.dir().join("openstack.errors"));
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(&script, text).with_context(|| format!("cannot write {}", script.display()))?;
        let run = r#"python3 -W ignore -m openstackclient.shell <"$0" 2>"$1"; cat "$1" >&2; test ! -s "$1""#;
        let mut command = std::process::Command::new("sh");
        command.args(["-c", run]).arg(&script).arg(&errors).env("PYTHONPATH", python::path_inside());
        command.env("PYTHONDONTWRITEBYTECODE", "1").envs(env.iter().map(|(key, value)| (key, value)));
        self.output(&mut command, &format!("openstack {}", lines.join("; openstack ")))
    }
}

/// Copies a Keystone's files into a folder; returns its configuration.
fn furnish(environment: &Path, dir: &Path) -> Result<PathBuf> {
    setup::unfold(environment, dir)?;
    setup::configure(dir)
}

fn recipe(python: &str, config: &Path, at: SocketAddr) -> Recipe {
    Recipe::new(python)
        .args(["-W", "ignore", "-c"])
        .arg(format!("{}{SERVE}", setup::LOAD))
        .arg(config.display().to_string())
        .arg(at.ip().to_string())
        .arg(at.port().to_string())
        .ready_at(at)
}

#[cfg(test)]
mod tests;
