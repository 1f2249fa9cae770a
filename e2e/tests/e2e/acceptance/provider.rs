//! Ports of a provider network.

use anyhow::{Result, ensure};

use super::site::{Site, wired};
use crate::agent::{Monitor, ask};

const NOTHING: [&str; 0] = [];

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
        let monitor = Monitor::start(a)?;
        site.sb("set Port_Binding vm1 up=false")?;
        site.is(a, "vm1 is not up", &NOTHING)?;
        withdrawn_first(&monitor)?;
        site.sb("set Port_Binding vm1 up=true")?;
        site.is(a, "vm1 is up", &vm1)?;

        println!("5, deleted while bound:");
        site.nb("lsp-del vm1")?;
        site.is(a, "vm1 is deleted", &NOTHING)?;

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

        virtual_ports(site)
    })
}

/// Scenario 4: of all that is removed, the announcement goes first.
fn withdrawn_first(monitor: &Monitor) -> Result<()> {
    let told = monitor.told();
    let first = told.lines().find(|line| line.starts_with("Deleted")).unwrap_or_default();
    ensure!(
        first.contains("172.24.4.10/32") && first.contains("bgp-nic"),
        "the address goes first, not:\n{told}"
    );
    Ok(())
}

/// How often an address was announced no more.
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
