//! `meridian node`: the roles of a node in one process, configured by Meridian's own file.

use super::dry_run::DryRunFlags;
use super::given;
use crate::admin;
use crate::config::{Config, Override};
use crate::failure::{EXIT_CODES, Exit, Failure, Outcome};
use crate::roles::{LoadedNode, NodeConfig};

/// Run the roles of a node in one process: the BGP agent, the metadata agent
///
/// The sections `[bgp]` and `[metadata]` of the configuration file configure them. Their keys are the options of a bgp-agent.conf
/// and of a neutron_ovn_metadata_agent.ini; see `meridian node --print-config`. `enabled` in each section says whether the role
/// runs: the BGP agent does by default, the metadata agent does not. Both share one connection to each database. To use the files
/// of the programs that they replace, run `meridian bgp-agent` and `meridian metadata-agent`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) dry_run: DryRunFlags,
    /// Take requests of `meridian status`, `plan` and `explain` at this path [default: /run/meridian/node.sock; root creates
    /// the directory]
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

    /// The roles that are enabled, with the flags over their options.
    pub(super) fn load(&self, config: &Config) -> Outcome<LoadedNode> {
        let mut node = NodeConfig::default();
        let mut warnings = Vec::new();
        if config.bgp.is_enabled() {
            let loaded = config.bgp.load().map_err(|error| Failure::new(Exit::Usage, error))?;
            warnings.extend(loaded.warnings);
            node.admin_socket = loaded.config.admin_socket.clone();
            node.metrics_listen = loaded.config.metrics_listen;
            node.bgp = Some(loaded.config);
        }
        if config.metadata.is_enabled() {
            let loaded = config.metadata.load().map_err(|error| Failure::new(Exit::Usage, error))?;
            let mut metadata = loaded.config;
            metadata.dry_run = self.dry_run.dry_run;
            node.admin_socket = node.admin_socket.or_else(|| metadata.admin_socket.clone());
            node.metrics_listen = node.metrics_listen.or(metadata.metrics_listen);
            node.metadata = Some(metadata);
        }
        if node.bgp.is_none() && node.metadata.is_none() {
            return Err(Failure::told(Exit::Usage, "cannot run a node without a role")
                .try_("bgp.enabled = true or metadata.enabled = true in the configuration file"));
        }
        // Two servers for one connection are an error of the configuration, which is reported before anything starts.
        node.connections()?;
        let socket = config.admin.socket.value.clone().or(node.admin_socket.take());
        node.admin_socket = socket;
        node.usual_socket = admin::NODE_SOCKET;
        node.metrics_listen = config.metrics.listen.value.or(node.metrics_listen);
        Ok(LoadedNode { config: node, warnings, ..LoadedNode::default() })
    }
}

#[cfg(test)]
mod tests {
    use crate::cli::Cli;
    use crate::config::Sources;

    use super::*;

    /// The roles that run with a configuration file.
    fn roles(text: &str, flags: &[&str]) -> Result<(bool, bool, LoadedNode), String> {
        use clap::Parser;
        let words = ["meridian", "node"].into_iter().chain(flags.iter().copied());
        let crate::cli::Command::Node(args) = Cli::try_parse_from(words).unwrap().command.unwrap() else {
            panic!("another command")
        };
        let sources = Sources {
            file: Some(("m.toml".into(), text.into())),
            flags: args.overrides(),
            ..Sources::default()
        };
        let config = sources.load().unwrap().config;
        let node = args.load(&config).map_err(|failure| failure.report().unwrap())?;
        Ok((node.config.bgp.is_some(), node.config.metadata.is_some(), node))
    }

    #[test]
    fn each_role_can_be_off_and_both_share_their_connections() {
        let (bgp, metadata, _) = roles("", &[]).unwrap();
        assert!(bgp && !metadata, "as before there were two");
        let both =
            "[metadata]\nenabled = true\novn_sb_connection = \"tcp:192.0.2.1:6642\"\nteardown_hold = 5\n";
        let (bgp, metadata, node) = roles(both, &["--dry-run"]).unwrap();
        assert!(bgp && metadata);
        assert!(node.config.connections().unwrap().southbound.remotes.is_some());
        let config = node.config.metadata.unwrap();
        assert!(config.dry_run && config.teardown_hold.as_secs() == 5 && node.config.bgp.unwrap().dry_run);
        let (bgp, metadata, _) = roles("bgp.enabled = false\nmetadata.enabled = true\n", &[]).unwrap();
        assert!(!bgp && metadata);
        let report = roles("bgp.enabled = false\n", &[]).map(|_| ()).unwrap_err();
        assert!(
            report.starts_with("error: cannot run a node without a role\n  try: bgp.enabled"),
            "{report}"
        );
        let two = format!("{both}[bgp]\novn_sb_connection = \"tcp:192.0.2.2:6642\"\n");
        let report = roles(&two, &[]).map(|_| ()).unwrap_err();
        assert!(report.contains("ovn_sb_connection of [bgp] and of [metadata] differ"), "{report}");
    }
}
