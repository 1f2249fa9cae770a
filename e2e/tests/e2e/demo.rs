//! The guided tour of the working features: `cargo xtask lab demo`. Each chapter shows real packets.

use std::process::{Command, Stdio};

use anyhow::{Result, ensure};
use lab::Test;
use lab::demo::{Chapter, Guide};
use lab::harness::Bench;

use crate::bgp::speak_bgp;
use crate::border::{expose, forward, learns, networks, steer_to_kernel, two_borders, unlearns, withdraw};
use crate::fabric::{tenants, three_chassis};

pub(crate) const CHAPTERS: [(&str, &str, Chapter); 2] = [
    (
        "network",
        "OVN on three chassis: switching, routing, translation, and what happens when a chassis dies",
        network,
    ),
    ("bgp", "Addresses of VMs that the rest of the world learns by BGP alone", bgp),
];

pub(crate) fn tests() -> Vec<Test> {
    vec![Test::outside(
        "demo::the_tour_goes_by_itself",
        "without a terminal the guided tour goes from its first chapter to its last, and shows what it promises",
        by_itself,
    )]
}

fn network(guide: &Guide) -> Result<()> {
    guide.step("Three chassis, two tenant networks, a router, and the world outside");
    guide.says("Each chassis is a network namespace with a switch and an ovn-controller of its own.");
    three_chassis().run(|lab| {
        tenants(lab)?;
        guide.says(&lab.picture().to_string());
        guide.look("the same picture as SVG: `cargo xtask lab shell tenants` names the file");

        guide.step("VMs reach each other, over geneve between the chassis");
        let (vm1, ext, hv1) = (lab.find("vm1")?, lab.find("ext")?, lab.chassis("hv1")?);
        let tunnel = hv1.capture("eth0", "udp port 6081")?;
        vm1.reaches("10.0.0.12")?;
        vm1.reaches("10.0.1.13")?;
        let seen = tunnel.packets(hv1)?;
        let echo = seen.iter().find(|line| line.contains("ICMP echo request"));
        guide.says(&format!("on the wire of hv1: {}", echo.map_or("nothing", |line| line.as_str())));
        guide.look(
            "10.0.0.12 is on hv2, 10.0.1.13 on hv3 behind the router lr0; no physical network knows either",
        );

        guide.step("Out under the router's address, in by a floating IP");
        ext.serve(80)?;
        for vm in ["vm2", "vm3"] {
            let answer = lab.find(vm)?.is_served_by("172.24.4.1:80")?;
            guide.says(&format!("outside sees {vm} as {}", answer.seen_as));
        }
        ext.reaches("172.24.4.110")?;
        guide.look("vm2 has the floating IP 172.24.4.110, vm3 has none and leaves as the router");

        guide.step("The chassis with the gateway dies: killed without warning, its cable cut");
        let az1 = lab.central("az1")?;
        az1.lives_on("cr-lr0-public", "hv1")?;
        let mut train = ext.ping_train("172.24.4.110")?;
        train.rolls(5)?;
        hv1.kill_all()?;
        hv1.cut()?;
        train.now();
        az1.lives_on("cr-lr0-public", "hv2")?;
        train.rolls(10)?;
        let gap = train.end()?;
        guide.says(&format!("traffic from outside was away for {:.1} s", gap.as_secs_f64()));
        guide.look(
            "BFD between the chassis notices after three silent seconds; hv2 then takes the gateway over",
        );
        Ok(())
    })
}

fn bgp(guide: &Guide) -> Result<()> {
    guide.step("Two border nodes and a spine that speak BGP (FRR)");
    two_borders().run(|lab| {
        networks(lab)?;
        speak_bgp(lab)?;
        guide.says(&lab.picture().to_string());
        let (hv1, hv2, spine) = (lab.chassis("hv1")?, lab.chassis("hv2")?, lab.find("spine")?);
        for hv in [hv1, hv2] {
            forward(hv)?;
            steer_to_kernel(hv)?;
        }
        guide.says(spine.vtysh("show bgp ipv4 unicast summary")?.trim());

        guide.step("An address is announced where its VM is");
        expose(hv1, "172.24.4.10")?;
        learns(&spine, "172.24.4.10")?;
        guide.says(&format!("the spine's route: {}", spine.run("ip route show 172.24.4.10")?.trim()));
        spine.reaches_from("192.0.2.1", "172.24.4.10")?;
        lab.find("vmp")?.reaches("192.0.2.1")?;
        guide.look("no cable leads from the spine into the provider network: the packets follow the route");

        guide.step("And taken back");
        withdraw(hv1, "172.24.4.10")?;
        unlearns(&spine, "172.24.4.10")?;
        guide.look("`cargo xtask lab list` shows every claim with the test that proves it");
        Ok(())
    })
}

fn by_itself(bench: &Bench<'_>) -> Result<()> {
    let cache = bench.host()?.home;
    let out = Command::new("/proc/self/exe")
        .arg("--lab-demo")
        .env("LAB_BACKEND", "uml")
        .env("LAB_CACHE", cache.path())
        .stdin(Stdio::null())
        .output()?;
    let said = String::from_utf8_lossy(&out.stdout);
    println!("{said}");
    ensure!(out.status.success(), "the tour failed: {}", String::from_utf8_lossy(&out.stderr));
    let promised = [
        "├─ hv1  chassis",
        "ICMP echo request",
        "outside sees vm3 as 172.24.4.100",
        "traffic from outside was away for",
        "the spine's route: 172.24.4.10",
        "That was the tour",
    ];
    for words in promised {
        ensure!(said.contains(words), "the tour does not show `{words}`");
    }
    ensure!(!said.contains("[Enter]"), "it waits for somebody who is not there");
    Ok(())
}
