//! `meridian kube-node`.

use super::given;
use crate::config::Override;
use crate::failure::EXIT_CODES;

/// Keep the rows of layer-2 networks in the OVN zone of one Kubernetes node
///
/// Reads nodes, attachment definitions, pods, services and mirrored endpoint slices. Writes the switches, routers and ports of
/// primary layer-2 networks into the Northbound of this node's zone, and the chassis of all other nodes into its Southbound. Marks
/// the node in the API once the rows are there. `meridian kube-manager` must run in the cluster. It is configured by the section
/// `[kube]` of the configuration file, see `meridian --print-config`. Ends on SIGINT and SIGTERM; the rows stay.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Args {
    /// Name of this node in the API
    #[arg(long, value_name = "NAME")]
    node_name: Option<String>,
    /// Kubeconfig file [default: the service account of the pod]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<String>,
    /// Northbound of this node's zone, e.g. unix:/run/ovn/ovnnb_db.sock
    #[arg(long, value_name = "REMOTE")]
    nb: Option<String>,
    /// Southbound of this node's zone, e.g. unix:/run/ovn/ovnsb_db.sock
    #[arg(long, value_name = "REMOTE")]
    sb: Option<String>,
    /// Take requests of `meridian status`, `plan` and `explain` at this path
    #[arg(long, value_name = "PATH")]
    admin_socket: Option<String>,
    /// Serve /metrics and /health over HTTP at this address, e.g. 127.0.0.1:9700
    #[arg(long, value_name = "ADDRESS")]
    metrics_listen: Option<String>,
}

impl Args {
    pub(super) fn overrides(&self) -> Vec<Override> {
        let flags = [
            given("kube.node_name", "--node-name", self.node_name.clone()),
            given("kube.kubeconfig", "--kubeconfig", self.kubeconfig.clone()),
            given("kube.nb", "--nb", self.nb.clone()),
            given("kube.sb", "--sb", self.sb.clone()),
            given("admin.socket", "--admin-socket", self.admin_socket.clone()),
            given("metrics.listen", "--metrics-listen", self.metrics_listen.clone()),
        ];
        flags.into_iter().flatten().collect()
    }
}
