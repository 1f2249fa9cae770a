//! A `meridian server` as a child process, and the URLs that it prints when it is ready.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use central::Daemon;

/// A server that listens.
pub(crate) struct Server {
    pub(crate) daemon: Daemon,
    /// The network API.
    pub(crate) url: String,
    /// The load-balancer API.
    pub(crate) load_balancer_url: String,
}

impl Server {
    /// Starts `meridian server --dev` on free ports of loopback, with its data in a directory, and waits until it listens.
    /// `configure` adds to the command.
    pub(crate) fn start(
        meridian: &Path,
        dir: &Path,
        log: &Path,
        configure: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Result<Server> {
        let mut command = Command::new(meridian);
        command.args(["server", "--dev", "--listen", "127.0.0.1:0", "--lb-listen", "127.0.0.1:0"]);
        command.args(["--metrics-listen", "127.0.0.1:0", "--data-dir"]).arg(dir).stdout(Stdio::piped());
        let mut daemon = Daemon::start("meridian server", configure(&mut command), log)?;
        let stdout = daemon.take_stdout().context("the server has no output")?;
        let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
        let mut load_balancer = None;
        let url = lines.find_map(|line| {
            if let Some(url) = line.strip_prefix("load balancers on ") {
                load_balancer = Some(url.to_owned());
            }
            line.strip_prefix("listening on ").map(str::to_owned)
        });
        let Some((url, load_balancer_url)) = url.zip(load_balancer) else {
            // The output ends slightly earlier than the process.
            std::thread::sleep(Duration::from_secs(1));
            daemon.still_running()?;
            bail!("the server does not print where it listens; see {}", log.display());
        };
        Ok(Server { daemon, url, load_balancer_url })
    }
}
