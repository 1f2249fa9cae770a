//! The `meridian` binary: command line, configuration, telemetry and wiring; the work is done by the crates it uses.
//!
//! | command | does |
//! |---|---|
//! | `meridian ovsdb` | tools on any OVSDB database |
//! | `meridian completions` | prints the completion script for a shell |
//! | `meridian man` | prints or writes the man pages |
//!
//! Long-running commands end cleanly on SIGINT and SIGTERM. The configuration is described by [`config`], the exit
//! codes by [`failure::Exit`].

// The filter and the output formats come into use with the first command that reads rows.
#![allow(dead_code, unused_imports)]

mod cli;
mod config;
mod failure;
mod filter;
mod nearest;
mod output;
mod telemetry;

fn main() -> std::process::ExitCode {
    cli::main()
}
