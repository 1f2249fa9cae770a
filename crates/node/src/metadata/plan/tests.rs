use std::collections::BTreeMap;

use ovn::MacAddr;
use ovsdb::Ref;

use super::super::state::SeenRows;
use super::*;
use crate::netns::state::{HostDevice, InnerDevice, SeenNamespace};
use crate::netns::{Namespace, VethPair, names};
use crate::ports::plugged::SeenPlug;
use crate::ports::state::Rows;

const NETWORK: Uuid = Uuid::from_u128(0xaaaaaaaa_2222_3333_4444_555555555555);
const SOCKET: ListenerId = ListenerId { network: NETWORK, family: Family::Ipv4, namespace: 9, device: 0 };
const NEIGHBOURS: ListenerId = ListenerId { family: Family::Neighbours, device: 2, ..SOCKET };

fn pair() -> VethPair {
    names::pairs(NETWORK)[0].clone()
}

fn probed() -> ProbedPort {
    ProbedPort { network: NETWORK, namespace: 9, port: "md".into(), bridge: "br-int".into() }
}

fn want() -> Desired {
    let served = ServedNetwork {
        namespace: Namespace {
            mac: MacAddr([2, 0, 0, 0, 0, 2]),
            mtu: None,
            addresses: ["169.254.169.254/32".parse().unwrap()].into(),
            on_link: BTreeSet::new(),
        },
        port: "md".into(),
        bridge: "br-int".into(),
        probes: ["10.0.1.5".parse().unwrap()].into(),
    };
    Desired { networks: [(NETWORK, served)].into(), keys: BTreeMap::new() }
}

/// The network in place, with everything that makes it ready.
fn there() -> Observed {
    let uuid = Uuid::from_u128(1);
    let inner = InnerDevice {
        index: 2,
        peer: Some(7),
        mac: Some(MacAddr([2, 0, 0, 0, 0, 2])),
        mtu: 1500,
        up: true,
        addresses: want().networks[&NETWORK].namespace.addresses.clone(),
        on_link: BTreeSet::new(),
        offloads_checksums: false,
    };
    let namespace =
        SeenNamespace { inode: 9, loopback: true, wrong: vec![], devices: [(pair().inner, inner)].into() };
    let host = HostDevice { index: 7, peer: Some(2), mtu: 1500, up: true, marked: Some(NETWORK) };
    let plug = SeenPlug {
        bridge: "br-int".into(),
        iface_id: Some("md".into()),
        network: Some(NETWORK),
        rows: Rows { bridge: Ref::new(uuid), port: Ref::new(uuid), interface: Ref::new(uuid) },
    };
    Observed {
        netns: netns::Observed {
            namespaces: [(NETWORK, namespace)].into(),
            broken: BTreeSet::new(),
            devices: [(pair().host, host)].into(),
        },
        ports: [(pair().host, plug)].into(),
        sockets: [(SOCKET, SocketState::Served), (NEIGHBOURS, SocketState::Served)].into(),
        proxy: ProxyState::Connected,
        probes: [(probed(), ProbeState::Answered)].into(),
        rows: SeenRows {
            chassis: Some(Ref::new(uuid)),
            ready: Some(NETWORK.to_string().into()),
            private: Some(Ref::new(uuid)),
            keys: BTreeMap::new(),
        },
    }
}

fn nothing() -> Observed {
    let rows = SeenRows { ready: None, ..there().rows };
    Observed { proxy: ProxyState::Connected, rows, ..Observed::default() }
}

fn planned(want: &Desired, have: &Observed) -> Vec<String> {
    plan(want, &BTreeSet::new(), have).steps.iter().map(|step| step.op.to_string()).collect()
}

const READY: &str = "write 1 ready networks to the Chassis row";
const NOT_READY: &str = "write 0 ready networks to the Chassis row";

#[test]
fn a_network_is_ready_when_all_of_it_was_found() {
    let steps = planned(&want(), &nothing());
    assert_eq!(steps.first().map(String::as_str), Some("create the namespace"));
    assert_eq!(steps.last().unwrap(), "add tapaaaaaaaa-20 to br-int in Open vSwitch as logical port md");
    assert_eq!(planned(&want(), &there()), [""; 0]);
    type Change = fn(&mut Observed);
    let stages: [(Change, &[&str]); 8] = [
        (|have| have.sockets.clear(), &["open the sockets Neighbours, Ipv4 in the namespace"]),
        (|have| _ = have.sockets.remove(&NEIGHBOURS), &["open the sockets Neighbours in the namespace"]),
        (|have| _ = have.sockets.insert(SOCKET, SocketState::Held), &[]),
        (|have| _ = have.sockets.insert(NEIGHBOURS, SocketState::Held), &[]),
        (|have| have.probes.clear(), &["wait for OVN's answer to a probe"]),
        (|have| _ = have.probes.insert(probed(), ProbeState::Running), &[]),
        (|have| _ = have.probes.insert(probed(), ProbeState::Answered), &[READY]),
        (|have| _ = have.probes.insert(probed(), ProbeState::Silent), &[READY]),
    ];
    for (change, expected) in stages {
        let mut have = there();
        have.rows.ready = None;
        change(&mut have);
        assert_eq!(planned(&want(), &have), expected);
    }
}

#[test]
fn a_network_that_was_ready_is_not_probed_again() {
    let mut have = there();
    have.probes.clear();
    assert_eq!(planned(&want(), &have), [""; 0], "after a restart of the agent");
}

#[test]
fn the_answer_to_another_port_or_in_another_bridge_does_not_count() {
    for other in [
        ProbedPort { port: "old".into(), ..probed() },
        ProbedPort { bridge: "br-x".into(), ..probed() },
        ProbedPort { namespace: 8, ..probed() },
    ] {
        let mut have = there();
        have.rows.ready = None;
        have.probes = [(other, ProbeState::Answered)].into();
        assert_eq!(planned(&want(), &have), ["wait for OVN's answer to a probe"]);
    }
}

#[test]
fn the_key_is_cleared_before_anything_else() {
    // After a reboot the key and the switch's port are there, and nothing else.
    let mut rebooted = nothing();
    rebooted.rows.ready = Some(NETWORK.to_string().into());
    rebooted.ports = there().ports;
    // The switch would go on using the device that is gone.
    assert_eq!(planned(&want(), &rebooted), [NOT_READY, "remove tapaaaaaaaa-20 from Open vSwitch"]);
    rebooted.ports.clear();
    assert_eq!(planned(&want(), &rebooted)[..2], [NOT_READY, "create the namespace"]);
    // Sockets keep a namespace alive, so they are closed before it goes.
    let none = Desired::default();
    let mut have = there();
    assert_eq!(
        planned(&none, &have),
        [NOT_READY, "close the Neighbours socket in the namespace", "close the Ipv4 socket in the namespace"]
    );
    have.rows.ready = None;
    have.sockets = [(SOCKET, SocketState::Closing)].into();
    assert_eq!(planned(&none, &have), [""; 0]);
    have.sockets.clear();
    assert_eq!(
        planned(&none, &have),
        [
            "remove tapaaaaaaaa-20 from Open vSwitch",
            "delete the veth pair of tapaaaaaaaa-20",
            "delete the namespace"
        ]
    );
    assert_eq!(planned(&none, &nothing()), [""; 0]);
}

#[test]
fn a_port_on_another_bridge_or_of_another_port_is_corrected() {
    for change in [
        (|seen: &mut SeenPlug| seen.bridge = "br-x".into()) as fn(&mut SeenPlug),
        |seen| seen.iface_id = Some("old".into()),
        |seen| seen.network = None,
    ] {
        let mut have = there();
        change(have.ports.get_mut(&pair().host).unwrap());
        let plug = "add tapaaaaaaaa-20 to br-int in Open vSwitch as logical port md";
        assert_eq!(planned(&want(), &have), [NOT_READY, plug]);
    }
}

#[test]
fn a_socket_of_a_namespace_that_was_replaced_is_closed() {
    let mut have = there();
    have.netns.namespaces.get_mut(&NETWORK).unwrap().inode = 10;
    let steps = planned(&want(), &have);
    assert_eq!(
        steps,
        [
            NOT_READY,
            "open the sockets Neighbours, Ipv4 in the namespace",
            "close the Neighbours socket in the namespace",
            "close the Ipv4 socket in the namespace"
        ]
    );
}

#[test]
fn a_link_local_socket_goes_with_its_device() {
    let (mut want, mut have) = (want(), there());
    let addresses = ["169.254.169.254/32".parse().unwrap(), "fe80::a9fe:a9fe/128".parse().unwrap()];
    want.networks.get_mut(&NETWORK).unwrap().namespace.addresses = addresses.into();
    let namespace = have.netns.namespaces.get_mut(&NETWORK).unwrap();
    namespace.devices.get_mut(&pair().inner).unwrap().addresses = addresses.into();
    let ipv6 = ListenerId { family: Family::Ipv6, device: 2, ..SOCKET };
    have.sockets.insert(ipv6, SocketState::Served);
    assert_eq!(planned(&want, &have), [""; 0]);
    // The pair was created anew in the same namespace.
    let namespace = have.netns.namespaces.get_mut(&NETWORK).unwrap();
    namespace.devices.get_mut(&pair().inner).unwrap().index = 3;
    have.netns.devices.get_mut(&pair().host).unwrap().peer = Some(3);
    let steps = planned(&want, &have);
    assert_eq!(
        steps,
        [
            NOT_READY,
            "open the sockets Neighbours, Ipv6 in the namespace",
            "close the Neighbours socket in the namespace",
            "close the Ipv6 socket in the namespace"
        ]
    );
}

#[test]
fn keys_are_written_where_they_differ_and_an_identity_stays() {
    let mut want = want();
    want.keys = [(key::METADATA_AGENT_ID, "new".into()), (key::OVN_BRIDGE, "br-int".into())].into();
    let steps = planned(&want, &there());
    assert_eq!(steps.len(), 1);
    assert!(
        steps[0].contains("neutron:ovn-bridge=br-int") && steps[0].contains("ovn-metadata-id=new"),
        "{steps:?}"
    );
    let mut have = there();
    have.rows.keys =
        [(key::METADATA_AGENT_ID.into(), "old".into()), (key::OVN_BRIDGE.into(), "br-int".into())].into();
    assert_eq!(planned(&want, &have), [""; 0]);
}

#[test]
fn a_proxy_that_restarts_leaves_ready_networks_ready() {
    for (state, socket) in [(ProxyState::Restarting, Some(SocketState::Held)), (ProxyState::Restarting, None)]
    {
        let mut have = Observed { proxy: state, ..there() };
        have.sockets = socket.map(|socket| (SOCKET, socket)).into_iter().collect();
        assert_eq!(planned(&want(), &have), [""; 0], "the key stays, and nothing is opened twice");
    }
    // After a reboot the key is stale: the namespace has to be built first.
    let rebooted = Observed { proxy: ProxyState::Restarting, rows: there().rows, ..Observed::default() };
    assert!(planned(&want(), &rebooted)[0].starts_with("write 0 ready networks"));
    // A network that was not ready does not become so by waiting.
    let new = Observed { proxy: ProxyState::Restarting, rows: nothing().rows, ..there() };
    let steps = planned(&want(), &Observed { sockets: BTreeMap::new(), ..new });
    assert!(steps.len() == 1 && steps[0].starts_with("open the sockets"), "{steps:?}");
}

#[test]
fn a_proxy_that_is_away_is_a_problem() {
    let mut have = there();
    have.proxy = ProxyState::Away;
    have.sockets.insert(SOCKET, SocketState::Held);
    let plan = plan(&want(), &BTreeSet::new(), &have);
    assert_eq!(plan.problems[0].code.as_str(), "no-proxy");
    assert_eq!(plan.steps.len(), 1, "it is not ready: {plan:?}");
}
