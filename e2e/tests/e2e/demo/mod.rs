//! The guided tour of the working features: `cargo xtask lab demo`. Each chapter shows real packets.

mod cloud;
mod edge;
mod floating;
mod network;

use std::process::{Command, Stdio};

use anyhow::{Result, ensure};
use lab::Test;
use lab::demo::Chapter;
use lab::harness::Bench;

pub(crate) const CHAPTERS: [Chapter; 3] = [
    Chapter::new(
        "edge",
        "A router with two gateways: BFD watches both border routers, and one of them dies",
        edge::show,
    )
    .meridian(),
    Chapter::new(
        "floating",
        "A floating IP and a load balancer that the world learns by BGP, and the chassis of their gateway dies",
        floating::show,
    )
    .meridian(),
    Chapter::new(
        "network",
        "What is beneath: OVN on three chassis, switching, routing, translation, and a chassis that dies",
        network::show,
    ),
];

pub(crate) fn tests() -> Vec<Test> {
    let test = Test::outside(
        "demo::the_tour_goes_by_itself",
        "without a terminal the guided tour goes from its first chapter to its last, and shows what it promises",
        by_itself,
    );
    vec![test]
}

/// The words that the tour promises, in the order in which it shows them.
const PROMISED: [&str; 19] = [
    "$ openstack router create --external-gateway N1 --external-gateway N2",
    "$ meridian status --router edge",
    "network: all 2 gateways can carry traffic",
    "border1 and border2 answer",
    "only border2 answers",
    "new connections were away for",
    "$ meridian explain edge",
    "default route via 192.0.2.1: not in use, BFD down",
    "default route via 198.51.100.1: in use, BFD up",
    "border1 and border2 answer",
    "$ openstack floating ip create",
    "the spine's route: 172.24.4.110",
    "172.24.4.110 is announced by",
    "$ openstack loadbalancer create",
    "web1 and web2 answer",
    "pings from the spine were away for",
    "172.24.4.110 is announced by",
    "outside sees vm3 as 172.24.4.100",
    "That was the tour",
];

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
    let mut rest = said.as_ref();
    for words in PROMISED {
        let found = rest.split_once(words);
        ensure!(found.is_some(), "the tour does not show `{words}`, or not in its place");
        rest = found.map_or("", |(_, rest)| rest);
    }
    ensure!(!said.contains("[Enter]"), "it waits for somebody who is not there");
    Ok(())
}
