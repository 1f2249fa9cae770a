//! `meridian bgp-agent`: the BGP agent of a node, with the configuration of the program that it replaces.

use std::path::PathBuf;

use node::bgp::config::Config;

use super::dry_run::DryRunFlags;
use super::ini_files::IniFiles;
use crate::admin;
use crate::failure::{EXIT_CODES, Exit, Failure, Outcome};
use crate::roles::{LoadedNode, NodeConfig};

/// The configuration file of ovn-bgp-agent's packages.
const USUAL: &str = "/etc/ovn-bgp-agent/bgp-agent.conf";

/// Expose an OVN cloud through BGP on this node, as a bgp-agent.conf says
///
/// Takes the place of ovn-bgp-agent: reads its configuration, takes over what it left on the node, and keeps addresses of
/// instances, routers and load balancers announced by FRR while OVN has them here. Without --config-file and --config-dir,
/// /etc/ovn-bgp-agent/bgp-agent.conf is read if it is there. Ends on SIGINT and SIGTERM, and leaves everything in place
/// unless withdraw_on_stop is set.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Args {
    #[command(flatten)]
    files: IniFiles,
    #[command(flatten)]
    pub(super) dry_run: DryRunFlags,
    /// Take requests of `meridian status`, `plan` and `explain` at this path [default: /run/meridian/node.sock; root creates
    /// the directory]
    #[arg(long, value_name = "PATH")]
    admin_socket: Option<PathBuf>,
    /// Serve /metrics and /health over HTTP at this address, e.g. 127.0.0.1:9697
    #[arg(long, value_name = "ADDRESS")]
    metrics_listen: Option<std::net::SocketAddr>,
}

impl Args {
    /// Reads the files, and puts the flags over them.
    pub(super) fn load(&self) -> Outcome<LoadedNode> {
        let ini = self.files.read(&[USUAL])?;
        let loaded = Config::from_ini(&ini).map_err(|error| Failure::new(Exit::Usage, error))?;
        let mut bgp = loaded.config;
        bgp.dry_run |= self.dry_run.dry_run;
        let socket = self.admin_socket.clone().or_else(|| bgp.admin_socket.take());
        let config = NodeConfig {
            admin_socket: socket,
            usual_socket: admin::NODE_SOCKET,
            metrics_listen: self.metrics_listen.or(bgp.metrics_listen),
            bgp: Some(bgp),
            metadata: None,
        };
        Ok(LoadedNode { config, warnings: loaded.warnings, ..LoadedNode::default() })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::output::Said;

    fn args(config_file: &[&Path], config_dir: &[&Path]) -> Args {
        let own = |paths: &[&Path]| paths.iter().map(|path| path.to_path_buf()).collect();
        Args {
            files: IniFiles { config_file: own(config_file), config_dir: own(config_dir) },
            dry_run: DryRunFlags { dry_run: false, watch: false, output: Said::Text },
            admin_socket: None,
            metrics_listen: None,
        }
    }

    #[test]
    fn files_and_directories_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let first = write("z.conf", "bgp_AS = 1\nbgp_nic = a\n");
        write("b.conf", "bgp_AS = 3\n");
        write("a.conf", "bgp_AS = 2\nbgp_vrf = v\n");
        write("c.conf.bak", "bgp_AS = 9\n");
        let sub = dir.path().join("sub");
        std::fs::create_dir(&sub).unwrap();
        std::fs::write(sub.join("x.conf"), "bgp_AS = 7\n").unwrap();
        let config = args(&[&first], &[&sub]).load().unwrap().config.bgp.unwrap();
        assert_eq!((config.bgp_as.as_str(), config.bgp_nic.as_str()), ("7", "a"));
        let config = args(&[], &[dir.path()]).load().unwrap().config.bgp.unwrap();
        assert_eq!((config.bgp_as.as_str(), config.bgp_vrf.as_str()), ("1", "v"), "by the order of names");
        let config = args(&[], &[&first]).load().unwrap().config.bgp.unwrap();
        assert_eq!(config.bgp_as, "1", "a file for a directory");
        assert!(args(&[Path::new("/nowhere.conf")], &[]).load().is_err());
        let broken = write("broken", "nonsense\n");
        assert!(args(&[&broken], &[]).load().is_err());
    }
}
