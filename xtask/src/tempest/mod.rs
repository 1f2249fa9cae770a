//! `cargo xtask tempest`: Neutron's and Octavia's own API tests against our server.
//!
//! OpenStack's clients rely on what tempest and its plug-ins test, so these suites judge our APIs. They run with a real Keystone
//! against `meridian server --dev` with three chassis. Files in `xtask/tempest/SUITE` state the expectation: `tests.txt` (the tests
//! that run), `exclude.txt` (the tests that do not, and why), `passes*.txt` (the tests that pass), `skips*.txt` (the tests that skip
//! themselves, and why; `skips.txt` is for all runs of the suite), and for the network `extensions.txt` (the extensions that the server must advertise). A failed test fails the
//! run, and so does each difference from these lists: a missing extension, a test that vanished or a skip for another reason would look
//! like a success otherwise.
//!
//! The load-balancer suite runs twice. With IPv6, each of its classes has an IPv6 VIP; without, an IPv4 VIP. Tests that skip themselves in
//! both for the same reason, for example because OVN has no HTTP, are only in the first: they are two thirds of the suite.

mod cloud;
mod expected;
mod outcome;
mod runner;
mod settings;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::command::{cargo, heading, run, target_dir};
use crate::packages::{self, Need};
use crate::summary::Counts;
use crate::up;
use cloud::Cloud;
use runner::SuiteRun;

/// The options of `cargo xtask tempest`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// API to test
    #[arg(value_enum)]
    suite: Suite,
    /// Run only the tests whose names match this regular expression; the lists of expected results are not checked then
    #[arg(long, value_name = "REGEX")]
    only: Option<String>,
    /// Keep the server's data, its log and tempest's log in this directory
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// An API with a test suite of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Suite {
    /// Tempest's and neutron-tempest-plugin's tests of the network API
    Network,
    /// Octavia-tempest-plugin's tests of the load-balancer API
    Lb,
}

impl Suite {
    /// The folder of its lists.
    fn folder(self) -> &'static str {
        match self {
            Suite::Network => "network",
            Suite::Lb => "lb",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Suite::Network => "Neutron's own tests: tempest and neutron-tempest-plugin",
            Suite::Lb => "Octavia's own tests: octavia-tempest-plugin",
        }
    }

    fn runs(self) -> Vec<SuiteRun> {
        let run = |name, settings, is_first| SuiteRun { suite: self.folder(), name, settings, is_first };
        match self {
            Suite::Network => vec![run("", settings::NETWORK.to_owned(), true)],
            Suite::Lb => vec![
                run("-ipv4", settings::load_balancer(false), true),
                run("-ipv6", settings::load_balancer(true), false),
            ],
        }
    }
}

/// Runs a suite by hand: builds the server first, and ends with the counts.
pub(crate) fn tempest(args: &Args) -> Result<ExitCode> {
    // An interrupted run ends by a failure, so that the server and Keystone end as well.
    up::told_to_end()?;
    packages::ensure(Need::Test)?;
    heading("building meridian");
    run(cargo().args(["build", "--workspace", "--all-features", "--bin", "meridian"]))?;
    let kept = tempfile::tempdir()?;
    let dir = match &args.keep {
        Some(dir) => std::path::absolute(dir)?,
        None => kept.path().to_owned(),
    };
    let meridian = target_dir().join("debug/meridian");
    let counts = suites(&[args.suite], &meridian, &dir, args.only.as_deref())?;
    println!("{counts}");
    Ok(if counts.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs suites on one cloud, with a server that is built already.
pub(crate) fn suites(suites: &[Suite], meridian: &Path, dir: &Path, only: Option<&str>) -> Result<Counts> {
    let environment = lab::python::tempest()?;
    std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let cloud = Cloud::start(meridian, dir)?;
    let mut counts = Counts::default();
    for suite in suites {
        heading(suite.title());
        for run in suite.runs() {
            counts.add(run.run(&environment, &cloud, dir, only)?);
        }
    }
    Ok(counts)
}
