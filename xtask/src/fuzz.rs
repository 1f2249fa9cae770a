//! `cargo xtask fuzz`: runs the libFuzzer targets for a while and prints one line of results for each.
//!
//! The targets' bodies are in `fuzz/bodies`. Stable Rust compiles them, and every test run replays the committed corpus through
//! them. This command searches for new inputs, and needs a nightly compiler.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use console::style;

use crate::command::{heading, output, root, tee};
use crate::packages::{self, CargoTool};

/// The options of `cargo xtask fuzz`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Targets to run [default: all]
    targets: Vec<String>,
    /// Seconds to run each target
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
}

pub(crate) fn fuzz(args: &Args) -> Result<ExitCode> {
    let nightly = Command::new("rustc")
        .args(["+nightly", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !nightly.is_ok_and(|status| status.success()) {
        bail!(
            "fuzzing needs a nightly compiler for its sanitizers: install one with `rustup toolchain install nightly`"
        );
    }
    packages::ensure_tool(&CargoTool::FUZZ)?;
    let known = targets()?;
    if let Some(unknown) = args.targets.iter().find(|target| !known.contains(target)) {
        bail!("no fuzz target `{unknown}`; there are: {}", known.join(", "));
    }
    let chosen = if args.targets.is_empty() { &known } else { &args.targets };
    heading("building the fuzz targets");
    crate::command::run(&mut cargo_fuzz("build"))?;

    let mut lines = Vec::new();
    let mut failed = false;
    for target in chosen {
        heading(&format!("fuzz {target}, {} s", args.seconds));
        let mut stats = Stats::default();
        // libFuzzer writes new inputs to the first directory, so they stay out of the committed corpus.
        let found = root().join("fuzz/target/found").join(target);
        std::fs::create_dir_all(&found).with_context(|| format!("cannot make {}", found.display()))?;
        let mut command = cargo_fuzz("run");
        command.arg(target).arg(&found).arg(root().join("fuzz/corpus").join(target)).arg("--").args([
            format!("-max_total_time={}", args.seconds),
            "-print_final_stats=1".to_owned(),
            "-timeout=10".to_owned(),
            "-rss_limit_mb=2048".to_owned(),
        ]);
        let ok = tee(&mut command, |line| stats.see(line))?;
        failed |= !ok;
        lines.push(stats.line(target, ok));
    }
    println!();
    for line in &lines {
        println!("{line}");
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn cargo_fuzz(verb: &str) -> Command {
    // cargo-fuzz needs nightly. Only rustup's proxy accepts `+nightly`, and the cargo that runs xtask may not be that proxy.
    let mut command = Command::new("cargo");
    command
        .current_dir(root())
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("CARGO")
        .args(["+nightly", "fuzz", verb]);
    command
}

fn targets() -> Result<Vec<String>> {
    let listed = output(&mut cargo_fuzz("list"))?;
    Ok(listed.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

/// The progress lines of libFuzzer.
#[derive(Debug, Default, PartialEq, Eq)]
struct Stats {
    execs: u64,
    coverage: u64,
    crash: Option<String>,
}

impl Stats {
    fn see(&mut self, line: &str) {
        if let Some(units) = line.strip_prefix("stat::number_of_executed_units:") {
            self.execs = units.trim().parse().unwrap_or(self.execs);
        } else if let Some((_, path)) = line.split_once("Test unit written to ") {
            self.crash = Some(path.trim().to_owned());
        } else if let Some(rest) = line.strip_prefix('#') {
            let mut words = rest.split_whitespace();
            if let Some(execs) = words.next().and_then(|word| word.parse().ok()) {
                self.execs = execs;
            }
            if let Some(coverage) = words.skip_while(|word| *word != "cov:").nth(1) {
                self.coverage = coverage.parse().unwrap_or(self.coverage);
            }
        }
    }

    fn line(&self, target: &str, ok: bool) -> String {
        let Stats { execs, coverage, crash } = self;
        let end = match crash {
            Some(path) => {
                let name = Path::new(path)
                    .file_name()
                    .map_or_else(|| path.clone(), |n| n.to_string_lossy().into_owned());
                style(format!("1 crash: fuzz/artifacts/{target}/{name}")).red().to_string()
            }
            None if ok => "0 crashes".to_owned(),
            None => style("did not run, see above").red().to_string(),
        };
        format!("{target:<20} {execs:>12} execs  {coverage:>6} coverage  {end}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(lines: &[&str]) -> Stats {
        let mut stats = Stats::default();
        lines.iter().for_each(|line| stats.see(line));
        stats
    }

    #[test]
    fn progress_and_final_statistics_are_read() {
        let seen = stats(&[
            "INFO: Seed: 1234",
            "#2\tINITED cov: 41 ft: 42 corp: 1/1b exec/s: 0 rss: 30Mb",
            "#131072\tpulse  cov: 345 ft: 900 corp: 77/1234b lim: 4096 exec/s: 65536 rss: 60Mb",
            "stat::number_of_executed_units: 200123",
        ]);
        assert_eq!(seen, Stats { execs: 200_123, coverage: 345, crash: None });
        assert!(seen.line("frame", true).ends_with("0 crashes"));
    }

    #[test]
    fn a_crash_is_named() {
        let seen = stats(&[
            "#9\tNEW    cov: 12 ft: 2 corp: 2/3b",
            "artifact_prefix='fuzz/artifacts/frame/'; Test unit written to fuzz/artifacts/frame/crash-abc",
        ]);
        assert_eq!(seen.crash.as_deref(), Some("fuzz/artifacts/frame/crash-abc"));
        assert!(
            console::strip_ansi_codes(&seen.line("frame", false)).contains("fuzz/artifacts/frame/crash-abc")
        );
    }
}
