use std::net::Ipv6Addr;
use std::time::Duration;

use ovn::MacAddr;
use proptest::prelude::*;

use super::*;
use crate::address::DualStack;

const GATEWAY: MacAddr = MacAddr([0x0a, 0x58, 0xcb, 0xcb, 0, 1]);
const GUEST: MacAddr = MacAddr([0x0a, 0x58, 0xcb, 0xcb, 0, 5]);

fn guest_address() -> Ipv6Addr {
    "2010:100:200::5".parse().unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn gratuitous_arp_has_these_bytes() {
    for (operation, digit) in [(ArpOperation::Request, 1), (ArpOperation::Reply, 2)] {
        let expected = format!(
            "ffffffffffff0a58cbcb00010806000108000604000{digit}0a58cbcb0001cbcb0001000000000000cbcb0001"
        );
        let bytes = gratuitous_arp(operation, GATEWAY, "203.203.0.1".parse().unwrap());
        assert_eq!(hex(&bytes), expected);
    }
}

// The expected bytes of IPv6 come from another program.
#[test]
fn a_withdrawn_router_has_these_bytes() {
    let old = MacAddr([0x0a, 0x58, 0x64, 0x41, 0, 2]);
    let expected = "0a58cbcb00050a586441000286dd6000000000183afffe80000000000000085864fffe410002\
                    2010010002000000000000000000000586007d5eff80000000000000000000000101\
                    0a5864410002";
    let bytes = router_advertisement(old, (GUEST, guest_address()), GatewayStatement::Gone);
    assert_eq!(hex(&bytes), expected);
}

#[test]
fn the_new_router_has_these_bytes() {
    let expected = "0a58cbcb00050a58cbcb000186dd6000000000383afffe800000000000000858cbfffecb0001\
                    2010010002000000000000000000000586006cc5ff88ffff00000000000000000101\
                    0a58cbcb0001030440c0000000000000000000000000fd990000000000000000000000000000";
    let advertised = GatewayStatement::Gateway { forget: Some("fd99::/64".parse().unwrap()) };
    let bytes = router_advertisement(GATEWAY, (GUEST, guest_address()), advertised);
    assert_eq!(hex(&bytes), expected);
}

#[test]
fn the_gateway_as_neighbor_has_these_bytes() {
    let expected = "3333000000010a58cbcb000186dd6000000000203aff20100100020000000000000000000001\
                    ff0200000000000000000000000000018800ba58a0000000\
                    2010010002000000000000000000000102010a58cbcb0001";
    assert_eq!(hex(&neighbor_advertisement(GATEWAY, "2010:100:200::1".parse().unwrap())), expected);
}

/// The sum over pseudo header and message, which is all ones if the checksum is right.
fn verify(frame: &[u8]) -> u16 {
    let packet = &frame[14..];
    let message = &packet[40..];
    let mut bytes = packet[8..40].to_vec();
    bytes.extend((message.len() as u32).to_be_bytes());
    bytes.extend([0, 0, 0, packet[6]]);
    bytes.extend(message);
    let sum = bytes.chunks(2).fold(0_u64, |sum, pair| {
        sum + u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]))
    });
    (0..4).fold(sum, |sum, _| (sum >> 16) + (sum & 0xffff)) as u16
}

proptest! {
    #[test]
    fn checksums_are_right(router: [u8; 6], guest: [u8; 6], address: [u8; 16], prefix: [u8; 16], length in 0_u8..=128) {
        let (router, address) = (MacAddr(router), Ipv6Addr::from(address));
        let forget = ipnet::Ipv6Net::new(prefix.into(), length).ok();
        for advertised in [GatewayStatement::Gone, GatewayStatement::Gateway { forget: None }, GatewayStatement::Gateway { forget }] {
            let frame = router_advertisement(router, (MacAddr(guest), address), advertised);
            prop_assert_eq!(verify(&frame), 0xffff);
        }
        prop_assert_eq!(verify(&neighbor_advertisement(router, address)), 0xffff);
    }
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[test]
fn frames_go_out_at_once_and_twice_more() {
    let mut rounds = Rounds::default();
    rounds.start("a", seconds(10));
    assert_eq!(rounds.next(), Some(seconds(10)));
    assert_eq!(rounds.take_due(seconds(10)), ["a"]);
    assert_eq!(rounds.take_due(seconds(10)), [""; 0]);
    assert_eq!(rounds.next(), Some(seconds(11)));
    assert_eq!(rounds.take_due(seconds(11)), ["a"]);
    assert_eq!(rounds.next(), Some(seconds(13)));
    assert_eq!(rounds.take_due(seconds(13)), ["a"]);
    assert_eq!(rounds.next(), None);
}

#[test]
fn a_late_round_is_one_round_and_a_second_event_starts_again() {
    let mut rounds = Rounds::default();
    rounds.start("a", seconds(0));
    rounds.start("b", seconds(0));
    assert_eq!(rounds.take_due(seconds(2)), ["a", "b"]);
    rounds.start("a", seconds(2));
    rounds.retain(|key| *key == "a");
    assert_eq!(rounds.take_due(seconds(2)), ["a"]);
    assert_eq!(rounds.take_due(seconds(9)), ["a"], "both late rounds are one");
    assert_eq!(rounds.next(), None);
}

#[test]
fn a_guest_without_a_family_gets_no_frame_of_it() {
    let network = crate::zone::desired::tests::dual_network();
    let nodes = crate::zone::desired::tests::three_nodes();
    let count = |kind, ipv4: bool, ipv6: bool| {
        let addresses =
            DualStack { ipv4: ipv4.then(|| "203.203.0.5".parse().unwrap()), ipv6: ipv6.then(guest_address) };
        gateway_frames(&network, &nodes, &Guest { kind, mac: GUEST, addresses }).len()
    };
    assert_eq!(count(GuestKind::Vm, true, true), 2 + 3 + 1);
    assert_eq!(count(GuestKind::Vm, true, false), 2);
    assert_eq!(count(GuestKind::Vm, false, true), 3 + 1);
    assert_eq!(count(GuestKind::Container, true, true), 2 + 3 + 1);
}

#[test]
fn the_gateways_mac_does_not_depend_on_the_order_of_families() {
    let network = crate::zone::desired::tests::dual_network();
    let nodes = crate::zone::desired::tests::three_nodes();
    let addresses = DualStack { ipv4: None, ipv6: Some(guest_address()) };
    let frames = gateway_frames(&network, &nodes, &Guest { kind: GuestKind::Vm, mac: GUEST, addresses });
    // The guest has IPv6 only, but the port of the network's gateway has the MAC address of its IPv4 address.
    assert_eq!(frames.last().unwrap()[6..12], GATEWAY.octets());
}
