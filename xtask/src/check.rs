//! `cargo xtask check`: format, purity, lint, dependencies, API documentation, packages of the libraries, and the claims of the guides.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use console::style;

use crate::command::{cargo, heading, root, run};
use crate::guides;
use crate::packages::{self, CargoTool};
use crate::purity;

/// Timeout for fetching the advisory database, after which the check counts as offline.
const FETCH_LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn check() -> Result<()> {
    heading("format");
    run(cargo().args(["fmt", "--all", "--check"])).context("run `cargo fmt --all`")?;
    heading("files");
    in_git()?;
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
    heading("packages of the libraries");
    library_packages()?;
    heading("guides");
    guides::check()?;
    eprintln!("{}", style("all checks passed").for_stderr().green());
    Ok(())
}

/// The crates that others may use as libraries.
const LIBRARIES: [&str; 2] = ["meridian-ovsdb-derive", "meridian-ovsdb"];

/// Packs the libraries: a dependency without a version or a missing file would prevent it. The lint above has compiled the same sources.
fn library_packages() -> Result<()> {
    let mut package = cargo();
    package.args(["package", "--quiet", "--no-verify", "--exclude-lockfile", "--allow-dirty"]);
    for name in LIBRARIES {
        package.args(["--package", name]);
    }
    run(&mut package)
}

/// Fails if a file is missing from git: a clone would not have it, and no build here would notice. Ignored files may be
/// missing.
fn in_git() -> Result<()> {
    let mut git = Command::new("git");
    let listed = git.current_dir(root()).args(["ls-files", "--others", "--exclude-standard"]).output();
    let listed = listed.context("git is needed to tell which files a clone has")?;
    if !listed.status.success() {
        eprintln!("{} this is no checkout of git", style("skipped:").for_stderr().yellow());
        return Ok(());
    }
    let listed = String::from_utf8_lossy(&listed.stdout);
    ensure!(listed.is_empty(), "a clone would not have these files: `git add` or remove them\n{listed}");
    Ok(())
}

/// Checks bans, licences and sources, which need no network. Advisories need a database from the network: offline, the last one
/// fetched is used. Without any, the check is skipped with a message.
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
