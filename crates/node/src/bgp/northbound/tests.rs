//! Northbound rows in, what the node makes of them out; and the scenarios of the Southbound, which must come out the same.

mod cloud;
mod following;
mod scenarios;

pub(in crate::bgp) use cloud::Cloud;

use ovn::PortType;
use ovn::sb::{Chassis, LoadBalancer, PortBinding};
use ovsdb::{Ref, Weak};

use super::*;
use crate::bgp::desired::tests::world::{NB_OLD, id, options};

/// A port binding by its name: type, chassis and whether it is up.
fn bound(rows: &Snapshot, name: &str) -> Option<(String, Option<String>, Option<bool>)> {
    let (_, port) = rows.table::<PortBinding>().iter().find(|(_, port)| port.logical_port == name)?;
    let chassis = port.chassis.and_then(|row| rows.get::<Chassis>(row.uuid()));
    Some((port.kind.to_string(), chassis.map(|chassis| chassis.name.to_string()), port.up))
}

fn at(cloud: &Cloud, name: &str) -> Option<String> {
    bound(&cloud.mirrored(), name).expect("the port is there").1
}

fn nat_addresses(cloud: &Cloud, name: &str) -> Vec<String> {
    let rows = cloud.mirrored();
    let port = rows.table::<PortBinding>().iter().find(|(_, port)| port.logical_port == name);
    port.expect("the port is there").1.nat_addresses.iter().map(ToString::to_string).collect()
}

fn vm() -> Cloud {
    let mut cloud = Cloud::new();
    cloud.vif("vm1", "neutron-pub", "fa:16:3e:00:00:01 172.24.4.10").runs("vm1", "host-a");
    cloud
}

#[test]
fn a_port_is_where_its_host_is_once_it_is_up() {
    let mut cloud = vm();
    assert_eq!(at(&cloud, "vm1").as_deref(), Some("ch-a"));
    cloud.runs("vm1", "host-b");
    assert_eq!(at(&cloud, "vm1").as_deref(), Some("host-b"));
    cloud.runs("vm1", "host-a").port("vm1").up = Some(false);
    assert_eq!(bound(&cloud.mirrored(), "vm1"), Some((String::new(), None, Some(false))));
    cloud.port("vm1").up = None;
    assert_eq!(at(&cloud, "vm1"), None, "northd has not looked at it yet");
    cloud.port("vm1").up = Some(true);
    cloud.port("vm1").external_ids = Default::default();
    assert!(
        at(&cloud, "vm1").is_some_and(|name| name.contains("neutron:host_id")),
        "up, but nobody tells where"
    );
}

#[test]
fn what_is_requested_outranks_the_host_and_the_first_of_several_has_the_port() {
    let mut cloud = vm();
    for (list, expected) in [
        ("host-b", "host-b"),
        ("host-a", "ch-a"),
        ("ch-a", "ch-a"),
        ("host-a,host-b", "ch-a"),
        (" host-a , host-b", "ch-a"),
        ("host-b,host-a", "host-b"),
        ("", "ch-a"),
        (",", "ch-a"),
    ] {
        assert_eq!(at(cloud.requested("vm1", list), "vm1").as_deref(), Some(expected), "{list:?}");
    }
    // A virtual port is with its parent, whatever was asked for.
    cloud.port("vm1").kind = PortType::Virtual;
    assert_eq!(at(cloud.requested("vm1", "host-b"), "vm1").as_deref(), Some("ch-a"));
}

#[test]
fn what_northd_copies_is_copied() {
    let mut cloud = vm();
    cloud.localnet("provnet-1", "neutron-pub", "physnet1", Some(100));
    cloud.external_id("vm1", "meridian:advertise", "false");
    let rows = cloud.mirrored();
    let (row, vm1) = rows.table::<PortBinding>().iter().find(|(_, port)| port.logical_port == "vm1").unwrap();
    assert_eq!((row.uuid(), vm1.datapath.uuid()), (id("vm1"), id("neutron-pub")));
    assert_eq!(vm1.ips(), ["172.24.4.10".parse::<std::net::IpAddr>().unwrap()]);
    assert_eq!(vm1.external_ids.get("meridian:advertise").map(|text| text.as_str()), Some("false"));
    let localnet = rows.get::<PortBinding>(id("provnet-1")).unwrap();
    assert_eq!((localnet.tag, localnet.kind.as_str()), (Some(100), "localnet"));
    assert_eq!(localnet.options, options([("network_name", "physnet1")]));
}

#[test]
fn both_sides_of_a_link_and_its_gateway() {
    let mut cloud = Cloud::new();
    let rows = cloud.mirrored();
    let port = |name: &str| {
        rows.table::<PortBinding>().iter().find(|(_, port)| port.logical_port == name).unwrap().1
    };
    let (inner, outer, gateway) = (port("lrp-gw1"), port("gw1"), port("cr-lrp-gw1"));
    assert_eq!((inner.kind.as_str(), outer.kind.as_str()), ("patch", "patch"));
    assert_eq!(inner.options, options([("chassis-redirect-port", "cr-lrp-gw1"), ("peer", "gw1")]));
    assert_eq!(outer.options.get("peer").map(|text| text.as_str()), Some("lrp-gw1"));
    assert_eq!(gateway.options, options([("distributed-port", "lrp-gw1")]));
    assert_eq!((inner.datapath, gateway.datapath), (Ref::new(id("neutron-r1")), Ref::new(id("neutron-r1"))));
    assert_eq!(inner.mac, gateway.mac);
    let mac = gateway.mac.iter().next().unwrap().to_string();
    assert_eq!(mac, "fa:16:3e:aa:00:01 172.24.4.221/24 2001:db8::221/64");
    assert_eq!(port("lrp-sub1").options, options([("peer", "sub1")]));
    assert_eq!(bound(&rows, "cr-lrp-gw1"), Some(("chassisredirect".into(), None, Some(false))));
    assert_eq!(at(cloud.hosted("lrp-gw1", "ch-a"), "cr-lrp-gw1").as_deref(), Some("ch-a"));
    // A host's name is none of a chassis.
    assert_eq!(at(cloud.hosted("lrp-gw1", "host-a"), "cr-lrp-gw1").as_deref(), Some("host-a"));
    // By group, the same.
    cloud.router_port("lrp-gw1").gateway_chassis = Default::default();
    assert_eq!(bound(&cloud.mirrored(), "cr-lrp-gw1"), None);
    cloud.hosted("lrp-gw1", "ch-a").ha_gateway("lrp-gw1");
    assert_eq!(at(&cloud, "cr-lrp-gw1").as_deref(), Some("ch-a"));
    // Routers without a switch between them.
    cloud.router_port("lrp-sub1").peer = Some("lrp-other".into());
    cloud.ports.remove("sub1");
    cloud.switches.get_mut("neutron-ten").unwrap().ports = Default::default();
    let rows = cloud.mirrored();
    let inner = rows.get::<PortBinding>(id("lrp-sub1")).unwrap();
    assert_eq!(inner.options.get("peer").map(|text| text.as_str()), Some("lrp-other"));
    // A router that is switched off is none.
    cloud.routers.get_mut("neutron-r1").unwrap().enabled = Some(false);
    assert_eq!(bound(&cloud.mirrored(), "cr-lrp-gw1"), None);
}

const OWN: &str = "fa:16:3e:aa:00:01 172.24.4.221 is_chassis_resident(\"cr-lrp-gw1\")";

#[test]
fn translations_are_listed_for_who_answers() {
    let mut cloud = Cloud::new();
    assert_eq!(nat_addresses(&cloud, "gw1"), [OWN]);
    assert_eq!(nat_addresses(&cloud, "sub1"), [""; 0]);
    cloud.distributed("neutron-r1", "172.24.4.199", "vm2");
    cloud.nat("neutron-r1", "172.24.4.198");
    cloud.nat("neutron-r1", "2001:db8::198");
    cloud.nat("neutron-r1", "172.24.4.221").kind = ovn::nb::NatType::Snat;
    let at_vm = "fa:16:3e:ff:00:01 172.24.4.199 is_chassis_resident(\"vm2\")";
    let central = "fa:16:3e:aa:00:01 172.24.4.198 is_chassis_resident(\"cr-lrp-gw1\")";
    assert_eq!(nat_addresses(&cloud, "gw1"), [central, OWN, at_vm]);
    // Without the option as well: that is about ARP.
    cloud.port("gw1").options.remove("nat-addresses");
    assert_eq!(nat_addresses(&cloud, "gw1"), [central, OWN, at_vm]);
    // The cloud does not distribute.
    let global = cloud.global.get_mut("NB_Global").unwrap();
    global.external_ids = options([("neutron:fip-distributed", "False")]);
    let moved = "fa:16:3e:aa:00:01 172.24.4.199 is_chassis_resident(\"cr-lrp-gw1\")";
    assert_eq!(nat_addresses(&cloud, "gw1"), [central, moved, OWN]);
    for text in ["True", "true", "x"] {
        let global = cloud.global.get_mut("NB_Global").unwrap();
        global.external_ids = options([("neutron:fip-distributed", text)]);
        assert_eq!(nat_addresses(&cloud, "gw1"), [central, OWN, at_vm], "{text}");
    }
    // A port without an Ethernet address for it is answered for at the gateway.
    cloud.nats.get_mut("172.24.4.199").unwrap().external_mac = None;
    assert_eq!(nat_addresses(&cloud, "gw1"), [central, moved, OWN]);
}

#[test]
fn of_several_gateways_one_translates() {
    let mut cloud = Cloud::new();
    cloud.switch("neutron-pub2");
    cloud.link("gw2", "neutron-r1", "neutron-pub2", &["fa:16:3e:bb:00:01", "172.25.0.221/24"]);
    cloud.ha_gateway("lrp-gw2");
    cloud.nat("neutron-r1", "172.25.0.198");
    cloud.nat("neutron-r1", "172.24.4.198").gateway_port = Some(Weak::new(id("lrp-gw2")));
    // Of no gateway's network, and nobody tells: OVN does not translate it.
    cloud.nat("neutron-r1", "192.0.2.1");
    assert_eq!(nat_addresses(&cloud, "gw1"), [OWN]);
    let second = |ip: &str| format!("fa:16:3e:bb:00:01 {ip} is_chassis_resident(\"cr-lrp-gw2\")");
    assert_eq!(
        nat_addresses(&cloud, "gw2"),
        [second("172.24.4.198"), second("172.25.0.198"), second("172.25.0.221")]
    );
}

#[test]
fn routers_on_one_chassis_and_what_else_northd_lists() {
    let mut cloud = Cloud::new();
    cloud.routers.get_mut("neutron-r1").unwrap().options = options([("chassis", "ch-a")]);
    cloud.nat("neutron-r1", "172.24.4.198");
    let rows = cloud.mirrored();
    assert_eq!(bound(&rows, "gw1"), Some(("l3gateway".into(), Some("ch-a".into()), None)));
    assert_eq!(bound(&rows, "cr-lrp-gw1"), None, "such a router has no gateway port");
    assert_eq!(
        nat_addresses(&cloud, "gw1"),
        ["fa:16:3e:aa:00:01 172.24.4.198", "fa:16:3e:aa:00:01 172.24.4.221"]
    );
    assert_eq!(nat_addresses(&cloud, "sub1"), [""; 0], "a network without a physical one");

    let mut cloud = Cloud::new();
    cloud.balancer("lb", &["192.0.2.50:80", "[2001:db8::50]:80"]);
    cloud.on_router("neutron-r1", "lb");
    assert_eq!(nat_addresses(&cloud, "gw1"), [OWN], "load balancers are left out where asked for");
    cloud.port("gw1").options.remove("exclude-lb-vips-from-garp");
    let vip = "fa:16:3e:aa:00:01 192.0.2.50 is_chassis_resident(\"cr-lrp-gw1\")";
    assert_eq!(nat_addresses(&cloud, "gw1"), [OWN, vip]);
    let told = "fa:16:3e:aa:00:01 192.0.2.7";
    cloud.port("gw1").options.insert("nat-addresses".into(), told.into());
    assert_eq!(nat_addresses(&cloud, "gw1"), [OWN, &format!("{told} is_chassis_resident(\"cr-lrp-gw1\")")]);

    let mut cloud = Cloud::new();
    cloud.router_port("lrp-sub1").options = options([("reside-on-redirect-chassis", "true")]);
    assert_eq!(
        nat_addresses(&cloud, "sub1"),
        ["fa:16:3e:aa:00:02 10.1.0.1 is_chassis_resident(\"cr-lrp-gw1\")"]
    );
}

#[test]
fn load_balancers_have_their_members_from_wherever_that_is_told() {
    let members = |cloud: &Cloud| -> Vec<Uuid> {
        let rows = cloud.mirrored();
        let mut all = rows.table::<LoadBalancer>().iter();
        all.next()
            .map_or_else(Vec::new, |(_, row)| row.datapaths.iter().map(|member| member.uuid()).collect())
    };
    let both = |names: [&str; 2]| {
        let mut ids = names.map(id);
        ids.sort();
        ids.to_vec()
    };
    let mut cloud = Cloud::new();
    cloud.balancer("lb", &["172.24.4.50:80"]);
    assert!(members(&cloud).is_empty(), "it is nowhere, so it is not");
    cloud.on_switch("neutron-ten", "lb").on_router("neutron-r1", "lb");
    assert_eq!(members(&cloud), both(["neutron-ten", "neutron-r1"]));

    let mut cloud = Cloud::new();
    cloud.balancer("lb", &["172.24.4.50:80"]);
    let group = LoadBalancerGroup { name: "all".into(), load_balancer: [Weak::new(id("lb"))].into() };
    cloud.groups.insert("all".into(), group);
    cloud.switches.get_mut("neutron-pub").unwrap().load_balancer_group = [Ref::new(id("all"))].into();
    cloud.routers.get_mut("neutron-r1").unwrap().load_balancer_group = [Ref::new(id("all"))].into();
    assert_eq!(members(&cloud), both(["neutron-pub", "neutron-r1"]));

    for (key, value, expected) in [
        ("lr_ref", "neutron-other, neutron-r1", vec![id("neutron-r1")]),
        ("neutron:router_name", "neutron-r1", vec![id("neutron-r1")]),
        ("ls_refs", r#"{"neutron-ten": 2, "neutron-pub": 0}"#, vec![id("neutron-ten")]),
        ("ls_refs", "nonsense", vec![]),
    ] {
        let mut cloud = Cloud::new();
        cloud.balancer("lb", &["172.24.4.50:80"]).external_ids = options([(key, value)]);
        assert_eq!(members(&cloud), expected, "{key} = {value}");
    }
}

#[test]
fn instances_elsewhere_are_left_out_but_behind_a_gateway_that_is_here() {
    let mut cloud = Cloud::new();
    cloud.vif("vm1", "neutron-pub", "fa:16:3e:00:00:01 172.24.4.10").runs("vm1", "host-b");
    cloud.vif("vm2", "neutron-ten", "fa:16:3e:00:00:02 10.1.0.5").runs("vm2", "host-b");
    cloud.vif("vip", "neutron-pub", "fa:16:3e:00:00:50 172.24.4.50");
    let there = |cloud: &Cloud| {
        let rows = cloud.snapshot().sb;
        ["vm1", "vm2", "vip"].map(|name| rows.get::<PortBinding>(id(name)).is_some())
    };
    assert_eq!(there(&cloud), [false, false, true]);
    assert_eq!(there(cloud.hosted("lrp-gw1", "ch-b")), [false, false, true]);
    assert_eq!(there(cloud.hosted("lrp-gw1", "ch-a")), [false, true, true]);
    assert_eq!(there(cloud.runs("vm1", "host-a").hosted("lrp-gw1", "ch-b")), [true, false, true]);
}

#[test]
fn a_database_that_nobody_set_up_knows_nobody() {
    let mut cloud = vm();
    assert!(cloud.snapshot().me().is_some());
    cloud.global.clear();
    assert_eq!(cloud.snapshot().me(), None);
    assert_eq!(cloud.problems(), ["chassis/ch-a no-chassis"]);
    let what = &cloud.decide().problems[0].message;
    assert!(what.contains("Northbound database has no NB_Global row"), "{what}");
}

#[test]
fn older_servers_do_not_tell_where_gateways_are() {
    let mut cloud = Cloud::new();
    assert!(tells_gateways(&cloud.northbound()));
    cloud.schema = NB_OLD;
    assert!(!tells_gateways(&cloud.northbound()));
}
