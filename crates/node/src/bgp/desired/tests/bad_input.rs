//! Rows that do not say what they should: reported on that object, all others decided, nothing taken away that worked.

use std::collections::BTreeSet;

use super::world::{World, options};
use ovn::PortType;
use ovn::text::Text;

fn two_vms() -> World {
    let mut world = World::new();
    world.vif("vm1", "neutron-pub", &["fa:16:3e:00:00:01 172.24.4.10"]).bind("vm1", "ch-a");
    world.vif("vm2", "neutron-pub", &["fa:16:3e:00:00:02 172.24.4.11"]).bind("vm2", "ch-a");
    world.settle();
    world
}

#[test]
fn malformed_mac() {
    let mut world = two_vms();
    let before = world.state();
    for bad in ["fa:16:3e 172.24.4.10", "fa:16:3e:00:00:01 172.24.4.300", "", "?", "unknown 1"] {
        world.port("vm1").mac = [Text::new(bad)].into();
        assert_eq!(world.problems(), ["port/vm1 bad-addresses"], "{bad:?}");
        assert_eq!(world.state(), before, "{bad:?}");
    }
    // A good element beside a bad one counts.
    let mut fresh = World::new();
    fresh.vif("vm1", "neutron-pub", &["garbage", "fa:16:3e:00:00:01 172.24.4.10"]).bind("vm1", "ch-a");
    assert_eq!(fresh.state().len(), 3);
    assert_eq!(fresh.problems(), ["port/vm1 bad-addresses"]);
    let message = fresh.decide().problems.remove(0).message;
    assert!(message.contains("\"garbage\" do not parse: ") && message.contains("Northbound"), "{message}");
}

#[test]
fn malformed_cidrs() {
    let mut world = World::new();
    world.vif("vm1", "neutron-pub", &["unknown"]).bind("vm1", "ch-a");
    world.external_id("vm1", "neutron:cidrs", "nonsense 172.24.4.10/99");
    assert_eq!((world.problems(), world.state()), (vec!["port/vm1 bad-cidrs".to_owned()], vec![]));
    world.external_id("vm1", "neutron:cidrs", "nonsense 172.24.4.10/24");
    assert_eq!(world.state().len(), 3, "the good item counts");
    assert_eq!(world.problems(), ["port/vm1 bad-cidrs"], "and the other is reported");
    let message = world.decide().problems.remove(0).message;
    assert!(message.starts_with("\"nonsense\" in its neutron:cidrs does not parse"), "{message}");
    world.settle();
    world.external_id("vm1", "neutron:cidrs", "172.24.4.11/24 172.24.4.x/24");
    assert_eq!(world.state().len(), 6, "what was exposed stays");
    world.port("vm1").mac = [Text::new("fa:16:3e:00:00:01 172.24.4.12")].into();
    assert_eq!((world.problems(), world.state().len()), (vec![], 3), "nobody looks at them");
}

#[test]
fn malformed_cidrs_of_a_tenant() {
    let mut world = World::new().tenants();
    world.vif("vm2", "neutron-ten", &["unknown"]).bind("vm2", "ch-b").bind("cr-lrp-gw1", "ch-a");
    world.external_id("vm2", "neutron:cidrs", "10.1.0.5/24 10.1.0.x/24");
    assert_eq!(world.problems(), ["port/vm2 bad-cidrs"]);
    assert!(world.state().contains(&"A 10.1.0.5".to_owned()), "the good item counts");
}

#[test]
fn malformed_nat_addresses() {
    let mut world = World::new();
    world.bind("cr-lrp-gw1", "ch-a");
    let good = "fa:16:3e:aa:00:01 172.24.4.198 is_chassis_resident(\"cr-lrp-gw1\")";
    world.nat("gw1", &[good]).settle();
    let before = world.state();
    world.nat("gw1", &["fa:16:3e:aa:00:01 172.24.4.198 is_chassis_resident(cr-lrp-gw1)"]);
    assert_eq!(world.problems(), ["port/gw1 bad-nat-addresses"]);
    assert_eq!(world.state(), before);
    world.nat("gw1", &["router", good, "x"]);
    assert_eq!(world.state(), before);
    assert_eq!(world.nat("gw1", &[]).problems(), [""; 0]);
    assert!(!world.state().contains(&"A 172.24.4.198".to_owned()));
}

/// A gateway with all that can hang on it: a subnet of either family, an instance in it, a floating IP, and a load balancer that is
/// known by the provider network's prefix alone.
fn gateway_with_all() -> World {
    let mut world = World::new().tenants();
    world.inner("sub1", "neutron-r1", "neutron-ten", "fa:16:3e:aa:00:02 10.1.0.1/24 fd00:1::1/64");
    world.vif("vm2", "neutron-ten", &["fa:16:3e:00:00:02 10.1.0.5 fd00:1::5"]).bind("vm2", "ch-b");
    world.nat("gw1", &["fa:16:3e:aa:00:01 172.24.4.198 is_chassis_resident(\"cr-lrp-gw1\")"]);
    let group = world.group("g", &["neutron-r1"]);
    world.balancer("lb", &["172.24.4.50:80"]).lr_datapath_group = group;
    world.bind("cr-lrp-gw1", "ch-a").settle();
    world
}

#[test]
fn malformed_gateways_and_router_ports_cost_nothing_that_is_behind_them() {
    for (name, bad) in [
        ("cr-lrp-gw1", "fa:16:3e:aa:00:01 172.24.4.221/240"),
        ("cr-lrp-gw1", "?"),
        ("lrp-sub1", "fa:16:3e:aa:00:02 10.1.0.1/240 fd00:1::1/64"),
        ("lrp-sub1", ""),
    ] {
        let mut world = gateway_with_all();
        let before = world.state();
        assert!(before.contains(&"A 10.1.0.5".to_owned()) && before.contains(&"A 172.24.4.50".to_owned()));
        world.port(name).mac = [Text::new(bad)].into();
        for _ in 0..2 {
            assert_eq!(world.problems(), [format!("port/{name} bad-addresses")], "{bad:?}");
            assert_eq!(world.state(), before, "{name} {bad:?}");
            world.settle();
        }
        // What comes to it is served as well; what leaves it, goes.
        world.vif("vm3", "neutron-ten", &["fa:16:3e:00:00:03 10.1.0.6"]).bind("vm3", "ch-b").unbind("vm2");
        let state = world.state();
        assert!(state.contains(&"A 10.1.0.6".to_owned()) && !state.contains(&"A 10.1.0.5".to_owned()));
        world.bind("cr-lrp-gw1", "ch-b");
        assert_eq!((world.state(), world.problems()), (vec![], vec![]), "it is another chassis' matter");
    }
}

#[test]
fn a_router_port_that_was_never_read_leads_nowhere() {
    let mut world = gateway_with_all();
    world.before = Default::default();
    world.port("lrp-sub1").mac = [Text::new("?")].into();
    assert_eq!(world.problems(), ["port/lrp-sub1 bad-addresses"]);
    assert!(!world.state().iter().any(|line| line.contains("10.1.0.")));
    assert!(world.state().contains(&"A 172.24.4.198".to_owned()), "all else is there");
}

/// Rows that lead nowhere, and such of kinds that nobody knows.
#[test]
fn missing_and_unknown_things() {
    let problems = |world: &World| world.problems().into_iter().collect::<BTreeSet<_>>();
    let mut world = two_vms();
    let before = world.state();
    world.row("strange", "neutron-pub", PortType::from("hologram"), &["fa:16:3e:00:00:03 172.24.4.12"]);
    world.bind("strange", "ch-a");
    world.row("lost", "no-such-datapath", PortType::Vif, &["fa:16:3e:00:00:04 172.24.4.13"]);
    world.bind("lost", "ch-a");
    world
        .row("cr-lost", "neutron-r1", PortType::ChassisRedirect, &["fa:16:3e:00:00:05 172.24.4.14/24"])
        .options = options([("distributed-port", "nothing")]);
    world.bind("cr-lost", "ch-a");
    world.row("no-options", "neutron-r1", PortType::ChassisRedirect, &["fa:16:3e:00:00:05 172.24.4.15/24"]);
    world.bind("no-options", "ch-a");
    world.datapaths.clear();
    assert_eq!(world.state(), before, "not even the switch's own row is needed");
    assert_eq!(
        problems(&world),
        [
            "port/cr-lost no-router-port",
            "port/lost no-datapath",
            "port/no-options no-router-port",
            "port/strange unknown-port-type",
        ]
        .map(String::from)
        .into_iter()
        .collect::<BTreeSet<_>>()
    );
    for name in ["strange", "lost", "cr-lost", "no-options"] {
        world.bind(name, "ch-b");
    }
    assert_eq!(problems(&world), BTreeSet::new(), "they are another chassis' matter");
}

/// Rows that are not exposed, and rows that exist only for a moment while a cloud's management writes.
#[test]
fn what_is_not_exposed_is_not_spoken_of() {
    let mut world = two_vms();
    let before = world.state();
    for kind in ["localport", "external", "remote", "l2gateway", "vtep", "switch", "router", "l3gateway"] {
        world.row(kind, "neutron-pub", PortType::from(kind), &["fa:16:3e:00:00:03 172.24.4.12"]);
        world.bind(kind, "ch-a");
    }
    // A gateway whose switch port is yet to come.
    world.bind("cr-lrp-gw1", "ch-a");
    world.ports.remove("gw1");
    world.port("lrp-gw1").options.remove("peer");
    // A tenant's instance, and one on a physical network that this node lacks.
    world.switch("far").localnet("provnet-9", "far", "physnet9", None);
    world.vif("vm9", "far", &["fa:16:3e:00:00:09 203.0.113.9"]).bind("vm9", "ch-a");
    world.vif("vm8", "neutron-ten", &["fa:16:3e:00:00:0a 10.1.0.8"]).bind("vm8", "ch-a");
    assert_eq!((world.state(), world.problems()), (before, vec![]));
}

#[test]
fn one_address_at_two_ports() {
    let mut world = World::new().tenants();
    world.vif("vm1", "neutron-pub", &["fa:16:3e:00:00:01 172.24.4.10"]).bind("vm1", "ch-a");
    world.vif("vm3", "neutron-pub", &["fa:16:3e:00:00:03 172.24.4.10"]).bind("vm3", "ch-a");
    world.vif("vm2", "neutron-ten", &["fa:16:3e:00:00:02 10.1.0.5"]).bind("vm2", "ch-b");
    world.vif("vm4", "neutron-ten", &["fa:16:3e:00:00:04 10.1.0.5"]).bind("vm4", "ch-b");
    world.bind("cr-lrp-gw1", "ch-a");
    assert_eq!(
        world.problems(),
        ["address/10.1.0.5 duplicate-address", "address/172.24.4.10 duplicate-address"]
    );
    let problem = world.decide().problems.remove(0);
    assert_eq!(
        problem.message,
        "the ports vm2 and vm4 have it, and only one of them gets its packets; give the others another address"
    );
    let state = world.state();
    assert!(state.contains(&"A 172.24.4.10".to_owned()) && state.contains(&"A 10.1.0.5".to_owned()));
    world.unbind("vm3").unbind("vm4");
    assert_eq!(world.problems(), [""; 0]);
}

#[test]
fn bad_localnets() {
    let mut world = two_vms();
    let before = world.state();
    world.row("provnet-x", "neutron-x", PortType::Localnet, &["unknown"]);
    world.switch("neutron-y").localnet("provnet-y", "neutron-y", "physnet1", Some(4095));
    assert_eq!(world.problems(), ["port/provnet-x no-physical-network", "port/provnet-y bad-vlan"]);
    assert_eq!(world.state(), before);
    assert_eq!(world.base(), World::new().base());
}

/// The database of the local switch forgets Ethernet addresses when it restarts; so it may be with a port's number.
#[test]
fn what_the_switch_does_not_tell_for_now_is_as_it_was() {
    let mut world = two_vms();
    let (state, base) = (world.state(), world.base());
    world.bridges.insert("br-ex".into(), None);
    assert_eq!(world.problems(), ["device/br-ex no-bridge-mac"]);
    assert_eq!((world.state(), world.base()), (state.clone(), base.clone()));
    world.settle();
    world.patches.insert("provnet-1".into(), ("br-ex".into(), None));
    assert_eq!((world.state(), world.base()), (state.clone(), base.clone()), "for as long as it takes");
    world.settle();
    world.bridges.insert("br-ex".into(), Some("02:00:00:00:ee:02".into()));
    world.patches.insert("provnet-1".into(), ("br-ex".into(), Some(9)));
    assert_eq!(world.base().last().unwrap(), "F9 br-ex 02:00:00:00:ee:02 br-ex", "what is told counts");
    world.settle();
    world.patches.insert("provnet-1".into(), ("br-ex".into(), Some(-1)));
    assert!(!world.base().iter().any(|line| line.starts_with('F')), "the switch could not make the port");
}

#[test]
fn a_bridge_that_never_told_its_ethernet_address_has_no_flows_yet() {
    let mut world = two_vms();
    world.before = Default::default();
    world.bridges.insert("br-ex".into(), None);
    assert_eq!(world.problems(), ["device/br-ex no-bridge-mac"]);
    let flows = &world.plane().flows["br-ex"];
    assert_eq!((flows.mac, flows.flows_to(&"br-ex".into())), (None, None), "announcements wait for them");
    assert_eq!(world.state().len(), 6, "and are wanted");
}

#[test]
fn settings_that_are_missing() {
    let mut world = two_vms();
    world.settings.clear();
    let outcome = world.decide();
    assert_eq!(outcome.problems[0].code, "no-chassis");
    world.settings.insert("system-id".into(), "ch-a".into());
    assert_eq!((world.state(), world.problems()), (vec![], vec![]), "no mappings, no networks");
}

/// Malformed load balancer addresses cost themselves only, and are reported where they matter.
#[test]
fn malformed_vips() {
    let mut world = World::new();
    world.bind("cr-lrp-gw1", "ch-a");
    let group = world.group("g", &["neutron-r1"]);
    world.balancer("lb", &["172.24.4.51", "172.24.4.50"]).lr_datapath_group = group;
    world.settle();
    let before = world.state();
    world.balancer("lb", &["172.24.4.300:80", "172.24.4.50", "x"]).lr_datapath_group = group;
    assert_eq!(world.problems(), ["load-balancer/lb bad-vip"]);
    assert_eq!(world.state(), before, "what was exposed stays");
    world.balancer("lb", &["172.24.4.50", "^vip:80"]).lr_datapath_group = group;
    assert_eq!(world.problems(), [""; 0], "a template is no address, and no mistake");
    assert!(!world.state().contains(&"A 172.24.4.51".to_owned()));
    world.balancer("far", &["x"]);
    assert_eq!(world.problems(), [""; 0], "it is behind no gateway that is here");
}

/// The announcements from before the start that each kind of unreadable row may belong to.
#[test]
fn what_was_there_at_the_start_stays_while_rows_that_may_have_it_cannot_be_read() {
    type Edit = fn(&mut World);
    let kept = |world: &World| {
        let unclaimed = world.plane().unclaimed;
        ["172.24.4.77", "10.1.0.77", "203.0.113.7"]
            .map(|ip| unclaimed.as_ref().is_some_and(|unclaimed| unclaimed.has(ip.parse().unwrap())))
    };
    let cases: [(&str, Edit, [bool; 3]); 7] = [
        ("nothing", |_| (), [false; 3]),
        (
            "an instance's",
            |world| {
                world.vif("vm1", "neutron-pub", &["fa:16:3e 172.24.4.77"]).bind("vm1", "ch-a");
            },
            [true, false, false],
        ),
        (
            "another chassis'",
            |world| {
                world.vif("vm1", "neutron-pub", &["fa:16:3e 172.24.4.77"]).bind("vm1", "ch-b");
            },
            [false; 3],
        ),
        (
            "a floating IP's",
            |world| {
                world.nat("gw1", &["fa:16:3e:aa:00:01 172.24.4.77 is_chassis_resident(cr-lrp-gw1)"]);
            },
            [true, false, false],
        ),
        (
            "a tenant's",
            |world| {
                world.vif("vm2", "neutron-ten", &["x 10.1.0.77"]).bind("vm2", "ch-b");
            },
            [false, true, false],
        ),
        (
            "a load balancer's",
            |world| {
                let group = world.group("bad", &["neutron-r1"]);
                world.balancer("lb-bad", &["172.24.4.77:x"]).lr_datapath_group = group;
            },
            [true, false, false],
        ),
        (
            "a gateway's",
            |world| world.port("cr-lrp-gw1").mac = [Text::new("? 172.24.4.221")].into(),
            [true; 3],
        ),
    ];
    for (whose, spoil, expected) in cases {
        let mut world = gateway_with_all();
        world.before = Default::default();
        spoil(&mut world);
        assert_eq!(kept(&world), expected, "{whose}");
        world.settle();
        assert_eq!(kept(&world), expected, "{whose}, for as long as it takes");
    }
    // Nothing is read while OVN does not know us, or binds our ports again; and nothing stays when all is to go.
    let mut world = two_vms();
    world.before = Default::default();
    world.vif("vm1", "neutron-pub", &["garbage"]).bind("vm1", "ch-a").settle();
    world.rebinding = true;
    world.unbind("vm1").settle();
    assert_eq!(kept(&world), [true; 3]);
    world.rebinding = false;
    let us = world.chassis.remove("ch-a").unwrap();
    world.settle();
    assert_eq!(kept(&world), [true; 3]);
    world.silent = true;
    assert_eq!(kept(&world), [false; 3]);
    world.silent = false;
    world.chassis.insert("ch-a".into(), us);
    world.bind("vm1", "ch-a").settle();
    assert_eq!(kept(&world), [true; 3]);
    world.unbind("vm1").settle();
    world.bind("vm1", "ch-a");
    assert_eq!(kept(&world), [false; 3], "all could be read once");
}

#[test]
fn a_translated_prefix_is_no_host() {
    let mut world = World::new();
    world.bind("cr-lrp-gw1", "ch-a");
    let resident = "is_chassis_resident(\"cr-lrp-gw1\")";
    world.nat("gw1", &[&format!("fa:16:3e:ff:00:01 172.24.4.64/28 172.24.4.199/24 172.24.4.198 {resident}")]);
    assert_eq!(world.problems(), ["port/gw1 bad-nat-addresses"]);
    let state = world.state();
    assert!(!state.iter().any(|line| line.contains("172.24.4.64")), "{state:?}");
    for host in ["A 172.24.4.199", "A 172.24.4.198"] {
        assert!(state.contains(&host.to_owned()), "{state:?}");
    }
}
