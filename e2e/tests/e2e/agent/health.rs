//! Healthy means reachable: the agent reports everything that blocks packets of a node's instances, and repairs it if it can.

use anyhow::{Context, Result, ensure};
use lab::node::Node;
use lab::node::chassis::Chassis;
use lab::process::Recipe;
use lab::{Lab, eventually};

use super::{PATIENCE, ask, configure, fabric, shows};
use crate::bgp::SPINE;
use crate::border::{learns, networks, two_borders};

const OFTEN: &str = "frr_reconcile_interval=2";

pub(super) fn health() -> Result<()> {
    two_borders().run(|lab| {
        fabric(lab)?;
        networks(lab)?;
        let (spine, hv1) = (lab.find("spine")?, lab.chassis("hv1")?);
        // FRR does not report some changes, so the agent polls for them. A short interval makes the test faster.
        let config = configure(hv1, OFTEN)?;
        let agent = hv1.meridian("bgp-agent", &["bgp-agent", "--config-dir", &config])?;
        learns(&spine, "172.24.4.10")?;
        spine.reaches("172.24.4.10")?;
        says(hv1, true, "br-ex: packets reach OVN and return")?;
        says(hv1, true, "BGP sessions: 1 of 1 established")?;
        says(hv1, true, "OVN_Southbound is in sync")?;

        normal_flow(hv1, &spine)?;
        sessions(hv1, &spine)?;
        hung_daemons(lab, hv1, &spine)?;
        tables(hv1, &spine)?;

        println!("the agent has no right to change the network:");
        agent.stop(PATIENCE)?;
        hv1.run("ip address del 172.24.4.10/32 dev bgp-nic")?;
        let weak = Recipe::new("meridian").args(["bgp-agent", "--config-dir", &config]);
        let weak = weak.under(["setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin"]);
        let weak = hv1.start("weak-agent", weak)?;
        says(hv1, false, "run the agent as root or with CAP_NET_ADMIN")?;
        weak.stop(PATIENCE)?;
        agent.start_again()?;
        says(hv1, true, "announced: ")?;
        spine.reaches("172.24.4.10")
    })
}

/// Waits until the agent's health is `healthy` and its status contains a string.
fn says(hv: &Chassis, healthy: bool, words: &str) -> Result<()> {
    eventually(PATIENCE, &format!("healthy is {healthy}, and it says {words:?}"), || {
        let status = ask(hv, "status")?;
        ensure!(status.contains(", healthy, ") == healthy && status.contains(words), "{status}");
        Ok(())
    })
}

fn normal_flow(hv1: &Chassis, spine: &Node) -> Result<()> {
    println!("the NORMAL flow goes, and nobody else writes flows:");
    hv1.del_flows("br-ex", "cookie=0/-1")?;
    eventually(PATIENCE, "it is back", || {
        let flows = hv1.ofctl("dump-flows", "br-ex", &["cookie=0/-1"])?;
        ensure!(flows.contains("priority=0 actions=NORMAL"), "{flows}");
        Ok(())
    })?;
    spine.reaches("172.24.4.10")?;
    println!("it goes, and somebody has another flow:");
    hv1.add_flow("br-ex", "cookie=7,priority=5,arp,actions=NORMAL")?;
    hv1.del_flows("br-ex", "cookie=0/-1")?;
    says(hv1, false, "no-normal-flow")?;
    let lost = spine.run("ping -c 2 -W 1 172.24.4.10");
    ensure!(lost.is_err(), "packets get through without the NORMAL flow: {lost:?}");
    hv1.del_flows("br-ex", "cookie=7/-1")?;
    says(hv1, true, "br-ex: packets reach OVN and return")?;
    spine.reaches("172.24.4.10")
}

fn sessions(hv1: &Chassis, spine: &Node) -> Result<()> {
    println!("the peer is away:");
    let bgpd = spine.daemon("bgpd")?;
    bgpd.kill()?;
    says(hv1, false, "no BGP session is established, so no address reaches the fabric; down: 100.64.1.0")?;
    bgpd.start_again()?;
    spine.frr_config(SPINE)?;
    says(hv1, true, "BGP sessions: 1 of 1 established")?;
    println!("there is no peer at all:");
    hv1.frr_config("router bgp 64999\n no neighbor 100.64.1.0\nexit\n")?;
    says(hv1, false, "FRR has no BGP neighbour")?;
    hv1.frr_config(&crate::bgp::peering(1))?;
    says(hv1, true, "BGP sessions: 1 of 1 established")?;
    learns(spine, "172.24.4.10")
}

fn hung_daemons(lab: &Lab, hv1: &Chassis, spine: &Node) -> Result<()> {
    println!("the Southbound database hangs:");
    let az1 = lab.central("az1")?;
    let server = az1.daemon("ovsdb-server-sb")?.pid().context("the server runs")?;
    az1.run(&format!("kill -STOP {server}"))?;
    let looked = (|| {
        says(hv1, false, "OVN_Southbound has been out of sync for")?;
        let told = ask(hv1, "explain 198.51.100.99")?;
        ensure!(told.contains("Cannot search all") && !told.contains("Nothing in OVN's"), "{told}");
        spine.reaches("172.24.4.10")
    })();
    az1.run(&format!("kill -CONT {server}"))?;
    looked?;
    says(hv1, true, "OVN_Southbound is in sync")?;

    println!("bgpd hangs:");
    let bgpd = hv1.daemon("bgpd")?.pid().context("bgpd runs")?;
    hv1.run(&format!("kill -STOP {bgpd}"))?;
    let looked = says(hv1, false, "s ago; check whether it hangs");
    hv1.run(&format!("kill -CONT {bgpd}"))?;
    looked?;
    says(hv1, true, "BGP sessions: 1 of 1 established")?;

    println!("bgpd is away, and an explanation does not contradict itself:");
    let bgpd = hv1.daemon("bgpd")?;
    bgpd.kill()?;
    says(hv1, false, "bgpd does not answer")?;
    let told = ask(hv1, "explain 172.24.4.10")?;
    ensure!(told.contains("but FRR announces nothing") && !told.contains("is announced by"), "{told}");
    bgpd.start_again()?;
    hv1.frr_config(&crate::bgp::peering(1))?;
    learns(spine, "172.24.4.10")?;
    says(hv1, true, "BGP sessions: 1 of 1 established")
}

fn tables(hv1: &Chassis, spine: &Node) -> Result<()> {
    println!("rt_tables gives the bridge another number:");
    let path = hv1.dir().join("rt_tables");
    let names = std::fs::read_to_string(&path)?;
    ensure!(names.contains("201"), "{names}");
    std::fs::write(&path, names.replace("201", "215"))?;
    shows(hv1, "ip rule", "to 172.24.4.10 lookup 215", true)?;
    shows(hv1, "ip rule", "lookup 201", false)?;
    for command in ["ip route show table 201", "ip -6 route show table 201"] {
        eventually(PATIENCE, &format!("`{command}` shows nothing"), || {
            let out = hv1.run(command).unwrap_or_default();
            ensure!(out.trim().is_empty(), "{out}");
            Ok(())
        })?;
    }
    spine.reaches("172.24.4.10")
}
