//! Tests of what is ours.

use super::*;
use crate::kernel::observed::Wire;
use crate::kernel::state::{Hop, Select};

fn address(dev: &str, net: &str) -> Address {
    Address { dev: dev.into(), net: net.parse().unwrap() }
}

fn link(kind: Kind) -> SeenLink {
    SeenLink { index: 1, kind, up: true, master: None }
}

#[test]
fn host_addresses_of_the_announcing_device_are_ours() {
    let own = Own::default();
    for (dev, net, ours) in [
        ("bgp-nic", "172.24.4.10/32", true),
        ("bgp-nic", "2001:db8::1/128", true),
        ("bgp-nic", "172.24.4.10/24", false),
        ("bgp-nic", "fe80::1/128", false),
        ("bgp-nic", "fe80::1/64", false),
        ("lo", "172.24.4.10/32", false),
    ] {
        assert_eq!(own.announces(&address(dev, net)), ours, "{dev} {net}");
    }
}

#[test]
fn rules_need_our_priority_a_bridges_table_and_no_selector_but_ours() {
    let (own, have) = (Own::default(), Observed::default());
    let tables = Tables { current: [("br-ex".into(), 201)].into(), ..Tables::default() };
    let ours = Ours::new(&own, &have, &tables);
    let rule = |select, table, priority| SeenRule { select, table, priority, wire: Wire::default() };
    let to = Some(Select::To("172.24.4.10/32".parse().unwrap()));
    assert!(ours.rule(&rule(to, 201, 32000)));
    assert!(!ours.rule(&rule(None, 201, 32000)), "it asks for what our rules never do");
    assert!(!ours.rule(&rule(to, 201, 100)));
    assert!(!ours.rule(&rule(to, 202, 32000)));
}

#[test]
fn in_the_vrfs_table_only_what_goes_through_the_announcing_device_is_ours() {
    let tables = Tables { current: [("br-ex".into(), 201)].into(), ..Tables::default() };
    let route = |table, dev: &str, protocol| SeenRoute {
        protocol,
        ..SeenRoute::plain(table, "10.1.0.0/24".parse().unwrap(), Hop { dev: dev.into(), via: None })
    };
    const OSPF: u8 = 188;
    for (clear_vrf, table, dev, protocol, is) in [
        (false, 201, "br-ex", protocol::BOOT, true),
        (false, 201, "br-ex.100", protocol::BOOT, true),
        (false, 201, "br-ex", protocol::STATIC, false),
        (false, 201, "eth0", protocol::BOOT, false),
        (false, 201, "eth0", protocol::STATIC, false),
        (false, 202, "br-ex", protocol::BOOT, false),
        (false, 10, "bgp-nic", protocol::BOOT, true),
        (false, 10, "bgp-nic", protocol::STATIC, false),
        (false, 10, "eth1", protocol::BOOT, false),
        (true, 10, "eth1", protocol::BOOT, true),
        (true, 10, "eth1", protocol::STATIC, true),
        (true, 10, "eth1", OSPF, true),
        (true, 11, "eth1", OSPF, false),
        (false, 10, "eth1", OSPF, false),
        (true, 10, "eth1", protocol::OVN, false),
        (true, 10, "eth1", protocol::BGP, false),
        (true, 10, "eth1", protocol::KERNEL, false),
    ] {
        let own = Own { clear_vrf, ..Own::default() };
        let route = route(table, dev, protocol);
        let have = Observed { found: [route.clone()].into_iter().collect(), ..Observed::default() };
        let ours = Ours::new(&own, &have, &tables);
        assert_eq!(ours.route(&route), is, "{clear_vrf} {table} {dev} {protocol}");
    }
}

#[test]
fn neighbours_and_proxies_need_a_route_of_ours_or_this_process() {
    let (own, mut have) = (Own::default(), Observed::default());
    let tables = Tables { current: [("br-ex".into(), 201)].into(), ..Tables::default() };
    let hop = Hop { dev: "br-ex".into(), via: None };
    for net in ["172.24.4.100/32", "2001:db8:24::100/128"] {
        have.routes.insert(SeenRoute::plain(201, net.parse().unwrap(), hop.clone()));
    }
    have.wrote.neighbours.insert(("br-ex".into(), "172.24.4.7".parse().unwrap()));
    have.wrote.proxies.insert(("br-ex".into(), "2001:db8:24::7".parse().unwrap()));
    let ours = Ours::new(&own, &have, &tables);
    for (dev, ip, is) in [
        ("br-ex", "172.24.4.100", true),
        ("br-ex", "172.24.4.7", true),
        ("br-ex", "172.24.4.250", false),
        ("eth0", "172.24.4.100", false),
    ] {
        assert_eq!(ours.neighbour(&dev.into(), ip.parse().unwrap()), is, "{dev} {ip}");
    }
    for (dev, ip, is) in [
        ("br-ex", "2001:db8:24::100", true),
        ("br-ex", "2001:db8:24::", true),
        ("br-ex", "2001:db8:24::7", true),
        ("br-ex", "2001:db8:24::1", false),
        ("br-ex", "2001:db8:25::", false),
        ("eth0", "2001:db8:24::100", false),
    ] {
        assert_eq!(ours.proxy(&dev.into(), ip.parse().unwrap()), is, "{dev} {ip}");
    }
}

#[test]
fn what_is_cleared_was_there_before_us_and_does_not_lead_to_the_node() {
    let (own, tables) = (Own { clear_vrf: true, ..Own::default() }, Tables::default());
    let hop = Hop { dev: "eth1".into(), via: None };
    let left = SeenRoute::plain(10, "10.1.0.0/24".parse().unwrap(), hop.clone());
    let later = SeenRoute::plain(10, "10.2.0.0/24".parse().unwrap(), hop);
    let local = SeenRoute { wire: Wire([2, 24, 0, 0, 10, 3, 254, 2].as_slice().into()), ..left.clone() };
    let found = [left.clone(), local.clone()].into_iter().collect();
    let have = Observed { found, ..Observed::default() };
    let ours = Ours::new(&own, &have, &tables);
    assert!(ours.route(&left) && !ours.route(&later) && !ours.route(&local));
}

#[test]
fn a_vlan_device_is_ours_by_parent_name_and_address_and_a_port_by_its_bridge() {
    let own = Own::default();
    let tables = Tables { current: [("br-ex".into(), 201)].into(), ..Tables::default() };
    let vlan = |parent: &str| link(Kind::Vlan { parent: Some(parent.into()), tag: 100 });
    let mut have = Observed::default();
    have.links.extend([(Dev::new("br-ex.100"), vlan("br-ex")), ("eth0.100".into(), vlan("eth0"))]);
    let is = |have: &Observed, dev: &str| {
        let dev = Dev::new(dev);
        Ours::new(&own, have, &tables).link(&dev, &have.links[&dev])
    };
    assert!(!is(&have, "br-ex.100"), "an administrator's");
    have.addresses
        .extend([address("br-ex.100", "169.254.1.100/32"), address("eth0.100", "169.254.1.100/32")]);
    assert!(is(&have, "br-ex.100") && !is(&have, "eth0.100"));
    let ours = Ours::new(&own, &have, &tables);
    assert!(ours.device(&"br-ex.100".into()) && ours.device(&"br-ex".into()) && !ours.device(&"eth0".into()));
    let port = |bridge: &str| link(Kind::Port { bridge: bridge.into() });
    have.links.extend([(Dev::new("br-ex.7"), port("br-ex")), ("br-y.7".into(), port("br-y"))]);
    let ours = Ours::new(&own, &have, &tables);
    assert!(ours.device(&"br-ex.7".into()) && !ours.device(&"br-y.7".into()), "a port of a bridge of ours");
    assert!(!ours.link(&"br-ex.7".into(), &have.links["br-ex.7"]), "it is not the kernel that deletes it");
    assert!(ours.address(&address("br-ex", "fd53:d91e:400:7f17::1:1/128")));
    assert!(!ours.address(&address("br-ex", "1.1.1.1/32")), "kept, as it may be an older agent's");
    assert!(!ours.address(&address("eth0", "169.254.1.1/32")));
}

#[test]
fn base_addresses_follow_position_and_vlan() {
    for (index, tag, v4, v6) in [
        (1, None, "169.254.1.1", "fd53:d91e:400:7f17::1:1"),
        (1, Some(100), "169.254.1.100", "fd53:d91e:400:7f17::1:64"),
        (2, Some(257), "169.254.2.1", "fd53:d91e:400:7f17::2:1"),
    ] {
        let (a, b) = base_addresses(index, tag);
        assert_eq!((a.to_string().as_str(), b.to_string().as_str()), (v4, v6));
    }
}
