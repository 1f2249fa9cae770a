//! `meridian completions`: prints the completion script of a shell.

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, print};
use crate::failure::Outcome;

/// Print the completion script for a shell
///
/// For bash: `meridian completions bash > /etc/bash_completion.d/meridian`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The shell
    shell: Shell,
}

pub(super) fn run(args: &Args) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "meridian", &mut script);
    print(&String::from_utf8_lossy(&script))
}
