//! `meridian ovsdb`: tools on any OVSDB database, by the server's own schema.

mod check_schema;

use clap::Subcommand;

use crate::config::{Config, Override};
use crate::failure::{EXIT_CODES, Outcome};

/// Read, watch and change OVSDB databases
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    CheckSchema(check_schema::Args),
}

impl Args {
    pub(super) fn overrides(&self) -> Vec<Override> {
        match &self.command {
            Command::CheckSchema(_) => Vec::new(),
        }
    }
}

pub(super) fn run(args: Args, config: &Config) -> Outcome {
    let _ = config;
    match args.command {
        Command::CheckSchema(args) => check_schema::run(&args),
    }
}
