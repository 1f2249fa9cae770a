//! `cargo xtask tempest network`: Neutron's own API tests against our server.
//!
//! OpenStack's clients rely on what tempest and neutron-tempest-plugin test, so these suites judge the network API. They run
//! with a real Keystone against `meridian server --dev` with three chassis. Four files in `xtask/tempest/network` say what is
//! expected: `tests.txt` (which tests run), `exclude.txt` (which do not, and why), `extensions.txt` (what the server must
//! advertise) and `skips.txt` (which tests skip themselves, and why). A failed test fails the run, and so does a skip that
//! `skips.txt` does not have: otherwise a missing extension would look like a success.

mod cloud;
mod outcome;
mod settings;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use console::style;

use crate::command::{cargo, heading, output, root, run, target_dir, tee};
use crate::packages::{self, Need};
use crate::summary::Counts;
use crate::up;
use cloud::Cloud;
use outcome::{ExpectedSkips, Outcome};

/// Processes that run tests side by side. Two keep two cores busy; Keystone's SQLite gains nothing from more.
const WORKERS: &str = "2";

/// How long the tests may take in all, in seconds. On two idle cores they take six minutes.
const LIMIT: &str = "2400";

/// The options of `cargo xtask tempest`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which API to test
    #[arg(value_enum)]
    suite: Suite,
    /// Run only the tests whose names match this regular expression; expected skips are not checked then
    #[arg(long, value_name = "REGEX")]
    only: Option<String>,
    /// Keep the server's data, its log and tempest's log in this directory
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// An API with a test suite of its own.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Suite {
    /// Tempest's and neutron-tempest-plugin's tests of the network API
    Network,
}

/// Runs a suite by hand: builds the server first, and ends with the counts.
pub(crate) fn tempest(args: &Args) -> Result<ExitCode> {
    // An interrupted run ends by a failure, so that the server and Keystone end as well.
    up::told_to_end()?;
    let Suite::Network = args.suite;
    packages::ensure(Need::Test)?;
    heading("building meridian");
    run(cargo().args(["build", "--workspace", "--all-features", "--bin", "meridian"]))?;
    let kept = tempfile::tempdir()?;
    let dir = match &args.keep {
        Some(dir) => std::path::absolute(dir)?,
        None => kept.path().to_owned(),
    };
    let counts = network(&target_dir().join("debug/meridian"), &dir, args.only.as_deref())?;
    println!("{counts}");
    Ok(if counts.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the suite of the network API with a server that is built already.
pub(crate) fn network(meridian: &Path, dir: &Path, only: Option<&str>) -> Result<Counts> {
    let environment = lab::python::tempest()?;
    let lists = root().join("xtask/tempest/network");
    heading("Neutron's own tests: tempest and neutron-tempest-plugin");
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let cloud = Cloud::start(meridian, dir)?;
    let workspace = dir.join("tempest");
    output(
        Command::new(environment.join("bin/tempest"))
            .args(["init", "--workspace-path"])
            .arg(dir.join("workspaces.yaml"))
            .arg(&workspace),
    )
    .context("cannot create tempest's workspace")?;
    let extensions = listed(&lists.join("extensions.txt"))?;
    fs::write(workspace.join("etc/tempest.conf"), settings::tempest_conf(&cloud, &workspace, &extensions))?;

    // `timeout` ends the runner with all its workers.
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", LIMIT]).arg(environment.join("bin/tempest"));
    command.arg("run").args(["--concurrency", WORKERS]).arg("--exclude-list").arg(lists.join("exclude.txt"));
    match only {
        Some(regex) => command.args(["--regex", regex]),
        None => command.arg("--include-list").arg(lists.join("tests.txt")),
    };
    // The test runner starts its workers by the name `python3`.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", environment.join("bin").display())).current_dir(&workspace);
    let mut outcome = Outcome::default();
    let success = tee(&mut command, |line| outcome.read(line))?;
    cloud.still_running()?;
    ensure!(
        success || outcome.counts().failed > 0,
        "tempest failed without a failed test, or took longer than {LIMIT} seconds: see {}",
        workspace.join("logs/tempest.log").display()
    );
    ensure!(outcome.ran() > 0, "tempest ran no test: see {}", workspace.join("logs/tempest.log").display());
    let mut counts = outcome.counts();
    if only.is_none() {
        let expected = ExpectedSkips::parse(&fs::read_to_string(lists.join("skips.txt"))?)?;
        let faults = expected.compare(&outcome.skipped);
        for fault in &faults {
            eprintln!("{} {fault}", style("error:").for_stderr().red().bold());
        }
        counts.failed += faults.len() as u64;
    }
    eprintln!("{} skipped", outcome.skipped.len());
    Ok(counts)
}

/// The lines of a list, without comments.
fn listed(path: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(lines.map(str::to_owned).collect())
}
