//! One run of tempest's tests, compared with the lists of expected results.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use console::style;

use super::cloud::Cloud;
use super::expected::ExpectedResults;
use super::outcome::Outcome;
use super::settings;
use crate::command::{output, root, tee};
use crate::summary::Counts;

/// Processes that run tests side by side. Two keep two cores busy; Keystone's SQLite gains nothing from more.
const WORKERS: &str = "2";

/// The time limit of the tests of one run, in seconds. On two idle cores the network suite takes six minutes.
const LIMIT: &str = "2400";

/// One run of a suite.
pub(super) struct SuiteRun {
    /// The folder of its lists.
    pub(super) suite: &'static str,
    /// A suffix that distinguishes several runs of a suite.
    pub(super) name: &'static str,
    /// The suite's part of tempest.conf.
    pub(super) settings: String,
    /// Whether it includes the tests that skip themselves in all runs of the suite.
    pub(super) is_first: bool,
}

impl SuiteRun {
    /// Runs the tests of the list, or those that match a regular expression.
    pub(super) fn run(
        &self,
        environment: &Path,
        cloud: &Cloud,
        dir: &Path,
        only: Option<&str>,
    ) -> Result<Counts> {
        let lists = root().join("xtask/tempest").join(self.suite);
        let workspace = dir.join(format!("tempest-{}{}", self.suite, self.name));
        output(
            Command::new(environment.join("bin/tempest"))
                .args(["init", "--workspace-path"])
                .arg(dir.join("workspaces.yaml"))
                .arg(&workspace),
        )
        .context("cannot create tempest's workspace")?;
        let read = |list: String| {
            let path = lists.join(list);
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        let own = |list: &str| format!("{list}{}.txt", self.name);
        let everywhere = read("skips.txt".to_owned())?;
        let mut excluded = read("exclude.txt".to_owned())?;
        let mut skips = if self.name.is_empty() { String::new() } else { read(own("skips"))? };
        match self.is_first {
            true => skips.push_str(&everywhere),
            false => excluded.push_str(&ExpectedResults::parse("", &everywhere)?.pattern_of_skips()),
        }
        let expected = ExpectedResults::parse(&read(own("passes"))?, &skips)?;
        fs::write(workspace.join("exclude.txt"), excluded)?;
        let extensions = listed(&root().join("xtask/tempest/network/extensions.txt"))?;
        let conf = settings::tempest_conf(cloud, &workspace, &extensions, &self.settings);
        fs::write(workspace.join("etc/tempest.conf"), conf)?;

        // `timeout` ends the runner with all its workers.
        let mut command = Command::new("timeout");
        command.args(["--kill-after=10", LIMIT]).arg(environment.join("bin/tempest"));
        command.arg("run").args(["--concurrency", WORKERS]);
        command.arg("--exclude-list").arg(workspace.join("exclude.txt"));
        match only {
            Some(regex) => command.args(["--regex", regex]),
            None => command.arg("--include-list").arg(lists.join("tests.txt")),
        };
        // The test runner starts its workers by the name `python3`.
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", environment.join("bin").display())).current_dir(&workspace);
        let (mut outcome, begin) = (Outcome::default(), Instant::now());
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
        if only.is_none() {
            // With `--keep`, these files are the results of this run.
            let (passes, skips) = ExpectedResults::of(&outcome).render();
            fs::write(workspace.join("passes.txt"), passes)?;
            fs::write(workspace.join("skips.txt"), skips)?;
            let faults = expected.compare(&outcome);
            for fault in &faults {
                eprintln!("{} {}: {fault}", style("error:").for_stderr().red().bold(), lists.display());
            }
            counts.failed += faults.len() as u64;
        }
        let (skipped, seconds) = (outcome.skipped.len(), begin.elapsed().as_secs());
        eprintln!("{skipped} tests and classes skipped, {seconds} s");
        Ok(counts)
    }
}

/// The lines of a list, without comments.
fn listed(path: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(lines.map(str::to_owned).collect())
}
