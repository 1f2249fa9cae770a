//! `cargo xtask`: what a newcomer and CI run.
//!
//! One file per command; `packages` and `command` hold what they share. Nothing here is part of the product: the
//! `meridian` binary never depends on it.

mod bench;
mod check;
mod command;
mod fuzz;
mod guides;
mod lab;
mod neutron;
mod package;
mod packages;
mod problems;
mod purity;
mod record;
mod summary;
mod test;
mod trace;
mod up;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Build, run and check Meridian. Every command installs what it misses (Debian packages, cargo tools) by itself.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Start the network API with an OVN central of its own, in the foreground, and tell how to use it
    Up(up::Args),
    /// Run every test and end with the counts
    Test(test::Args),
    /// OVN on several nodes with real packets, on this machine and without root
    Lab(lab::Args),
    /// Measure the OVSDB client, the network API server, the BGP agent or the lab, beside their goals and beside others
    Bench(bench::Args),
    /// Record what a real Neutron writes and answers, for the tests of `meridian import neutron`, and run them on it
    Record(record::Args),
    /// Look for inputs that break the decoders (needs a nightly compiler)
    Fuzz(fuzz::Args),
    /// Make the Debian package: binary, units, manual pages, completions, sample configuration
    Package(package::Args),
    /// Format, lint, dependencies and documentation; no tests
    Check,
    /// What CI runs: `check`, then `test`
    Ci,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Task::Up(args) => up::up(&args).map(|()| ExitCode::SUCCESS),
        Task::Test(args) => test::run(&args),
        Task::Lab(args) => lab::lab(&args),
        Task::Bench(args) => bench::bench(&args),
        Task::Record(args) => record::record(&args).map(|()| ExitCode::SUCCESS),
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
