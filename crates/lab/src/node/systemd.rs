//! A real systemd on a node: PID 1 of namespaces of its own (processes, mounts, control groups), in the node's network.
//!
//! The guest's own PID 1 stays. `/run` is a new mount, in which the sockets of the node's switch and of its FRR have their
//! usual paths; the rest of the file system is the guest's.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::Node;
use crate::eventually::quietly;
use crate::job::{Backend, INSIDE, Spec};
use crate::process::Recipe;

/// Timeout of a start on a busy machine.
const BOOT: Duration = Duration::from_secs(60);

/// Units that systemd must not start, because the lab has done their work or does not need it: FRR, and units that prepare the
/// kernel and its devices.
const MASKED: &[&str] = &[
    "dev-hugepages.mount",
    "dev-mqueue.mount",
    "frr.service",
    "kmod-static-nodes.service",
    "ldconfig.service",
    "sys-fs-fuse-connections.mount",
    "sys-kernel-config.mount",
    "systemd-modules-load.service",
    "systemd-remount-fs.service",
    "systemd-sysctl.service",
    "systemd-tmpfiles-setup-dev-early.service",
    "systemd-tmpfiles-setup-dev.service",
];

/// Enters namespaces and executes systemd; `$1` is the node's name.
///
/// Its control group is a child of ours. Otherwise it would regard our processes as its own, and move them.
const ENTER: &str = r#"set -e
mount -t cgroup2 cgroup2 /sys/fs/cgroup
group=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)/lab-$1
mkdir -p "$group"
echo $$ >"$group/cgroup.procs"
exec unshare --cgroup --uts --pid --fork --kill-child -- sh -ec '
    mount -t proc proc /proc
    mount -t sysfs sysfs /sys
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    mount -t tmpfs -o mode=755 tmpfs /mnt
    mkdir /mnt/openvswitch /mnt/frr
    mount --bind "/run/$1" /mnt/openvswitch
    mount --bind "/run/frr/$1" /mnt/frr
    mount --no-mtab --move /mnt /run
    mount --no-mtab --rbind /run /var/run
    exec env -i container=lab /usr/lib/systemd/systemd --unit=basic.target --show-status=no
' sh "$1""#;

/// A machine's systemd. Ends with the node.
#[derive(Debug)]
pub struct Systemd {
    node: Arc<Node>,
    /// PID 1 of its namespace, as we see it.
    pid: String,
}

impl Systemd {
    /// Starts systemd on a node whose switch and FRR run, up to its basic target.
    pub fn start(node: &Arc<Node>) -> Result<Systemd> {
        ensure!(
            Spec::inside()?.backend == Backend::Uml,
            "a systemd of its own has no business with the host's control groups: run this in a guest (without LAB_BACKEND=native)"
        );
        // With an identity and nothing to update, systemd does not treat this as the first boot of a new machine.
        fs::write("/etc/machine-id", "6d6572696469616e6d6572696469616e\n")
            .context("cannot name the machine")?;
        for stamp in ["/etc/.updated", "/var/.updated"] {
            fs::write(stamp, "").with_context(|| format!("cannot write {stamp}"))?;
        }
        for unit in MASKED {
            mask(&Path::new("/etc/systemd/system").join(unit))?;
        }
        // The generators, a dozen programs that run at every reload. There are no units for them to generate.
        let generators = fs::read_dir("/usr/lib/systemd/system-generators").context("there is no systemd")?;
        for generator in generators.flatten() {
            mask(&Path::new("/etc/systemd/system-generators").join(generator.file_name()))?;
        }
        let recipe = Recipe::new("unshare").args(["--mount", "sh", "-c", ENTER, "sh", node.label()]);
        let daemon = node.start("systemd", recipe)?;
        let outer = daemon.pid().context("systemd did not start")?.to_string();
        let pid = quietly(BOOT, "systemd has begun", || {
            if !daemon.alive() {
                return Ok(None);
            }
            node.run(&format!("pgrep --parent {outer} --exact systemd")).map(Some)
        })?;
        let pid = pid.with_context(|| format!("systemd ended at its start: {}", daemon.said()))?;
        let systemd = Systemd { node: Arc::clone(node), pid: pid.trim().to_owned() };
        quietly(BOOT, "systemd is up", || {
            // A unit that does not work in the lab makes the state `degraded`; `systemctl status` names it.
            let state = systemd.run_args(&["sh", "-c", "systemctl is-system-running --wait || true"])?;
            ensure!(["running", "degraded"].contains(&state.trim()), "it is {state}");
            Ok(())
        })?;
        Ok(systemd)
    }

    /// Runs a command line (arguments separated by blanks, no shell) on this machine, to its end; returns its output.
    pub fn run(&self, line: &str) -> Result<String> {
        self.run_args(&line.split_ascii_whitespace().collect::<Vec<_>>())
    }

    /// Like [`Systemd::run`], for arguments that contain blanks.
    pub fn run_args(&self, args: &[&str]) -> Result<String> {
        let enter = [
            "nsenter",
            "--target",
            &self.pid,
            "--mount",
            "--pid",
            "--cgroup",
            "--uts",
            "--",
            "env",
            "PATH=/usr/sbin:/usr/bin",
        ];
        self.node.run_args(&enter.into_iter().chain(args.iter().copied()).collect::<Vec<_>>())
    }

    /// A property of a unit.
    pub fn property(&self, unit: &str, name: &str) -> Result<String> {
        Ok(self.run(&format!("systemctl show --value --property {name} {unit}"))?.trim().to_owned())
    }

    /// The log of a unit.
    pub fn journal(&self, unit: &str) -> Result<String> {
        self.run(&format!("journalctl --output cat --unit {unit}"))
    }

    /// Installs the workspace's own package, built as for a release. The test must request it with
    /// [`Test::package`](crate::Test::package).
    pub fn install_meridian(&self) -> Result<()> {
        let package = format!("{INSIDE}/{}", crate::guest::tools::PACKAGE);
        ensure!(
            Path::new(&package).exists(),
            "no package is in this guest: register the test with `.package()`"
        );
        // The root file system was only unpacked, so dpkg does not know its packages. It also lacks `diff`.
        self.run_args(&["dpkg", "--force-depends,bad-path", "--install", &package]).map(drop)
    }
}

/// Masks a name, so that systemd finds an empty unit there.
fn mask(at: &Path) -> Result<()> {
    fs::create_dir_all(at.parent().unwrap_or(at))
        .and_then(|()| symlink("/dev/null", at))
        .with_context(|| format!("cannot mask {}", at.display()))
}

impl Drop for Systemd {
    fn drop(&mut self) {
        // The journal helps to find the reason of a failed test.
        if let Ok(told) = self.run("journalctl --output short-monotonic") {
            let _ = fs::write(self.node.log("journal"), told);
        }
    }
}
