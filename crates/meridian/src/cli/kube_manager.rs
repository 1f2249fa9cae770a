//! `meridian kube-manager`.

use super::given;
use crate::config::Override;
use crate::failure::EXIT_CODES;

/// Number the nodes, layer-2 networks and pods of a Kubernetes cluster
///
/// Reads primary layer-2 UserDefinedNetworks and ClusterUserDefinedNetworks, creates their NetworkAttachmentDefinitions, and writes
/// ids, peer subnets, addresses and tunnel keys into annotations of nodes, definitions and pods. Of several managers one works; a
/// lease decides which. It is configured by the section `[kube]` of the configuration file, see `meridian --print-config`. Ends on
/// SIGINT and SIGTERM, and when it loses the lease.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Args {
    /// Kubeconfig file [default: the service account of the pod]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<String>,
    /// Take requests of `meridian status` and `plan` at this path
    #[arg(long, value_name = "PATH")]
    admin_socket: Option<String>,
    /// Serve /metrics and /health over HTTP at this address, e.g. 127.0.0.1:9699
    #[arg(long, value_name = "ADDRESS")]
    metrics_listen: Option<String>,
}

impl Args {
    pub(super) fn overrides(&self) -> Vec<Override> {
        let flags = [
            given("kube.kubeconfig", "--kubeconfig", self.kubeconfig.clone()),
            given("admin.socket", "--admin-socket", self.admin_socket.clone()),
            given("metrics.listen", "--metrics-listen", self.metrics_listen.clone()),
        ];
        flags.into_iter().flatten().collect()
    }
}
