//! Reserved prefixes: the node's own network is neither wired nor announced, whichever row has it; everything else continues.

use std::net::IpAddr;

use ipnet::IpNet;
use ovn::sb::Encap;
use ovn::text::Text;

use super::world::World;

/// A node with an underlay, a management network and an address on its provider bridge, and an instance on the provider network.
fn node() -> World {
    let mut world = World::new().tenants();
    for (dev, net) in [
        ("eth0", "10.10.0.1/24"),
        ("mgmt", "192.168.24.5/24"),
        ("mgmt", "2001:db8:a::5/64"),
        ("lo", "127.0.0.1/8"),
        ("lo", "172.30.1.1/32"),
        ("br-ex", "172.24.4.2/24"),
        ("br-ex", "169.254.1.1/32"),
        ("br-ex", "fd53:d91e:400:7f17::1:1/128"),
    ] {
        let nets = world.surroundings.addresses.entry(dev.into()).or_default();
        nets.insert(net.parse::<IpNet>().unwrap());
    }
    let ip = |text: &str| text.parse::<IpAddr>().unwrap();
    world.surroundings.gateways.insert(ip("192.168.24.1"));
    world.surroundings.neighbours.insert(ip("100.64.1.0"));
    world.databases.insert(ip("198.51.100.7"));
    world.settings.insert("ovn-encap-ip".into(), "10.10.0.1,10.11.0.1".into());
    let encap = Encap { ip: Text::new("10.20.0.2"), chassis_name: "ch-b".into(), ..Default::default() };
    world.encaps.insert("e-b".into(), encap);
    world.tunnels.push("10.21.0.3");
    world.config.reserved_prefixes.insert("203.0.113.0/24".parse().unwrap());
    world.vif("vm1", "neutron-pub", &["fa:16:3e:00:00:01 172.24.4.10"]).bind("vm1", "ch-a");
    world.bind("cr-lrp-gw1", "ch-a");
    world
}

/// The refused addresses of a world. Checks that the desired state has none of them.
fn refused(world: &World) -> Vec<String> {
    let problems = world.decide().problems;
    assert!(problems.iter().all(|problem| problem.code == "reserved-prefix"), "{problems:?}");
    problems.iter().map(|problem| format!("{}: {}", problem.object, problem.message)).collect()
}

#[test]
fn subnets_of_tenants() {
    for (subnet, reason) in [
        ("10.10.0.9/24", Some("10.10.0.0/24 is the network that this node is connected to on eth0")),
        ("10.10.0.129/25", Some("10.10.0.0/24 is the network")),
        ("10.0.0.1/8", Some("10.10.0.0/24 is the network")),
        ("192.168.0.1/16", Some("192.168.24.0/24 is the network that this node is connected to on mgmt")),
        ("172.30.0.1/16", Some("172.30.1.1/32 is this node's own address on lo")),
        ("172.24.4.1/30", Some("172.24.4.2/32 is this node's own address on br-ex")),
        ("100.64.0.1/10", Some("100.64.1.0/32 is a BGP neighbour of this node")),
        ("198.51.100.1/24", Some("198.51.100.7/32 is a server of OVN's database")),
        ("10.11.0.1/24", Some("10.11.0.1/32 is a tunnel endpoint of OVN")),
        ("10.20.0.1/24", Some("10.20.0.2/32 is a tunnel endpoint of OVN")),
        ("10.21.0.1/24", Some("10.21.0.3/32 is a tunnel endpoint of OVN")),
        ("203.0.113.65/26", Some("203.0.113.0/24 is listed in reserved_prefixes")),
        ("0.0.0.1/0", Some("0.0.0.0/8 is")),
        ("127.0.0.1/8", Some("127.0.0.0/8 is")),
        ("224.0.0.1/4", Some("224.0.0.0/4 is multicast addresses")),
        ("240.0.0.1/4", Some("240.0.0.0/4 is")),
        ("169.254.7.1/24", Some("169.254.0.0/16 is link-local addresses")),
        ("2001:db8:a::1/64", Some("2001:db8:a::/64 is the network that this node is connected to on mgmt")),
        ("::ffff:10.9.0.1/120", Some("::ffff:0.0.0.0/96 is IPv4-mapped addresses")),
        ("64:ff9b::1/96", Some("64:ff9b::/96 is addresses that NAT64 translates")),
        ("10.10.1.1/24", None),
        ("10.12.0.1/24", None),
        ("fd00:5::1/64", None),
    ] {
        let mut world = node();
        let before = world.state();
        world.inner("evil", "neutron-r1", "neutron-evil", &format!("fa:16:3e:aa:00:09 {subnet}"));
        world.switch("neutron-evil");
        world.vif("vm9", "neutron-evil", &[]).bind("vm9", "ch-b");
        let host = subnet.parse::<IpNet>().unwrap();
        let inside = host.hosts().take(41).last().unwrap();
        world.port("vm9").mac = [Text::new(&format!("fa:16:3e:00:00:09 {inside}"))].into();
        match reason {
            Some(reason) => {
                let told = refused(&world);
                let object = format!("subnet/{}", host.trunc());
                assert!(told.len() == 1 && told[0].starts_with(&object), "{subnet}: {told:?}");
                assert!(
                    told[0].contains("router port lrp-evil has it") && told[0].contains(reason),
                    "{told:?}"
                );
                assert_eq!(world.state(), before, "{subnet}: all else is as it was");
            }
            None => {
                assert_eq!(refused(&world), [""; 0], "{subnet}");
                assert!(world.state().contains(&format!("A {inside}")), "{subnet}");
            }
        }
    }
}

#[test]
fn addresses_on_provider_networks() {
    for (address, reason) in [
        ("172.24.4.2", Some("port vm9 has it, and 172.24.4.2/32 is this node's own address on br-ex")),
        ("10.10.0.77", Some("10.10.0.0/24 is the network that this node is connected to on eth0")),
        ("192.168.24.1", Some("192.168.24.1/32 is the next hop of this node's default route")),
        ("100.64.1.0", Some("a BGP neighbour")),
        ("10.20.0.2", Some("a tunnel endpoint")),
        ("203.0.113.3", Some("listed in reserved_prefixes")),
        ("127.0.0.9", Some("loopback")),
        ("255.255.255.255", Some("broadcast")),
        ("::ffff:10.9.0.5", Some("IPv4-mapped addresses")),
        ("::10.9.0.5", Some("IPv4-compatible")),
        ("ff05::1", Some("multicast")),
        // The provider device's own network is where instances are, and what is of the link is nobody's business.
        ("172.24.4.12", None),
        ("fe80::1", None),
    ] {
        let mut world = node();
        let before = world.state();
        world.vif("vm9", "neutron-pub", &[&format!("fa:16:3e:00:00:09 {address}")]).bind("vm9", "ch-a");
        let told = refused(&world);
        match reason {
            Some(reason) => {
                assert!(
                    told.len() == 1
                        && told[0].starts_with(&format!("address/{}: ", address.parse::<IpAddr>().unwrap())),
                    "{told:?}"
                );
                assert!(told[0].contains(reason.trim_start_matches("port ")), "{told:?}");
                assert_eq!(world.state(), before, "{address}: all else is as it was");
            }
            None => assert_eq!(told, [""; 0], "{address}"),
        }
    }
}

#[test]
fn what_becomes_reserved_goes_though_all_is_carried() {
    let mut world = node();
    world.vif("vm9", "neutron-pub", &["fa:16:3e:00:00:09 172.24.4.77"]).bind("vm9", "ch-a");
    world.settle();
    assert!(world.state().contains(&"A 172.24.4.77".to_owned()));
    assert!(world.state().iter().any(|line| line.contains("10.1.0.0/24")));
    for net in ["172.24.4.77/32", "10.1.0.9/24"] {
        world.surroundings.addresses.entry("eth9".into()).or_default().insert(net.parse().unwrap());
    }
    world.chassis.remove("ch-a");
    let state = world.state();
    assert!(state.contains(&"A 172.24.4.10".to_owned()), "all else is carried: {state:?}");
    assert!(!state.iter().any(|line| line.contains("172.24.4.77") || line.contains("10.1.0.")), "{state:?}");
}

#[test]
fn a_refused_subnet_keeps_nobody_out() {
    let mut world = node();
    // By name it comes first, and it has the addresses of the good one as well.
    world.inner("a-evil", "neutron-r1", "neutron-evil", "fa:16:3e:aa:00:09 10.0.0.1/8");
    world.switch("neutron-evil");
    world.vif("vm2", "neutron-ten", &["fa:16:3e:00:00:02 10.1.0.5"]).bind("vm2", "ch-b");
    assert_eq!(refused(&world).len(), 1);
    assert!(world.state().contains(&"A 10.1.0.5".to_owned()));
}
