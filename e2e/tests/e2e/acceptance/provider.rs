//! Ports of a provider network.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use lab::eventually;
use serde_json::json;

use super::site::{BGPD, PATIENCE, Site, wired};
use crate::agent::{Monitor, ask};

const NOTHING: [&str; 0] = [];
/// How long the Southbound stays away after the agent noticed its absence.
const AWAY: Duration = Duration::from_secs(1);
/// The number of reads of FRR's configuration that show that reading changes nothing.
const LOOKS: usize = 3;

pub(super) fn scenarios() -> Result<()> {
    Site::run("", |site| {
        let (a, b) = (site.a, site.b);
        let vm1 = wired("172.24.4.10");
        println!("1, a provider VM:");
        site.nb("lsp-add neutron-pub vm1 -- lsp-set-addresses vm1 'fa:16:3e:00:00:01 172.24.4.10'")?;
        site.sb("lsp-bind vm1 ch-a")?;
        site.is(a, "vm1 is bound here", &vm1)?;
        site.is(b, "vm1 is bound elsewhere", &NOTHING)?;

        println!("2, two families and a second prefix:");
        site.nb("lsp-set-addresses vm1 'fa:16:3e:00:00:01 172.24.4.10 2001:db8::10 2001:db8:1::10'")?;
        let all: Vec<String> =
            ["172.24.4.10", "2001:db8::10", "2001:db8:1::10"].into_iter().flat_map(wired).collect();
        site.is(a, "vm1 has three addresses", &all)?;
        site.nb("lsp-set-addresses vm1 'fa:16:3e:00:00:01 172.24.4.10'")?;
        site.is(a, "vm1 has one", &vm1)?;

        println!("3, another chassis:");
        site.bind("vm1", b)?;
        site.is(a, "vm1 has gone to ch-b", &NOTHING)?;
        site.is(b, "vm1 has come", &vm1)?;
        site.bind("vm1", a)?;
        site.is(b, "vm1 has gone back", &NOTHING)?;

        println!("4, bound and not up:");
        site.is(a, "vm1 is back", &vm1)?;
        site.sb("lsp-unbind vm1")?;
        site.is(a, "vm1 is nowhere", &NOTHING)?;
        site.sb("lsp-bind vm1 ch-a -- set Port_Binding vm1 up=false")?;
        site.is(a, "vm1 has come, and is not up", &NOTHING)?;
        site.sb("set Port_Binding vm1 up=true")?;
        site.is(a, "vm1 is up", &vm1)?;
        let monitor = Monitor::start(a)?;
        site.sb("set Port_Binding vm1 up=false")?;
        site.is(a, "vm1 is not up", &NOTHING)?;
        withdrawn_first(&monitor)?;
        site.sb("set Port_Binding vm1 up=true")?;
        site.is(a, "vm1 is up", &vm1)?;

        println!("5, deleted while bound:");
        site.nb("lsp-del vm1")?;
        site.base(a)?;

        println!("6, a port that flaps:");
        site.nb("lsp-add neutron-pub vm1 -- lsp-set-addresses vm1 'fa:16:3e:00:00:01 172.24.4.10'")?;
        let monitor = Monitor::start(a)?;
        site.flap("vm1", a, 20)?;
        site.is(a, "vm1 has come to rest here", &vm1)?;
        ensure!(withdrawals(&monitor) <= 20, "withdrawn more often than unbound:\n{}", monitor.told());
        let status = ask(a, "status")?;
        ensure!(status.contains("bgp: converged"), "something is wrong:\n{status}");

        println!("7, live migration:");
        site.nb("lsp-set-options vm1 requested-chassis=ch-a,ch-b")?;
        let there = site.uuid(b)?;
        site.sb(&format!("set Port_Binding vm1 additional_chassis={there}"))?;
        site.is(b, "vm1 is on its way", &NOTHING)?;
        site.is(a, "vm1 is still here", &vm1)?;
        site.sb(&format!(
            "set Port_Binding vm1 chassis={there} -- clear Port_Binding vm1 additional_chassis"
        ))?;
        site.is(a, "vm1 has migrated", &NOTHING)?;
        site.is(b, "vm1 has arrived", &vm1)?;
        site.nb("lsp-set-options vm1")?;
        site.bind("vm1", a)?;

        println!("8, an address that OVN does not know:");
        site.nb("lsp-set-addresses vm1 unknown")?;
        site.is(a, "nobody knows vm1's address", &NOTHING)?;
        site.nb(r#"set Logical_Switch_Port vm1 'external_ids:"neutron:cidrs"="172.24.4.10/24"'"#)?;
        site.is(a, "the cloud knows it", &vm1)?;

        println!("38, opting out:");
        site.nb(r#"set Logical_Switch_Port vm1 'external_ids:"meridian:advertise"="false"'"#)?;
        site.is(a, "vm1 is not to be announced", &NOTHING)?;
        site.nb(r#"remove Logical_Switch_Port vm1 external_ids '"meridian:advertise"'"#)?;
        site.is(a, "vm1 is to be announced again", &vm1)?;

        virtual_ports(site)?;
        outage(site)?;
        idle(site)
    })
}

/// Scenario 4: the announcement is the first thing that the agent removes.
fn withdrawn_first(monitor: &Monitor) -> Result<()> {
    let told = monitor.told();
    let first = told.lines().find(|line| line.starts_with("Deleted")).unwrap_or_default();
    ensure!(
        first.contains("172.24.4.10/32") && first.contains("bgp-nic"),
        "the address goes first, not:\n{told}"
    );
    Ok(())
}

/// The number of withdrawn addresses.
fn withdrawals(monitor: &Monitor) -> usize {
    let told = monitor.told();
    told.lines().filter(|line| line.starts_with("Deleted") && line.contains("scope global bgp-nic")).count()
}

fn virtual_ports(site: &Site<'_>) -> Result<()> {
    println!("22, virtual ports:");
    let (a, vm1) = (site.a, wired("172.24.4.10"));
    let and = |lines: Vec<String>| [vm1.clone(), lines].concat();
    site.nb(
        "lsp-add neutron-pub vip2 -- lsp-set-type vip2 virtual -- lsp-set-addresses vip2 'fa:16:3e:00:00:77 172.24.4.77'
         -- lsp-set-options vip2 virtual-ip=172.24.4.77 virtual-parents=vm1",
    )?;
    site.is(a, "nobody has claimed the address", &vm1)?;
    site.sb("lsp-bind vip2 ch-a")?;
    site.is(a, "somebody here has", &and(wired("172.24.4.77")))?;
    site.bind("vip2", site.b)?;
    site.is(a, "somebody elsewhere has", &vm1)?;
    site.is(site.b, "somebody elsewhere has", &wired("172.24.4.77"))?;

    site.nb(
        r#"lsp-add neutron-pub vip6 -- lsp-set-type vip6 virtual -- lsp-set-addresses vip6 'fa:16:3e:00:00:78 2001:db8::77'
         -- lsp-set-options vip6 virtual-ip=2001:db8::77 virtual-parents=vm1
         -- set Logical_Switch_Port vip6 'external_ids:"neutron:cidrs"="2001:db8::77/64"'"#,
    )?;
    site.sb("lsp-bind vip6 ch-a")?;
    let answered = ["Y 2001:db8:: br-ex", "Y 2001:db8::77 br-ex"].map(String::from).to_vec();
    site.is(a, "an IPv6 address is claimed", &and([wired("2001:db8::77"), answered].concat()))?;
    site.unbind("vip6")?;
    site.is(a, "and given up", &vm1)
}

/// Scenario 33: while the Southbound is away nothing changes. When it is back, the agent applies the changes made meanwhile.
fn outage(site: &Site<'_>) -> Result<()> {
    println!("33, the Southbound is away, and back with other rows:");
    let (a, b) = (site.a, site.b);
    site.nb("lsp-add neutron-pub vm5 -- lsp-set-addresses vm5 'fa:16:3e:00:00:15 172.24.4.15' -- lsp-del vip2 -- lsp-del vip6")?;
    site.sb("lsp-bind vm5 ch-b")?;
    site.is(b, "vm5 is there", &wired("172.24.4.15"))?;
    let (here, there) = (site.uuid(a)?, site.uuid(b)?);
    // The monitors of before write to the same place.
    let monitor = Monitor::start(a)?;
    let before = monitor.told().len();
    let server = site.az1.daemon("ovsdb-server-sb")?;
    server.kill()?;
    let moved = |port: &str, chassis: &str| {
        json!({ "op": "update", "table": "Port_Binding", "where": [["logical_port", "==", port]],
            "row": { "chassis": ["uuid", chassis] } })
    };
    let edit = json!(["OVN_Southbound", moved("vm1", &there), moved("vm5", &here)]);
    let file = site.az1.dir().join("sb.db").display().to_string();
    let said = site.az1.run_args(&["ovsdb-tool", "transact", &file, &edit.to_string()])?;
    ensure!(said.matches("\"count\":1").count() == 2, "the rows were not changed:\n{said}");
    eventually(PATIENCE, "the agent has noticed", || {
        let status = ask(a, "status")?;
        ensure!(!status.contains("OVN_Southbound: synced"), "{status}");
        Ok(())
    })?;
    sleep(AWAY);
    site.is(a, "all is as it was", &wired("172.24.4.10"))?;
    let told = monitor.told();
    let told = told.get(before..).unwrap_or_default();
    ensure!(!told.contains("Deleted"), "something was withdrawn meanwhile:\n{told}");
    server.start_again()?;
    site.is(a, "vm5 has come and vm1 gone meanwhile", &wired("172.24.4.15"))?;
    site.is(b, "vm1 has come and vm5 gone meanwhile", &wired("172.24.4.10"))
}

/// Scenario 32: an agent without changes enters nothing into FRR, however often it reads the configuration. bgpd logs each command.
fn idle(site: &Site<'_>) -> Result<()> {
    println!("32, nothing to do:");
    let a = site.a;
    site.start(a, "reconcile_interval = 1\nfrr_reconcile_interval = 1")?;
    let log = a.log("bgpd");
    let told = || fs::read_to_string(&log).context("cannot read bgpd's log");
    let before = told()?.len();
    let looks = || Ok::<_, anyhow::Error>(told()?.get(before..).unwrap_or_default().to_owned());
    eventually(PATIENCE, "bgpd was looked at several times", || {
        let said = looks()?;
        ensure!(said.matches("show running-config").count() >= LOOKS, "{said}");
        Ok(())
    })?;
    let said = looks()?;
    ensure!(!said.contains("configure"), "it was told to change:\n{said}");
    site.is(a, "all is as it was", &wired("172.24.4.15"))?;

    println!("32, bgpd is killed, and told all of it once when it is back:");
    let bgpd = a.daemon("bgpd")?;
    bgpd.kill()?;
    let before = told()?.len();
    bgpd.start_again()?;
    a.frr_config(BGPD)?;
    let since = || Ok::<_, anyhow::Error>(told()?.get(before..).unwrap_or_default().to_owned());
    eventually(PATIENCE, "the agent's part is back, and was looked at again", || {
        let said = since()?;
        let (_, after) = said.rsplit_once("redistribute connected").context("not told yet")?;
        // One read is the operator's, and one verifies that everything was entered.
        ensure!(after.matches("show running-config").count() >= 2 + LOOKS, "{said}");
        Ok(())
    })?;
    let said = since()?;
    for line in ["import vrf bgp-vrf", "redistribute connected"] {
        ensure!(said.matches(line).count() == 2, "not once for each family: {line}\n{said}");
    }
    let running = a.vtysh("show running-config")?;
    ensure!(running.contains("import vrf bgp-vrf"), "it is not there:\n{running}");
    Ok(())
}
