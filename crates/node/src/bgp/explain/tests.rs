mod agrees;

use super::*;
use crate::bgp::desired::decide;
use crate::bgp::desired::tests::world::World;

/// The explanation if everything is as decided.
fn explained(world: &World, ip: &str) -> Vec<String> {
    told(world, ip, true).text
}

/// The explanation if everything decided is in place, or nothing is.
fn told(world: &World, ip: &str, done: bool) -> Explanation {
    let snapshot = world.snapshot();
    let decision = decide(&snapshot).value;
    explain(&snapshot, &decision, ip.parse().unwrap(), &Sight::default(), |prefix| {
        let address = decision.addresses.contains_key(&prefix.addr());
        Some(done && (address || decision.subnets.contains_key(&prefix)))
    })
}

fn vm1(chassis: &str) -> World {
    let mut world = World::new();
    world.vif("vm1", "neutron-pub", &["fa:16:3e:00:00:01 172.24.4.10"]).bind("vm1", chassis);
    world
}

#[test]
fn what_is_exposed_names_its_rules_and_rows() {
    assert_eq!(
        explained(&vm1("ch-a"), "172.24.4.10"),
        [
            "172.24.4.10 is announced by ch-a, and carried by a rule to table br-ex and a route to br-ex.",
            "D1: port vm1 of a provider network is bound here.",
        ]
    );
    let mut world = World::new().tenants();
    world
        .vif("vm2", "neutron-ten", &["fa:16:3e:00:00:02 10.1.0.5"])
        .bind("vm2", "ch-b")
        .bind("cr-lrp-gw1", "ch-a");
    assert_eq!(
        explained(&world, "10.1.0.5"),
        [
            "10.1.0.5 is announced by ch-a, and carried by rule and route of its subnet 10.1.0.0/24 via 172.24.4.221.",
            "D5: port vm2 is in a tenant subnet behind the router gateway cr-lrp-gw1, which is bound here.",
        ]
    );
    world.config.advertisement = Advertisement::Subnet;
    assert!(
        explained(&world, "10.1.0.5")[0]
            .starts_with("10.1.0.5 is in the subnet 10.1.0.0/24, which is announced by ch-a, and carried by")
    );
}

#[test]
fn of_a_vlan_it_is_told_who_makes_its_device() {
    let mut world = World::new();
    world.switch("neutron-vlan").localnet("provnet-2", "neutron-vlan", "physnet1", Some(100));
    world.vif("vm7", "neutron-vlan", &["fa:16:3e:00:00:07 192.0.2.7"]).bind("vm7", "ch-a");
    let told = |world: &World| explained(world, "192.0.2.7").remove(2);
    assert_eq!(told(&world), "br-ex.100 is VLAN 100 of br-ex, as a VLAN device of the kernel.");
    world.vlan_ports.insert("br-ex.100".into(), "br-ex".into());
    assert_eq!(told(&world), "br-ex.100 is VLAN 100 of br-ex, as an internal port of Open vSwitch.");
}

#[test]
fn what_is_not_says_why() {
    let not = |world: &World, ip: &str, why: &str| {
        let text = explained(world, ip);
        assert_eq!(text[0], format!("{ip} is not announced by ch-a."));
        assert!(text[1..].iter().any(|line| line.contains(why)), "{text:?} should say {why:?}");
    };
    not(&World::new(), "172.24.4.99", "Nothing in OVN's Southbound database has it");
    not(&World::new(), "169.254.1.1", "169.254.0.0/16 is link-local addresses, so it is never announced");
    not(
        &vm1("ch-b"),
        "172.24.4.10",
        "D1: port vm1 of a provider network has it, and is bound to chassis ch-b, which has to announce it",
    );
    let mut world = vm1("ch-a");
    world.port("vm1").up = Some(false);
    not(&world, "172.24.4.10", "is bound here, but not up yet");
    world.unbind("vm1");
    not(&world, "172.24.4.10", "is bound to no chassis");
    let mut world = vm1("ch-a");
    world.external_id("vm1", "meridian:advertise", "false");
    not(&world, "172.24.4.10", "D8: port vm1 has it, and its owner does not want it announced");
    let mut world = vm1("ch-a");
    world.settings.insert("ovn-bridge-mappings".into(), "physnet2:br-ex".into());
    not(&world, "172.24.4.10", "its network is on \"physnet1\", which ovn-bridge-mappings has no bridge for");
    world.settings.insert("ovn-bridge-mappings".into(), "physnet1:br-none".into());
    not(&world, "172.24.4.10", "its network is on bridge br-none, which cannot be used");
}

#[test]
fn routers_tenants_and_balancers_say_why_not() {
    let not = |world: &World, ip: &str, why: &str| {
        let text = explained(world, ip);
        assert!(text[1..].iter().any(|line| line.contains(why)), "{text:?} should say {why:?}");
    };
    let mut world = World::new();
    world
        .vif("vm2", "neutron-ten", &["fa:16:3e:00:00:02 10.1.0.5"])
        .bind("vm2", "ch-b")
        .bind("cr-lrp-gw1", "ch-b");
    not(&world, "172.24.4.221", "D2: the router gateway cr-lrp-gw1 has it, and is bound to chassis ch-b");
    not(
        &world,
        "10.1.0.5",
        "D5: port vm2 of a tenant network has it, and tenant networks are not exposed: expose_tenant_networks is off",
    );
    world.nat("gw1", &["fa:16:3e:ff:00:01 172.24.4.199 is_chassis_resident(\"vm2\")"]);
    not(
        &world,
        "172.24.4.199",
        "D3: the router behind port gw1 announces it for port vm2, which is bound to chassis ch-b",
    );
    world.nat("gw1", &["fa:16:3e:ff:00:01 172.24.4.199 is_chassis_resident(\"gone\")"]);
    not(&world, "172.24.4.199", "for port gone, which is not there");
    world.balancer("lb", &["172.24.4.50:80"]);
    not(
        &world,
        "172.24.4.50",
        "D6: load balancer lb has it, but its members are behind no router that has a gateway",
    );
    let mut world = world.tenants();
    not(&world, "10.1.0.5", "the gateway cr-lrp-gw1 of its router is bound to chassis ch-b");
    world.config.expose_tenant_networks = false;
    world.config.expose_ipv6_gua_tenant_networks = true;
    not(&world, "10.1.0.5", "only globally routed IPv6 addresses of tenants are exposed");
    let mut world = world.tenants();
    world.bind("cr-lrp-gw1", "ch-a").unbind("vm2");
    not(&world, "10.1.0.5", "it is bound to no chassis");
    world.bind("vm2", "ch-b").config.address_scopes = ["S".into()].into();
    not(&world, "10.1.0.5", "its subnet is not exposed: see address_scopes");
}

#[test]
fn what_is_decided_but_not_there_is_not_called_announced() {
    let told_now = told(&vm1("ch-a"), "172.24.4.10", false);
    assert_eq!(
        told_now.text[0],
        "172.24.4.10 should be announced by ch-a, and carried by a rule to table br-ex and a route to br-ex; it is not there \
         yet, on bgp-nic."
    );
    assert_eq!((told_now.announced, told_now.in_place), (true, Some(false)));
    let stands_on: Vec<String> = told_now.stands_on.iter().map(ToString::to_string).collect();
    for object in ["address/172.24.4.10", "device/bgp-nic", "device/bgp-vrf", "device/br-ex", "frr/bgp-vrf"] {
        assert!(stands_on.contains(&object.to_owned()), "{object}: {stands_on:?}");
    }
    let world = vm1("ch-b");
    let snapshot = world.snapshot();
    let late = explain(
        &snapshot,
        &decide(&snapshot).value,
        "172.24.4.10".parse().unwrap(),
        &Sight::default(),
        |_| Some(true),
    )
    .text;
    assert_eq!(late[0], "172.24.4.10 should not be announced by ch-a any more, but still is.");
    // The bridge that keeps it from being announced is named, so that its problems are told.
    let mut world = vm1("ch-a");
    world.settings.insert("ovn-bridge-mappings".into(), "physnet1:br-none".into());
    let stands_on = told(&world, "172.24.4.10", true).stands_on;
    assert!(stands_on.contains(&object::device("br-none")), "{stands_on:?}");
}

#[test]
fn another_chassis_that_has_it_too_is_named() {
    let mut world = vm1("ch-a");
    world.vif("vm9", "neutron-pub", &["fa:16:3e:00:00:09 172.24.4.10"]);
    assert_eq!(explained(&world, "172.24.4.10").len(), 2, "it is not bound anywhere");
    world.bind("vm9", "ch-b");
    assert_eq!(
        explained(&world, "172.24.4.10")[2],
        "Another chassis has it, too. D1: port vm9 of a provider network has it, and is bound to chassis ch-b, which has to \
         announce it."
    );
}

/// A load balancer with its address on the provider network and its members behind the gateway.
fn balanced(gateway: &str) -> World {
    let mut world = World::new();
    world.vif("vip-port", "neutron-pub", &[]).bind("cr-lrp-gw1", gateway);
    world.external_id("vip-port", "neutron:port_name", "ovn-lb-vip-0000-lb1");
    world.external_id("vip-port", "neutron:cidrs", "172.24.4.50/24");
    let group = world.group("g", &["neutron-r1"]);
    world.balancer("0000-lb1", &["172.24.4.50:80"]).lr_datapath_group = group;
    world
}

#[test]
fn a_load_balancer_says_which_gateway_it_is_behind_and_where_that_is() {
    let lines = |world: &World| explained(world, "172.24.4.50").split_off(1);
    assert_eq!(
        lines(&balanced("ch-b")),
        [
            "D6: load balancer 0000-lb1 has it, its members are behind the router gateway cr-lrp-gw1, which is bound to chassis \
          ch-b, which has to announce it."
        ]
    );
    assert_eq!(
        lines(&balanced("ch-a")),
        ["D6: load balancer 0000-lb1 has members behind the router gateway cr-lrp-gw1, which is bound here."]
    );
    let mut hidden = balanced("ch-a");
    hidden.external_id("vip-port", "meridian:advertise", "false");
    assert_eq!(
        lines(&hidden),
        ["D8: port vip-port has it, and its owner does not want it announced (meridian:advertise=false)."]
    );
    // A port elsewhere that says so has no say in it.
    let mut other = balanced("ch-b");
    other.vif("other", "neutron-ten", &["fa:16:3e:00:00:08 172.24.4.50"]);
    other.external_id("other", "neutron:device_owner", "ovn-lb:vip");
    other.external_id("other", "meridian:advertise", "false");
    let told = lines(&other);
    assert!(told.iter().any(|line| line.ends_with("chassis ch-b, which has to announce it.")), "{told:?}");
    let mut lost = balanced("ch-a");
    lost.balancers.clear();
    assert_eq!(
        lines(&lost),
        ["D6: port vip-port holds it for a load balancer, but no load balancer has it."]
    );
    let mut unmapped = balanced("ch-a");
    unmapped.settings.insert("ovn-bridge-mappings".into(), String::new());
    assert!(
        lines(&unmapped)[0].contains("which is here, but its network is on \"physnet1\""),
        "{:?}",
        lines(&unmapped)
    );
    let mut elsewhere = balanced("ch-a");
    elsewhere.ports.remove("vip-port");
    elsewhere.balancer("0000-lb1", &["192.0.2.50:80"]).lr_datapath_group =
        Some(ovsdb::Ref::new(crate::bgp::desired::tests::world::id("g")));
    let text = explained(&elsewhere, "192.0.2.50");
    assert!(text[1].contains("but it is no address of that one's network"), "{text:?}");
}

#[test]
fn what_could_not_be_looked_at_is_said_and_nothing_is_concluded_from_it() {
    let sight =
        Sight { no_rows: Some("the database does not reply".into()), no_frr: Some("bgpd is away".into()) };
    let explained = |ip: &str| {
        let snapshot = vm1("ch-a").snapshot();
        let decision = decide(&snapshot).value;
        explain(&snapshot, &decision, ip.parse().unwrap(), &sight, |_| Some(ip == "172.24.4.10"))
            .text
            .join("\n")
    };
    let unknown = explained("172.24.4.77");
    assert!(
        unknown.contains("Cannot search all of OVN's Southbound database (the database does not reply)"),
        "{unknown}"
    );
    assert!(!unknown.contains("Nothing in OVN's"), "{unknown}");
    let known = explained("172.24.4.10");
    assert!(known.starts_with("172.24.4.10 is ready to be announced by ch-a"), "{known}");
    assert!(
        known.contains("but FRR announces nothing new: bgpd is away.") && !known.contains("is announced by"),
        "{known}"
    );
    assert!(known.contains("Cannot check whether another chassis has it, too"), "{known}");
}
