//! The agent as its systemd unit runs it: the lines of the unit define its user, capabilities and groups, and the preparations. Only
//! systemd is missing, and the paths are those of a lab's chassis.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use lab::node::chassis::Chassis;
use lab::process::{Daemon, Recipe};

use super::configure;

const UNIT: &str = include_str!("../../../../packaging/systemd/meridian-bgp-agent.service");
/// The drop-in that gives Open vSwitch's sockets to the agent's group whenever they are created.
const SWITCH: &str = include_str!("../../../../packaging/examples/openvswitch-group.conf");
const USERS: &str = include_str!("../../../../packaging/sysusers.d/meridian.conf");

/// The values of a setting, in the order of the file.
fn values<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
    unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect()
}

/// The value of a setting that occurs once.
fn value<'a>(unit: &'a str, key: &str) -> Result<&'a str> {
    match values(unit, key)[..] {
        [value] => Ok(value),
        ref all => bail!("{key} is there {} times", all.len()),
    }
}

/// Capabilities in the form of `setpriv`: these and no others.
fn capabilities(unit: &str, key: &str) -> Result<String> {
    let words = value(unit, key)?.split(' ').map(|name| {
        let name = name.strip_prefix("CAP_").with_context(|| format!("{name} is no capability"))?;
        Ok(format!("+{}", name.to_lowercase()))
    });
    Ok(["-all".to_owned()]
        .into_iter()
        .chain(words.collect::<Result<Vec<_>>>()?)
        .collect::<Vec<_>>()
        .join(","))
}

/// Creates the users and groups of the package, and starts the agent of a chassis as the unit does.
pub(super) fn start(hv: &Chassis) -> Result<Arc<Daemon>> {
    let users = hv.dir().join("sysusers.conf");
    fs::write(&users, USERS).context("cannot write the users")?;
    hv.run(&format!("systemd-sysusers {}", users.display()))?;
    ensure!(values(UNIT, "TimeoutStartSec") == ["infinity"], "systemd gives up on an agent that waits");
    // RuntimeDirectory.
    let (user, group) = (value(UNIT, "User")?, value(UNIT, "Group")?);
    let runtime = hv.dir().join(value(UNIT, "RuntimeDirectory")?);
    fs::create_dir_all(&runtime).context("cannot make the runtime directory")?;
    hv.run(&format!("chown {user}:{group} {}", runtime.display()))?;
    symlink(runtime.join("agent.sock"), hv.dir().join("agent.sock"))
        .context("cannot link the agent's socket")?;
    // The default on a Debian host.
    ensure!(
        access(&hv.dir().join("db.sock"))? == (0, 0o750),
        "Open vSwitch makes its sockets for root alone"
    );
    before(hv)?;
    let path = configure(hv, "")?;
    let groups = value(UNIT, "SupplementaryGroups")?.replace(' ', ",");
    ensure!(value(UNIT, "NoNewPrivileges")? == "yes", "it may not gain privileges");
    let ambient = capabilities(UNIT, "AmbientCapabilities")?;
    let words = [
        "setpriv".to_owned(),
        format!("--reuid={user}"),
        format!("--regid={group}"),
        format!("--groups={groups}"),
        format!("--inh-caps={ambient}"),
        format!("--ambient-caps={ambient}"),
        format!("--bounding-set={}", capabilities(UNIT, "CapabilityBoundingSet")?),
        "--no-new-privs".to_owned(),
    ];
    let args = ["bgp-agent", "--config-file", &path];
    let recipe = Recipe::new("meridian").args(args).under(words.iter().map(String::as_str));
    hv.start("bgp-agent", recipe)
}

/// Runs the commands that systemd runs as root before it starts the agent.
fn before(hv: &Chassis) -> Result<()> {
    let lines = values(UNIT, "ExecStartPre");
    ensure!(lines.len() == 2, "{lines:?}");
    for line in lines {
        let script = line
            .trim_start_matches('-')
            .strip_prefix("+/bin/sh -c '")
            .and_then(|rest| rest.strip_suffix('\''));
        let script = script.with_context(|| format!("{line} is no script that runs as root"))?;
        let dir = hv.dir().display().to_string();
        let script =
            script.replace("/run/openvswitch", &dir).replace("/etc/iproute2", &dir).replace("$$", "$");
        hv.run_args(&["sh", "-c", &script])?;
    }
    Ok(())
}

/// Restarts Open vSwitch as the package's example configures systemd: its sockets belong to the group from the beginning.
pub(super) fn restart_switch(hv: &Chassis) -> Result<()> {
    let group = value(SWITCH, "Group")?;
    let groups: BTreeSet<&str> = value(UNIT, "SupplementaryGroups")?.split(' ').collect();
    ensure!(groups.contains(group), "the agent is not in the group {group}");
    let script = format!("umask {}; exec \"$@\"", value(SWITCH, "UMask")?);
    let group = format!("--regid={group}");
    for name in ["ovsdb-server", "ovs-vswitchd"] {
        let daemon = hv.daemon(name)?;
        daemon.kill()?;
        let recipe = daemon.recipe().under(["setpriv", &group, "--clear-groups", "sh", "-c", &script, "sh"]);
        hv.start(name, recipe)?.ready()?;
    }
    let (group, mode) = access(&hv.dir().join("db.sock"))?;
    ensure!(group != 0 && mode == 0o770, "the switch's socket is group {group}'s, {mode:o}");
    Ok(())
}

/// The group and the permissions of a file.
fn access(path: &Path) -> Result<(u32, u32)> {
    let about = fs::metadata(path).with_context(|| format!("cannot look at {}", path.display()))?;
    Ok((about.gid(), about.mode() & 0o777))
}
