//! `cargo xtask lab run`: tests by name, or all of them.

use std::process::ExitCode;

use anyhow::{Result, bail};
use console::style;

use crate::command::{cargo, heading, run as run_command, target_dir, tee};
use crate::packages::{self, CargoTool, Need};
use crate::summary::Counts;

/// What `cargo xtask lab run` takes.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Any part of a test's name; several run all that match one of them
    tests: Vec<String>,
    /// Every test there is
    #[arg(long, conflicts_with = "tests")]
    all: bool,
    /// Show what the tests say while they run, one test at a time
    #[arg(long, short)]
    verbose: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.tests.is_empty() && !args.all {
        bail!("name tests (`cargo xtask lab list` shows them) or say --all");
    }
    packages::ensure(Need::Lab)?;
    packages::ensure_tool(&CargoTool::NEXTEST)?;
    lab::harness::build()?;
    // Tests run it on their nodes, and do not build what is beside them.
    run_command(cargo().args(["build", "--quiet", "--package", "meridian"]))?;
    heading("tests in the lab");
    let colour = if console::colors_enabled_stderr() { "always" } else { "never" };
    let mut nextest = cargo();
    nextest.args(["nextest", "run", "--package", "e2e", "--profile", "ci", "--color", colour]);
    nextest.args(["--status-level", "pass", "--final-status-level", "fail", "--no-tests", "fail"]);
    if args.verbose {
        nextest.arg("--no-capture");
    }
    nextest.args(&args.tests);
    let mut counts = Counts::default();
    let ok = tee(&mut nextest, |line| counts.see_nextest(line))?;
    if !ok && counts == Counts::default() {
        bail!(
            "no test ran: nothing has such a name (`cargo xtask lab list` shows the tests), or the build failed, see above"
        );
    }
    let report = target_dir().join("nextest/ci/junit.xml");
    eprintln!("JUnit: {}", report.display());
    if !ok {
        let jobs = target_dir().join("lab");
        eprintln!(
            "{} what each failed test left is in {}",
            style("failed:").for_stderr().red().bold(),
            jobs.display()
        );
    }
    println!("{counts}");
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
