//! The `meridian` binary: command line, configuration, telemetry and wiring; the work is done by the crates it uses.
//!
//! | command | does |
//! |---|---|
//! | `meridian server` | the network API, with `--dev` on an OVN central of its own |
//! | `meridian ovsdb dump`, `schema` | a table's rows, by the server's own schema |
//! | `meridian ovsdb watch`, `replay` | every change as a line of JSON, live or from a recording |
//! | `meridian ovsdb txn` | one transaction |
//! | `meridian ovsdb locks` | whether locks are free; holding and stealing them |
//! | `meridian ovsdb check-schema` | our typed tables against schema files |
//! | `meridian node` | the roles of a node in one process: the BGP agent, the metadata agent |
//! | `meridian bgp-agent` | the BGP agent of a node, configured by a `bgp-agent.conf` |
//! | `meridian metadata-agent`, `metadata-proxy` | metadata for the VMs of a chassis, configured by a `neutron_ovn_metadata_agent.ini` |
//! | `meridian plan`, `explain` | what a running process would do; why an address is exposed or not |
//! | `meridian status` | what a running process says of itself |
//! | `meridian completions` | prints the completion script for a shell |
//! | `meridian man` | prints or writes the man pages |
//!
//! Long-running commands end cleanly on SIGINT and SIGTERM. The configuration is described by [`config`], the exit
//! codes by [`failure::Exit`].

mod admin;
mod cli;
mod clients;
mod config;
mod failure;
mod filter;
mod metadata_proxy;
mod metrics;
mod nearest;
mod notify;
mod output;
mod process;
mod remote;
mod roles;
mod telemetry;

fn main() -> std::process::ExitCode {
    cli::main()
}
