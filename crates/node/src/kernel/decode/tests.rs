//! The decoder agrees with the library that writes the messages.

use proptest::prelude::*;
use rtnetlink::packet_core::Emitable;
use rtnetlink::packet_route::AddressFamily;

use super::super::apply::{address_message, route_message, rule_message};
use super::*;

fn bytes(message: &impl Emitable) -> Vec<u8> {
    let mut bytes = vec![0; message.buffer_len()];
    message.emit(&mut bytes);
    bytes
}

fn raw(kind: u16, body: &[u8]) -> Raw<'_> {
    Raw { kind, flags: 0, sequence: 0, body }
}

/// A memory that knows two devices, of which the second is a VRF with table 10.
fn memory() -> Memory {
    let mut memory = Memory::default();
    memory.names.extend([(7, Dev::new("br-ex")), (9, Dev::new("bgp-vrf"))]);
    memory.vrfs.insert(9, 10);
    memory
}

fn net() -> impl Strategy<Value = IpNet> {
    let v4 =
        (any::<u32>(), 0..=32_u8).prop_map(|(ip, len)| IpNet::new(std::net::Ipv4Addr::from(ip).into(), len));
    let v6 = (any::<u128>(), 0..=128_u8)
        .prop_map(|(ip, len)| IpNet::new(Ipv6Addr::from(ip | 1 << 125).into(), len));
    prop_oneof![v4, v6].prop_map(|net| net.unwrap())
}

proptest! {
    #[test]
    fn addresses(net in net()) {
        let address = Address { dev: "br-ex".into(), net };
        let body = bytes(&address_message(&address, 7));
        let mut memory = memory();
        if matches!(net.addr(), IpAddr::V6(ip) if ip.is_unicast_link_local()) {
            return Ok(());
        }
        prop_assert_eq!(memory.apply(raw(kind::NEW_ADDRESS, &body)), Effect::Changed);
        prop_assert!(memory.seen.addresses.contains(&address));
        prop_assert_eq!(memory.apply(raw(kind::NEW_ADDRESS, &body)), Effect::None);
        prop_assert_ne!(memory.apply(raw(kind::DEL_ADDRESS, &body)), Effect::None);
        prop_assert!(memory.seen.addresses.is_empty());
    }

    #[test]
    fn routes(net in net(), via in any::<bool>(), table in 1..600_u32) {
        let net = net.trunc();
        let via = via.then(|| net.addr());
        let hop = Hop { dev: "br-ex".into(), via };
        let body = bytes(&route_message(table, net, &hop, 7));
        let mut memory = memory();
        let effect = memory.apply(raw(kind::NEW_ROUTE, &body));
        // Default routes of the main table are another matter.
        prop_assume!(net.prefix_len() > 0 || !RESERVED.contains(&table));
        if RESERVED.contains(&table) {
            prop_assert_eq!(effect, Effect::None);
            return Ok(());
        }
        prop_assert_eq!(effect, Effect::Changed);
        let route = memory.seen.routes.get_min().unwrap();
        let told = (route.table, route.dst, route.metric, route.hop.clone(), route.protocol);
        prop_assert_eq!(told, (table, net, 0, Some(hop), protocol::BOOT));
        prop_assert_eq!(&*route.wire.0, &body[..], "it can be told back as it is");
        prop_assert_eq!(memory.apply(raw(kind::DEL_ROUTE, &body)), Effect::Changed);
        prop_assert!(memory.seen.routes.is_empty());
    }

    #[test]
    fn rules(net in net(), all in any::<bool>(), table in 1..600_u32, priority in 1..40_000_u32) {
        let select = if all { Select::All(Family::of(net)) } else { Select::To(net) };
        let body = bytes(&rule_message(select, table, priority));
        let mut memory = memory();
        prop_assert_eq!(memory.apply(raw(kind::NEW_RULE, &body)), Effect::Changed);
        let rule = memory.seen.rules.get_min().unwrap();
        prop_assert_eq!((rule.select, rule.table, rule.priority), (Some(select), table, priority));
        prop_assert_eq!(memory.apply(raw(kind::DEL_RULE, &body)), Effect::Changed);
        prop_assert!(memory.seen.rules.is_empty());
    }

    #[test]
    fn no_bytes_make_it_panic(kind in 16..34_u16, body in proptest::collection::vec(any::<u8>(), 0..80)) {
        memory().apply(raw(kind, &body));
    }
}

#[test]
fn routes_that_bgp_or_the_kernel_keeps_in_a_vrf_are_not_looked_at() {
    let net = "172.24.4.10/32".parse().unwrap();
    for (table, by, seen) in
        [(10, 3, 1), (10, 2, 0), (10, 186, 0), (10, 188, 1), (10, 11, 1), (201, 2, 1), (254, 3, 0)]
    {
        let mut body = bytes(&route_message(table, net, &Hop { dev: "br-ex".into(), via: None }, 7));
        body[5] = by;
        let mut memory = memory();
        memory.apply(raw(kind::NEW_ROUTE, &body));
        assert_eq!(memory.seen.routes.len(), seen, "table {table}, made by {by}");
    }
}

#[test]
fn a_route_was_there_before_us_if_it_was_read_first_and_is_there_since() {
    let route = |third: u8| {
        let net = IpNet::new(IpAddr::from([10, 1, third, 0]), 24).unwrap();
        bytes(&route_message(10, net, &Hop { dev: "br-ex".into(), via: None }, 7))
    };
    let found =
        |memory: &Memory| memory.seen.found.iter().map(|route| route.dst.to_string()).collect::<Vec<_>>();
    let mut memory = memory();
    for third in 1..5 {
        memory.apply(raw(kind::NEW_ROUTE, &route(third)));
    }
    memory.routes_read();
    memory.apply(raw(kind::NEW_ROUTE, &route(5)));
    assert_eq!(found(&memory), ["10.1.1.0/24", "10.1.2.0/24", "10.1.3.0/24", "10.1.4.0/24"]);
    memory.apply(raw(kind::DEL_ROUTE, &route(1)));
    memory.apply(raw(kind::NEW_ROUTE, &route(1)));
    assert_eq!(found(&memory), ["10.1.2.0/24", "10.1.3.0/24", "10.1.4.0/24"], "somebody has made it anew");
    let other = bytes(&route_message(
        10,
        "10.1.2.0/24".parse().unwrap(),
        &Hop { dev: "bgp-vrf".into(), via: None },
        9,
    ));
    memory.apply(Raw { flags: NLM_F_REPLACE, ..raw(kind::NEW_ROUTE, &other) });
    assert_eq!(found(&memory), ["10.1.3.0/24", "10.1.4.0/24"], "and this one is another");
    // Routes are read again, and of one the kernel had not told that it went.
    memory.forget_routes(Family::V4);
    assert_eq!(found(&memory).len(), 2);
    memory.apply(raw(kind::NEW_ROUTE, &route(3)));
    memory.apply(raw(kind::NEW_ROUTE, &route(6)));
    memory.routes_read();
    assert_eq!(found(&memory), ["10.1.3.0/24"]);
}

#[test]
fn a_rule_that_asks_for_more_is_seen_as_one_that_we_would_not_make() {
    let select = Select::To("172.24.4.10/32".parse().unwrap());
    let plain = bytes(&rule_message(select, 201, 32000));
    // A mark (10) of four bytes.
    let mut marked = plain.clone();
    marked.extend([8, 0, 10, 0, 1, 0, 0, 0]);
    assert_eq!(seen_rule(&plain).unwrap().select, Some(select));
    assert_eq!(seen_rule(&marked).unwrap().select, None);
    // The protocol (21), a byte: unset, by hand, FRR's, that of a DHCP client.
    for (protocol, expected) in [(0, Some(select)), (3, Some(select)), (11, None), (16, None)] {
        let mut from = plain.clone();
        from.extend([5, 0, 21, 0, protocol, 0, 0, 0]);
        assert_eq!(seen_rule(&from).unwrap().select, expected, "protocol {protocol}");
    }
    assert_eq!(AddressFamily::from(plain[0]), AddressFamily::Inet);
}

#[test]
fn of_the_main_table_the_next_hops_of_default_routes_are_known() {
    let attribute = |kind: u16, value: &[u8]| {
        let length = u16::try_from(value.len() + 4).unwrap();
        [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat()
    };
    let hop = |last: u8| {
        let gateway = attribute(attribute::ROUTE_GATEWAY, &[192, 0, 2, last]);
        let length = u16::try_from(gateway.len() + 8).unwrap();
        [&length.to_ne_bytes()[..], &[0, 0], &7_u32.to_ne_bytes(), &gateway].concat()
    };
    let route = |length: u8, table: u8, attributes: Vec<u8>| {
        [&[2, length, 0, 0, table, 186, 0, 1, 0, 0, 0, 0][..], &attributes].concat()
    };
    let several = route(0, 254, attribute(attribute::ROUTE_MULTIPATH, &[hop(1), hop(2)].concat()));
    let one = route(0, 254, attribute(attribute::ROUTE_GATEWAY, &[192, 0, 2, 9]));
    let elsewhere = route(0, 253, attribute(attribute::ROUTE_GATEWAY, &[192, 0, 2, 8]));
    let mut memory = memory();
    let known = |memory: &Memory| memory.seen.gateways().iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(memory.apply(raw(kind::NEW_ROUTE, &several)), Effect::Changed);
    assert_eq!(memory.apply(raw(kind::NEW_ROUTE, &several)), Effect::None);
    assert_eq!(memory.apply(raw(kind::NEW_ROUTE, &elsewhere)), Effect::None);
    assert_eq!(known(&memory), ["192.0.2.1", "192.0.2.2"]);
    let replaced = Raw { flags: NLM_F_REPLACE, ..raw(kind::NEW_ROUTE, &one) };
    assert_eq!(memory.apply(replaced), Effect::Changed);
    assert_eq!(known(&memory), ["192.0.2.9"]);
    assert_eq!(memory.apply(raw(kind::DEL_ROUTE, &one)), Effect::Changed);
    assert_eq!(known(&memory), [""; 0]);
}
