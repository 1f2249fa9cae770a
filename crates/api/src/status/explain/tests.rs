//! Explanations of each noun, found by address, MAC address, name and id.

use super::*;
use crate::desired::tests::scene::{N1, NET, S1, SUB, Scene as Small};
use crate::fleet::Chassis;
use crate::report::Place;
use crate::resource::fixture::id;

const VM: u128 = 0x51;
const ROUTER: u128 = 0x40;
const GATEWAY: u128 = 0x41;

/// A port behind a router with a gateway, and a floating IP.
fn site() -> Small {
    let mut scene = Small::new();
    scene.router(ROUTER).interface(0x45, ROUTER, NET, SUB, "10.0.0.1");
    scene.gateway(GATEWAY, ROUTER, N1, S1, "192.0.2.100", &["ch1", "ch2"]);
    scene.port(VM, NET, SUB, "10.0.0.7");
    scene.floating_ip(0x80, "192.0.2.200", Some((VM, "10.0.0.7", ROUTER)));
    scene
}

fn fleet() -> Fleet {
    let chassis = |name: &str, alive: bool| Chassis {
        name: name.to_owned(),
        hostname: format!("host-{name}"),
        gateway: true,
        alive,
        ..Chassis::default()
    };
    Fleet { chassis: vec![chassis("ch1", true), chassis("ch2", false)] }
}

fn place(chassis: &str) -> Option<Place> {
    Some(Place { chassis: chassis.into(), host: format!("host-{chassis}").as_str().into() })
}

#[track_caller]
fn explained(scene: &Small, subject: &str) -> String {
    explain(scene.world(), &scene.snapshot.report, &fleet(), Timestamp::UNIX_EPOCH, subject).join("\n")
}

#[track_caller]
fn expect(scene: &Small, subject: &str, parts: &[&str]) {
    let text = explained(scene, subject);
    for part in parts {
        assert!(text.contains(part), "{subject}: {part:?} is not in\n{text}");
    }
}

#[test]
fn a_port_is_explained_by_its_address_mac_name_and_id() {
    let mut scene = site();
    let port = scene.world().get::<Port>(&id(VM)).unwrap().clone();
    let title = format!("({})", port.id);
    let asked = [port.mac.to_string(), port.id.to_string(), "10.0.0.7".to_owned()];
    for subject in asked.iter().chain((!port.name.is_empty()).then_some(&port.name)) {
        let text = explained(&scene, subject);
        assert!(text.contains(&title) || text.contains(&port.id.to_string()), "{subject}: {text}");
        assert!(text.contains("has 10.0.0.7 and MAC"), "{subject}: {text}");
    }
    expect(&scene, "10.0.0.7", &["floating IP 192.0.2.200 leads to it", "leaves its network by router"]);
    scene.snapshot.report.set_bound(id(VM), place("ch1"));
    expect(&scene, "10.0.0.7", &["host host-ch1 has it, but OVN does not report it as up"]);
    scene.snapshot.report.set_up(id(VM), true);
    expect(&scene, "10.0.0.7", &["host host-ch1 has it, and OVN reports it as up"]);
}

#[test]
fn a_port_that_no_host_has_tells_why() {
    for (host, expected) in [
        ("", "none is requested"),
        ("host-ch1", "has no interface with external_ids:iface-id"),
        ("host-ch2", "its ovn-controller does not report"),
        ("elsewhere", "no chassis of this host name is in the Southbound"),
    ] {
        let mut scene = site();
        scene.edit(|txn| drop(txn.edit::<Port>(&id(VM), |port| port.binding.host_id = host.to_owned())));
        expect(&scene, "10.0.0.7", &[expected]);
    }
}

#[test]
fn a_gateway_tells_where_it_is_and_why_it_carries_nothing() {
    let mut scene = site();
    let nobody = "none of its chassis ch1, ch2 hosts it";
    expect(&scene, "192.0.2.100", &["an external gateway of router", nobody]);
    expect(&scene, &id(ROUTER).to_string(), &[nobody, "interface 10.0.0.1 on network"]);
    scene.snapshot.report.set_gateway(id(GATEWAY), place("ch2"));
    expect(&scene, "192.0.2.100", &["is on chassis ch2, whose ovn-controller does not report"]);
    expect(
        &scene,
        "192.0.2.200",
        &["it leads to 10.0.0.7", "OVN does not have its translation", "on chassis ch2"],
    );
    scene.snapshot.report.set_nat(id(0x80), true);
    expect(&scene, "192.0.2.200", &["OVN has its translation"]);
    expect(&scene, "ch2", &["does not report", "it hosts gateway 192.0.2.100 of router"]);
    expect(&scene, "host-ch1", &["chassis ch1 on host host-ch1", "it would take over gateway 192.0.2.100"]);
}

#[test]
fn what_nobody_has_is_told_with_its_subnet() {
    let scene = site();
    expect(&scene, "10.0.0.99", &["10.0.0.99 is of subnet", "no port has it"]);
    for unknown in ["203.0.113.9", "fa:16:3e:ff:ff:ff", "nothing", ""] {
        let text = explained(&scene, unknown);
        assert!(text.starts_with("cannot find"), "{unknown}: {text}");
    }
}

#[test]
fn the_name_of_a_tenant_changes_no_terminal() {
    let mut scene = site();
    let name = "vm\u{1b}[2J\nhost evil has it";
    scene.edit(|txn| {
        let hostile = |port: &mut Port| {
            (port.name, port.device_id) = (name.to_owned(), name.to_owned());
            (port.device_owner, port.binding.host_id) = (name.to_owned(), name.to_owned());
        };
        drop(txn.edit::<Port>(&id(VM), hostile));
    });
    let lines = explain(scene.world(), &scene.snapshot.report, &fleet(), Timestamp::UNIX_EPOCH, "10.0.0.7");
    assert!(lines.iter().all(|line| !line.contains(['\u{1b}', '\n'])), "{lines:?}");
}
