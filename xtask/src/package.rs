//! `cargo xtask package`: the Debian package of the optimised binary.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::command::{cargo, heading, output, root, run, target_dir};
use crate::packages::{self, Need};

/// The options of `cargo xtask package`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Directory for the package [default: target/debian]
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Builds the binary and packs it with its units, manual pages, completions and sample configuration.
pub(crate) fn package(args: &Args) -> Result<()> {
    packages::ensure(Need::Package)?;
    heading("building, optimised");
    run(cargo().args(["build", "--release", "--locked", "--package", "meridian"]))?;
    heading("packing");
    let target = target_dir();
    let mut deb = Command::new(root().join("packaging/deb"));
    deb.arg(target.join("release/meridian"))
        .arg(args.output.clone().unwrap_or_else(|| target.join("debian")));
    println!("{}", output(&mut deb)?.trim());
    Ok(())
}
