use std::sync::Arc;
use std::time::Duration;

use ovn::sb::Chassis;
use ovn::text::Text;
use ovn::vswitch::OpenVSwitch;
use ovsdb::replica::Replica;
use ovsdb::{Ref, Set, Table};

use super::super::snapshot::southbound_model;
use super::*;
use crate::connections::switch;

const NETWORK: Uuid = Uuid::from_u128(0xaaaaaaaa_2222_3333_4444_555555555555);
const OTHER: Uuid = Uuid::from_u128(0xbbbbbbbb_2222_3333_4444_555555555555);
const ME: Uuid = Uuid::from_u128(1);
const ELSEWHERE: Uuid = Uuid::from_u128(2);
const HOLD: Duration = Duration::from_secs(60);

/// A Southbound database with one network that has a metadata port.
struct World {
    ports: BTreeMap<&'static str, PortBinding>,
    networks: BTreeSet<Uuid>,
    before: Decision,
    start: Instant,
    passed: Duration,
    /// When the chassis came, after the start.
    came: Duration,
    ipv6: bool,
}

impl World {
    #[expect(clippy::disallowed_methods, reason = "any instant will do as the beginning")]
    fn new() -> World {
        let mut world = World {
            ports: BTreeMap::new(),
            networks: [NETWORK, OTHER].into(),
            before: Decision::default(),
            start: Instant::now(),
            // Long after the chassis came.
            passed: Duration::from_secs(1000),
            came: Duration::ZERO,
            ipv6: true,
        };
        let metadata = world.port("md", "02:00:00:00:00:02 10.0.1.2 10.0.2.2");
        metadata.kind = PortType::Localport;
        metadata.chassis = None;
        for (key, value) in [
            (key::DEVICE_ID, format!("ovnmeta-{NETWORK}")),
            (key::DEVICE_OWNER, device_owner::DISTRIBUTED.into()),
            (key::CIDRS, "10.0.1.2/24 10.0.2.2/24".into()),
            (key::MTU, "1442".into()),
        ] {
            metadata.external_ids.insert(key.into(), value.into());
        }
        world
    }

    /// A port of the network on this chassis.
    fn port(&mut self, name: &'static str, addresses: &str) -> &mut PortBinding {
        let row = PortBinding {
            logical_port: name.into(),
            datapath: Ref::new(NETWORK),
            chassis: Some(Weak::new(ME)),
            mac: Set::from([Text::new(addresses)]),
            external_ids: [
                (key::DEVICE_ID.into(), format!("instance-{name}").into()),
                (key::PROJECT_ID.into(), "p1".into()),
                (key::DEVICE_OWNER.into(), "compute:nova".into()),
            ]
            .into(),
            ..PortBinding::default()
        };
        self.ports.entry(name).insert_entry(row).into_mut()
    }

    fn snapshot(&self) -> Snapshot {
        let mut sb = Replica::new(southbound_model(&"hv1".into(), Some(ME)));
        let id = |name: &str| ovn::ident::row_uuid("test", name, "");
        fill(&mut sb, [(ME, Chassis { name: "hv1".into(), ..Chassis::default() })]);
        fill(
            &mut sb,
            self.networks.iter().map(|network| {
                let name = ("name".into(), format!("neutron-{network}").into());
                (*network, DatapathBinding { external_ids: [name].into(), ..DatapathBinding::default() })
            }),
        );
        fill(&mut sb, self.ports.iter().map(|(name, row)| (id(name), row.clone())));
        let mut vswitch = Replica::new(switch::model());
        let settings = [("system-id".into(), "ch1".into())].into();
        fill(&mut vswitch, [(ME, OpenVSwitch { external_ids: settings, ..OpenVSwitch::default() })]);
        Snapshot {
            sb: sb.snapshot(),
            vswitch: vswitch.snapshot(),
            chassis: ME,
            since: self.start + self.came,
            now: self.start + self.passed,
            hold: HOLD,
            ipv6: self.ipv6,
            sb_cfg: Some(7),
            before: Arc::new(self.before.clone()),
        }
    }

    fn decide(&self) -> Outcome<Decision> {
        decide(&self.snapshot())
    }

    /// The addresses of the namespace; nothing without one.
    fn addresses(&self) -> Vec<String> {
        let decision = self.decide().value;
        let served = decision.desired.networks.get(&NETWORK);
        served.into_iter().flat_map(|served| &served.namespace.addresses).map(ToString::to_string).collect()
    }

    /// Address and instance of each identity.
    fn identities(&self) -> Vec<String> {
        let decision = self.decide().value;
        let all = decision.identities.get(&NETWORK).into_iter().flatten();
        all.flat_map(|port| {
            let addresses = port.addresses.iter().filter(|ip| ip.is_ipv4());
            addresses.map(|ip| format!("{ip} {} {}", port.instance, port.project)).collect::<Vec<_>>()
        })
        .collect()
    }
}

fn fill<T: Table>(replica: &mut Replica, rows: impl IntoIterator<Item = (Uuid, T)>) {
    replica.edit(rows.into_iter().map(|(row, value)| (row, Some(value))).collect());
}

#[test]
fn a_network_is_served_where_it_has_a_port() {
    let mut world = World::new();
    assert_eq!(world.addresses(), [""; 0], "no VM here");
    world.port("vm", "02:00:00:00:00:05 10.0.1.5");
    assert_eq!(world.addresses(), ["10.0.1.2/24", "169.254.169.254/32"]);
    let decision = world.decide().value;
    let served = &decision.desired.networks[&NETWORK];
    assert_eq!((served.port.as_str(), served.bridge.as_str()), ("md", "br-int"));
    assert_eq!(
        (served.namespace.mtu, served.namespace.mac.to_string().as_str()),
        (Some(1442), "02:00:00:00:00:02")
    );
    assert_eq!(world.identities(), ["10.0.1.5 instance-vm p1"]);
    let keys = &decision.desired.keys;
    assert_eq!(keys[key::METADATA_AGENT_ID], "902ae2af-c755-5c53-859c-c466137ed38c");
    assert_eq!((keys[key::METADATA_AGENT_SB_CFG].as_str(), keys[key::OVN_BRIDGE].as_str()), ("7", "br-int"));
    // A second subnet gets its address with its first VM, IPv6 its own.
    world.port("vm2", "02:00:00:00:00:06 10.0.2.6 fd00::6");
    let all =
        ["10.0.1.2/24", "10.0.2.2/24", "169.254.169.254/32", "fe80::ff:fe00:2/64", "fe80::a9fe:a9fe/128"];
    assert_eq!(world.addresses().into_iter().collect::<BTreeSet<_>>(), all.map(String::from).into());
    world.ipv6 = false;
    assert_eq!(world.addresses().len(), 3, "the kernel has no IPv6");
}

#[test]
fn a_subnet_without_an_address_of_the_metadata_port_is_on_the_link() {
    let mut world = World::new();
    let on_link = |world: &World| {
        let served = world.decide().value.desired.networks[&NETWORK].clone();
        served.namespace.on_link.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let vm = |world: &mut World, name, addresses, cidrs: &str| {
        world.port(name, addresses).external_ids.insert(key::CIDRS.into(), cidrs.into());
    };
    vm(&mut world, "vm", "02:00:00:00:00:05 10.0.1.5", "10.0.1.5/24");
    assert_eq!(on_link(&world), [""; 0], "the metadata port has 10.0.1.2/24");
    vm(&mut world, "bare", "02:00:00:00:00:06 10.0.9.6 fd00::6", "10.0.9.6/24 fd00::6/64 0.0.0.0/0 x");
    assert_eq!(on_link(&world), ["10.0.9.0/24"]);
}

#[test]
fn ports_of_other_kinds_and_places_make_no_namespace() {
    type Change = fn(&mut PortBinding);
    let cases: [(&str, Change, bool); 9] = [
        ("a VM", |_| {}, true),
        ("external", |port| port.kind = PortType::External, true),
        ("elsewhere", |port| port.chassis = Some(Weak::new(ELSEWHERE)), false),
        (
            "about to come",
            |port| {
                port.chassis = Some(Weak::new(ELSEWHERE));
                port.additional_chassis = Set::from([Weak::new(ME)]);
            },
            true,
        ),
        ("virtual", |port| port.kind = PortType::Virtual, false),
        ("a gateway", |port| port.kind = PortType::L3Gateway, false),
        ("a foreign datapath", |port| port.datapath = Ref::new(Uuid::from_u128(99)), false),
        ("no address", |port| port.mac = Set::default(), false),
        (
            "only cidrs",
            |port| {
                port.mac = Set::from([Text::new("unknown")]);
                port.external_ids.insert(key::CIDRS.into(), "10.0.1.5/24".into());
            },
            true,
        ),
    ];
    for (name, change, expected) in cases {
        let mut world = World::new();
        change(world.port("vm", "02:00:00:00:00:05 10.0.1.5"));
        assert_eq!(!world.addresses().is_empty(), expected, "{name}");
    }
}

#[test]
fn identities_are_those_of_parents_and_never_of_services() {
    let mut world = World::new();
    world.port("vm", "02:00:00:00:00:05 10.0.1.5");
    let nested = world.port("nested", "02:00:00:00:00:06 10.0.1.6");
    nested.parent_port = Some("vm".into());
    nested.external_ids.insert(key::DEVICE_ID.into(), "".into());
    let vip = world.port("vip", "02:00:00:00:00:07 10.0.1.7");
    vip.kind = PortType::Virtual;
    vip.virtual_parent = Some("vm".into());
    let router = world.port("router", "02:00:00:00:00:08 10.0.1.8");
    router.external_ids.insert(key::DEVICE_OWNER.into(), "network:router_interface".into());
    let lost = world.port("lost", "02:00:00:00:00:09 10.0.1.9");
    lost.external_ids.insert(key::DEVICE_ID.into(), "".into());
    assert_eq!(
        world.identities().into_iter().collect::<BTreeSet<_>>(),
        ["10.0.1.5 instance-vm p1", "10.0.1.6 instance-vm p1", "10.0.1.7 instance-vm p1"]
            .map(String::from)
            .into()
    );
    let ports = world.decide().value.identities[&NETWORK].clone();
    let vm = ports.iter().find(|port| port.addresses.contains(&"10.0.1.5".parse().unwrap())).unwrap();
    assert!(vm.addresses.contains(&"fe80::ff:fe00:5".parse().unwrap()), "{vm:?}");
    let senders = |world: &World, ip: &str| {
        let ports = world.decide().value.identities[&NETWORK].clone();
        let port = ports.into_iter().find(|port| port.addresses.contains(&ip.parse().unwrap())).unwrap();
        port.macs.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(senders(&world, "10.0.1.5"), ["02:00:00:00:00:05"]);
    // Packets of a virtual address come from the port that has claimed it.
    assert_eq!(senders(&world, "10.0.1.7"), ["02:00:00:00:00:05", "02:00:00:00:00:07"]);
    world.port("external", "02:00:00:00:00:0a 10.0.1.10").kind = PortType::External;
    assert_eq!(senders(&world, "10.0.1.10"), [""; 0], "it may be behind a router of the provider");
}

#[test]
fn a_network_without_vms_is_held_for_a_while_and_its_identities_are_not() {
    let mut world = World::new();
    world.port("vm", "02:00:00:00:00:05 10.0.1.5");
    world.before = world.decide().value;
    assert_eq!(world.before.next(HOLD), None);
    world.ports.remove("vm");
    world.passed = Duration::from_secs(1005);
    let idle = world.decide().value;
    assert!(idle.desired.networks.contains_key(&NETWORK) && idle.identities.is_empty());
    assert_eq!(idle.next(HOLD), Some(world.start + Duration::from_secs(1065)));
    world.before = idle;
    world.passed = Duration::from_secs(1064);
    assert_eq!(world.decide().value, world.before);
    world.passed = Duration::from_secs(1065);
    assert!(world.decide().value.desired.networks.is_empty());
    // A chassis that came back a moment ago has not bound its ports yet, however long it was away.
    world.came = Duration::from_secs(1064);
    let held = world.decide().value;
    assert!(held.desired.networks.contains_key(&NETWORK));
    assert_eq!(held.next(HOLD), Some(world.start + Duration::from_secs(1124)));
    world.came = Duration::ZERO;
    // One that comes back in time was never gone.
    world.port("vm", "02:00:00:00:00:05 10.0.1.5");
    assert!(world.decide().value.idle.is_empty());
    // A network that is deleted is not held.
    world.ports.clear();
    world.passed = Duration::from_secs(1006);
    assert!(world.decide().value.desired.networks.is_empty());
}

#[test]
fn a_new_agent_removes_nothing_before_the_chassis_has_bound_its_ports() {
    let mut world = World::new();
    world.passed = Duration::from_secs(59);
    let early = world.decide();
    assert!(early.keep.contains(&object(NETWORK)) && early.value.desired.networks.is_empty());
    assert_eq!(early.value.next(HOLD), Some(world.start + HOLD));
    world.passed = HOLD;
    let late = world.decide();
    assert!(late.keep.is_empty() && late.value.next(HOLD).is_none());
}

#[test]
fn one_bad_row_hurts_no_other() {
    let mut world = World::new();
    world.port("vm", "02:00:00:00:00:05 10.0.1.5");
    world.port("bad", "not an address");
    assert_eq!(world.identities(), ["10.0.1.5 instance-vm p1"]);
    // Health monitors have localports as well.
    let monitor = world.port("aa-monitor", "02:00:00:00:00:03 10.0.1.3");
    monitor.kind = PortType::Localport;
    monitor.external_ids.insert(key::DEVICE_OWNER.into(), device_owner::LB_HEALTH_MONITOR.into());
    assert_eq!(world.decide().value.desired.networks[&NETWORK].port.as_str(), "md");
    // A metadata port without an address is a problem of its network alone, whose namespace stays as it is.
    world.before = world.decide().value;
    world.ports.get_mut("md").unwrap().mac = Set::from([Text::new("unknown")]);
    let out = world.decide();
    assert_eq!(out.problems.len(), 1);
    assert_eq!(out.problems[0].code.as_str(), "no-mac");
    assert_eq!(out.value.desired.networks, world.before.desired.networks);
    assert_eq!(out.value.identities, world.before.identities);
}
