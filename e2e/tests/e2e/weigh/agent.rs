//! The compared agents, Meridian's and ovn-bgp-agent, each with all of its processes.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use lab::node::chassis::Chassis;
use lab::process::{Daemon, Recipe};
use lab::{eventually, meter, python};
use serde::Deserialize;

use super::Order;

/// The agent to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Who {
    Meridian,
    /// ovn-bgp-agent.
    Python,
}

/// The program by which ovn-bgp-agent starts its helpers, which is also how they are known.
const HELPER: &str = "privsep-helper";
/// The log line of ovn-bgp-agent at a full resync.
const SYNCS: &str = "Running reconciliation loop to ensure routes/rules";

/// A running agent.
pub(super) struct Agent<'a> {
    who: Who,
    hv: &'a Chassis,
    daemon: Arc<Daemon>,
    socket: String,
    /// The length of the output before this start.
    said: usize,
}

impl<'a> Agent<'a> {
    /// Starts the agent on a chassis. `interval` overrides the usual interval between full resyncs.
    pub(super) fn start(hv: &'a Chassis, order: &Order, interval: Option<u64>) -> Result<Agent<'a>> {
        let dir = hv.dir().display();
        let socket = format!("{dir}/agent.sock");
        let config = format!(
            "[DEFAULT]
driver = ovn_bgp_driver
reconcile_interval = {}
bgp_AS = 64999
bgp_router_id = 172.30.1.1
ovsdb_connection = unix:{dir}/db.sock
ovs_rundir = {dir}
frr_vty_dir = /run/frr/{}
rule_mode = {}
admin_socket = {socket}
[ovn]
ovn_sb_connection = unix:/run/az1/sb.sock
[agent]
root_helper =
[privsep]
helper_command = /run/{HELPER}
[privsep_ovs_vsctl]
helper_command = /run/{HELPER}
[privsep_vtysh]
helper_command = /run/{HELPER}
",
            interval.unwrap_or(3600),
            hv.label(),
            order.rule_mode,
        );
        let path = hv.dir().join("bgp-agent.conf");
        fs::write(&path, config).context("cannot write the configuration")?;
        let path = path.display().to_string();
        let said = hv.daemon("agent").map_or(0, |daemon| daemon.said().len());
        let daemon = match order.who {
            Who::Meridian => {
                hv.start("agent", Recipe::new("meridian").args(["bgp-agent", "--config-file", &path]))?
            }
            Who::Python => {
                usual_places(hv)?;
                let recipe =
                    Recipe::new("python3").args(["-m", "ovn_bgp_agent.cmd.agent", "--config-file", &path]);
                let rundir = hv.dir().display().to_string();
                hv.start("agent", recipe.env("PYTHONPATH", python::path_inside()).env("OVS_RUNDIR", rundir))?
            }
        };
        Ok(Agent { who: order.who, hv, daemon, socket, said })
    }

    /// CPU seconds of all its processes since they began.
    pub(super) fn cpu(&self) -> Result<f64> {
        meter::family_cpu_seconds(&self.family()?)
    }

    /// Memory of all its processes, in MiB.
    pub(super) fn memory(&self) -> Result<f64> {
        // A process that is just ending has no memory map.
        Ok(self.family()?.into_iter().filter_map(|pid| meter::proportional_mib(pid).ok()).sum())
    }

    fn family(&self) -> Result<std::collections::BTreeSet<u32>> {
        let pid = self.daemon.pid().filter(|_| self.daemon.alive());
        let pid = pid.with_context(|| format!("the agent has ended: {}", self.last_words()))?;
        meter::family(pid, (self.who == Who::Python).then_some(HELPER))
    }

    /// The number of full resyncs since the start.
    pub(super) fn resyncs(&self) -> Result<usize> {
        match self.who {
            Who::Python => Ok(self.said().matches(SYNCS).count()),
            Who::Meridian => {
                let runs = self.status()?["generation"].as_u64().context("no number of runs")?;
                Ok(usize::try_from(runs)?)
            }
        }
    }

    /// Waits for this number of full resyncs.
    pub(super) fn resynced(&self, times: usize, within: Duration) -> Result<()> {
        eventually(within, &format!("it has looked {times} times"), || {
            let now = self.resyncs()?;
            ensure!(now >= times, "{now} times so far: {}", self.last_words());
            Ok(())
        })
    }

    /// The duration of the last full resync in seconds, if the agent reports it.
    pub(super) fn last_look(&self) -> Result<Option<f64>> {
        if self.who == Who::Python {
            return Ok(None);
        }
        let status = self.status()?;
        let stages = status["stages"].as_array().context("no stages of the last run")?;
        Ok(Some(stages.iter().filter_map(|stage| stage["seconds"].as_f64()).sum()))
    }

    fn status(&self) -> Result<serde_json::Value> {
        let told = self.hv.run(&format!("meridian status --output json --socket {}", self.socket))?;
        let mut status: serde_json::Value = serde_json::from_str(&told)?;
        Ok(status["components"][0].take())
    }

    pub(super) fn end(self) -> Result<()> {
        let family = self.family()?;
        self.daemon.kill()?;
        for pid in family {
            let _ = nix::sys::signal::kill(
                nix::unistd::Pid::from_raw(pid.cast_signed()),
                nix::sys::signal::SIGKILL,
            );
        }
        Ok(())
    }

    fn said(&self) -> String {
        self.daemon.said().split_off(self.said)
    }

    pub(super) fn last_words(&self) -> String {
        let said = self.said();
        let lines: Vec<&str> = said.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

/// Creates links at the usual paths. ovn-bgp-agent expects FRR's sockets there, and starts its helpers through a program.
fn usual_places(hv: &Chassis) -> Result<()> {
    let link = |to: &std::path::Path, at: &str| match symlink(to, at) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    };
    for entry in fs::read_dir(format!("/run/frr/{}", hv.label())).context("FRR has no sockets")?.flatten() {
        link(&entry.path(), &format!("/run/frr/{}", entry.file_name().to_string_lossy()))
            .context("cannot link FRR's sockets")?;
    }
    let helper = format!("/run/{HELPER}");
    let code = "import sys; from oslo_privsep.daemon import helper_main; sys.argv[0] = 'privsep-helper'; helper_main()";
    fs::write(&helper, format!("#!/bin/sh\nexec python3 -c \"{code}\" \"$@\"\n"))
        .context("cannot write the helper")?;
    fs::set_permissions(&helper, fs::Permissions::from_mode(0o755))
        .context("cannot make the helper a program")
}
