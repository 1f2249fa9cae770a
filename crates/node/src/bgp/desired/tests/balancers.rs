//! Acceptance scenarios 23 and 24: load balancers on provider networks, in the row shapes of every version.

use super::world::{NEW, OLD, World, id};
use ovn::sb::LoadBalancer;
use ovsdb::{Ref, Set};

const VIP: [&str; 3] = ["A 172.24.4.50", "R 172.24.4.50 br-ex", "T 172.24.4.50 dev br-ex"];

fn with_vip_port(schema: &'static str) -> World {
    let mut world = World::new();
    world.schema = schema;
    world.vif("vip-port", "neutron-pub", &[]).bind("cr-lrp-gw1", "ch-a");
    world.external_id("vip-port", "neutron:port_name", "ovn-lb-vip-0000-lb1");
    world.external_id("vip-port", "neutron:cidrs", "172.24.4.50/24");
    world
}

fn vip(world: &World) -> Vec<String> {
    world.state().into_iter().filter(|line| line.contains("172.24.4.50")).collect()
}

/// A version: its schema, and how its rows name the datapaths of a load balancer.
type Shape = (&'static str, &'static str, fn(&mut World, &[&str]));

const SHAPES: [Shape; 3] = [
    ("22.03", OLD, |world, members| {
        let datapaths: Set<_> = members.iter().map(|name| Ref::new(id(name))).collect();
        row(world).datapaths = datapaths;
    }),
    ("22.09", OLD, |world, members| {
        let group = world.group("group", members);
        row(world).datapath_group = group;
    }),
    ("24.03", NEW, |world, members| {
        let group = world.group("group", members);
        row(world).ls_datapath_group = group;
    }),
];

fn row(world: &mut World) -> &mut LoadBalancer {
    world.balancer("0000-lb1", &["172.24.4.50:80"])
}

#[test]
fn scenario_23_members_decide() {
    for (version, schema, attach) in SHAPES {
        let mut world = with_vip_port(schema);
        attach(&mut world, &["neutron-pub"]);
        assert_eq!(vip(&world), [""; 0], "{version}: the network of the address alone");
        attach(&mut world, &["neutron-pub", "neutron-ten"]);
        assert_eq!(vip(&world), VIP, "{version}");
        attach(&mut world, &["neutron-pub"]);
        assert_eq!(vip(&world), [""; 0], "{version}: the last member is gone");
        // Deleted, the port before the load balancer.
        attach(&mut world, &["neutron-pub", "neutron-ten"]);
        world.settle();
        world.ports.remove("vip-port");
        assert_eq!(vip(&world), VIP, "{version}: its address is still one of the network");
        world.balancers.clear();
        assert_eq!(vip(&world), [""; 0], "{version}");
    }
}

#[test]
fn scenario_23_a_change_within_the_group_alone() {
    let mut world = with_vip_port(NEW);
    let group = world.group("group", &["neutron-pub"]);
    row(&mut world).ls_datapath_group = group;
    assert_eq!(vip(&world), [""; 0]);
    world.group("group", &["neutron-pub", "neutron-ten"]);
    assert_eq!(vip(&world), VIP);
}

/// Scenario 24: the provider network is not among the load balancer's, its router is.
#[test]
fn scenario_24_by_router() {
    let mut world = with_vip_port(NEW);
    world.vif("vip-port", "neutron-pub", &["fa:16:3e:00:00:50 172.24.4.50"]);
    world.external_id("vip-port", "neutron:device_owner", "ovn-lb:vip");
    world.router("neutron-r2");
    world.gateway("gw2", "neutron-r2", "neutron-pub", "fa:16:3e:bb:00:01 172.24.4.222/24");
    world.bind("cr-lrp-gw2", "ch-b");
    let group = world.group("routers", &["neutron-r1"]);
    row(&mut world).lr_datapath_group = group;
    assert_eq!(vip(&world), VIP);
    world.settings.insert("system-id".into(), "ch-b".into());
    assert_eq!(
        vip(&world),
        [""; 0],
        "the other router's gateway is on the same network and does not serve it"
    );
}

#[test]
fn without_a_gateway_here_load_balancers_are_somebody_elses() {
    let mut world = with_vip_port(NEW);
    let group = world.group("group", &["neutron-pub", "neutron-ten"]);
    row(&mut world).ls_datapath_group = group;
    world.bind("cr-lrp-gw1", "ch-b");
    assert_eq!(world.state(), [""; 0]);
    assert!(!world.decide().value.has_gateway);
}

/// Port forwarding is a load balancer on the router whose address is a floating IP.
#[test]
fn port_forwarding() {
    let mut world = World::new();
    world.bind("cr-lrp-gw1", "ch-a");
    let group = world.group("routers", &["neutron-r1"]);
    world.balancer("pf-floatingip-1-tcp", &["172.24.4.50:2022", "[fd00::1]:22"]).lr_datapath_group = group;
    assert_eq!(vip(&world), VIP, "and nothing of the address that is not of the network");
    assert!(!world.state().iter().any(|line| line.contains("fd00::1")));
}

#[test]
fn scenario_38_opting_out_of_an_address() {
    let mut world = with_vip_port(NEW);
    let group = world.group("group", &["neutron-pub", "neutron-ten"]);
    row(&mut world).ls_datapath_group = group;
    world.external_id("vip-port", "meridian:advertise", "false");
    assert_eq!(vip(&world), [""; 0]);
}
