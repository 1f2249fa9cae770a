//! Clients in all networks, and the distribution of their connections to members.

use anyhow::{Result, ensure};
use lab::node::Node;
use lab::probe::Answer;
use lab::{Lab, Topology, chassis, eventually};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

use super::site::*;

/// Servers on the members, which live as long as the value.
fn serve(members: &[Arc<Node>], port: u16) -> Result<Vec<lab::echo::EchoServer>> {
    members.iter().map(|member| member.echo_server(port)).collect()
}

fn both() -> Vec<(&'static Vm, Value)> {
    MEMBERS.iter().map(|vm| (vm, json!({}))).collect()
}

/// Sends requests until both members have answered, with each protocol.
fn reaches_both(client: &Arc<Node>, address: &str, seen_as: &str) -> Result<()> {
    for (protocol, ask) in [
        ("TCP", Node::ask_by_tcp as fn(&Node, &str) -> Result<Answer>),
        ("UDP", Node::ask_by_udp as fn(&Node, &str) -> Result<Answer>),
    ] {
        let what = format!("{} at {address} by {protocol}", client.label());
        // By chance, one of the two members is missed once in 2^23 runs.
        let answers = count(24, &what, || {
            let answer = ask(client, address)?;
            ensure!(answer.seen_as == seen_as, "{} sees the client as {}", answer.by, answer.seen_as);
            Ok(answer)
        })?;
        ensure!(answers.keys().eq(["m1", "m2"]), "{what}: answered by {answers:?}");
    }
    Ok(())
}

pub(super) fn everywhere() -> Result<()> {
    topology().run(|lab| {
        let site = Site::start(lab, "phy1")?;
        let ext = site.outside()?;
        let (members, clients) = (site.plug(&MEMBERS)?, site.plug(&CLIENTS)?);
        let _servers = serve(&members, 80)?;
        let balancer = site.balancer(json!([
            site.listener("TCP", 80, Value::Null, &both()),
            site.listener("UDP", 80, Value::Null, &both()),
        ]))?;
        for (client, vm) in clients.iter().zip(&CLIENTS) {
            reaches_both(client, &format!("{VIP}:80"), &vm.ip())?;
            reaches_both(client, &format!("[{VIP6}]:80"), &vm.ip6())?;
        }
        println!("outside, routed:");
        reaches_both(&ext, &format!("{VIP}:80"), OUTSIDE)?;
        reaches_both(&ext, &format!("[{VIP6}]:80"), OUTSIDE6)?;
        println!("outside, by floating IP:");
        site.floating_ip(&balancer)?;
        reaches_both(&ext, &format!("{FLOATING}:80"), OUTSIDE)?;
        println!("inside, by floating IP:");
        eventually(LONG, "c2 is served at the floating IP", || {
            clients[1].ask_by_tcp(&format!("{FLOATING}:80"))
        })
        .map(drop)
    })
}

pub(super) fn shares() -> Result<()> {
    topology().run(|lab: &Lab| {
        let site = Site::start(lab, "phy1")?;
        let (members, clients) = (site.plug(&MEMBERS)?, site.plug(&CLIENTS)?);
        let (c1, c2) = (&clients[0], &clients[1]);
        let _servers = [80, 81, 82, 83].map(|port| serve(&members, port));
        let weighted = [(&MEMBERS[0], json!({"weight": 1})), (&MEMBERS[1], json!({"weight": 3}))];
        let balancer = site.balancer(json!([
            site.listener("TCP", 80, Value::Null, &weighted),
            site.listener("TCP", 81, json!({"pool": {"lb_algorithm": "SOURCE_IP"}}), &both()),
            site.listener("TCP", 82, Value::Null, &both()),
            site.listener(
                "TCP",
                83,
                json!({"pool": {"session_persistence": {"type": "SOURCE_IP"}}}),
                &both()
            ),
        ]))?;

        // A quarter of 200 is 50, with a deviation of 6.
        let answers = count(200, "weights 1 and 3", || c1.ask_by_tcp(&format!("{VIP}:80")))?;
        let first = answers.get("m1").copied().unwrap_or(0);
        ensure!((25..=80).contains(&first), "m1 has {first} of 200 connections");

        for (what, port) in [("SOURCE_IP", 81), ("session persistence", 83)] {
            for client in [c1, c2] {
                let answers = count(24, what, || client.ask_by_tcp(&format!("{VIP}:{port}")))?;
                ensure!(answers.len() == 1, "{} has changed its member: {answers:?}", client.label());
            }
        }

        println!("IPv6 clients by SOURCE_IP:");
        let addresses: Vec<String> = (0..16).map(|n| format!("fd00:1::{}", 1000 + n)).collect();
        site.add_addresses(&CLIENTS[0], c1, &addresses)?;
        let mut members_of = BTreeMap::new();
        for address in &addresses {
            // The route is on-link, so that the kernel does not prefer the device's first address.
            c1.run(&format!("ip -6 route replace {VIP6}/128 dev eth0 src {address}"))?;
            let ask = || {
                let answer = c1.ask_by_tcp(&format!("[{VIP6}]:81"))?;
                ensure!(answer.seen_as == *address, "it is seen as {}", answer.seen_as);
                Ok(answer)
            };
            let answers = count(3, address, ask)?;
            ensure!(answers.len() == 1, "{address} has changed its member: {answers:?}");
            members_of.extend(answers);
        }
        ensure!(members_of.len() == 2, "all of 16 clients have one member: {members_of:?}");

        // A connection to each member; then the second is drained.
        let mut open = eventually(LONG, "a connection to m2", || {
            let mut connection = c1.connect_echo(&format!("{VIP}:82"))?;
            let by = connection.ask()?.by;
            ensure!(by == "m2", "{by} has answered");
            Ok(connection)
        })?;
        let pool = site.named("pools", "pools", "TCP82")?["id"].as_str().unwrap_or_default().to_owned();
        let path = format!("pools/{pool}/members");
        for member in
            site.load_balancing("GET", &path, &Value::Null)?["members"].as_array().into_iter().flatten()
        {
            if member["name"] == "m2" {
                let path = format!("{path}/{}", member["id"].as_str().unwrap_or_default());
                site.change(&balancer, &path, json!({"member": {"weight": 0}}))?;
                let shown = site.load_balancing("GET", &path, &Value::Null)?;
                ensure!(shown["member"]["operating_status"] == "DRAINING", "{shown}");
            }
        }
        let answers =
            count(24, "new connections while m2 is drained", || c1.ask_by_tcp(&format!("{VIP}:82")))?;
        ensure!(answers.keys().eq(["m1"]), "a drained member gets connections: {answers:?}");
        for _ in 0..3 {
            ensure!(open.ask()?.by == "m2", "the connection moved");
        }
        Ok(())
    })
}

/// A client is refused if no attempt succeeds while others are served.
fn refused(client: &Node, address: &str) -> Result<()> {
    for _ in 0..2 {
        if let Ok(answer) = client.ask_by_tcp(address) {
            anyhow::bail!("{} reached {} at {address}", client.label(), answer.by);
        }
    }
    println!("{} does not reach {address}, as it should be", client.label());
    Ok(())
}

pub(super) fn allowed() -> Result<()> {
    topology().run(|lab| {
        let site = Site::start(lab, "phy1")?;
        let ext = site.outside()?;
        let (members, clients) = (site.plug(&MEMBERS)?, site.plug(&CLIENTS)?);
        let (c1, c2) = (&clients[0], &clients[1]);
        let _servers = [80, 81].map(|port| serve(&members, port));
        let only = json!({"listener": {"allowed_cidrs": ["10.0.0.0/24", "fd00:2::/64"]}});
        let balancer = site.balancer(json!([
            site.listener("TCP", 80, only, &both()),
            site.listener("TCP", 81, Value::Null, &both()),
        ]))?;
        site.floating_ip(&balancer)?;
        let served = |client: &Arc<Node>, address: &str| {
            count(3, &format!("{} at {address}", client.label()), || client.ask_by_tcp(address)).map(drop)
        };
        let (v4, v6, floating) = (format!("{VIP}:80"), format!("[{VIP6}]:80"), format!("{FLOATING}:80"));
        // Other listeners come first: they show that packets arrive at all.
        served(c1, &format!("[{VIP6}]:81"))?;
        served(c2, &format!("{VIP}:81"))?;
        served(&ext, &format!("{FLOATING}:81"))?;
        served(&ext, &format!("{VIP}:81"))?;
        served(c1, &v4)?;
        served(c2, &v6)?;
        refused(c1, &v6)?;
        refused(c2, &v4)?;
        refused(c2, &floating)?;
        refused(&ext, &floating)?;
        refused(&ext, &v4)?;
        let listener =
            site.named("listeners", "listeners", "TCP80")?["id"].as_str().unwrap_or_default().to_owned();
        let all = json!({"listener": {"allowed_cidrs": ["172.24.4.0/24"]}});
        site.change(&balancer, &format!("listeners/{listener}"), all)?;
        served(&ext, &floating)?;
        served(&ext, &v4)?;
        refused(c1, &v4)
    })
}

pub(super) fn multihomed() -> Result<()> {
    let gateway = |name: &str, physnet: &str| {
        chassis(name).wired(physnet, "br-ex").setting("ovn-cms-options", "enable-chassis-as-gw")
    };
    let topology =
        Topology::new().central("az1").chassis(gateway("hv1", "phy1")).chassis(gateway("hv2", "phy2"));
    topology.run(|lab| {
        let site = Site::start(lab, "phy1")?;
        let outside = [site.outside()?, site.second_outside("phy2")?];
        let (members, clients) = (site.plug(&MEMBERS)?, site.plug(&CLIENTS)?);
        let _servers = serve(&members, 80)?;
        site.balancer(json!([
            site.listener("TCP", 80, Value::Null, &both()),
            site.listener("UDP", 80, Value::Null, &both()),
        ]))?;
        reaches_both(&clients[0], &format!("{VIP}:80"), &CLIENTS[0].ip())?;
        for (ext, seen_as) in outside.iter().zip(["172.24.4.1", "198.51.100.1"]) {
            reaches_both(ext, &format!("{VIP}:80"), seen_as)?;
        }
        Ok(())
    })
}

pub(super) fn members_with_floating_ips() -> Result<()> {
    let gateway = chassis("hv1").wired("phy1", "br-ex").setting("ovn-cms-options", "enable-chassis-as-gw");
    let topology =
        Topology::new().central("az1").chassis(gateway).chassis(chassis("hv2").wired("phy1", "br-ex"));
    topology.run(|lab| {
        let site = Site::start_with(lab, "phy1", "enable_distributed_floating_ip = true")?;
        let ext = site.outside()?;
        let members = site.plug(&MEMBERS)?;
        let _servers = [80, 81].map(|port| serve(&members, port));
        let own = "172.24.4.207";
        site.floating_ip_of(&MEMBERS[1], own)?;
        let az1 = lab.central("az1")?;
        let is_distributed = |wanted: bool| {
            az1.nb().until(LONG, &format!("the floating IP of m2 is distributed: {wanted}"), |snapshot| {
                let mut rows = snapshot.table::<ovn::nb::Nat>().iter();
                let of_m2 = |row: &ovn::nb::Nat| row.external_ip == ovn::text::Text::new(own);
                rows.any(|(_, row)| of_m2(row) && row.external_mac.is_some() == wanted).then_some(())
            })
        };
        is_distributed(true)?;
        count(3, "m2 at its own floating IP", || ext.ask_by_tcp(&format!("{own}:81")))?;
        let balancer = site.balancer(json!([
            site.listener("TCP", 80, Value::Null, &both()),
            site.listener("UDP", 80, Value::Null, &both()),
        ]))?;
        site.floating_ip(&balancer)?;
        is_distributed(false)?;
        reaches_both(&ext, &format!("{FLOATING}:80"), OUTSIDE)?;
        count(3, "m2 at its own floating IP", || ext.ask_by_tcp(&format!("{own}:81"))).map(drop)
    })
}

pub(super) fn groups() -> Result<()> {
    topology().run(|lab| {
        let site = Site::start_with(lab, "phy1", "load_balancer_groups = true")?;
        let ext = site.outside()?;
        let (members, clients) = (site.plug(&MEMBERS)?, site.plug(&CLIENTS)?);
        let _servers = serve(&members, 80)?;
        site.balancer(json!([
            site.listener("TCP", 80, Value::Null, &both()),
            site.listener("UDP", 80, Value::Null, &both()),
        ]))?;
        let az1 = lab.central("az1")?;
        let has = |wants_groups: bool, what: &str| {
            az1.nb().until(LONG, what, |snapshot| {
                let switches: Vec<_> =
                    snapshot.table::<ovn::nb::LogicalSwitch>().iter().map(|(_, row)| row).collect();
                let grouped = switches.iter().filter(|switch| !switch.load_balancer_group.is_empty()).count();
                let listed = switches.iter().filter(|switch| !switch.load_balancer.is_empty()).count();
                let wanted = if wants_groups { (2, 0) } else { (0, 2) };
                ((grouped, listed) == wanted).then_some(())
            })
        };
        let served = || {
            for (client, vm) in clients.iter().zip(&CLIENTS) {
                reaches_both(client, &format!("{VIP}:80"), &vm.ip())?;
            }
            reaches_both(&ext, &format!("{VIP}:80"), OUTSIDE)
        };
        has(true, "both switches have a group")?;
        served()?;
        println!("without groups:");
        site.restart_with("load_balancer_groups = false")?;
        has(false, "both switches have the load balancer")?;
        az1.sync()?;
        served()
    })
}
