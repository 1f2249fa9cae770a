//! The agent protects the node that it runs on.

use anyhow::{Context, Result, ensure};
use lab::eventually;
use lab::node::chassis::Chassis;
use lab::process::Recipe;
use ovn::nb::LogicalSwitchPort;

use super::{PATIENCE, ask, fabric, shows, start};
use crate::border::{learns, networks, two_borders};

const ANNOUNCED: &str = "ip address show bgp-nic";

pub(super) fn guard() -> Result<()> {
    two_borders().run(|lab| {
        fabric(lab)?;
        networks(lab)?;
        let (az1, spine, hv1) = (lab.central("az1")?, lab.find("spine")?, lab.chassis("hv1")?);
        let agent = start(hv1)?;
        learns(&spine, "172.24.4.10")?;
        spine.reaches("172.24.4.10")?;

        println!("a tenant attaches the underlay, another one the network of the BGP peer, and a VM has an IPv4-mapped address:");
        az1.write(|net| {
            net.switch("evil0").port("vme", "02:00:00:00:09:01 10.10.0.77");
            net.switch("evil1").port("vmf", "02:00:00:00:09:02 100.64.7.7");
            net.provider("public", "provnet-1", "physnet").port("vmm", "02:00:00:00:09:03 ::ffff:10.9.0.5");
            net.router("lr0").join("evil0", "02:00:00:00:09:11", "10.10.0.9/24").join(
                "evil1",
                "02:00:00:00:09:12",
                "100.64.0.9/16",
            );
        })?;
        for (vm, mac) in
            [("vme", "02:00:00:00:09:01"), ("vmf", "02:00:00:00:09:02"), ("vmm", "02:00:00:00:09:03")]
        {
            lab.vm(vm).on("hv1").mac(mac).ip("192.0.2.200/32").plug()?;
        }
        az1.ready(&["vme", "vmf", "vmm"])?;
        eventually(PATIENCE, "the agent names all three", || {
            let status = ask(hv1, "status")?;
            let told = |object: &str, why: &str| {
                let line = status.lines().find(|line| line.contains(object));
                line.is_some_and(|line| line.contains("reserved-prefix") && line.contains(why))
            };
            ensure!(told("subnet/10.10.0.0/24", "this node"), "{status}");
            ensure!(told("subnet/100.64.0.0/16", "100.64.1.0/"), "{status}");
            ensure!(told("address/::ffff:10.9.0.5", "IPv4-mapped"), "{status}");
            Ok(())
        })?;
        let explained = ask(hv1, "explain 10.10.0.77")?;
        ensure!(explained.contains("so it is never announced for an instance"), "{explained}");
        nothing_of_them(hv1)?;

        println!("the Southbound, the session and all else live on:");
        for (advertise, there) in [("false", false), ("true", true)] {
            az1.nb().change::<LogicalSwitchPort>(
                |port| port.name == "vmp",
                |port| {
                    port.external_ids.insert("meridian:advertise".into(), advertise.into());
                },
            )?;
            shows(hv1, ANNOUNCED, "172.24.4.10/32", there)?;
        }
        learns(&spine, "172.24.4.10")?;
        spine.reaches("172.24.4.10")?;
        nothing_of_them(hv1)?;

        alone(hv1)?;
        hung(hv1)?;
        foreign(hv1, &FOREIGN.map(|(make, ..)| make))?;
        println!("an earlier version has wired the underlay, and the Southbound is out of reach:");
        agent.stop(PATIENCE)?;
        hv1.run("ip route add 10.10.0.0/24 via 172.24.4.100 dev br-ex table 201")?;
        hv1.run("ip address add 10.10.0.77/32 dev bgp-nic")?;
        hv1.run("ip rule add pref 32000 to 10.10.0.0/24 lookup 201")?;
        hv1.run("ip rule add pref 32000 to 172.24.4.99 lookup 201")?;
        agent.start_again()?;
        shows(hv1, "ip rule", "10.10.0.0/24", false)?;
        shows(hv1, "ip rule", "172.24.4.99", false)?;
        let status = format!("meridian status --socket {}/agent.sock", hv1.dir().display());
        shows(hv1, &status, "OVN_Southbound: synced", true)?;
        shows(hv1, ANNOUNCED, "10.10.0.77/32", false)?;
        shows(hv1, "ip route show table 201", "10.10.0.0/24", false)?;
        spine.reaches("172.24.4.10")?;
        for (_, command, words) in FOREIGN {
            shows(hv1, command, words, true)?;
        }
        let said = agent.said();
        ensure!(said.contains("taking over what was here before: delete rule 32000: to 172.24.4.99/32"), "{said}");
        ensure!(said.contains("give it another priority than rule_priority"), "{said}");
        filters(lab)
    })
}

/// The agent refuses to run beside a second one, reports a former agent, and reports an object that another program deletes repeatedly.
fn alone(hv1: &Chassis) -> Result<()> {
    println!("a second agent, an ovn-bgp-agent, and a script that fights:");
    let config = hv1.dir().join("bgp-agent.conf").display().to_string();
    let second = hv1.run(&format!("meridian bgp-agent --config-file {config}"));
    let refused = second.err().map_or(String::new(), |error| format!("{error:#}"));
    ensure!(refused.contains("another BGP agent runs in this network namespace, process "), "{refused:?}");
    let former = hv1.dir().join("ovn-bgp-agent");
    std::os::unix::fs::symlink("/usr/bin/sleep", &former)?;
    let former = hv1.start("former", Recipe::new(&former.display().to_string()).args(["600"]))?;
    let status = format!("meridian status --socket {}/agent.sock", hv1.dir().display());
    shows(hv1, &status, "another-agent", true)?;
    former.kill()?;
    shows(hv1, &status, "another-agent", false)?;
    let script =
        "for n in 1 2 3 4 5 6 7 8; do ip rule del pref 32000 to 172.24.4.10; sleep 0.5; done; sleep 600";
    let rival = hv1.start("rival", Recipe::new("sh").args(["-c", script]))?;
    eventually(PATIENCE, "the agent says what is undone", || {
        let status = ask(hv1, "status")?;
        let line = status.lines().find(|line| line.contains("address/172.24.4.10"));
        ensure!(line.is_some_and(|line| line.contains("undone")), "{status}");
        Ok(())
    })?;
    rival.kill()
}

/// A hanging bgpd delays only the commands to bgpd itself.
fn hung(hv1: &Chassis) -> Result<()> {
    println!("bgpd hangs:");
    let bgpd = hv1.daemon("bgpd")?.pid().context("bgpd runs")?;
    hv1.run(&format!("kill -STOP {bgpd}"))?;
    let looked = (|| {
        hv1.run("ip rule del pref 32000 to 172.24.4.10")?;
        shows(hv1, "ip rule", "to 172.24.4.10 lookup", true)?;
        let plan = ask(hv1, "plan")?;
        ensure!(plan.contains("nothing to do"), "{plan}");
        let told = ask(hv1, "explain 172.24.4.10")?;
        // The agent keeps the last answer of bgpd for ten seconds. A slow guest may take longer to reach this line.
        let is_recent = told.contains("is announced by hv1") && told.contains("FRR did not reply within");
        let is_old = told.contains("announces nothing new") && told.contains("is not known");
        ensure!(is_recent || is_old, "{told}");
        Ok(())
    })();
    hv1.run(&format!("kill -CONT {bgpd}"))?;
    looked
}

/// Foreign objects that an operator may have beside ours: the command that creates each, the command that lists it, and its line.
const FOREIGN: [(&str, &str, &str); 8] = [
    ("ip rule add pref 32000 from 198.51.100.1 lookup 201", "ip rule", "from 198.51.100.1 lookup 201"),
    ("ip rule add pref 32000 fwmark 7 lookup 201", "ip rule", "fwmark 0x7 lookup 201"),
    ("ip rule add pref 32000 to 198.51.100.6 ipproto tcp lookup 201", "ip rule", "198.51.100.6 ipproto tcp"),
    ("ip rule add pref 32000 iif lo to 198.51.100.2 lookup 201", "ip rule", "to 198.51.100.2 iif lo"),
    ("ip route add blackhole 198.51.100.3/32 table 201", "ip route show table 201", "blackhole 198.51.100.3"),
    (
        "ip route add 198.51.100.4/32 dev br-ex proto static table 201",
        "ip route show table 201",
        "198.51.100.4 dev br-ex proto static",
    ),
    (
        "ip neigh add 198.51.100.5 lladdr 02:00:00:00:0f:05 dev br-ex nud permanent",
        "ip neigh show dev br-ex nud permanent",
        "198.51.100.5 ",
    ),
    ("ip -6 neigh add proxy 2001:db8:24::5 dev br-ex", "ip -6 neigh show proxy", "2001:db8:24::5 "),
];

fn foreign(hv1: &Chassis, commands: &[&str]) -> Result<()> {
    println!("an operator has rules, routes, neighbours and proxies beside the agent's:");
    commands.iter().try_for_each(|command| hv1.run(command).map(|_| ()))
}

fn nothing_of_them(hv1: &Chassis) -> Result<()> {
    for command in ["ip rule", "ip -6 rule", "ip route show table 201", ANNOUNCED, "ip -6 route"] {
        let out = hv1.run(command)?;
        for words in ["10.10.0.", "100.64.0.0", "100.64.7.", "::ffff:", "::a09:5"] {
            let line = out.lines().find(|line| line.contains(words) && !line.contains("dev eth0"));
            ensure!(line.is_none(), "`{command}` shows {line:?}");
        }
    }
    Ok(())
}

/// The guide's sample filters accept and announce host prefixes only.
fn filters(lab: &lab::Lab) -> Result<()> {
    println!("the sample's filters, in and out:");
    let (spine, hv1) = (lab.find("spine")?, lab.chassis("hv1")?);
    let network = |asn: &str, last: &str| {
        format!(
            "router bgp {asn}\n no bgp network import-check\n address-family ipv4 unicast\n  network 240.0.0.{last}/32\n \
             exit-address-family\n address-family ipv6 unicast\n  network ::ffff:10.9.0.{last}/128\n  \
             network 2001:db8:77::{last}/128\n exit-address-family\nexit\n"
        )
    };
    hv1.frr_config(&network("64999", "1"))?;
    spine.frr_config(&network("65000", "2"))?;
    let asked = [("the spine", &*spine, "1"), ("hv1", hv1, "2")];
    for (who, node, last) in asked {
        eventually(PATIENCE, &format!("{who} hears of what is good"), || {
            let good = node.vtysh(&format!("show bgp ipv6 unicast 2001:db8:77::{last}/128"))?;
            ensure!(good.contains("best"), "{good}");
            Ok(())
        })?;
        for (family, bad) in
            [("ipv6", format!("::ffff:10.9.0.{last}/128")), ("ipv4", format!("240.0.0.{last}/32"))]
        {
            let heard = node.vtysh(&format!("show bgp {family} unicast {bad}"))?;
            ensure!(heard.contains("not in table"), "{who} has heard of {bad}:\n{heard}");
        }
    }
    Ok(())
}
