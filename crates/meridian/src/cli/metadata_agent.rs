//! `meridian metadata-agent` and `meridian metadata-proxy`, with the configuration of the program that they replace.

use std::net::SocketAddr;
use std::path::PathBuf;

use node::metadata::config::{Config, Loaded};

use super::ini_files::IniFiles;
use crate::failure::{EXIT_CODES, Exit, Failure, Outcome};

/// The file of Neutron's packages.
const USUAL: &str = "/etc/neutron/neutron_ovn_metadata_agent.ini";

/// Give every VM of this chassis the metadata service at 169.254.169.254
///
/// Takes the place of neutron-ovn-metadata-agent: reads its configuration, takes over its namespaces, and keeps one for each
/// network that has VMs here. Requests are answered by `meridian metadata-proxy`, which runs beside it without privileges. Without
/// --config-file and --config-dir, /etc/neutron/neutron_ovn_metadata_agent.ini is read if it is there. Needs CAP_NET_ADMIN and
/// CAP_SYS_ADMIN. Ends on SIGINT and SIGTERM, and leaves everything in place.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct AgentArgs {
    #[command(flatten)]
    files: IniFiles,
    /// Take requests of `meridian status` and `plan` at this path [default: /run/meridian-metadata-agent/admin.sock, where that
    /// directory is there]
    #[arg(long, value_name = "PATH")]
    admin_socket: Option<PathBuf>,
    /// Serve /metrics and /health over HTTP at this address, e.g. 127.0.0.1:9698
    #[arg(long, value_name = "ADDRESS")]
    metrics_listen: Option<SocketAddr>,
}

impl AgentArgs {
    /// Reads the files, and puts the flags over them.
    pub(super) fn load(&self) -> Outcome<Loaded> {
        let mut loaded = load(&self.files)?;
        let config = &mut loaded.config;
        config.admin_socket = self.admin_socket.clone().or_else(|| config.admin_socket.take());
        config.metrics_listen = self.metrics_listen.or(config.metrics_listen);
        Ok(loaded)
    }
}

/// Answer metadata requests of VMs for the metadata agent, without privileges
///
/// Takes listening sockets from `meridian metadata-agent` over control_socket, adds the identity of the instance to each request
/// with a signature, and forwards it to Nova. Reads the same files as the agent. Ends on SIGINT and SIGTERM; clients wait until it
/// is started again.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct ProxyArgs {
    #[command(flatten)]
    files: IniFiles,
}

impl ProxyArgs {
    /// Reads the files.
    pub(super) fn load(&self) -> Outcome<Loaded> {
        load(&self.files)
    }
}

fn load(files: &IniFiles) -> Outcome<Loaded> {
    Config::from_ini(&files.read(USUAL)?).map_err(|error| Failure::new(Exit::Usage, error))
}
