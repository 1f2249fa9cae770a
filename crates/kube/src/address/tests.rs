use proptest::prelude::*;

use super::*;

fn dual(ipv4: &str, ipv6: &str) -> DualNet {
    DualStack::both(ipv4.parse().unwrap(), ipv6.parse().unwrap())
}

fn node(id: u32) -> NodeId {
    NodeId::new(id).unwrap()
}

/// One row of the reference table: id, join, peer subnet and its sides (seed), IPv4 sides (upstream), MACs (gateway, router).
type Row =
    (u32, [&'static str; 2], [&'static str; 3], [&'static str; 2], [&'static str; 2], [&'static str; 2]);

const ROWS: [Row; 4] = [
    (
        2,
        ["100.65.0.2/16", "fd99::2/64"],
        ["100.88.0.4/30", "100.88.0.5/30", "100.88.0.6/30"],
        ["100.88.0.4/31", "100.88.0.5/31"],
        ["fd97::4/127", "fd97::5/127"],
        ["0a:58:64:41:00:02", "0a:58:64:58:00:05"],
    ),
    (
        3,
        ["100.65.0.3/16", "fd99::3/64"],
        ["100.88.0.8/30", "100.88.0.9/30", "100.88.0.10/30"],
        ["100.88.0.6/31", "100.88.0.7/31"],
        ["fd97::6/127", "fd97::7/127"],
        ["0a:58:64:41:00:03", "0a:58:64:58:00:09"],
    ),
    (
        4,
        ["100.65.0.4/16", "fd99::4/64"],
        ["100.88.0.12/30", "100.88.0.13/30", "100.88.0.14/30"],
        ["100.88.0.8/31", "100.88.0.9/31"],
        ["fd97::8/127", "fd97::9/127"],
        ["0a:58:64:41:00:04", "0a:58:64:58:00:0d"],
    ),
    (
        5000,
        ["100.65.19.136/16", "fd99::1388/64"],
        ["100.88.78.28/30", "100.88.78.29/30", "100.88.78.30/30"],
        ["100.88.39.16/31", "100.88.39.17/31"],
        ["fd97::2710/127", "fd97::2711/127"],
        ["0a:58:64:41:13:88", "0a:58:64:58:4e:1d"],
    ),
];

#[test]
fn addresses_of_a_node_follow_from_its_id() {
    let (join, transit) = (dual("100.65.0.0/16", "fd99::/64"), dual("100.88.0.0/16", "fd97::/64"));
    for (id, joined, seed, upstream, ipv6, macs) in ROWS {
        let addresses = join_addresses(join, node(id));
        assert_eq!(addresses, dual(joined[0], joined[1]));
        let subnet = PeerScheme::Seed.derive(transit, node(id));
        assert_eq!(subnet, dual(seed[0], ipv6[0]));
        let (router, gateway) = (PeerSubnet(subnet).router_side(), PeerSubnet(subnet).gateway_side());
        assert_eq!((router, gateway), (dual(seed[1], ipv6[0]), dual(seed[2], ipv6[1])));
        let other = PeerSubnet(PeerScheme::Upstream.derive(transit, node(id)));
        assert_eq!(other.router_side(), dual(upstream[0], ipv6[0]));
        assert_eq!(other.gateway_side(), dual(upstream[1], ipv6[1]));
        assert_eq!(mac_of(addresses.addresses()).unwrap().to_string(), macs[0]);
        assert_eq!(mac_of(router.addresses()).unwrap().to_string(), macs[1]);
    }
}

#[test]
fn a_family_without_room_for_the_id_is_missing() {
    let transit = dual("100.88.0.0/24", "fd97::/64");
    let last = PeerScheme::Seed.derive(transit, node(64));
    assert_eq!(last, dual("100.88.0.252/30", "fd97::80/127"));
    let past = PeerScheme::Seed.derive(transit, node(65));
    assert_eq!((past.ipv4, past.ipv6), (None, Some("fd97::82/127".parse().unwrap())));
    let small = join_addresses(dual("100.65.0.0/28", "fd99::/64"), node(16));
    assert_eq!((small.ipv4, small.ipv6), (None, Some("fd99::10/64".parse().unwrap())));
}

#[test]
fn addresses_of_a_network_are_the_same_on_every_node() {
    let subnets = dual("203.203.0.0/16", "2010:100:200::/60");
    assert_eq!(gateway_addresses(subnets), dual("203.203.0.1/16", "2010:100:200::1/60"));
    assert_eq!(management_addresses(subnets), dual("203.203.0.2/16", "2010:100:200::2/60"));
    let masquerade = dual("169.254.0.0/17", "fd69::/112");
    let first = NetworkId::MIN;
    assert_eq!(gateway_masquerade(masquerade, first), dual("169.254.0.11/17", "fd69::b/112"));
    assert_eq!(management_masquerade(masquerade, first), dual("169.254.0.12/17", "fd69::c/112"));
    for (shared, ipv4, ipv6) in [
        (SharedMasquerade::Ovn, "169.254.0.1/17", "fd69::1/112"),
        (SharedMasquerade::Host, "169.254.0.2/17", "fd69::2/112"),
        (SharedMasquerade::HostLocal, "169.254.0.3/17", "fd69::3/112"),
        (SharedMasquerade::NextHop, "169.254.0.4/17", "fd69::4/112"),
        (SharedMasquerade::Hairpin, "169.254.0.5/17", "fd69::5/112"),
    ] {
        assert_eq!(shared.addresses(masquerade), dual(ipv4, ipv6));
    }
    let upgrade = upgrade_join_addresses(dual("100.65.0.0/16", "fd99::/64"));
    assert_eq!(upgrade, dual("100.65.255.254/16", "fd99::ffff:ffff:ffff:fffe/64"));
}

#[test]
fn macs_follow_from_addresses() {
    for (address, mac, local) in [
        ("2010:100:200::1", "0a:58:d7:eb:90:5e", "fe80::858:d7ff:feeb:905e"),
        ("fd97::4", "0a:58:2b:22:eb:86", "fe80::858:2bff:fe22:eb86"),
        ("fd99::2", "0a:58:4d:58:9e:f6", "fe80::858:4dff:fe58:9ef6"),
    ] {
        let got = mac_of_ipv6(address.parse().unwrap());
        assert_eq!((got.to_string().as_str(), got.link_local().to_string().as_str()), (mac, local));
    }
    let gateway = mac_of_ipv4(Ipv4Addr::new(203, 203, 0, 1));
    assert_eq!(gateway.to_string(), "0a:58:cb:cb:00:01");
    assert_eq!(gateway.link_local().to_string(), "fe80::858:cbff:fecb:1");
    let both = DualAddress::both(Ipv4Addr::new(203, 203, 0, 1), "2010:100:200::1".parse().unwrap());
    assert_eq!(mac_of(both), Some(gateway));
    assert_eq!(mac_of(DualAddress::default()), None);
}

#[test]
fn the_next_block_begins_after_the_end() {
    for (after, prefix, next) in [
        ("100.88.0.0/16", 16, Some("100.89.0.0/16")),
        ("100.64.0.0/10", 16, Some("100.128.0.0/16")),
        ("100.88.128.0/17", 16, Some("100.89.0.0/16")),
        ("100.88.0.0/17", 16, Some("100.89.0.0/16")),
        ("255.255.0.0/16", 16, None),
        ("fd97::/64", 64, Some("fd97:0:0:1::/64")),
        ("ffff::/16", 64, None),
        ("0.0.0.0/0", 16, None),
    ] {
        let next: Option<ipnet::IpNet> = next.map(|net| net.parse().unwrap());
        assert_eq!(next_block(after.parse().unwrap(), prefix), next, "{after}");
    }
}

proptest! {
    #[test]
    fn two_nodes_never_share_an_address(a in 2u32..=5000, b in 2u32..=5000, seed: bool) {
        prop_assume!(a != b);
        let scheme = if seed { PeerScheme::Seed } else { PeerScheme::Upstream };
        let (join, transit) = (dual("100.65.0.0/16", "fd99::/64"), dual("100.88.0.0/16", "fd97::/64"));
        let (one, two) = (scheme.derive(transit, node(a)), scheme.derive(transit, node(b)));
        for (x, y) in one.nets().zip(two.nets()) {
            prop_assert!(!nets_overlap(x, y), "{x} {y}");
        }
        prop_assert_ne!(join_addresses(join, node(a)), join_addresses(join, node(b)));
        let (sides, others) = (PeerSubnet(one), PeerSubnet(two));
        for address in sides.router_side().addresses().all().chain(sides.gateway_side().addresses().all()) {
            prop_assert!(!others.router_side().addresses().all().any(|other| other == address));
            prop_assert!(one.nets().any(|net| net.contains(&address)));
        }
        prop_assert_ne!(node(a).peer_port_key(), node(b).peer_port_key());
    }

    #[test]
    fn no_subnet_and_no_id_panics(
        v4: u32, p4 in 0u8..=32, v6: u128, p6 in 0u8..=128, id in 2u32..=5000, network in 1u32..=4095, n: u128,
    ) {
        let nets = DualNet::both(
            Ipv4Net::new(v4.into(), p4).unwrap(),
            Ipv6Net::new(v6.into(), p6).unwrap(),
        );
        let network = NetworkId::new(network).unwrap();
        for made in [
            join_addresses(nets, node(id)), gateway_addresses(nets), management_addresses(nets),
            gateway_masquerade(nets, network), management_masquerade(nets, network), upgrade_join_addresses(nets),
            PeerScheme::Seed.derive(nets, node(id)), PeerScheme::Upstream.derive(nets, node(id)),
        ] {
            for (made, from) in made.ipv4.zip(nets.ipv4).map(|(a, b)| (IpAddr::from(a.addr()), ipnet::IpNet::from(b))).into_iter()
                .chain(made.ipv6.zip(nets.ipv6).map(|(a, b)| (a.addr().into(), b.into()))) {
                prop_assert!(from.contains(&made), "{made} is not in {from}");
            }
        }
        let _ = (PeerSubnet(nets).router_side(), PeerSubnet(nets).gateway_side());
        for net in nets.nets() {
            let _ = (nth_address(net, n), host_count(net), next_block(net, net.prefix_len()));
        }
    }
}
