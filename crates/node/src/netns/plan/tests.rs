use std::collections::BTreeMap;

use ovn::MacAddr;

use super::super::state::{HostDevice, InnerDevice, SeenNamespace};
use super::*;

const NETWORK: Uuid = Uuid::from_u128(0x11111111_2222_3333_4444_555555555555);
const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

fn want() -> Namespace {
    let addresses = ["10.0.1.2/24", "169.254.169.254/32"].map(|text| text.parse().unwrap()).into();
    let on_link = ["10.0.9.0/24".parse().unwrap()].into();
    Namespace { mac: MAC, mtu: Some(1442), addresses, on_link }
}

fn usual() -> VethPair {
    names::pairs(NETWORK)[0].clone()
}

/// All that is desired, in place.
fn there() -> Observed {
    let host = HostDevice { index: 7, peer: Some(2), mtu: 1442, up: true, marked: Some(NETWORK) };
    let inner = InnerDevice {
        index: 2,
        peer: Some(7),
        mac: Some(MAC),
        mtu: 1442,
        up: true,
        addresses: want().addresses,
        on_link: want().on_link,
        offloads_checksums: false,
    };
    let namespace =
        SeenNamespace { inode: 9, loopback: true, wrong: vec![], devices: [(usual().inner, inner)].into() };
    Observed {
        namespaces: [(NETWORK, namespace)].into(),
        broken: BTreeSet::new(),
        devices: [(usual().host, host)].into(),
    }
}

fn shown(ops: &[Op]) -> Vec<String> {
    ops.iter().map(ToString::to_string).collect()
}

fn planned(have: &Observed) -> Vec<String> {
    shown(&build(NETWORK, &want(), have, &BTreeSet::new()).ops)
}

const CREATED: [&str; 7] = [
    "create the namespace",
    "create the veth pair tap11111111-20 and tap11111111-21 with 02:00:00:00:00:02",
    "mark tap11111111-20",
    "turn checksum offload of tap11111111-21 off",
    "add 10.0.1.2/24 to tap11111111-21",
    "add 169.254.169.254/32 to tap11111111-21",
    "add a route to 10.0.9.0/24 on the link of tap11111111-21",
];

#[test]
fn a_namespace_is_built_in_order_and_then_left_alone() {
    assert_eq!(planned(&Observed::default()), CREATED);
    assert_eq!(planned(&there()), [""; 0]);
    assert_eq!(build(NETWORK, &want(), &there(), &BTreeSet::new()).pair, Some(usual()));
}

#[test]
fn each_difference_is_corrected_in_place() {
    type Change = fn(&mut Observed);
    fn inner(have: &mut Observed) -> &mut InnerDevice {
        have.namespaces.get_mut(&NETWORK).unwrap().devices.get_mut(&usual().inner).unwrap()
    }
    fn host(have: &mut Observed) -> &mut HostDevice {
        have.devices.get_mut(&usual().host).unwrap()
    }
    let cases: [(Change, &[&str]); 11] = [
        (
            |have| inner(have).on_link = ["10.0.8.0/24".parse().unwrap()].into(),
            &[
                "add a route to 10.0.9.0/24 on the link of tap11111111-21",
                "delete the route to 10.0.8.0/24 on the link of tap11111111-21",
            ],
        ),
        (|have| inner(have).mac = None, &["set the Ethernet address of tap11111111-21 to 02:00:00:00:00:02"]),
        (|have| inner(have).mtu = 1500, &["set the MTU of tap11111111-20 and tap11111111-21 to 1442"]),
        (|have| host(have).mtu = 1500, &["set the MTU of tap11111111-20 and tap11111111-21 to 1442"]),
        (|have| host(have).up = false, &["set tap11111111-20 and tap11111111-21 up"]),
        (|have| inner(have).offloads_checksums = true, &["turn checksum offload of tap11111111-21 off"]),
        (|have| host(have).marked = None, &["mark tap11111111-20"]),
        (
            |have| have.namespaces.get_mut(&NETWORK).unwrap().loopback = false,
            &["set the namespace's kernel parameters"],
        ),
        (
            |have| have.namespaces.get_mut(&NETWORK).unwrap().wrong = vec![("ipv4/ip_forward", "0")],
            &["set the namespace's kernel parameters"],
        ),
        (
            |have| {
                inner(have).addresses =
                    ["10.0.1.3/24", "169.254.169.254/32"].map(|a| a.parse().unwrap()).into()
            },
            &["add 10.0.1.2/24 to tap11111111-21", "delete 10.0.1.3/24 from tap11111111-21"],
        ),
        (|have| have.broken = [NETWORK].into(), &["remove the namespace's file, which is no namespace"]),
    ];
    for (change, expected) in cases {
        let mut have = there();
        change(&mut have);
        assert_eq!(planned(&have), expected);
    }
}

#[test]
fn halves_of_a_pair_go_before_it_is_created_again() {
    let mut no_host = there();
    no_host.devices = BTreeMap::new();
    assert_eq!(planned(&no_host)[..2], ["delete tap11111111-21 in the namespace", CREATED[1]]);
    let mut no_inner = there();
    no_inner.namespaces.get_mut(&NETWORK).unwrap().devices = BTreeMap::new();
    assert_eq!(planned(&no_inner)[..2], ["delete the veth pair of tap11111111-20", CREATED[1]]);
    // After a reboot nothing is left; a namespace that lost its file keeps the host end alive.
    let mut no_file = there();
    no_file.namespaces = BTreeMap::new();
    assert_eq!(planned(&no_file)[..3], [CREATED[0], "delete the veth pair of tap11111111-20", CREATED[1]]);
}

#[test]
fn a_device_of_others_stays_and_another_name_is_used() {
    let mut have = Observed::default();
    let foreign = HostDevice { index: 3, peer: Some(9), mtu: 1500, up: true, marked: None };
    have.devices.insert(usual().host, foreign.clone());
    let other = names::pairs(NETWORK)[1].clone();
    let plan = build(NETWORK, &want(), &have, &BTreeSet::new());
    assert_eq!(plan.pair.as_ref(), Some(&other));
    assert!(!shown(&plan.ops).iter().any(|op| op.contains("delete")), "{plan:?}");
    // Another network of ours with the same ten characters counts as another device, whether it is there or about to be.
    have.devices.get_mut(&usual().host).unwrap().marked = Some(Uuid::from_u128(1));
    assert_eq!(build(NETWORK, &want(), &have, &BTreeSet::new()).pair.as_ref(), Some(&other));
    let taken = [usual().host].into();
    assert_eq!(build(NETWORK, &want(), &Observed::default(), &taken).pair.as_ref(), Some(&other));
    have.devices.insert(other.host, foreign);
    assert_eq!(build(NETWORK, &want(), &have, &BTreeSet::new()).pair, None, "there is no name left");
    assert_eq!(tear_down(NETWORK, &have), []);
}

#[test]
fn the_pair_of_neutrons_agent_is_adopted() {
    let mut have = there();
    have.devices.get_mut(&usual().host).unwrap().marked = None;
    assert_eq!(planned(&have), ["mark tap11111111-20"]);
    assert!(have.is_ours(NETWORK, &usual().host));
    // The same index in another namespace is no peer.
    have.devices.get_mut(&usual().host).unwrap().peer = Some(33);
    assert!(!have.is_ours(NETWORK, &usual().host));
}

#[test]
fn a_network_goes_with_its_devices_first() {
    assert_eq!(
        shown(&tear_down(NETWORK, &there())),
        ["delete the veth pair of tap11111111-20", "delete the namespace"]
    );
    assert_eq!(networks(&there()), [NETWORK].into());
    assert_eq!(tear_down(Uuid::from_u128(1), &there()), []);
    let mut no_file = there();
    no_file.namespaces = BTreeMap::new();
    assert_eq!(networks(&no_file), [NETWORK].into(), "a marked device is a remainder, too");
    assert_eq!(shown(&tear_down(NETWORK, &no_file)), ["delete the veth pair of tap11111111-20"]);
}
