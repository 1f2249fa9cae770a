//! `meridian node`: what runs on a node, configured by Meridian's own file.

use node::bgp::config::Loaded;

use super::dry_run::DryRunFlags;
use super::given;
use crate::config::{Config, Override};
use crate::failure::{EXIT_CODES, Exit, Failure, Outcome};

/// Run what Meridian does on a node: the BGP agent
///
/// It is configured by the section `[bgp]` of the configuration file, whose keys are the options of a bgp-agent.conf; see
/// `meridian node --print-config`. To use a bgp-agent.conf as it is, run `meridian bgp-agent`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) dry_run: DryRunFlags,
    /// Take requests of `meridian status`, `plan` and `explain` at this path [default: /run/meridian/node.sock, where that
    /// directory is there]
    #[arg(long, value_name = "PATH")]
    admin_socket: Option<String>,
    /// Serve /metrics and /health over HTTP at this address, e.g. 127.0.0.1:9697
    #[arg(long, value_name = "ADDRESS")]
    metrics_listen: Option<String>,
}

impl Args {
    pub(super) fn overrides(&self) -> Vec<Override> {
        let flags = [
            given("metrics.listen", "--metrics-listen", self.metrics_listen.clone()),
            given("admin.socket", "--admin-socket", self.admin_socket.clone()),
            given("bgp.dry_run", "--dry-run", self.dry_run.dry_run.then_some("true")),
        ];
        flags.into_iter().flatten().collect()
    }

    /// What the agent is told.
    pub(super) fn load(&self, config: &Config) -> Outcome<Loaded> {
        let mut loaded = config.bgp.load().map_err(|error| Failure::new(Exit::Usage, error))?;
        let agent = &mut loaded.config;
        agent.admin_socket = config.admin.socket.value.clone().or_else(|| agent.admin_socket.take());
        agent.metrics_listen = config.metrics.listen.value.or(agent.metrics_listen);
        Ok(loaded)
    }
}
