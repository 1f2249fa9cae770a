//! The installed package, and its units under a real systemd with all their restrictions.
//!
//! Seccomp filters work in a guest as on a host, which is tested as well. Of Open vSwitch and FRR, only the switch's database runs in
//! Debian's own unit, with the package's settings for it. The lab starts the others in its usual way.

use std::fs;

use anyhow::{Context, Result, ensure};
use lab::node::chassis::Chassis;
use lab::node::systemd::Systemd;
use lab::{Lab, Topology, chassis, eventually};

use super::restarts::unharmed;
use super::{Monitor, PATIENCE, shows};
use crate::bgp::{SPINE, peering};
use crate::border::{forward, learns, spine};

const AGENT: &str = "meridian-bgp-agent";
const NODE: &str = "meridian-node";
const SERVER: &str = "meridian-server";
const UNIT: &str = include_str!("../../../../packaging/systemd/meridian-bgp-agent.service");
/// CAP_NET_ADMIN, as the kernel writes it.
const NET_ADMIN: &str = "0000000000001000";
/// The configuration of `meridian node` and `meridian server`.
const CONFIG: &str = "[bgp]\nbgp_AS = 64999\n[server]\nauth = \"none\"\nnb = \"tcp:10.10.0.100:6641\"\nsb = \"tcp:10.10.0.100:6642\"\n";

pub(super) fn units() -> Result<()> {
    let border = chassis("hv1").bridge_mapping("physnet", "br-ex");
    Topology::new().central("az1").chassis(border).run(|lab| {
        cloud(lab)?;
        let (spine, hv1) = (lab.find("spine")?, lab.chassis("hv1")?);
        let machine = Systemd::start(&lab.find("hv1")?)?;
        // Newer versions of iproute2 do not create this directory.
        fs::remove_dir_all("/etc/iproute2").context("cannot remove /etc/iproute2")?;
        machine.install_meridian()?;
        example(&machine, "bgp-agent.conf", "/etc/ovn-bgp-agent/bgp-agent.conf")?;
        fs::write("/etc/meridian/meridian.toml", CONFIG).context("cannot write the configuration")?;
        let verify = "systemd-analyze verify --man=no /usr/lib/systemd/system/meridian-*.service 2>&1";
        let told = machine.run_args(&["sh", "-c", verify])?;
        ensure!(told.is_empty(), "systemd finds fault with the units:\n{told}");

        for unit in [AGENT, NODE, SERVER] {
            // By default systemd gives up on a unit that fails five times within ten seconds, as a server without its database does.
            is(&machine, unit, &[("Restart", "always"), ("StartLimitIntervalUSec", "0")])?;
        }

        println!("the agent is started:");
        machine.run(&format!("systemctl enable --now {AGENT}"))?;
        // Readiness means that everything is in place.
        let status = machine.run("meridian status")?;
        ensure!(status.contains("bgp-agent") && status.contains("bgp: converged"), "{status}");
        ensure!(!status.contains("problem"), "{status}");
        privileges(
            &machine,
            AGENT,
            "meridian-node",
            &["openvswitch", "frrvty", "meridian-config"],
            NET_ADMIN,
        )?;
        words(&machine)?;
        wired(hv1)?;
        learns(&spine, "172.24.4.10")?;
        spine.reaches("172.24.4.10")?;
        confined(&machine)?;

        println!("it is stopped:");
        let monitor = Monitor::start(hv1)?;
        let mut train = spine.ping_train("172.24.4.10")?;
        train.rolls(5)?;
        machine.run(&format!("systemctl stop {AGENT}"))?;
        is(&machine, AGENT, &[("ActiveState", "inactive"), ("Result", "success")])?;
        wired(hv1)?;
        train.rolls(5)?;
        println!("it is started, and killed:");
        machine.run(&format!("systemctl start {AGENT}"))?;
        machine.run(&format!("systemctl kill --signal KILL {AGENT}"))?;
        eventually(PATIENCE, "systemd has started it again", || {
            is(&machine, AGENT, &[("NRestarts", "1"), ("ActiveState", "active")])
        })?;
        unharmed(train, "its end")?;
        switch(&machine, hv1)?;
        println!("the package is upgraded:");
        let mut train = spine.ping_train("172.24.4.10")?;
        train.rolls(5)?;
        let before = machine.property(AGENT, "MainPID")?;
        machine.run("/var/lib/dpkg/info/meridian.postinst configure 0.0.1")?;
        eventually(PATIENCE, "the agent is another one", || {
            ensure!(machine.property(AGENT, "MainPID")? != before, "it is the same");
            is(&machine, AGENT, &[("ActiveState", "active")])
        })?;
        println!("meridian-node takes its place:");
        machine.run(&format!("systemctl start {NODE}"))?;
        is(&machine, AGENT, &[("ActiveState", "inactive"), ("Result", "success")])?;
        is(&machine, NODE, &[("ActiveState", "active"), ("NRestarts", "0")])?;
        // The units must not overlap: they share a runtime directory, which systemd deletes with the first one.
        let time = |unit, name| anyhow::Ok(machine.property(unit, name)?.parse::<u64>()?);
        let (gone, came) =
            (time(AGENT, "InactiveEnterTimestampMonotonic")?, time(NODE, "InactiveExitTimestampMonotonic")?);
        ensure!(gone <= came, "{NODE} was started {} us before {AGENT} had ended", gone - came);
        let status = machine.run("meridian status")?;
        ensure!(status.contains("bgp: converged"), "{status}");
        unharmed(train, "its successors")?;

        server(&machine)?;
        println!("the package is removed:");
        let mut train = spine.ping_train("172.24.4.10")?;
        train.rolls(5)?;
        machine.run("dpkg --force-bad-path --remove meridian")?;
        for unit in [AGENT, NODE, SERVER] {
            is(&machine, unit, &[("ActiveState", "inactive"), ("UnitFileState", "")])?;
        }
        unharmed(train, "the removal of the package")?;
        monitor.saw_no_deletion()
    })
}

/// One VM on the provider network of a chassis that speaks BGP to the spine.
fn cloud(lab: &Lab) -> Result<()> {
    let (az1, hv1) = (lab.central("az1")?, lab.chassis("hv1")?);
    spine(lab, &["hv1"], "uplink")?.frr(&["bgpd"], SPINE)?;
    hv1.frr(&["bgpd"], &peering(1))?;
    forward(hv1)?;
    az1.write(|net| {
        net.provider("public", "provnet-1", "physnet").port("vmp", "02:00:00:00:02:10 172.24.4.10");
    })?;
    lab.vm("vmp").on("hv1").mac("02:00:00:00:02:10").ip("172.24.4.10/24").gateway("172.24.4.1").plug()?;
    az1.ready(&["vmp"])?;
    learns(hv1, "default")
}

/// The agent's work needs each of its privileges: netlink, sysctls, the sockets of Open vSwitch and FRR, and a file in /etc.
fn wired(hv1: &Chassis) -> Result<()> {
    for (command, words) in [
        ("ip address show bgp-nic", "172.24.4.10/32"),
        ("ip rule", "to 172.24.4.10 lookup br-ex"),
        ("ip route show table 201", "172.24.4.10 dev br-ex"),
        ("sysctl net.ipv4.conf.br-ex.proxy_arp", "= 1"),
        ("cat /etc/iproute2/rt_tables", "201 br-ex"),
    ] {
        shows(hv1, command, words, true)?;
    }
    let flows = hv1.ofctl("dump-flows", "br-ex", &["cookie=999/-1"])?;
    ensure!(flows.contains("priority=900"), "no flow of the agent's:\n{flows}");
    Ok(())
}

/// The properties of a unit.
fn is(machine: &Systemd, unit: &str, wanted: &[(&str, &str)]) -> Result<()> {
    for (name, value) in wanted {
        let found = machine.property(unit, name)?;
        ensure!(found == *value, "{name} of {unit} is {found:?} and not {value:?}");
    }
    Ok(())
}

/// Checks a unit's process: its user, its groups, its capabilities without a way to gain more, and its system call filters.
fn privileges(machine: &Systemd, unit: &str, user: &str, groups: &[&str], capabilities: &str) -> Result<()> {
    let pid = machine.property(unit, "MainPID")?;
    let status = machine.run(&format!("cat /proc/{pid}/status"))?;
    let of = |key: &str| -> Result<Vec<&str>> {
        let found = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        Ok(found.with_context(|| format!("no {key} in\n{status}"))?.split_whitespace().collect())
    };
    let id = |line: String| machine.run(&line).map(|id| id.trim().to_owned());
    let (name, user, own) = (user, id(format!("id -u {user}"))?, id(format!("id -g {user}"))?);
    ensure!(
        user != "0" && of("Uid")? == [&user; 4] && of("Gid")? == [&own; 4],
        "{unit} is not {name}:\n{status}"
    );
    let mut may = vec![own];
    for group in groups {
        let entry = machine.run(&format!("getent group {group}"))?;
        may.push(entry.split(':').nth(2).context("a group has a number")?.to_owned());
    }
    may.sort();
    let mut has = of("Groups")?;
    has.sort_unstable();
    ensure!(has == may, "{unit} has the groups {has:?} and not {may:?}");
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        ensure!(of(set)? == [capabilities], "{set} of {unit} is {:?} and not {capabilities}", of(set)?);
    }
    ensure!(of("NoNewPrivs")? == ["1"] && of("Seccomp")? == ["2"], "{unit} is not shut in:\n{status}");
    Ok(())
}

/// Checks the log of a start, and the watchdog notifications to systemd.
fn words(machine: &Systemd) -> Result<()> {
    let log = machine.journal(AGENT)?;
    for line in [
        "Starting BGP Agent...",
        "Loaded chassis hv1.",
        "BGP Agent Started...",
        "Add BGP route for logical port with ip 172.24.4.10",
    ] {
        ensure!(log.contains(line), "the journal lacks {line:?}:\n{log}");
    }
    let told = machine.property(AGENT, "StatusText")?;
    ensure!(told.ends_with("objects in place, 0 problems"), "{told}");
    ensure!(machine.property(AGENT, "WatchdogTimestampMonotonic")? != "0", "nobody feeds the watchdog");
    Ok(())
}

/// Runs another program with the agent's unit settings. It must be denied actions that it may do elsewhere, which shows that the settings
/// work here.
fn confined(machine: &Systemd) -> Result<()> {
    const TRIED: [&str; 3] = ["unshare --user true", "setarch --addr-no-randomize true", "test -e /dev/tty0"];
    let script = TRIED.map(|what| format!("if {what}; then echo may: {what}; fi")).join("; ");
    let elsewhere =
        machine.run_args(&["setpriv", "--reuid=meridian-node", "--clear-groups", "sh", "-c", &script])?;
    ensure!(elsewhere.matches("may: ").count() == TRIED.len(), "this shows nothing: {elsewhere}");
    let line = |line: &str| match line {
        _ if line.starts_with("ExecStart=") => Some(format!("ExecStart=/bin/sh -c '{script}'")),
        _ if line.starts_with("ExecStartPre=") || line.starts_with("RuntimeDirectory=") => None,
        "Type=notify" => Some("Type=oneshot".to_owned()),
        "Restart=always" => Some("Restart=no".to_owned()),
        other => Some(other.to_owned()),
    };
    let unit: Vec<String> = UNIT.lines().filter_map(line).collect();
    fs::write("/etc/systemd/system/tried.service", unit.join("\n")).context("cannot write a unit")?;
    machine.run("systemctl start tried")?;
    let said = machine.journal("tried")?;
    ensure!(said.contains("Finished") && !said.contains("may: "), "it was allowed:\n{said}");
    Ok(())
}

/// Restarts the switch's database, first with a socket for root only, then in Debian's own unit with the package's settings. The agent
/// reports why it cannot connect to the first, and connects to the second.
fn switch(machine: &Systemd, hv1: &Chassis) -> Result<()> {
    println!("the switch's database is started again, for root alone, and then for the agent's group:");
    for (path, text) in [
        ("/etc/openvswitch/system-id.conf", "hv1\n"),
        ("/etc/default/openvswitch-switch", "OVS_CTL_OPTS=--db-file=/run/openvswitch/conf.db\n"),
    ] {
        fs::write(path, text).with_context(|| format!("cannot write {path}"))?;
    }
    let says = |words: &str| {
        eventually(PATIENCE, &format!("the agent says {words:?}"), || {
            let status = machine.run("meridian status")?;
            ensure!(status.contains(words), "{status}");
            Ok(())
        })
    };
    hv1.daemon("ovsdb-server")?.restart()?;
    says("/run/openvswitch/db.sock: Permission denied")?;
    example(machine, "openvswitch-group.conf", "/etc/systemd/system/ovsdb-server.service.d/meridian.conf")?;
    machine.run("systemctl daemon-reload")?;
    hv1.daemon("ovsdb-server")?.kill()?;
    machine.run("systemctl start ovsdb-server")?;
    says("Open_vSwitch: synced")
}

/// Installs an example of the package at its path.
fn example(machine: &Systemd, name: &str, at: &str) -> Result<()> {
    machine.run(&format!("install -D -m 644 /usr/share/doc/meridian/examples/{name} {at}")).map(drop)
}

/// The network API, which has no privileges at all.
fn server(machine: &Systemd) -> Result<()> {
    println!("the server is started:");
    machine.run(&format!("systemctl start {SERVER}"))?;
    let version = machine.run("curl --silent --show-error --fail http://127.0.0.1:9696/")?;
    ensure!(version.contains("v2.0"), "{version}");
    machine.run("curl --silent --show-error --fail http://127.0.0.1:9697/health")?;
    privileges(machine, SERVER, "meridian", &["openvswitch", "meridian-config"], "0000000000000000")?;
    for unit in [AGENT, NODE, SERVER] {
        is(machine, unit, &[("LimitCORE", "0")])?;
    }
    is(machine, SERVER, &[("WatchdogUSec", "1min")])?;
    ensure!(machine.property(SERVER, "WatchdogTimestampMonotonic")? != "0", "nobody feeds the watchdog");
    for (path, wanted) in [
        ("/etc/meridian/meridian.toml", "640:root:meridian-config"),
        ("/var/lib/meridian", "700:meridian:meridian"),
        ("/var/lib/meridian/api.db", "600:meridian:meridian"),
        ("/var/lib/meridian/api.db-wal", "600:meridian:meridian"),
        ("/var/lib/meridian/admin.sock", "600:meridian:meridian"),
    ] {
        let found = machine.run(&format!("stat --format %a:%U:%G {path}"))?;
        ensure!(found.trim() == wanted, "{path} is {found} and not {wanted}");
    }
    // The agent's user reads the configuration, and nothing that is the server's.
    let reads = |path: &str| {
        let as_node = [
            "setpriv",
            "--reuid=meridian-node",
            "--regid=meridian-node",
            "--groups=meridian-config",
            "cat",
            path,
        ];
        machine.run_args(&as_node).is_ok()
    };
    ensure!(reads("/etc/meridian/meridian.toml"), "the agent cannot read its configuration");
    ensure!(!reads("/var/lib/meridian/api.db"), "the agent's user reads the server's database");
    hangs(machine)
}

/// A server that hangs is killed by its watchdog, and started again.
fn hangs(machine: &Systemd) -> Result<()> {
    println!("the server hangs:");
    let short = "[Service]\nWatchdogSec=4\n";
    fs::create_dir_all("/etc/systemd/system/meridian-server.service.d").context("cannot make a directory")?;
    fs::write("/etc/systemd/system/meridian-server.service.d/short.conf", short).context("cannot write")?;
    machine.run("systemctl daemon-reload")?;
    machine.run(&format!("systemctl restart {SERVER}"))?;
    is(machine, SERVER, &[("NRestarts", "0"), ("ActiveState", "active")])?;
    machine.run(&format!("systemctl kill --signal STOP {SERVER}"))?;
    eventually(PATIENCE, "systemd has started it again", || {
        is(machine, SERVER, &[("NRestarts", "1"), ("ActiveState", "active")])
    })?;
    let version = machine.run("curl --silent --show-error --fail http://127.0.0.1:9696/")?;
    ensure!(version.contains("v2.0"), "{version}");
    Ok(())
}
