//! `meridian metadata-agent` and `meridian metadata-proxy`, with the configuration of the program that they replace.

use std::net::SocketAddr;
use std::path::PathBuf;

use node::metadata::config::{Config, Loaded};

use super::ini_files::IniFiles;
use crate::admin;
use crate::config::Config as Settings;
use crate::failure::{EXIT_CODES, Exit, Failure, Outcome};
use crate::roles::{LoadedNode, NodeConfig};

/// The files of Neutron's packages; the second one overrides the first.
const USUAL: &[&str] = &["/etc/neutron/neutron.conf", "/etc/neutron/neutron_ovn_metadata_agent.ini"];

/// Give every VM of this chassis the metadata service at 169.254.169.254
///
/// Takes the place of neutron-ovn-metadata-agent: reads its configuration, takes over its namespaces, and keeps one for each
/// network that has VMs here. Requests are answered by `meridian metadata-proxy`, which runs beside it without privileges. Without
/// --config-file and --config-dir, /etc/neutron/neutron.conf and /etc/neutron/neutron_ovn_metadata_agent.ini are read if they are
/// there. Idles if ovn_metadata_enabled is false. Needs CAP_NET_ADMIN and CAP_SYS_ADMIN. Ends on SIGINT and SIGTERM, and leaves
/// everything in place.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct AgentArgs {
    #[command(flatten)]
    files: IniFiles,
    /// Take requests of `meridian status` and `plan` at this path [default: /run/meridian-metadata-agent/admin.sock; root
    /// creates the directory]
    #[arg(long, value_name = "PATH")]
    admin_socket: Option<PathBuf>,
    /// Serve /metrics and /health over HTTP at this address, e.g. 127.0.0.1:9698
    #[arg(long, value_name = "ADDRESS")]
    metrics_listen: Option<SocketAddr>,
}

impl AgentArgs {
    /// Reads the files, and puts the flags over them.
    pub(super) fn load(&self) -> Outcome<LoadedNode> {
        let loaded = load(&self.files)?;
        let mut metadata = loaded.config;
        let socket = self.admin_socket.clone().or_else(|| metadata.admin_socket.take());
        let config = NodeConfig {
            admin_socket: socket,
            usual_socket: admin::METADATA_SOCKET,
            metrics_listen: self.metrics_listen.or(metadata.metrics_listen),
            bgp: None,
            metadata: Some(metadata),
        };
        Ok(LoadedNode { config, ignored: loaded.ignored, ..LoadedNode::default() })
    }
}

/// Answer metadata requests of VMs for the metadata agent, without privileges
///
/// Takes listening sockets from `meridian metadata-agent` over control_socket, adds the identity of the instance to each request
/// with a signature, and forwards it to Nova. Reads the same files as the agent; without --config-file and --config-dir it reads
/// the section `[metadata]` of the configuration file, if `metadata.enabled` is true there. Ends on SIGINT and SIGTERM; clients
/// wait until it is started again.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct ProxyArgs {
    #[command(flatten)]
    files: IniFiles,
}

impl ProxyArgs {
    /// Reads the files, or the section of the node's own file.
    pub(super) fn load(&self, config: &Settings) -> Outcome<Loaded> {
        match self.files.are_named() || !config.metadata.is_enabled() {
            true => load(&self.files),
            false => config.metadata.load().map_err(|error| Failure::new(Exit::Usage, error)),
        }
    }
}

fn load(files: &IniFiles) -> Outcome<Loaded> {
    Config::from_ini(&files.read(USUAL)?).map_err(|error| Failure::new(Exit::Usage, error))
}
