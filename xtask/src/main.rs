//! `cargo xtask`: the commands for newcomers and CI.
//!
//! One file per command; `packages` and `command` hold shared functions. Nothing here is part of the product: the `meridian`
//! binary never depends on it.

mod bench;
mod check;
mod command;
mod differential;
mod fuzz;
mod guides;
mod lab;
mod neutron;
mod octavia;
mod package;
mod packages;
mod problems;
mod purity;
mod record;
mod server;
mod summary;
mod tempest;
mod test;
mod trace;
mod up;
mod uwsgi;
mod walks;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Build, run and check Meridian. Every command installs missing Debian packages and cargo tools by itself.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Start the network API with an OVN central of its own, in the foreground, and print how to use it
    Up(up::Args),
    /// Run every test and print the counts
    Test(test::Args),
    /// Run OVN on several nodes with real packets, on this machine and without root
    Lab(lab::Args),
    /// Measure the OVSDB client, the network API server, the BGP agent or the lab, and compare with goals and peers
    Bench(bench::Args),
    /// Record the rows and answers of a real Neutron for the tests of `meridian import neutron`, and run them
    Record(record::Args),
    /// Run Neutron's and Octavia's own API tests (tempest and its plug-ins) against the server
    Tempest(tempest::Args),
    /// Send the same random requests to the server and to a real Neutron, and compare answers and Northbound
    Differential(differential::Args),
    /// Fuzz the decoders (needs a nightly compiler)
    Fuzz(fuzz::Args),
    /// Build the Debian package: binary, units, manual pages, completions, sample configuration
    Package(package::Args),
    /// Check format, lints, dependencies and documentation; no tests
    Check,
    /// Run the checks of CI: `check`, then `test`
    Ci,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Task::Up(args) => up::up(&args).map(|()| ExitCode::SUCCESS),
        Task::Test(args) => test::run(&args),
        Task::Lab(args) => lab::lab(&args),
        Task::Bench(args) => bench::bench(&args),
        Task::Record(args) => record::record(&args).map(|()| ExitCode::SUCCESS),
        Task::Tempest(args) => tempest::tempest(&args),
        Task::Differential(args) => differential::differential(&args),
        Task::Fuzz(args) => fuzz::fuzz(&args),
        Task::Package(args) => package::package(&args).map(|()| ExitCode::SUCCESS),
        Task::Check => check::check().map(|()| ExitCode::SUCCESS),
        Task::Ci => check::check().and_then(|()| test::run(&test::Args::default())),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{} {error:#}", console::style("error:").for_stderr().red().bold());
            ExitCode::FAILURE
        }
    }
}
