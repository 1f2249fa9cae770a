//! `cargo xtask lab run`: tests by name, or all of them, once or many times.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};
use console::style;

use super::rounds::Rounds;
use crate::command::{cargo, heading, run as run_command, target_dir, tee};
use crate::packages::{self, CargoTool, Need};
use crate::summary::Counts;

/// The options of `cargo xtask lab run`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Part of a test's name; with several, all tests that match one of them run
    tests: Vec<String>,
    /// Run every test
    #[arg(long, conflicts_with = "tests")]
    all: bool,
    /// Run the tests this many times, and end with the number of failures of each
    #[arg(long, value_name = "TIMES", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    repeat: u16,
    /// Show the output of the tests while they run, one test at a time
    #[arg(long, short)]
    verbose: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.tests.is_empty() && !args.all {
        bail!("name tests (`cargo xtask lab list` shows them) or say --all");
    }
    packages::ensure(if args.all { Need::Test } else { Need::Lab })?;
    packages::ensure_tool(&CargoTool::NEXTEST)?;
    lab::harness::build()?;
    if args.all {
        // This runs before the tests, so that it does not count against the time limit of one.
        lab::python::inside()?;
    }
    let (mut rounds, mut counts) = (Rounds::default(), Counts::default());
    for round in 1..=args.repeat {
        if args.repeat > 1 {
            heading(&format!("tests in the lab, round {round} of {}", args.repeat));
        } else {
            heading("tests in the lab");
        }
        // Tests run this binary on their nodes and do not build it. Each round builds it, because sources may change between two rounds.
        run_command(cargo().args(["build", "--quiet", "--package", "meridian"]))?;
        rounds.begin();
        let begin = Instant::now();
        let mut these = Counts::default();
        let ok = tee(&mut nextest(args), |line| {
            these.see_nextest(line);
            rounds.see(line);
        })?;
        if !ok && these == Counts::default() {
            bail!(
                "no test ran: nothing has such a name (`cargo xtask lab list` shows the tests), or the build failed, see above"
            );
        }
        if args.repeat > 1 {
            eprintln!("round {round} of {}: {these} in {} s", args.repeat, begin.elapsed().as_secs());
        }
        counts.add(these);
    }
    let report = target_dir().join("nextest/ci/junit.xml");
    eprintln!("JUnit: {}", report.display());
    if counts.failed > 0 {
        let jobs = target_dir().join("lab");
        eprintln!(
            "{} what each failed test left is in {}",
            style("failed:").for_stderr().red().bold(),
            jobs.display()
        );
    }
    if args.repeat > 1 {
        println!("{rounds}");
    }
    println!("{counts}");
    Ok(if counts.failed == 0 && rounds.clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn nextest(args: &Args) -> std::process::Command {
    let colour = if console::colors_enabled_stderr() { "always" } else { "never" };
    let mut nextest = cargo();
    nextest.args(["nextest", "run", "--package", "e2e", "--profile", "ci", "--color", colour]);
    nextest.args(["--status-level", "pass", "--final-status-level", "fail", "--no-tests", "fail"]);
    if args.verbose {
        nextest.arg("--no-capture");
    }
    nextest.args(&args.tests);
    nextest
}
