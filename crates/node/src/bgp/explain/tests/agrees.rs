//! Explanations against decisions: random worlds, seen from both of their chassis.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;

/// The possible states of one port of an instance.
#[derive(Clone, Debug)]
struct Instance {
    tenant: bool,
    mac: usize,
    /// Here, on the other one, or nowhere.
    at: usize,
    up: bool,
    opted_out: bool,
    vip: bool,
}

/// A world.
#[derive(Clone, Debug)]
struct Choice {
    instances: Vec<Instance>,
    gateway: (usize, bool),
    nats: Vec<usize>,
    /// Its address and its members.
    balancer: Option<(usize, usize)>,
    /// A port that is not there.
    lost: Option<usize>,
    tenants: bool,
    hidden_subnet: bool,
}

const MACS: [&str; 5] = [
    "fa:16:3e:00:00:01 172.24.4.10",
    "fa:16:3e:00:00:02 10.1.0.5 fd00::5",
    "fa:16:3e:00:00:03 172.24.4.50",
    "fa:16:3e:00:00:04 10.1.0.50",
    "unknown",
];
const NATS: [&str; 4] = [
    "fa:16:3e:ff:00:01 172.24.4.199 is_chassis_resident(\"p0\")",
    "fa:16:3e:aa:00:01 172.24.4.198 172.24.4.10 is_chassis_resident(\"cr-lrp-gw1\")",
    "fa:16:3e:aa:00:01 172.24.4.230",
    "fa:16:3e:aa:00:01 10.1.0.5 is_chassis_resident(\"cr-lrp-gw1\")",
];
const MEMBERS: [&[&str]; 4] = [&["neutron-pub"], &["neutron-pub", "neutron-ten"], &["neutron-r1"], &[]];
const LOST: [&str; 5] = ["gw1", "sub1", "lrp-sub1", "lrp-gw1", "provnet-1"];
const ALL: [&str; 10] = [
    "172.24.4.10",
    "10.1.0.5",
    "fd00::5",
    "172.24.4.50",
    "10.1.0.50",
    "172.24.4.199",
    "172.24.4.198",
    "172.24.4.230",
    "172.24.4.221",
    "2001:db8::221",
];

/// True once in four times.
fn seldom() -> impl Strategy<Value = bool> {
    (0..4_u8).prop_map(|n| n == 0)
}

fn instance() -> impl Strategy<Value = Instance> {
    let all = (any::<bool>(), 0..MACS.len(), 0..3_usize, seldom(), seldom(), seldom());
    all.prop_map(|(tenant, mac, at, down, opted_out, vip)| Instance {
        tenant,
        mac,
        at,
        up: !down,
        opted_out,
        vip,
    })
}

fn choices() -> impl Strategy<Value = Choice> {
    let all = (
        vec(instance(), 0..4),
        (0..3_usize, seldom()),
        vec(0..NATS.len(), 0..3),
        option::of((0..2_usize, 0..MEMBERS.len())),
        option::weighted(0.2, 0..LOST.len()),
        any::<bool>(),
        seldom(),
    );
    all.prop_map(|(instances, (at, down), nats, balancer, lost, tenants, hidden_subnet)| Choice {
        instances,
        gateway: (at, !down),
        nats,
        balancer,
        lost,
        tenants,
        hidden_subnet,
    })
}

fn bind(world: &mut World, port: &str, at: usize, up: bool) {
    if let Some(chassis) = ["ch-a", "ch-b"].get(at) {
        world.bind(port, chassis).port(port).up = Some(up);
    }
}

fn made(choice: &Choice) -> World {
    let mut world = World::new();
    world.config.expose_tenant_networks = choice.tenants;
    for (n, instance) in choice.instances.iter().enumerate() {
        let name = format!("p{n}");
        let switch = if instance.tenant { "neutron-ten" } else { "neutron-pub" };
        world.vif(&name, switch, &[MACS[instance.mac]]);
        bind(&mut world, &name, instance.at, instance.up);
        if instance.opted_out {
            world.external_id(&name, "meridian:advertise", "false");
        }
        if instance.vip {
            world.external_id(&name, "neutron:device_owner", "ovn-lb:vip");
        }
    }
    bind(&mut world, "cr-lrp-gw1", choice.gateway.0, choice.gateway.1);
    world.nat("gw1", &choice.nats.iter().map(|nat| NATS[*nat]).collect::<Vec<_>>());
    if let Some((vip, members)) = choice.balancer {
        let group = world.group("g", MEMBERS[members]);
        world.balancer("lb", &[["172.24.4.50:80", "10.1.0.50"][vip]]).ls_datapath_group = group;
    }
    if choice.hidden_subnet {
        world.external_id("sub1", "meridian:advertise", "false");
    }
    if let Some(lost) = choice.lost {
        world.ports.remove(LOST[lost]);
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn an_explanation_says_what_is_decided_here_and_on_the_other_chassis(choice in choices()) {
        let mut world = made(&choice);
        let snapshot = world.snapshot();
        let here = decide(&snapshot).value;
        let told = ALL.map(|ip| explain(&snapshot, &here, ip.parse().unwrap(), &Sight::default(), |_| None));
        world.settings.insert("system-id".into(), "ch-b".into());
        let there = world.decide().value;
        for told in told {
            let address = here.addresses.get(&told.ip);
            prop_assert_eq!(told.announced, address.is_some(), "{}", &told);
            for reason in address.iter().flat_map(|address| &address.reasons) {
                let line = format!("{}: {reason}.", reason.rule());
                prop_assert!(told.text.contains(&line), "{line:?} is not in {}", &told);
            }
            let named = told.text.iter().any(|line| line.ends_with("chassis ch-b, which has to announce it."));
            prop_assert_eq!(named, there.addresses.contains_key(&told.ip), "{}", &told);
            // What is announced by nobody says why.
            prop_assert!(told.text.len() > 1, "{}", &told);
        }
    }
}
