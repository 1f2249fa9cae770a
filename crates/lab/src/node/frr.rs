//! FRR on a node: its routing daemons and their configuration.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::Node;
use crate::process::Recipe;

/// The directories of a node's FRR files, each with a subdirectory by the node's name.
const DIRS: [&str; 4] = ["/run/frr", "/etc/frr", "/var/lib/frr", "/var/tmp/frr"];

impl Node {
    /// Starts FRR's daemons (`bgpd`, `bfdd`; zebra and mgmtd start with them) with a configuration.
    pub fn frr(&self, daemons: &[&str], config: &str) -> Result<()> {
        for dir in DIRS {
            let dir = Path::new(dir).join(self.label());
            fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        }
        let vtysh = Path::new("/etc/frr").join(self.label()).join("vtysh.conf");
        fs::write(&vtysh, "").with_context(|| format!("cannot write {}", vtysh.display()))?;
        let socket = |daemon: &str| Path::new("/run/frr").join(self.label()).join(format!("{daemon}.vty"));
        // zebra starts first, because the other daemons look for it once at their start and then only at long intervals.
        for group in [&["zebra"][..], &["mgmtd"], daemons] {
            let start = |daemon: &&str| {
                let recipe = Recipe::new(&format!("/usr/lib/frr/{daemon}"))
                    .arg("-N")
                    .arg(self.label())
                    .arg("-u")
                    .arg("root")
                    .arg("-g")
                    .arg("root")
                    .arg("--log")
                    .arg(format!("file:{}", self.log(daemon).display()))
                    .arg("--log-level")
                    .arg("info")
                    // The log shows each received command and its client.
                    .arg("--command-log-always")
                    // The daemon runs in the group of its sockets. Otherwise it could not assign them to that group.
                    .under(["setpriv", "--groups=frrvty"])
                    .ready(socket(daemon));
                self.start(daemon, recipe)
            };
            let started = group.iter().map(start).collect::<Result<Vec<_>>>()?;
            started.iter().try_for_each(|daemon| daemon.ready())?;
        }
        self.frr_config(config)
    }

    /// Adds to the configuration of FRR's daemons.
    pub fn frr_config(&self, config: &str) -> Result<()> {
        let path = self.dir().join("frr.conf");
        fs::write(&path, config).with_context(|| format!("cannot write {}", path.display()))?;
        self.run(&format!("vtysh -N {} -f {}", self.label(), path.display())).map(|_| ())
    }

    /// Runs a `vtysh` command.
    pub fn vtysh(&self, command: &str) -> Result<String> {
        self.run_args(&["vtysh", "-N", self.label(), "-c", command])
    }
}
