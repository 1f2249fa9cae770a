//! The `meridian` binary: command line, configuration, telemetry and wiring. The crates that it uses do the work.
//!
//! | command | purpose |
//! |---|---|
//! | `meridian server` | serve the network API, with `--dev` on an OVN central of its own |
//! | `meridian ovsdb dump`, `schema` | print a table's rows, with the types of the server's own schema |
//! | `meridian ovsdb watch`, `replay` | print every change as a line of JSON, live or from a recording |
//! | `meridian ovsdb txn` | run one transaction |
//! | `meridian ovsdb locks` | check, hold and steal locks |
//! | `meridian ovsdb check-schema` | compare Meridian's typed tables with schema files |
//! | `meridian node` | run the roles of a node in one process: the BGP agent, the metadata agent |
//! | `meridian bgp-agent` | run the BGP agent of a node, configured by a `bgp-agent.conf` |
//! | `meridian metadata-agent`, `metadata-proxy` | serve metadata to a chassis's VMs, configured by `neutron_ovn_metadata_agent.ini` |
//! | `meridian kube-manager` | number the nodes, layer-2 networks and pods of a Kubernetes cluster |
//! | `meridian plan`, `explain` | show the changes that a running process would make; explain an address or an object |
//! | `meridian status` | show the state of a running process |
//! | `meridian completions` | print the completion script of a shell |
//! | `meridian man` | print or write the man pages |
//!
//! Long-running commands end cleanly on SIGINT and SIGTERM. [`config`] describes the configuration, [`failure::Exit`] the exit codes.

mod admin;
mod cli;
mod clients;
mod config;
mod failure;
mod filter;
mod kube;
mod kube_node;
mod metadata_proxy;
mod metrics;
mod nearest;
mod notify;
mod output;
mod process;
mod remote;
mod roles;
mod signals;
mod telemetry;

fn main() -> std::process::ExitCode {
    cli::main()
}
