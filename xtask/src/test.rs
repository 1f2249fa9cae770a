//! `cargo xtask test`: runs every test and ends with one line of counts.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use console::style;

use crate::bench::lb;
use crate::command::{cargo, heading, target_dir, tee};
use crate::packages::{self, CargoTool, Need};
use crate::summary::Counts;
use crate::tempest::{self, Suite};
use crate::up;

/// OpenStack's own suites, which run after the other tests.
const SUITES: [Suite; 2] = [Suite::Network, Suite::Lb];

/// The options of `cargo xtask test`.
#[derive(clap::Args, Default)]
pub(crate) struct Args {
    /// Arguments for `cargo nextest run`, e.g. `-- -p meridian-ovsdb` or `-- frame::`; leaves out the doctests
    #[arg(last = true)]
    nextest: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    packages::ensure(Need::Test)?;
    packages::ensure_tool(&CargoTool::NEXTEST)?;
    if args.nextest.is_empty() {
        // This runs before the tests, so that it does not count against the time limit of one. Tests that the user names build it when they
        // need it.
        ::lab::harness::build()?;
        ::lab::python::openstack()?;
        ::lab::python::inside()?;
        ::lab::python::tempest()?;
        if !::lab::kubernetes::is_built()? {
            packages::ensure(Need::Kubernetes)?;
        }
        ::lab::kubernetes::ensure()?;
    }

    let colour = if console::colors_enabled_stderr() { "always" } else { "never" };
    let mut counts = Counts::default();
    heading("tests");
    let mut nextest = cargo();
    nextest.args(["nextest", "run", "--workspace", "--all-features", "--profile", "ci", "--color", colour]);
    nextest.args(&args.nextest);
    let mut ok = tee(&mut nextest, |line| counts.see_nextest(line))?;

    if args.nextest.is_empty() {
        heading("doctests");
        let mut doctest = cargo();
        doctest.args(["test", "--doc", "--workspace", "--all-features", "--quiet", "--color", colour]);
        ok &= tee(&mut doctest, |line| counts.see_doctests(line))?;
        if ok {
            heading("cargo xtask up");
            // With these handlers an interrupted command stops the server before it fails.
            up::told_to_end()?;
            counts.add(on_the_binary("up", up::check));
            heading("cargo xtask bench lb");
            counts.add(on_the_binary("bench lb", lb::smoke));
            counts.add(tempest_suites());
        }
    }

    if !ok && counts.failed == 0 {
        eprintln!("{} a build or a test runner failed, see above", style("error:").for_stderr().red().bold());
    }
    // The closing line is for people and for scripts: nothing but the counts, and nothing after it.
    println!("{counts}");
    Ok(if ok && counts.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Neutron's and Octavia's own tests, on the binary that the tests were built with.
fn tempest_suites() -> Counts {
    let run = || {
        let dir = tempfile::tempdir()?;
        tempest::suites(&SUITES, &target_dir().join("debug/meridian"), dir.path(), None)
    };
    run().unwrap_or_else(|error| {
        eprintln!("{} tempest: {error:#}", style("error:").for_stderr().red().bold());
        Counts { passed: 0, failed: 1 }
    })
}

/// Runs a command as one more test: on the binary that the tests were built with, in a temporary directory.
fn on_the_binary(name: &str, check: fn(&Path, &Path) -> Result<()>) -> Counts {
    let dir = tempfile::tempdir().map_err(anyhow::Error::from);
    match dir.and_then(|dir| check(&target_dir().join("debug/meridian"), dir.path())) {
        Ok(()) => Counts { passed: 1, failed: 0 },
        Err(error) => {
            eprintln!("{} {name}: {error:#}", style("error:").for_stderr().red().bold());
            Counts { passed: 0, failed: 1 }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::ValueEnum;

    use super::*;
    use crate::command::root;

    /// A merge once lost a suite without anybody noticing.
    #[test]
    fn every_suite_of_openstack_is_among_the_tests() {
        assert_eq!(SUITES, Suite::value_variants());
        let names: BTreeSet<String> = SUITES
            .iter()
            .filter_map(|suite| Some(suite.to_possible_value()?.get_name().to_owned()))
            .collect();
        let folders = std::fs::read_dir(root().join("xtask/tempest")).unwrap();
        let folders = folders.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        assert_eq!(names, folders, "each suite has a folder of lists, and each folder a suite");
    }
}
