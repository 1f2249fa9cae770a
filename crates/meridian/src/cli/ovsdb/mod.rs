//! `meridian ovsdb`: tools for any OVSDB database. They use the server's own schema.

mod check_schema;
mod connection;
mod dump;
mod events;
mod locks;
mod replay;
mod schema;
mod selected;
mod txn;
mod watch;
mod watched;

use clap::Subcommand;

use crate::cli::block_on;
use crate::config::{Config, Override};
use crate::failure::{EXIT_CODES, Outcome};
use crate::telemetry::LogControl;

pub(super) use connection::Target;

/// Read, watch and change OVSDB databases
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Dump(dump::Args),
    Watch(watch::Args),
    Replay(replay::Args),
    Txn(txn::Args),
    Schema(schema::Args),
    CheckSchema(check_schema::Args),
    Locks(locks::Args),
}

impl Args {
    pub(super) fn overrides(&self) -> Vec<Override> {
        match &self.command {
            Command::Dump(args) => args.overrides(),
            Command::Watch(args) => args.overrides(),
            Command::Replay(args) => args.overrides(),
            Command::Txn(args) => args.overrides(),
            Command::Schema(args) => args.overrides(),
            Command::CheckSchema(_) => Vec::new(),
            Command::Locks(args) => args.overrides(),
        }
    }
}

pub(super) fn run(args: &Args, config: &Config, log: LogControl) -> Outcome {
    match &args.command {
        Command::Dump(args) => block_on(dump::run(args, config)),
        Command::Watch(args) => block_on(watch::run(args, config, log)),
        Command::Replay(args) => replay::run(args, config),
        Command::Txn(args) => block_on(txn::run(args, config)),
        Command::Schema(args) => block_on(schema::run(args, config)),
        Command::CheckSchema(args) => check_schema::run(args),
        Command::Locks(args) => block_on(locks::run(args, config)),
    }
}
