//! `cargo xtask tempest`: Neutron's and Octavia's own API tests against our server.
//!
//! OpenStack's clients rely on what tempest and its plug-ins test, so these suites judge our APIs. They run with a real Keystone
//! against `meridian server --dev` with three chassis. Files in `xtask/tempest/SUITE` state the expectation: `tests.txt` (the tests
//! that run), `exclude.txt` (the tests that do not, and why), `skips*.txt` (the tests that skip themselves, and why), and for the
//! network `extensions.txt` (the extensions that the server must advertise). A failed test fails the run, and so does a skip that
//! the list does not have: otherwise a missing extension would look like a success.
//!
//! The load-balancer suite runs twice. With IPv6, each of its classes has an IPv6 VIP; without, an IPv4 VIP.

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

/// The time limit of the tests of one run, in seconds. On two idle cores the network suite takes six minutes.
const LIMIT: &str = "2400";

/// The options of `cargo xtask tempest`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// API to test
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
    /// Octavia-tempest-plugin's tests of the load-balancer API
    Lb,
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
    let (meridian, only) = (target_dir().join("debug/meridian"), args.only.as_deref());
    let counts = match args.suite {
        Suite::Network => network(&meridian, &dir, only),
        Suite::Lb => load_balancer(&meridian, &dir, only),
    }?;
    println!("{counts}");
    Ok(if counts.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the suite of the network API with a server that is built already.
pub(crate) fn network(meridian: &Path, dir: &Path, only: Option<&str>) -> Result<Counts> {
    let environment = lab::python::tempest()?;
    heading("Neutron's own tests: tempest and neutron-tempest-plugin");
    let cloud = start(meridian, dir)?;
    let settings = settings::NETWORK.to_owned();
    TempestRun { environment: &environment, suite: "network", name: "", settings, only }.run(&cloud, dir)
}

/// Runs the suite of the load-balancer API with a server that is built already, for both families.
pub(crate) fn load_balancer(meridian: &Path, dir: &Path, only: Option<&str>) -> Result<Counts> {
    let environment = lab::python::tempest()?;
    heading("Octavia's own tests: octavia-tempest-plugin");
    let cloud = start(meridian, dir)?;
    let mut counts = Counts::default();
    for (name, with_ipv6) in [("-ipv4", false), ("-ipv6", true)] {
        let settings = settings::load_balancer(with_ipv6);
        let run = TempestRun { environment: &environment, suite: "lb", name, settings, only };
        counts.add(run.run(&cloud, dir)?);
    }
    Ok(counts)
}

fn start(meridian: &Path, dir: &Path) -> Result<Cloud> {
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    Cloud::start(meridian, dir)
}

/// One run of tempest.
struct TempestRun<'a> {
    environment: &'a Path,
    /// The folder of its lists.
    suite: &'a str,
    /// A suffix that distinguishes several runs of a suite.
    name: &'a str,
    /// The suite's part of tempest.conf.
    settings: String,
    only: Option<&'a str>,
}

impl TempestRun<'_> {
    fn run(&self, cloud: &Cloud, dir: &Path) -> Result<Counts> {
        let (environment, lists) = (self.environment, root().join("xtask/tempest").join(self.suite));
        let workspace = dir.join(format!("tempest{}", self.name));
        output(
            Command::new(environment.join("bin/tempest"))
                .args(["init", "--workspace-path"])
                .arg(dir.join("workspaces.yaml"))
                .arg(&workspace),
        )
        .context("cannot create tempest's workspace")?;
        let extensions = listed(&root().join("xtask/tempest/network/extensions.txt"))?;
        let conf = settings::tempest_conf(cloud, &workspace, &extensions, &self.settings);
        fs::write(workspace.join("etc/tempest.conf"), conf)?;

        // `timeout` ends the runner with all its workers.
        let mut command = Command::new("timeout");
        command.args(["--kill-after=10", LIMIT]).arg(environment.join("bin/tempest"));
        command.arg("run").args(["--concurrency", WORKERS]);
        command.arg("--exclude-list").arg(lists.join("exclude.txt"));
        match self.only {
            Some(regex) => command.args(["--regex", regex]),
            None => command.arg("--include-list").arg(lists.join("tests.txt")),
        };
        // The test runner starts its workers by the name `python3`.
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", environment.join("bin").display())).current_dir(&workspace);
        let mut outcome = Outcome::default();
        let success = tee(&mut command, |line| outcome.read(line))?;
        cloud.still_running()?;
        let log = workspace.join("logs/tempest.log");
        ensure!(
            success || outcome.counts().failed > 0,
            "tempest failed without a failed test, or took longer than {LIMIT} seconds: see {}",
            log.display()
        );
        ensure!(outcome.ran() > 0, "tempest ran no test: see {}", log.display());
        let mut counts = outcome.counts();
        if self.only.is_none() {
            let file = format!("skips{}.txt", self.name);
            let expected = ExpectedSkips::parse(&fs::read_to_string(lists.join(&file))?)?;
            let faults = expected.compare(&outcome.skipped);
            for fault in &faults {
                eprintln!("{} {file}: {fault}", style("error:").for_stderr().red().bold());
            }
            counts.failed += faults.len() as u64;
        }
        eprintln!("{} skipped", outcome.skipped.len());
        Ok(counts)
    }
}

/// The lines of a list, without comments.
fn listed(path: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(lines.map(str::to_owned).collect())
}
