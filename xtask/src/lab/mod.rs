//! `cargo xtask lab`: the commands of the lab. The lab itself is in `crates/lab`, its tests are in `e2e`.

mod rounds;
mod run;

use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use lab::home::Home;
use lab::{harness, job, rootfs};

use crate::command::{cargo, run as run_command, target_dir};
use crate::packages::{self, Need};

/// The options of `cargo xtask lab`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Lab,
}

#[derive(clap::Subcommand)]
enum Lab {
    /// Build the guests' root file system once; every other command does so on first use
    Build,
    /// List the tests, one per line, and the topologies
    List,
    /// Run tests, by any part of their names
    Run(run::Args),
    /// Boot a guest and get a shell in it
    Shell {
        /// Topology to start first [default: a bare guest]
        topology: Option<String>,
    },
    /// Show a guided tour with real packets; waits for Enter before each step on a terminal
    Demo,
    /// Remove the root file systems, the Python environments and the folders of finished jobs
    Clean,
}

pub(crate) fn lab(args: &Args) -> Result<ExitCode> {
    match &args.command {
        Lab::Build => {
            packages::ensure(Need::Lab)?;
            let made = harness::build()?;
            println!("{}", made.manifest()?);
            println!("in {}", made.path().display());
            Ok(ExitCode::SUCCESS)
        }
        Lab::List => binary(&["--lab-list"]),
        Lab::Run(args) => run::run(args),
        Lab::Shell { topology } => {
            packages::ensure(Need::Lab)?;
            harness::build()?;
            let mut words = vec!["--lab-shell"];
            words.extend(topology.as_deref());
            binary(&words)
        }
        Lab::Demo => {
            packages::ensure(Need::Lab)?;
            harness::build()?;
            // Meridian and the `openstack` command run in the guests of the tour.
            lab::python::inside()?;
            run_command(cargo().args(["build", "--package", "meridian"]))?;
            binary(&["--lab-demo"])
        }
        Lab::Clean => {
            let roots = rootfs::clean(&Home::locate()?)?;
            let jobs = job::clean(&target_dir().join("lab"))?;
            println!(
                "removed {roots} folders of the cache (root file systems, Python environments) and {jobs} job folders"
            );
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Runs the test binary itself, on this terminal.
fn binary(words: &[&str]) -> Result<ExitCode> {
    let path = test_binary()?;
    let status = Command::new(&path).args(words).status().with_context(|| format!("cannot run {path}"))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Builds the test binary; returns its path.
pub(crate) fn test_binary() -> Result<String> {
    let mut build = cargo();
    build.args([
        "test",
        "--package",
        "e2e",
        "--test",
        "e2e",
        "--no-run",
        "--message-format",
        "json",
        "--quiet",
    ]);
    let out = build.stderr(std::process::Stdio::inherit()).output().context("cannot run cargo")?;
    ensure!(out.status.success(), "the tests do not build, see above");
    executable(&String::from_utf8_lossy(&out.stdout)).context("cargo built no test binary")
}

/// The test binary that cargo's messages name.
fn executable(messages: &str) -> Option<String> {
    messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok()).find_map(
        |message| {
            let ours = message["target"]["name"] == "e2e" && message["profile"]["test"] == true;
            ours.then(|| message["executable"].as_str().map(|path| path.to_owned())).flatten()
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_binary_is_found_among_cargos_messages() {
        let messages = r#"{"reason":"compiler-artifact","target":{"name":"lab"},"profile":{"test":false},"executable":null}
not json
{"reason":"compiler-artifact","target":{"name":"e2e"},"profile":{"test":false},"executable":null}
{"reason":"compiler-artifact","target":{"name":"e2e"},"profile":{"test":true},"executable":"/t/debug/deps/e2e-1"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(executable(messages).as_deref(), Some("/t/debug/deps/e2e-1"));
        assert_eq!(executable(""), None);
    }
}
