//! A real Kubernetes API server with etcd, in a private directory, on the host or inside of a guest.
//!
//! ```no_run
//! # fn test() -> anyhow::Result<()> {
//! let api = lab::kubernetes::ApiServer::start(std::path::Path::new("/tmp/api"))?;
//! api.kubectl(&["create", "namespace", "blue"])?;
//! api.server().kill()?; // kill -9
//! api.start_again()?;
//! # Ok(()) }
//! ```
//!
//! There is no scheduler, kubelet or controller manager: a test creates nodes and pods itself. So nothing collects garbage, and
//! an object with a finalizer stays until the program under test removes that. `build` compiles the programs once.

mod build;
#[cfg(test)]
mod tests;

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::Signal;

use crate::eventually::quietly;
use crate::process::{Daemon, Recipe};
use crate::python::said;

pub use build::{Programs, ensure, is_built};

/// Time until a server on a busy machine is ready.
const READY: Duration = Duration::from_secs(120);
/// The number of retries with other ports, if another process took a free port first.
const TRIES: usize = 5;
/// etcd on the host.
pub(crate) const ETCD: &str = "/usr/bin/etcd";
/// The place of the programs inside of a guest.
const PROGRAMS: &str = "/job/bin";
/// The file of the key with which a server signs tokens.
const KEY: &str = "sa.key";
/// The cluster's service subnets.
pub const SERVICE_SUBNETS: [&str; 2] = ["10.96.0.0/16", "fd00:10:96::/112"];

/// A user of the server, who shows a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiUser {
    /// The name, for rules.
    pub name: &'static str,
    /// The token.
    pub token: &'static str,
    /// The groups.
    pub groups: &'static str,
}

/// The user who may do everything.
pub const ADMIN: ApiUser = ApiUser { name: "admin", token: "admin-token", groups: "system:masters" };
/// The account of a program, without any right of its own: what it may do, a test has to grant.
pub const ACCOUNT: ApiUser = ApiUser {
    name: "system:serviceaccount:meridian:meridian-kube-manager",
    token: "account-token",
    groups: "system:serviceaccounts",
};

/// A running API server with its etcd. Both end with their value.
#[derive(Debug)]
pub struct ApiServer {
    // The server goes first.
    server: Daemon,
    etcd: Daemon,
    dir: PathBuf,
    port: u16,
    programs: Programs,
}

impl ApiServer {
    /// Starts both in a folder, which is created if necessary, on free ports of the loopback device. The programs are built if
    /// they are missing.
    pub fn start(dir: &Path) -> Result<ApiServer> {
        let programs = Programs::here()?;
        fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
        let users: String = [ADMIN, ACCOUNT]
            .map(|it| format!("{},{},{},{}\n", it.token, it.name, it.name, it.groups))
            .concat();
        fs::write(dir.join("tokens.csv"), users).context("cannot write the API server's users")?;
        if Programs::inside().is_some() {
            fs::copy(Path::new(PROGRAMS).join(KEY), dir.join(KEY)).context("cannot copy a key")?;
        } else {
            write_key(dir)?;
        }
        for _ in 0..TRIES {
            let [client, peer, port] = free_ports()?;
            let etcd = Daemon::start_here("etcd", &dir.join("etcd.out"), etcd(dir, client, peer))?;
            let recipe = server(&programs, dir, client, port);
            let server = Daemon::start_here("kube-apiserver", &dir.join("kube-apiserver.out"), recipe)?;
            let api = ApiServer { server, etcd, dir: dir.to_path_buf(), port, programs: programs.clone() };
            for user in [ADMIN, ACCOUNT] {
                fs::write(api.kubeconfig(user), api.kubeconfig_text(user))?;
            }
            match api.ready() {
                Err(_) if api.lost_a_port() => {}
                Err(error) => return Err(error),
                Ok(()) => return Ok(api),
            }
        }
        bail!("no ports of the loopback device stayed free for the API server")
    }

    fn lost_a_port(&self) -> bool {
        [&self.server, &self.etcd].iter().any(|it| it.said().contains("address already in use"))
    }

    /// Waits until the server answers that it is ready.
    fn ready(&self) -> Result<()> {
        quietly(READY, "the API server is ready", || {
            for daemon in [&self.etcd, &self.server] {
                if !daemon.alive() {
                    // No sense in waiting for it.
                    return Ok(Some(format!("{} ended at its start: {}", daemon.name(), daemon.said())));
                }
            }
            self.kubectl(&["get", "--raw", "/readyz"]).map(|_| None)
        })
        .and_then(|ended| match ended {
            Some(ended) => bail!("{ended}"),
            None => Ok(()),
        })
    }

    /// Starts the API server again after it was killed, and waits until it is ready.
    pub fn start_again(&self) -> Result<()> {
        self.server.start_again()?;
        self.ready()
    }

    /// Ends both, and keeps a copy of what etcd has stored.
    pub fn stop_and_back_up(&self) -> Result<()> {
        self.server.kill()?;
        self.etcd.kill()?;
        let copy = self.dir.join("etcd.backup");
        said(Command::new("cp").arg("--recursive").arg(self.dir.join("etcd")).arg(&copy)).map(drop)
    }

    /// Ends both, and puts the copy in place of what etcd has stored since.
    pub fn stop_and_restore(&self) -> Result<()> {
        self.server.kill()?;
        self.etcd.kill()?;
        let (data, copy) = (self.dir.join("etcd"), self.dir.join("etcd.backup"));
        fs::remove_dir_all(&data).with_context(|| format!("cannot remove {}", data.display()))?;
        fs::rename(&copy, &data).with_context(|| format!("cannot move {}", copy.display()))
    }

    /// Starts both again after they have ended, and waits until the server is ready.
    pub fn start_both_again(&self) -> Result<()> {
        self.etcd.start_again()?;
        self.start_again()
    }

    /// The process of the API server, to be killed or stopped.
    pub fn server(&self) -> &Daemon {
        &self.server
    }

    /// The process of etcd.
    pub fn etcd(&self) -> &Daemon {
        &self.etcd
    }

    /// The file with which clients act as a user.
    pub fn kubeconfig(&self, user: ApiUser) -> PathBuf {
        self.dir.join(format!("{}.kubeconfig", user.token))
    }

    fn kubeconfig_text(&self, user: ApiUser) -> String {
        let certificate = self.dir.join("certificates/apiserver.crt");
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: lab\n\
             clusters: [{{name: lab, cluster: {{server: \"https://127.0.0.1:{}\", certificate-authority: \"{}\"}}}}]\n\
             users: [{{name: user, user: {{token: {token}}}}}]\n\
             contexts: [{{name: lab, context: {{cluster: lab, user: user}}}}]\n",
            self.port,
            certificate.display(),
            token = user.token,
        )
    }

    /// Runs kubectl as the user who may do everything; returns its output.
    pub fn kubectl(&self, args: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.programs.kubectl);
        command.arg("--request-timeout=30s").args(args).env("KUBECONFIG", self.kubeconfig(ADMIN));
        // Its cache of the server's resources.
        command.env("HOME", &self.dir);
        said(&mut command)
    }

    /// Creates or changes the objects of a YAML or JSON text as kubectl does.
    pub fn apply(&self, objects: &str) -> Result<String> {
        let file = self.dir.join("apply.yaml");
        fs::write(&file, objects).context("cannot write objects for kubectl")?;
        self.kubectl(&["apply", "--validate=false", "-f", &file.display().to_string()])
    }
}

impl Programs {
    /// The programs of this process: those of its guest, or those in the cache, compiled if they are missing.
    fn here() -> Result<Programs> {
        match Programs::inside() {
            Some(programs) => Ok(programs),
            None => ensure(),
        }
    }

    /// The programs inside of a guest whose test requested them.
    fn inside() -> Option<Programs> {
        let programs = Path::new(PROGRAMS);
        let server = programs.join("kube-apiserver");
        server.is_file().then(|| Programs { server, kubectl: programs.join("kubectl") })
    }
}

/// Writes the key with which a server signs tokens. Guests have no program for that.
pub(crate) fn write_key(dir: &Path) -> Result<()> {
    said(Command::new("openssl").args(["genrsa", "-out"]).arg(dir.join(KEY)).arg("2048")).map(drop)
}

/// Three ports that are free now.
fn free_ports() -> Result<[u16; 3]> {
    // All at once, so that they differ.
    let bind = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot find a free port");
    let listeners = [bind()?, bind()?, bind()?];
    let mut ports = [0; 3];
    for (port, listener) in ports.iter_mut().zip(&listeners) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}

fn etcd(dir: &Path, client: u16, peer: u16) -> Recipe {
    let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
    Recipe::new("etcd")
        .arg("--data-dir")
        .arg(dir.join("etcd").display().to_string())
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("default={peer}"), "--logger=zap", "--log-level=warn"])
        .goodbye(Signal::SIGTERM)
}

fn server(programs: &Programs, dir: &Path, etcd: u16, port: u16) -> Recipe {
    let path = |name: &str| dir.join(name).display().to_string();
    Recipe::new(&programs.server.display().to_string())
        .arg(format!("--etcd-servers=http://127.0.0.1:{etcd}"))
        .arg(format!("--secure-port={port}"))
        .arg(format!("--cert-dir={}", path("certificates")))
        .arg(format!("--token-auth-file={}", path("tokens.csv")))
        .arg(format!("--service-account-key-file={}", path(KEY)))
        .arg(format!("--service-account-signing-key-file={}", path(KEY)))
        .arg(format!("--service-cluster-ip-range={}", SERVICE_SUBNETS.join(",")))
        .args([
            "--bind-address=127.0.0.1",
            "--insecure-port=0",
            "--service-account-issuer=https://meridian.test",
            "--api-audiences=meridian",
            "--authorization-mode=RBAC",
            "--feature-gates=IPv6DualStack=true",
            // Nobody creates the default accounts of namespaces, and nobody reports nodes as ready.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
        ])
        .goodbye(Signal::SIGKILL)
}
