//! Acceptance scenarios 14 to 18, 20, 21, 25, 36 and 38: subnets behind gateways, and what is in them.

use super::world::{ROUTER_MAC, World, options};
use crate::bgp::config::Advertisement;

const NOTHING: [&str; 0] = [];

/// The gateway here, vm2 in its subnet on the other chassis.
fn tenants() -> World {
    let mut world = World::new().tenants();
    world
        .vif("vm2", "neutron-ten", &["fa:16:3e:00:00:02 10.1.0.5"])
        .bind("vm2", "ch-b")
        .bind("cr-lrp-gw1", "ch-a");
    world
}

/// The state of tenants: everything except the gateway's own.
fn inner(world: &World) -> Vec<String> {
    let gateway = |line: &String| {
        line.split(' ')
            .nth(1)
            .is_some_and(|what| what.starts_with("172.24.4.221") || what.starts_with("2001:db8::"))
    };
    world.state().into_iter().filter(|line| !gateway(line)).collect()
}

const SUBNET1: [&str; 2] = ["R 10.1.0.0/24 br-ex", "T 10.1.0.0/24 via 172.24.4.221 dev br-ex"];

fn subnet1_with(addresses: &[&str]) -> Vec<String> {
    let announced = addresses.iter().map(|ip| format!("A {ip}"));
    announced.chain(SUBNET1.map(String::from)).collect()
}

#[test]
fn scenario_14_subnet_and_vm() {
    let mut world = tenants();
    assert_eq!(inner(&world), subnet1_with(&["10.1.0.5"]));
    world.unbind("vm2");
    assert_eq!(inner(&world), SUBNET1, "nothing is at the port");
    world.bind("vm2", "ch-b").settings.insert("system-id".into(), "ch-b".into());
    assert_eq!(world.state(), NOTHING, "the VM's own chassis has nothing to do with it");
}

#[test]
fn tenant_ports_need_not_be_up() {
    let mut world = tenants();
    world.port("vm2").up = Some(false);
    assert_eq!(inner(&world), subnet1_with(&["10.1.0.5"]));
}

#[test]
fn scenario_15_subnet_attached_in_two_steps() {
    let mut world = tenants();
    world.switch("neutron-ten2");
    world.inner("sub2", "neutron-r1", "neutron-ten2", "fa:16:3e:aa:00:03 10.2.0.1/24");
    let sub2 = world.ports.remove("sub2").unwrap();
    world.port("lrp-sub2").options = options([]);
    assert_eq!(inner(&world), subnet1_with(&["10.1.0.5"]));
    world.port("lrp-sub2").options = options([("peer", "sub2")]);
    assert_eq!(inner(&world), subnet1_with(&["10.1.0.5"]), "the peer is named, and not there yet");
    world.ports.insert("sub2".into(), sub2);
    let state = inner(&world);
    assert!(state.contains(&"R 10.2.0.0/24 br-ex".to_owned()), "{state:?}");
    assert!(state.contains(&"T 10.2.0.0/24 via 172.24.4.221 dev br-ex".to_owned()), "{state:?}");
}

#[test]
fn scenario_16_second_prefix_of_a_router_port() {
    let mut world = tenants();
    world.inner("sub1", "neutron-r1", "neutron-ten", "fa:16:3e:aa:00:02 10.1.0.1/24 fd00:1::1/64");
    let v6 = ["R fd00:1::/64 br-ex", "T fd00:1::/64 via 2001:db8::221 dev br-ex"];
    let state = inner(&world);
    for line in v6.iter().chain(&SUBNET1) {
        assert!(state.iter().any(|have| have == line), "{line} in {state:?}");
    }
    world.inner("sub1", "neutron-r1", "neutron-ten", "fa:16:3e:aa:00:02 fd00:1::1/64");
    assert_eq!(inner(&world), v6);
}

#[test]
fn scenario_17_subnet_detached_and_router_deleted() {
    let mut world = tenants();
    world.switch("neutron-ten2");
    world.inner("sub2", "neutron-r1", "neutron-ten2", "fa:16:3e:aa:00:03 10.2.0.1/24");
    world.vif("vm4", "neutron-ten2", &["fa:16:3e:00:00:04 10.2.0.4"]).bind("vm4", "ch-b").settle();
    world.ports.remove("lrp-sub2");
    assert_eq!(inner(&world), subnet1_with(&["10.1.0.5"]));
    world.settle();
    let ours = |name: &String| name.starts_with("lrp-") || name.starts_with("cr-lrp-");
    world.ports.retain(|name, _| !ours(name));
    world.datapaths.remove("neutron-r1");
    assert_eq!(world.state(), NOTHING);
}

/// Scenario 18: a gateway with everything behind it, on either chassis.
#[test]
fn scenario_18_failover_moves_all_of_it() {
    let mut world = tenants();
    world.switch("neutron-ten2");
    world.inner("sub2", "neutron-r1", "neutron-ten2", "fa:16:3e:aa:00:03 10.2.0.1/24");
    for n in 0..50 {
        let (name, switch) = (format!("t{n}"), if n % 2 == 0 { "neutron-ten" } else { "neutron-ten2" });
        let ip = if n % 2 == 0 { format!("10.1.0.{}", n + 100) } else { format!("10.2.0.{}", n + 100) };
        world.vif(&name, switch, &[&format!("fa:16:3e:01:00:{n:02x} {ip}")]).bind(&name, "ch-b");
    }
    world.nat("gw1", &["fa:16:3e:aa:00:01 172.24.4.198 is_chassis_resident(\"cr-lrp-gw1\")"]);
    let group = world.group("g", &["neutron-pub", "neutron-ten"]);
    world.balancer("lb", &["172.24.4.50:80"]).ls_datapath_group = group;
    world.vif("vm1", "neutron-pub", &["fa:16:3e:00:00:01 172.24.4.10"]).bind("vm1", "ch-a");
    let announced = |world: &World| world.state().iter().filter(|line| line.starts_with("A ")).count();
    let mine = ["A 172.24.4.10", "R 172.24.4.10 br-ex", "T 172.24.4.10 dev br-ex"];
    // The gateway's two, the floating IP, the load balancer, vm1, vm2 and the 50.
    assert_eq!(announced(&world), 2 + 1 + 1 + 1 + 1 + 50);
    for _ in 0..10 {
        world.bind("cr-lrp-gw1", "ch-b").settle();
        assert_eq!(world.state(), mine);
        world.bind("cr-lrp-gw1", "ch-a").settle();
    }
    assert_eq!(announced(&world), 56);
    world.bind("cr-lrp-gw1", "ch-b").settings.insert("system-id".into(), "ch-b".into());
    assert_eq!(announced(&world), 55, "all but vm1, on the other chassis");
}

#[test]
fn scenario_20_globally_routed_only() {
    let mut world = World::new().with(|config| config.expose_ipv6_gua_tenant_networks = true);
    let mac = "fa:16:3e:aa:00:02 10.1.0.1/24 fd00:1::1/64 2620:0:860::1/64 2001:db8:5::1/64";
    world.inner("sub1", "neutron-r1", "neutron-ten", mac);
    world.vif("vm2", "neutron-ten", &["fa:16:3e:00:00:02 10.1.0.5 fd00:1::5 2620:0:860::5"]);
    world.bind("vm2", "ch-b").bind("cr-lrp-gw1", "ch-a");
    assert_eq!(
        inner(&world),
        ["A 2620:0:860::5", "R 2620:0:860::/64 br-ex", "T 2620:0:860::/64 via 2001:db8::221 dev br-ex"]
    );
    world.config.expose_tenant_networks = true;
    assert!(inner(&world).contains(&"A 10.1.0.5".to_owned()), "the other flag wins");
}

#[test]
fn scenario_21_address_scopes() {
    let mut world = tenants().with(|config| config.address_scopes = ["S1".into()].into());
    for (name, switch, net) in
        [("sub2", "neutron-ten2", "10.2.0.1/24"), ("sub3", "neutron-ten3", "10.3.0.1/24")]
    {
        world.switch(switch).inner(name, "neutron-r1", switch, &format!("fa:16:3e:aa:00:03 {net}"));
    }
    world.vif("vm3", "neutron-ten2", &["fa:16:3e:00:00:03 10.2.0.5"]).bind("vm3", "ch-b");
    world.vif("vm4", "neutron-ten", &["fa:16:3e:00:00:04 10.1.0.6"]).bind("vm4", "ch-b");
    assert_eq!(inner(&world), NOTHING, "without a scope nothing is");
    let scope = "neutron:subnet_pool_addr_scope4";
    world.external_id("sub1", scope, "S1").external_id("sub2", scope, "S2");
    world.external_id("vm2", scope, "S1").external_id("vm3", scope, "S2");
    assert_eq!(inner(&world), subnet1_with(&["10.1.0.5"]), "and vm4, which has none, is not");
}

/// Scenario 25: a load balancer's address on a tenant network, and a floating IP of it.
#[test]
fn scenario_25_tenant_load_balancer() {
    let mut world = tenants();
    world.vif("ovn-lb-vip", "neutron-ten", &[]);
    world.external_id("ovn-lb-vip", "neutron:port_name", "ovn-lb-vip-11111111-2222-3333-4444-555555555555");
    world.external_id("ovn-lb-vip", "neutron:cidrs", "10.1.0.50/24");
    world.nat("gw1", &["fa:16:3e:aa:00:01 172.24.4.60 is_chassis_resident(\"cr-lrp-gw1\")"]);
    let state = inner(&world);
    for line in ["A 10.1.0.50", "A 172.24.4.60", "R 172.24.4.60 br-ex", "T 172.24.4.60 dev br-ex"] {
        assert!(state.iter().any(|have| have == line), "{line} in {state:?}");
    }
    assert!(!state.iter().any(|line| line.starts_with("R 10.1.0.50") || line.starts_with("T 10.1.0.50")));
}

/// Later clouds fill in the VIP port's addresses and mark it by its owner; others use plain ports.
#[test]
fn ports_of_tenant_load_balancers_in_all_shapes() {
    let with = |change: &dyn Fn(&mut World)| {
        let mut world = tenants();
        world.vif("vip", "neutron-ten", &["fa:16:3e:00:00:50 10.1.0.50"]);
        change(&mut world);
        inner(&world).contains(&"A 10.1.0.50".to_owned())
    };
    assert!(!with(&|_| ()), "a port without anything at it");
    assert!(with(&|world| {
        world.external_id("vip", "neutron:device_owner", "ovn-lb:vip");
    }));
    assert!(with(&|world| {
        world.balancer("lb", &["10.1.0.50:443"]);
    }));
    assert!(with(&|world| {
        world.external_id(
            "vip",
            "neutron:port_name",
            "ovn-lb-vip-additional-1-11111111-2222-3333-4444-555555555555",
        );
    }));
}

#[test]
fn virtual_tenant_ports_are_announced_wherever_they_are() {
    let mut world = tenants();
    world.virtual_port("vrrp", "neutron-ten", &["fa:16:3e:00:00:70 10.1.0.70"]);
    assert_eq!(inner(&world), subnet1_with(&["10.1.0.5", "10.1.0.70"]));
}

#[test]
fn scenario_36_subnets_announced_as_such() {
    let mut world = tenants().with(|config| config.advertisement = Advertisement::Subnet);
    let mut expected = SUBNET1.map(String::from).to_vec();
    expected.push("T 10.1.0.0/24 via 172.24.4.221 dev bgp-nic table 10".into());
    assert_eq!(inner(&world), expected);
    let frr = world.plane().frr.unwrap();
    let words: Vec<_> = frr.redistribute.iter().map(|what| what.as_str()).collect();
    assert_eq!(words, ["connected", "kernel"]);
    world.config.advertisement = Advertisement::Host;
    assert_eq!(inner(&world), subnet1_with(&["10.1.0.5"]));
}

#[test]
fn scenario_38_opting_out_of_tenant_exposure() {
    let mut world = tenants();
    world.external_id("vm2", "meridian:advertise", "false");
    assert_eq!(inner(&world), SUBNET1);
    world.external_id("vm2", "meridian:advertise", "");
    assert_eq!(
        world.external_id("sub1", "meridian:advertise", "false").state().len(),
        10,
        "the gateway alone is left"
    );
}

/// Tenant networks need a way of their family, and are not the gateway's own network.
#[test]
fn subnets_without_a_next_hop_are_left_out() {
    let mut world = tenants();
    world.gateway("gw1", "neutron-r1", "neutron-pub", &format!("{ROUTER_MAC} 172.24.4.221/24"));
    world.bind("cr-lrp-gw1", "ch-a");
    world.inner("sub1", "neutron-r1", "neutron-ten", "fa:16:3e:aa:00:02 fd00:1::1/64 172.24.0.1/16");
    assert_eq!(inner(&world), NOTHING);
}

/// A VLAN network of a tenant is a provider network too; its ports are exposed where they are bound.
#[test]
fn switches_with_a_physical_network_are_no_tenants() {
    let mut world = tenants();
    world.localnet("provnet-t", "neutron-ten", "physnet9", Some(7));
    assert_eq!(inner(&world), NOTHING);
}

#[test]
fn an_aggregate_rule_instead_of_many() {
    let world = tenants().with(|config| config.rule_mode = crate::bgp::config::RuleMode::Aggregate);
    let rules: Vec<String> = world.state().into_iter().filter(|line| line.starts_with("R ")).collect();
    assert_eq!(rules, ["R all V4 br-ex", "R all V6 br-ex"]);
    assert!(world.state().contains(&"T 10.1.0.0/24 via 172.24.4.221 dev br-ex".to_owned()));
}
