//! The programs that a command needs besides Rust: finding the missing ones, and installing them without questions.
//!
//! Debian packages come from apt-get (as root, or through `sudo -n`), cargo tools from `cargo install --locked` at pinned
//! versions. If neither works, the error contains the exact command to run.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};

use crate::command::{cargo, shown};

/// The purpose of a command, which determines the needed programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// An OVN central (two databases and ovn-northd) and Python for the `openstack` command.
    Central,
    /// The lab's root file system, which brings all the rest with it.
    Lab,
    /// Everything the tests start: also TLS certificates, PostgreSQL, and Python for OpenStack's tools.
    Test,
    /// The compiler of the tests' Kubernetes, which Debian 12 has.
    Kubernetes,
    /// A Debian package: the programs that inspect and strip binaries.
    Package,
    /// The bench's peers: the C tools and a Python virtual environment.
    Bench,
    /// Neutron, to compare with our server.
    Neutron,
}

impl Need {
    /// The Debian packages, as bookworm and later name them.
    pub(crate) fn debian(self) -> &'static [&'static str] {
        match self {
            Need::Central => &["openvswitch-common", "ovn-central", "ovn-common", "python3", "python3-venv"],
            Need::Lab => &["mmdebstrap"],
            Need::Kubernetes => {
                &["git", "golang-1.19-go", "golang-github-modern-go-reflect2-dev", "make", "rsync"]
            }
            Need::Package => &["binutils", "dpkg"],
            Need::Test => &[
                "binutils",
                "etcd-server",
                "frr",
                "haproxy",
                "mmdebstrap",
                "openvswitch-common",
                "openvswitch-pki",
                "openssl",
                "openvswitch-switch",
                "ovn-central",
                "ovn-common",
                "ovn-host",
                "postgresql",
                "python3",
                "python3-venv",
            ],
            Need::Bench => &["openvswitch-common", "ovn-central", "ovn-common", "python3", "python3-venv"],
            Need::Neutron => &["mariadb-server", "ovn-central", "ovn-common", "python3", "python3-venv"],
        }
    }
}

/// A program installed by cargo, at the version CI runs.
pub(crate) struct CargoTool {
    /// The package on crates.io; the subcommand is its name after `cargo-`.
    pub(crate) package: &'static str,
    /// The version installed when it is missing.
    pub(crate) version: &'static str,
}

impl CargoTool {
    pub(crate) const NEXTEST: CargoTool = CargoTool { package: "cargo-nextest", version: "0.9.143" };
    pub(crate) const DENY: CargoTool = CargoTool { package: "cargo-deny", version: "0.20.2" };
    pub(crate) const FUZZ: CargoTool = CargoTool { package: "cargo-fuzz", version: "0.13.2" };

    fn subcommand(&self) -> &'static str {
        self.package.trim_start_matches("cargo-")
    }
}

/// Installs missing Debian packages.
pub(crate) fn ensure(need: Need) -> Result<()> {
    let missing = missing(need.debian())?;
    if missing.is_empty() {
        return Ok(());
    }
    let prefix = privilege().with_context(|| by_hand(&missing))?;
    let bar = spinner(&format!("installing {}", missing.join(" ")));
    let mut result = apt(prefix, &missing, &bar);
    if result.is_err() {
        // Old package lists are the usual reason, and refreshing them always is slow for nothing.
        bar.set_message("apt-get update");
        result = apt_get(prefix, &["update"], &bar).and_then(|()| apt(prefix, &missing, &bar));
    }
    bar.finish_and_clear();
    result.with_context(|| format!("cannot install {}", missing.join(" ")))?;
    eprintln!("installed {}", missing.join(" "));
    Ok(())
}

/// The message for a user who cannot install packages: the command that does it.
fn by_hand(missing: &[&str]) -> String {
    let (noun, them) = match missing {
        [_] => ("package", "it"),
        _ => ("packages", "them"),
    };
    format!(
        "missing Debian {noun}: {}. Neither root nor password-less sudo here, so install {them} with\n\n    \
         sudo apt-get update && sudo apt-get install --no-install-recommends {}\n\nand run this again",
        missing.join(", "),
        missing.join(" ")
    )
}

/// Installs a missing cargo subcommand; any installed version is fine.
pub(crate) fn ensure_tool(tool: &CargoTool) -> Result<()> {
    let there = cargo()
        .args([tool.subcommand(), "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if there {
        return Ok(());
    }
    let bar = spinner(&format!("installing {} {} (once; takes some minutes)", tool.package, tool.version));
    let mut install = cargo();
    install.args(["install", "--locked", tool.package, "--version", tool.version, "--color", "never"]);
    let result = run_with(&mut install, &bar);
    bar.finish_and_clear();
    result.with_context(|| format!("cannot install {}", tool.package))?;
    eprintln!("installed {} {}", tool.package, tool.version);
    Ok(())
}

/// The packages among these that are not installed.
fn missing(wanted: &[&'static str]) -> Result<Vec<&'static str>> {
    let mut query = Command::new("dpkg-query");
    query.args(["--show", "--showformat=${Package} ${db:Status-Status}\n"]).args(wanted);
    // Unknown packages make dpkg-query fail while it still lists those it knows, so its exit code is not used.
    let out = query.env("LC_ALL", "C").output().with_context(|| {
        format!("cannot run dpkg-query: this needs Debian or Ubuntu. On another system install what {wanted:?} hold by hand")
    })?;
    Ok(not_installed(wanted, &String::from_utf8_lossy(&out.stdout)))
}

/// The requested packages that `dpkg-query`'s list does not show as installed.
fn not_installed(wanted: &[&'static str], listed: &str) -> Vec<&'static str> {
    let installed: BTreeSet<&str> = listed
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(_, s)| *s == "installed")
        .map(|(p, _)| p)
        .collect();
    wanted.iter().filter(|p| !installed.contains(*p)).copied().collect()
}

/// The prefix of a command that needs root: nothing, or sudo if it needs no password.
fn privilege() -> Option<&'static [&'static str]> {
    if nix::unistd::geteuid().is_root() {
        return Some(&[]);
    }
    let sudo = Command::new("sudo").args(["-n", "true"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    sudo.is_ok_and(|status| status.success()).then_some(&["sudo", "-n"])
}

fn apt(prefix: &[&str], packages: &[&str], bar: &ProgressBar) -> Result<()> {
    let mut args = vec!["install", "--yes", "--no-install-recommends"];
    args.extend(packages);
    apt_get(prefix, &args, bar)
}

fn apt_get(prefix: &[&str], args: &[&str], bar: &ProgressBar) -> Result<()> {
    // RUNLEVEL=1 keeps invoke-rc.d from starting the packages' daemons: we start our own, in our own directory.
    // `env` sets it on sudo's far side. Under systemd a host's own unit presets decide.
    let words: Vec<&str> = prefix
        .iter()
        .chain(&["env", "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1", "LC_ALL=C", "apt-get"])
        .chain(args)
        .copied()
        .collect();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    run_with(&mut command, bar)
}

/// Runs a long command under a spinner that shows its last line; a failure carries the last lines it wrote.
fn run_with(command: &mut Command, bar: &ProgressBar) -> Result<()> {
    let title = bar.message();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run `{}`", shown(command)))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let mut tail = std::thread::scope(|scope| {
        let out = scope.spawn(|| follow(stdout, &title, bar));
        let mut tail = follow(stderr, &title, bar);
        tail.extend(out.join().unwrap_or_default());
        tail
    });
    bar.set_message(title);
    let status = child.wait()?;
    if !status.success() {
        let last = tail.split_off(tail.len().saturating_sub(15)).join("\n");
        bail!("`{}` failed ({status}):\n{last}", shown(command));
    }
    Ok(())
}

fn follow(from: Option<impl Read>, title: &str, bar: &ProgressBar) -> Vec<String> {
    let Some(from) = from else { return Vec::new() };
    let mut seen = Vec::new();
    for line in BufReader::new(from).lines().map_while(|line| line.ok()) {
        let short: String = line.trim().chars().take(60).collect();
        bar.set_message(format!("{title}: {short}"));
        seen.push(line);
    }
    seen
}

fn spinner(message: &str) -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    bar.set_style(
        ProgressStyle::with_template("{spinner:.cyan} {wide_msg} {elapsed}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner()),
    );
    bar.enable_steady_tick(Duration::from_millis(120));
    bar.set_message(message.to_owned());
    if bar.is_hidden() {
        eprintln!("{message}");
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_installed_packages_count() {
        let listed = "ovn-central installed\novn-common config-files\nopenvswitch-common not-installed\n";
        assert_eq!(
            not_installed(&["openvswitch-common", "ovn-central", "ovn-common", "ovn-host"], listed),
            ["openvswitch-common", "ovn-common", "ovn-host"]
        );
    }

    #[test]
    fn who_may_install_nothing_is_told_the_command_that_does() {
        for (missing, told) in [
            (
                &["frr"][..],
                "missing Debian package: frr. Neither root nor password-less sudo here, so install it with\n\n    \
                 sudo apt-get update && sudo apt-get install --no-install-recommends frr\n\nand run this again",
            ),
            (
                &["ovn-central", "ovn-common"],
                "missing Debian packages: ovn-central, ovn-common. Neither root nor password-less sudo here, so install \
                 them with\n\n    sudo apt-get update && sudo apt-get install --no-install-recommends ovn-central \
                 ovn-common\n\nand run this again",
            ),
        ] {
            assert_eq!(by_hand(missing), told);
        }
    }

    #[test]
    fn nothing_listed_means_all_missing() {
        assert_eq!(not_installed(Need::Central.debian(), ""), Need::Central.debian());
    }

    #[test]
    fn tests_need_at_least_what_up_and_the_lab_need() {
        for need in [Need::Central, Need::Lab] {
            assert!(need.debian().iter().all(|p| Need::Test.debian().contains(p)), "{need:?}");
        }
    }
}
