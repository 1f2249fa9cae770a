//! `meridian import`: taking over what another program runs.

mod destination;
mod neutron;
mod octavia;
mod report;
mod source;

use clap::Subcommand;

use crate::config::{Config, Override};
use crate::failure::{EXIT_CODES, Outcome};

/// Import a cloud that another program runs
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Args {
    #[command(subcommand)]
    source: Source,
}

#[derive(Debug, Subcommand)]
enum Source {
    Neutron(Box<neutron::Args>),
    Octavia(Box<octavia::Args>),
}

impl Args {
    pub(super) fn overrides(&self) -> Vec<Override> {
        match &self.source {
            Source::Neutron(args) => args.overrides(),
            Source::Octavia(args) => args.overrides(),
        }
    }
}

pub(super) async fn run(args: &Args, config: &Config) -> Outcome {
    match &args.source {
        Source::Neutron(args) => neutron::run(args, config).await,
        Source::Octavia(args) => octavia::run(args, config).await,
    }
}
