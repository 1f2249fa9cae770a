//! Incremental decisions equal decisions from scratch, and compile few units.

use proptest::prelude::*;

use super::load_balancers::{self, balancer, listener, member, pool};
use super::scene::*;
use super::*;
use crate::model::*;
use crate::report::{BfdState, Place, ProbeResult, ProbedBackend};
use crate::resource::fixture::id;
use crate::settings::BfdSharing;

/// One change of the inputs.
#[derive(Clone, Debug)]
enum Step {
    Network(u8, bool),
    Subnet(u8, Option<u8>),
    Port { n: u8, network: u8, host: u8, pair: Option<u8>, named: bool, group: bool },
    NoPort(u8),
    Router { n: u8, ecmp: bool, bfd: bool, snat: bool, name: u8 },
    NoRouter(u8),
    Gateway { n: u8, router: u8, network: u8, chassis: u8 },
    Interface { n: u8, router: u8, network: u8 },
    FloatingIp { n: u8, port: Option<u8>, router: u8 },
    Group(u8, bool),
    Rule(u8, u8),
    Up(u8, bool),
    Hosted(u8, Option<u8>),
    Bfd(u8, bool),
    Stranded(u8, bool),
    Adopt(u8),
    Sharing(bool),
    Balancer { n: u8, network: u8, host: u8 },
    NoBalancer(u8),
    Serve { n: u8, network: u8, host: u8, weight: u16 },
    NoMember(u8),
    Distributed(bool),
    Monitor { n: u8, enabled: bool },
    NoMonitor(u8),
    Probe { port: u8, network: u8, host: u8, result: Option<ProbeResult> },
    PortEnabled(u8, bool),
    Backup(u8, bool),
    Allow(u8, bool),
    Groups(bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    use Step::*;
    let bit = any::<bool>;
    let one = prop_oneof![
        (0u8..3, bit()).prop_map(|(n, on)| Network(n, on)),
        (0u8..3, proptest::option::of(0u8..3)).prop_map(|(n, hop)| Subnet(n, hop)),
        (0u8..4, 0u8..3, 0u8..6, proptest::option::of(0u8..6), bit(), bit())
            .prop_map(|(n, network, host, pair, named, group)| Port { n, network, host, pair, named, group }),
        (0u8..12).prop_map(NoPort),
        (0u8..2, bit(), bit(), bit(), 0u8..3).prop_map(|(n, ecmp, bfd, snat, name)| Router {
            n,
            ecmp,
            bfd,
            snat,
            name
        }),
        (0u8..2).prop_map(NoRouter),
        (0u8..4, 0u8..2, 0u8..2, 0u8..3).prop_map(|(n, router, network, chassis)| Gateway {
            n,
            router,
            network,
            chassis
        }),
        (0u8..2, 0u8..2, 0u8..3).prop_map(|(n, router, network)| Interface { n, router, network }),
        (0u8..2, proptest::option::of(0u8..6), 0u8..2).prop_map(|(n, port, router)| FloatingIp {
            n,
            port,
            router
        }),
        (0u8..2, bit()).prop_map(|(n, on)| Group(n, on)),
        (0u8..2, 0u8..2).prop_map(|(n, group)| Rule(n, group)),
        (0u8..12, bit()).prop_map(|(n, up)| Up(n, up)),
        (0u8..4, proptest::option::of(0u8..3)).prop_map(|(n, chassis)| Hosted(n, chassis)),
        (0u8..4, bit()).prop_map(|(n, up)| Bfd(n, up)),
        (0u8..4, bit()).prop_map(|(n, on)| Stranded(n, on)),
        (0u8..12).prop_map(Adopt),
        bit().prop_map(Sharing),
        (0u8..2, 0u8..3, 0u8..3).prop_map(|(n, network, host)| Balancer { n, network, host }),
        (0u8..2).prop_map(NoBalancer),
        (0u8..2, 0u8..3, 0u8..3, 0u16..3).prop_map(|(n, network, host, weight)| Serve {
            n,
            network,
            host,
            weight
        }),
        (0u8..2).prop_map(NoMember),
        bit().prop_map(Distributed),
        (0u8..2, bit()).prop_map(|(n, enabled)| Monitor { n, enabled }),
        (0u8..2).prop_map(NoMonitor),
        (
            0u8..4,
            0u8..3,
            0u8..3,
            proptest::option::of(prop_oneof![
                Just(ProbeResult::Unknown),
                Just(ProbeResult::Online),
                Just(ProbeResult::Offline)
            ])
        )
            .prop_map(|(port, network, host, result)| Probe { port, network, host, result }),
        (0u8..12, bit()).prop_map(|(n, on)| PortEnabled(n, on)),
        (0u8..2, bit()).prop_map(|(n, on)| Backup(n, on)),
        (0u8..2, bit()).prop_map(|(n, on)| Allow(n, on)),
        bit().prop_map(Groups),
    ];
    proptest::collection::vec(one, 1..40)
}

const NETWORKS: [(u128, u128); 3] = [(N1, S1), (N2, S2), (NET, SUB)];
const PORT: u128 = 0x50;
const GATEWAY: u128 = 0x54;
const INTERFACE: u128 = 0x58;
const BALANCER: u128 = 0x1000;

fn address(network: u8, host: u8) -> String {
    let prefix = ["192.0.2", "198.51.100", "10.0.0"][usize::from(network)];
    format!("{prefix}.{}", 10 + host)
}

fn nth_balancer(n: u8) -> u128 {
    BALANCER + 0x100 * u128::from(n)
}

fn place(n: u8) -> Place {
    Place { chassis: format!("ch{n}").into(), host: format!("h{n}").into() }
}

fn run(scene: &mut Scene, step: &Step) {
    let at = |n: u8| NETWORKS[usize::from(n)];
    match *step {
        Step::Network(n, external) => {
            scene.edit(|txn| drop(txn.edit::<Network>(&id(at(n).0), |network| network.external = external)));
        }
        Step::Subnet(n, hop) => {
            let hop = hop.map(|host| address(n, 240 + host).parse().unwrap());
            scene.edit(|txn| drop(txn.edit::<Subnet>(&id(at(n).1), |subnet| subnet.gateway_ip = hop)));
        }
        Step::Port { n, network, host, pair, named, group } => {
            let mut port = port(PORT + u128::from(n), at(network).0, at(network).1, &address(network, host));
            if let Some(pair) = pair {
                let net = format!("{}/32", address(network, pair)).parse().unwrap();
                port.allowed_address_pairs = vec![AddressPair { ip_address: net, mac_address: None }];
            }
            if named {
                port.dns_name = format!("host{n}");
            }
            if group {
                port.security_groups = [id(0x61)].into();
            }
            scene.put(port);
        }
        Step::NoPort(n) => {
            scene.edit(|txn| {
                txn.remove::<Port>(&id(PORT + u128::from(n)));
                txn.remove::<Placement>(&id(PORT + u128::from(n)));
            });
        }
        Step::Router { n, ecmp, bfd, snat, name } => {
            scene.edit(|txn| {
                let mut router = txn
                    .get::<Router>(&id(0x40 + u128::from(n)))
                    .map_or_else(|| router(0x40 + u128::from(n)), |r| Router::clone(r));
                (router.enable_default_route_ecmp, router.enable_default_route_bfd) = (ecmp, bfd);
                (router.enable_snat, router.name) = (snat, format!("name{name}"));
                txn.put(router);
            });
        }
        Step::NoRouter(n) => {
            scene.edit(|txn| drop(txn.remove::<Router>(&id(0x40 + u128::from(n)))));
        }
        Step::Gateway { n, router, network, chassis } => {
            let chassis: Vec<String> = (0..chassis).map(|n| format!("ch{n}")).collect();
            let chassis: Vec<&str> = chassis.iter().map(String::as_str).collect();
            let (net, subnet) = at(network);
            scene.gateway(
                GATEWAY + u128::from(n),
                0x40 + u128::from(router),
                net,
                subnet,
                &address(network, 100 + n),
                &chassis,
            );
        }
        Step::Interface { n, router, network } => {
            let (net, subnet) = at(network);
            scene.interface(
                INTERFACE + u128::from(n),
                0x40 + u128::from(router),
                net,
                subnet,
                &address(network, 120 + n),
            );
        }
        Step::FloatingIp { n, port, router } => {
            // The last two are the ports of VIPs.
            let ports = [PORT, PORT + 1, PORT + 2, PORT + 3, BALANCER + 0xf000, BALANCER + 0xf100];
            let to = port.map(|port| (ports[usize::from(port)], "10.0.0.11", 0x40 + u128::from(router)));
            scene.floating_ip(0x80 + u128::from(n), &format!("192.0.2.{}", 200 + n), to);
        }
        Step::Group(n, stateful) => {
            scene.put(SecurityGroup { stateful, ..group(0x60 + u128::from(n)) });
        }
        Step::Rule(n, group) => {
            scene.put(SecurityGroupRule {
                id: id(0x70 + u128::from(n)),
                project: "p".into(),
                security_group_id: id(0x60 + u128::from(group)),
                direction: Direction::Ingress,
                ethertype: Ethertype::IPv4,
                protocol: None,
                port_range_min: None,
                port_range_max: None,
                remote_ip_prefix: None,
                remote_group_id: None,
                standard: standard(),
            });
        }
        Step::Up(n, up) => {
            let port = id(PORT + u128::from(n));
            scene.snapshot.report.set_up(port, up);
            scene.snapshot.report.set_bound(port, up.then(|| place(0)));
        }
        Step::Hosted(n, chassis) => {
            scene.snapshot.report.set_gateway(id(GATEWAY + u128::from(n)), chassis.map(place))
        }
        Step::Bfd(n, up) => {
            let port = ovn::ident::name::router_port(id(GATEWAY + u128::from(n)));
            let state = if up { BfdState::Up } else { BfdState::Down };
            scene.snapshot.report.set_bfd(port, "192.0.2.1".parse().unwrap(), Some(state));
        }
        Step::Stranded(n, on) => {
            let stranded = &mut scene.snapshot.late.stranded;
            let port = id(GATEWAY + u128::from(n));
            if on {
                stranded.insert(port)
            } else {
                stranded.remove(&port)
            };
        }
        Step::Adopt(n) => {
            let (ours, theirs) = (id(PORT + u128::from(n)), Uuid::from_u128(0xadadad + u128::from(n)));
            scene.put(Adopted { ours, table: "Logical_Switch_Port".into(), theirs });
        }
        Step::Sharing(on) => {
            let sharing = if on { BfdSharing::Chassis } else { BfdSharing::Port };
            scene.settings(|settings| settings.bfd_session_sharing = sharing);
        }
        Step::Balancer { n, network, host } => {
            let (net, subnet) = at(network);
            balancer(scene, nth_balancer(n), net, subnet, &address(network, host));
        }
        Step::NoBalancer(n) => {
            let n = nth_balancer(n);
            scene.edit(|txn| {
                txn.remove::<LoadBalancer>(&id(n));
                txn.remove::<Pool>(&id(n + 1));
                txn.remove::<Listener>(&id(n + 2));
                txn.remove::<Member>(&id(n + 3));
                txn.remove::<HealthMonitor>(&id(n + 4));
            });
        }
        Step::Serve { n, network, host, weight } => {
            let n = nth_balancer(n);
            pool(scene, n, n + 1, LbProtocol::Tcp);
            listener(scene, n, n + 2, LbProtocol::Tcp, 80, Some(n + 1));
            member(scene, n, n + 1, n + 3, at(network).1, &address(network, host));
            load_balancers::change(scene, n, |txn, _| {
                txn.edit::<Member>(&id(n + 3), |member| member.weight = weight);
            });
        }
        Step::NoMember(n) => {
            let n = nth_balancer(n);
            load_balancers::change(scene, n, |txn, _| drop(txn.remove::<Member>(&id(n + 3))));
        }
        Step::Monitor { n, enabled } => {
            let n = nth_balancer(n);
            load_balancers::monitor(scene, n, n + 1, n + 4, MonitorKind::Tcp);
            load_balancers::change(scene, n, |txn, _| {
                txn.edit::<HealthMonitor>(&id(n + 4), |monitor| monitor.admin_state_up = enabled);
            });
        }
        Step::NoMonitor(n) => {
            let n = nth_balancer(n);
            load_balancers::change(scene, n, |txn, _| drop(txn.remove::<HealthMonitor>(&id(n + 4))));
        }
        Step::Probe { port, network, host, result } => {
            let backend = ProbedBackend {
                port_id: id(PORT + u128::from(port)),
                address: address(network, host).parse().unwrap(),
                protocol_port: 80,
                protocol: LbProtocol::Tcp,
            };
            scene.snapshot.report.set_probe(backend, result);
        }
        Step::PortEnabled(n, on) => {
            scene.edit(|txn| {
                drop(txn.edit::<Port>(&id(PORT + u128::from(n)), |port| port.admin_state_up = on))
            });
        }
        Step::Backup(n, on) => {
            let n = nth_balancer(n);
            load_balancers::change(scene, n, |txn, _| {
                txn.edit::<Member>(&id(n + 3), |member| member.backup = on);
            });
        }
        Step::Allow(n, on) => {
            let n = nth_balancer(n);
            load_balancers::change(scene, n, |txn, _| {
                let cidrs = if on { vec!["10.0.0.0/8".parse().unwrap()] } else { Vec::new() };
                txn.edit::<Listener>(&id(n + 2), |listener| listener.allowed_cidrs = cidrs);
            });
        }
        Step::Groups(on) => {
            scene.settings(|settings| settings.load_balancer_groups = on);
        }
        Step::Distributed(on) => {
            scene.settings(|settings| settings.enable_distributed_floating_ip = on);
        }
    }
    scene.refresh();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(50))]

    #[test]
    fn step_by_step_equals_from_scratch(steps in steps()) {
        let mut scene = Scene::new();
        let mut decider = Decider::default();
        decider.desire(&scene.snapshot);
        for step in steps {
            run(&mut scene, &step);
            let outcome = decider.desire(&scene.snapshot);
            let mut scratch = Decider::default();
            let whole = scratch.desire(&scene.snapshot);
            let differing: Vec<_> = scratch.parts.iter().filter(|(key, part)| decider.parts.get(key) != Some(part)).collect();
            prop_assert!(differing.is_empty(), "after {:?}: {:?}", step, differing);
            prop_assert_eq!(decider.parts.len(), scratch.parts.len());
            prop_assert_eq!(outcome.problems, whole.problems);
            prop_assert_eq!(outcome.value.rows.len(), whole.value.rows.len());
        }
    }
}

/// A cloud with many ports on one network, and a multihomed router.
fn large(ports: u128) -> Scene {
    let mut scene = Scene::new();
    scene.edit(|txn| {
        for n in 0..ports {
            let address = format!("10.{}.{}.{}", 1 + (n >> 16), (n >> 8) & 255, n & 255);
            txn.put(port(0x10_0000 + n, NET, SUB, &address));
        }
    });
    scene.router(0x40).gateway(0x41, 0x40, N1, S1, "192.0.2.100", &["ch1"]);
    scene.gateway(0x42, 0x40, N2, S2, "198.51.100.100", &["ch2"]).interface(0x43, 0x40, NET, SUB, "10.0.0.1");
    scene
}

#[test]
fn a_change_compiles_what_has_seen_it() {
    let mut scene = large(500);
    let mut decider = Decider::default();
    decider.desire(&scene.snapshot);
    assert!(decider.last_work().0 > 500);
    decider.desire(&scene.snapshot);
    assert_eq!(decider.last_work(), (0, 0));
    // Adds a port, changes one, removes one.
    scene.port(0x51, NET, SUB, "10.0.0.5");
    decider.desire(&scene.snapshot);
    assert_eq!(decider.last_work(), (1, 1));
    scene.edit(|txn| drop(txn.edit::<Port>(&id(0x51), |port| port.name = "other".into())));
    decider.desire(&scene.snapshot);
    assert_eq!(decider.last_work(), (1, 1));
    scene.edit(|txn| drop(txn.remove::<Port>(&id(0x51))));
    decider.desire(&scene.snapshot);
    assert_eq!(decider.last_work().1, 0);
    // Renames a router: its ports and their chassis groups read it, but their results stay the same.
    scene.edit(|txn| drop(txn.edit::<Router>(&id(0x40), |router| router.name = "renamed".into())));
    decider.desire(&scene.snapshot);
    let (compiled, changed) = decider.last_work();
    assert!(compiled <= 6 && changed == 1, "{compiled} compiled, {changed} changed");
    // Changes a network: its ports read it, but their results stay the same.
    scene.put(Network { mtu: 1400, ..copy(&scene, NET) });
    decider.desire(&scene.snapshot);
    let (compiled, changed) = decider.last_work();
    assert!(compiled > 500 && (1..10).contains(&changed), "{compiled} compiled, {changed} changed");
}

#[inline(never)]
fn from_last_desire(decider: &mut Decider, snapshot: &Snapshot) -> Outcome<WriterDesired> {
    decider.desire(snapshot)
}

#[inline(never)]
fn from_scratch_desire(snapshot: &Snapshot) -> Decider {
    let mut decider = Decider::default();
    decider.desire(snapshot);
    decider
}

/// ARCHITECTURE.md states the gain of the units, in instructions. To measure again, run this test under callgrind and compare the inclusive
/// cost of `from_last_desire` and `from_scratch_desire`: `valgrind --tool=callgrind TEST_BINARY saving`.
#[test]
fn saving_of_one_change_among_a_thousand_ports() {
    let mut scene = large(1000);
    let mut decider = Decider::default();
    decider.desire(&scene.snapshot);
    scene.edit(|txn| drop(txn.edit::<Port>(&id(0x10_0007), |port| port.name = "renamed".into())));
    let scratch = from_scratch_desire(&scene.snapshot);
    from_last_desire(&mut decider, &scene.snapshot);
    assert!(decider.parts == scratch.parts);
    assert_eq!(decider.last_work().0, 1);
}
