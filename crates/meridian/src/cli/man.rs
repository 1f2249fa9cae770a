//! `meridian man`: generates the man pages from the definition of the command line.

use std::path::PathBuf;

use clap::CommandFactory;

use super::{Cli, print};
use crate::failure::{Exit, Failure, Outcome};

/// Print the man page, or write one per command to a directory
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Write the pages to this directory, which is created if it does not exist
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> Outcome {
    let Some(dir) = &args.dir else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page).map_err(Failure::output)?;
        return print(&String::from_utf8_lossy(&page));
    };
    std::fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(Cli::command(), dir)).map_err(
        |error| {
            Failure::new(Exit::Local, error).while_(format!("cannot write man pages to {}", dir.display()))
        },
    )
}
