//! `cargo xtask check`: format, purity, lint, dependencies, API documentation, and what the guides say.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use console::style;

use crate::command::{cargo, heading, run};
use crate::guides;
use crate::packages::{self, CargoTool};
use crate::purity;

/// How long fetching the advisory database may take before we call ourselves offline.
const FETCH_LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn check() -> Result<()> {
    heading("format");
    run(cargo().args(["fmt", "--all", "--check"])).context("run `cargo fmt --all`")?;
    heading("purity");
    purity::check()?;
    heading("dependencies");
    dependencies()?;
    heading("lint");
    run(cargo().args([
        "clippy",
        "--workspace",
        "--all-targets",
        "--all-features",
        "--quiet",
        "--",
        "-D",
        "warnings",
    ]))?;
    heading("API documentation");
    let mut doc = cargo();
    doc.args(["doc", "--workspace", "--no-deps", "--all-features", "--quiet"]);
    run(doc.env("RUSTDOCFLAGS", "-D warnings"))?;
    heading("guides");
    guides::check()?;
    eprintln!("{}", style("all checks passed").for_stderr().green());
    Ok(())
}

/// Bans, licences and sources need nothing from outside. Advisories need a database from the network: offline the last
/// one fetched will do, and with none at all the check is left out, saying so.
fn dependencies() -> Result<()> {
    packages::ensure_tool(&CargoTool::DENY)?;
    run(cargo().args([
        "deny",
        "--all-features",
        "--log-level",
        "error",
        "check",
        "bans",
        "licenses",
        "sources",
    ]))?;
    let fetched = within(FETCH_LIMIT, cargo().args(["deny", "--log-level", "off", "fetch", "db"]))?;
    if !fetched && !advisories_on_disk() {
        let skipped = style("skipped:").for_stderr().yellow();
        eprintln!(
            "{skipped} advisories, as their database cannot be fetched (offline?) and none was fetched before"
        );
        return Ok(());
    }
    if !fetched {
        eprintln!("the advisory database cannot be fetched: checking against the one fetched last");
    }
    run(cargo().args([
        "deny",
        "--all-features",
        "--log-level",
        "error",
        "check",
        "--disable-fetch",
        "advisories",
    ]))
}

/// Whether cargo-deny holds a database with at least one advisory file; a failed first fetch leaves an empty directory.
fn advisories_on_disk() -> bool {
    let home = std::env::var_os("CARGO_HOME")
        .map(std::path::PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| std::path::Path::new(&home).join(".cargo")));
    let Some(databases) = home.and_then(|home| std::fs::read_dir(home.join("advisory-dbs")).ok()) else {
        return false;
    };
    databases.flatten().any(|entry| entry.path().join("crates").is_dir())
}

/// Runs a command quietly; whether it succeeded in time.
fn within(limit: Duration, command: &mut Command) -> Result<bool> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let begin = Instant::now();
    while begin.elapsed() < limit {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    child.kill()?;
    child.wait()?;
    Ok(false)
}
