//! Acceptance scenarios 26 to 28: VLANs, bridges that come and go, patch ports that come late; and conflicts between networks.

use super::world::World;

fn with_vlan() -> World {
    let mut world = World::new();
    world.switch("neutron-vlan").localnet("provnet-2", "neutron-vlan", "physnet1", Some(100));
    world
}

fn added(world: &World) -> Vec<String> {
    let before = World::new().base();
    world.base().into_iter().filter(|line| !before.contains(line)).collect()
}

#[test]
fn scenario_26_vlan_network() {
    let mut world = with_vlan();
    assert_eq!(
        added(&world),
        [
            "br-ex.100 vlan 100 of br-ex",
            "169.254.1.100/32 on br-ex.100",
            "fd53:d91e:400:7f17::1:64/128 on br-ex.100",
            "net/ipv4/conf/br-ex.100/proxy_arp",
            "net/ipv6/conf/br-ex.100/proxy_ndp",
        ]
    );
    world.vif("vm7", "neutron-vlan", &["fa:16:3e:00:00:07 192.0.2.7"]).bind("vm7", "ch-a");
    assert_eq!(world.state(), ["A 192.0.2.7", "R 192.0.2.7 br-ex", "T 192.0.2.7 dev br-ex.100"]);
    world.router("neutron-r7");
    world
        .gateway("gw7", "neutron-r7", "neutron-vlan", "fa:16:3e:77:00:01 192.0.2.1/24")
        .bind("cr-lrp-gw7", "ch-a");
    assert!(world.state().contains(&"N 192.0.2.1 fa:16:3e:77:00:01 br-ex.100".to_owned()));
    // The network goes; the flat one beside it is as it was.
    world.vif("vm1", "neutron-pub", &["fa:16:3e:00:00:01 172.24.4.10"]).bind("vm1", "ch-a").settle();
    world.ports.retain(|name, _| !["provnet-2", "vm7", "gw7"].contains(&name.as_str()));
    assert_eq!(added(&world), [""; 0]);
    assert_eq!(world.state(), ["A 172.24.4.10", "R 172.24.4.10 br-ex", "T 172.24.4.10 dev br-ex"]);
}

#[test]
fn scenario_26_names_of_devices_fit_the_kernel() {
    use crate::bgp::desired::device_name;
    assert_eq!(device_name("br-provider", Some(1001)), "br-provide.1001");
    assert_eq!(device_name("br-ex", Some(100)), "br-ex.100");
    assert_eq!(device_name("br-provider", None), "br-provider");
    let mut world = World::new();
    for (bridge, physnet) in [("br-provider-a", "pa"), ("br-provider-b", "pb")] {
        world.bridges.insert(bridge.into(), Some("02:00:00:00:ee:02".into()));
        let switch = format!("net-{physnet}");
        world.switch(&switch).localnet(&format!("localnet-{physnet}"), &switch, physnet, Some(5));
    }
    world.settings.insert("ovn-bridge-mappings".into(), "pa:br-provider-a,pb:br-provider-b".into());
    assert_eq!(world.problems(), ["port/localnet-pb device-name-taken"]);
    assert!(added(&world).contains(&"br-provide.5 vlan 5 of br-provider-a".to_owned()));
}

#[test]
fn scenario_27_bridges_that_are_not_there() {
    let mut world = World::new();
    world.settings.insert("ovn-bridge-mappings".into(), " physnet1:br-ex ,bad,physnet2:br-x".into());
    assert_eq!(
        world.problems(),
        ["setting/ovn-bridge-mappings bad-bridge-mapping", "device/br-x no-such-bridge"]
    );
    assert_eq!(added(&world), [""; 0], "br-ex works");
    world.bridges.insert("br-x".into(), Some("02:00:00:00:ee:02".into()));
    assert!(added(&world).contains(&"169.254.2.2/32 on br-x".to_owned()));
    world.switch("other").localnet("provnet-x", "other", "physnet2", None);
    world.vif("vmx", "other", &["fa:16:3e:00:00:08 198.51.100.8"]).bind("vmx", "ch-a");
    assert_eq!(world.state(), ["A 198.51.100.8", "R 198.51.100.8 br-x", "T 198.51.100.8 dev br-x"]);
    // The mapping changes while we run.
    world.settings.insert("ovn-bridge-mappings".into(), "physnet2:br-x".into());
    assert!(!world.base().iter().any(|line| line.contains("br-ex")));
    world.settings.insert("ovn-bridge-mappings-ch-a".into(), "physnet1:br-ex".into());
    assert_eq!(world.base(), World::new().base(), "a setting for this chassis outranks the general one");
}

#[test]
fn scenario_28_late_patch_ports() {
    let mut world = World::new();
    world.vif("vm1", "neutron-pub", &["fa:16:3e:00:00:01 172.24.4.10"]).bind("vm1", "ch-a");
    let state = world.state();
    let flows =
        |world: &World| world.base().into_iter().filter(|line| line.starts_with('F')).collect::<Vec<_>>();
    world.patches.clear();
    assert_eq!((flows(&world), world.state()), (vec![], state.clone()), "the rest is there all the same");
    assert!(world.plane().flows.contains_key("br-ex"), "so that stale flows go");
    for (ofport, expected) in [(None, None), (Some(-1), None), (Some(7), Some(7)), (Some(9), Some(9))] {
        world.patches.insert("provnet-1".into(), ("br-ex".into(), ofport));
        let expected: Vec<_> =
            expected.iter().map(|port| format!("F{port} br-ex 02:00:00:00:ee:01 br-ex")).collect();
        assert_eq!((flows(&world), world.problems()), (expected, vec![]), "{ofport:?}");
    }
}

#[test]
fn a_localnet_of_a_network_that_this_node_lacks() {
    let mut world = World::new();
    world.switch("far").localnet("provnet-9", "far", "physnet9", None);
    world.vif("vm9", "far", &["fa:16:3e:00:00:09 203.0.113.9"]).bind("vm9", "ch-a");
    assert_eq!((world.state(), world.problems()), (vec![], vec![]));
}

/// D9: one address on two bridges. The one that is there is kept.
#[test]
fn one_address_on_two_bridges() {
    let mut world = World::new();
    world.settings.insert("ovn-bridge-mappings".into(), "physnet1:br-ex,physnet2:br-x".into());
    world.bridges.insert("br-x".into(), Some("02:00:00:00:ee:02".into()));
    world.switch("other").localnet("provnet-x", "other", "physnet2", None);
    world.vif("vm1", "neutron-pub", &["fa:16:3e:00:00:01 172.24.4.10"]);
    world.vif("vmx", "other", &["fa:16:3e:00:00:08 172.24.4.10"]);
    world.bind("vm1", "ch-a").bind("vmx", "ch-a");
    assert_eq!(world.problems(), ["address/172.24.4.10 address-conflict"]);
    assert_eq!(world.state()[1..], ["R 172.24.4.10 br-ex", "T 172.24.4.10 dev br-ex"], "the first bridge's");
    world.unbind("vm1").settle();
    world.bind("vm1", "ch-a");
    assert_eq!(world.state()[1..], ["R 172.24.4.10 br-x", "T 172.24.4.10 dev br-x"], "the one that is there");
    let problem = world.decide().problems.remove(0);
    assert_eq!(
        problem.message,
        "it is wanted on br-x by vmx and on br-ex by vm1; it is exposed on the former only. Give one of them another address"
    );
}

/// Two routers with the same subnet behind them: the kernel cannot tell them apart.
#[test]
fn overlapping_subnets() {
    let mut world = World::new().tenants();
    world.router("neutron-r2").switch("neutron-ten2");
    world.gateway("gw2", "neutron-r2", "neutron-pub", "fa:16:3e:bb:00:01 172.24.4.222/24");
    world.inner("sub2", "neutron-r2", "neutron-ten2", "fa:16:3e:bb:00:02 10.1.0.1/25");
    world.vif("vm2", "neutron-ten", &["fa:16:3e:00:00:02 10.1.0.5"]).bind("vm2", "ch-b");
    world.vif("vm3", "neutron-ten2", &["fa:16:3e:00:00:03 10.1.0.6"]).bind("vm3", "ch-b");
    world.bind("cr-lrp-gw1", "ch-a").bind("cr-lrp-gw2", "ch-a");
    assert_eq!(world.problems(), ["subnet/10.1.0.0/25 overlapping-subnet"]);
    let tenant = |world: &World| {
        let state = world.state().into_iter();
        state.filter(|line| line.contains("10.1.0.")).collect::<Vec<_>>()
    };
    assert_eq!(
        tenant(&world),
        ["A 10.1.0.5", "R 10.1.0.0/24 br-ex", "T 10.1.0.0/24 via 172.24.4.221 dev br-ex"]
    );
    // Had the other been there first, it would have stayed.
    world.bind("cr-lrp-gw1", "ch-b").settle();
    world.bind("cr-lrp-gw1", "ch-a");
    assert_eq!(world.problems(), ["subnet/10.1.0.0/24 overlapping-subnet"]);
    assert_eq!(
        tenant(&world),
        ["A 10.1.0.6", "R 10.1.0.0/25 br-ex", "T 10.1.0.0/25 via 172.24.4.222 dev br-ex"]
    );
}

#[test]
fn further_ndp_proxies() {
    let mut world = with_vlan();
    world.config.ndp_proxy_extra = crate::bgp::config::Config::from_pairs([crate::bgp::config::Pair {
        section: "DEFAULT".into(),
        name: "ndp_proxy_extra".into(),
        value: "2001:db8::1@physnet1,2001:db8:9::1@physnet9".into(),
        place: "here".into(),
    }])
    .unwrap()
    .config
    .ndp_proxy_extra;
    assert_eq!(world.state(), ["Y 2001:db8::1 br-ex", "Y 2001:db8::1 br-ex.100"]);
}

/// Two bridges; on the first a gateway with a subnet behind it, in the range of the other's network.
fn subnet_and_another_bridge() -> World {
    let mut world = World::new().tenants();
    world.settings.insert("ovn-bridge-mappings".into(), "physnet1:br-ex,physnet2:br-x".into());
    world.bridges.insert("br-x".into(), Some("02:00:00:00:ee:02".into()));
    world.switch("other").localnet("provnet-x", "other", "physnet2", None);
    world.vif("vm2", "neutron-ten", &["fa:16:3e:00:00:02 10.1.0.5"]).bind("vm2", "ch-b");
    world.vif("vmx", "other", &["fa:16:3e:00:00:08 10.1.0.9"]);
    world
}

fn about(world: &World, net: &str) -> Vec<String> {
    world.state().into_iter().filter(|line| line.contains(net)).collect()
}

/// D9: rules of both bridges lead to such an address, and which is asked first is chance.
#[test]
fn an_address_within_the_subnet_of_another_bridge() {
    let subnet = ["A 10.1.0.5", "R 10.1.0.0/24 br-ex", "T 10.1.0.0/24 via 172.24.4.221 dev br-ex"];
    let host = ["A 10.1.0.9", "R 10.1.0.9 br-x", "T 10.1.0.9 dev br-x"];
    let mut world = subnet_and_another_bridge();
    world.bind("cr-lrp-gw1", "ch-a").settle();
    world.bind("vmx", "ch-a");
    for _ in 0..2 {
        assert_eq!(world.problems(), ["address/10.1.0.9 address-conflict"]);
        assert_eq!(about(&world, "10.1.0."), subnet, "the subnet was there");
        world.settle();
    }
    world.unbind("cr-lrp-gw1");
    assert_eq!((world.problems(), about(&world, "10.1.0.")), (vec![], host.map(String::from).to_vec()));
    world.settle();
    world.bind("cr-lrp-gw1", "ch-a");
    for _ in 0..2 {
        assert_eq!(world.problems(), ["subnet/10.1.0.0/24 overlapping-subnet"]);
        assert_eq!(about(&world, "10.1.0."), host, "the address was there");
        world.settle();
    }
    let message = world.decide().problems.remove(0).message;
    assert!(
        message.starts_with(
            "router port lrp-sub1 has it on br-ex, and 10.1.0.9 of it is wanted on br-x by vmx;"
        )
    );
    // Where neither was, the bridge that was mapped first counts.
    world.before = Default::default();
    assert_eq!(about(&world, "10.1.0."), subnet);
    world.settings.insert("ovn-bridge-mappings".into(), "physnet2:br-x,physnet1:br-ex".into());
    assert_eq!(about(&world, "10.1.0."), host);
}

/// The same address at a tenant's port and on another bridge, which is a conflict of both kinds.
#[test]
fn one_address_on_a_bridge_and_in_a_subnet_of_another() {
    let mut world = subnet_and_another_bridge();
    world.vif("vmx", "other", &["fa:16:3e:00:00:08 10.1.0.5"]).bind("cr-lrp-gw1", "ch-a").settle();
    let subnet = about(&world, "10.1.0.");
    world.bind("vmx", "ch-a");
    assert_eq!(world.problems(), ["address/10.1.0.5 address-conflict"]);
    assert_eq!(about(&world, "10.1.0."), subnet);
    world.settings.insert("ovn-bridge-mappings".into(), "physnet2:br-x,physnet1:br-ex".into());
    assert_eq!(about(&world, "10.1.0."), subnet, "what is there counts for more than the order");
}

/// On one bridge routes tell them apart: the longer prefix wins.
#[test]
fn an_address_within_a_subnet_of_its_own_bridge_is_no_conflict() {
    let mut world = subnet_and_another_bridge();
    world.vif("vm1", "neutron-pub", &["fa:16:3e:00:00:01 10.1.0.9"]);
    world.bind("vm1", "ch-a").bind("cr-lrp-gw1", "ch-a");
    assert_eq!((world.problems(), about(&world, "10.1.0.9").len()), (vec![], 3));
}

/// Whatever is behind a router goes through its address on the provider network.
#[test]
fn a_gateway_that_loses_its_address_loses_what_is_behind_it() {
    let mut world = subnet_and_another_bridge();
    world.router("neutron-rx").switch("ten-x");
    world.gateway("gwx", "neutron-rx", "other", "fa:16:3e:bb:00:01 172.24.4.221/24");
    world.inner("subx", "neutron-rx", "ten-x", "fa:16:3e:bb:00:02 10.9.0.1/24");
    world.vif("vmy", "ten-x", &["fa:16:3e:00:00:09 10.9.0.9"]).bind("vmy", "ch-b");
    world.bind("cr-lrp-gw1", "ch-a").settle();
    world.bind("cr-lrp-gwx", "ch-a");
    assert_eq!(world.problems(), ["address/172.24.4.221 address-conflict", "subnet/10.9.0.0/24 no-next-hop"]);
    assert_eq!((about(&world, "10.9.0.").len(), about(&world, "10.1.0.").len()), (0, 3));
}
