//! Random worlds, changed at random: decisions hang together, and depend on what is there alone.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::world::World;
use crate::kernel::{Select, Table};
use crate::plane;

/// One change of the world, in the words of the fixture.
#[derive(Clone, Debug)]
pub(super) enum Edit {
    Vif {
        n: u8,
        tenant: bool,
        mac: u8,
    },
    Bind {
        port: u8,
        chassis: u8,
    },
    Down {
        port: u8,
    },
    Delete {
        port: u8,
    },
    Nat {
        entry: u8,
    },
    Balancer {
        vip: u8,
        members: u8,
    },
    OptOut {
        port: u8,
        out: bool,
    },
    Mapping {
        which: u8,
    },
    /// The local switch tells the bridge's Ethernet address, or none for now.
    Mac {
        which: u8,
    },
    /// The patch port to the overlay is there, with a number or none for now, or it is not.
    Patch {
        which: u8,
    },
}

const PORTS: [&str; 9] = ["p0", "p1", "p2", "p3", "cr-lrp-gw1", "gw1", "sub1", "lrp-sub1", "provnet-1"];

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    proptest::collection::vec(edit(), 1..24)
}

pub(super) fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        (0..4_u8, any::<bool>(), 0..6_u8).prop_map(|(n, tenant, mac)| Edit::Vif { n, tenant, mac }),
        (0..5_u8, 0..3_u8).prop_map(|(port, chassis)| Edit::Bind { port, chassis }),
        (0..5_u8).prop_map(|port| Edit::Down { port }),
        (0..9_u8).prop_map(|port| Edit::Delete { port }),
        (0..6_u8).prop_map(|entry| Edit::Nat { entry }),
        (0..3_u8, 0..4_u8).prop_map(|(vip, members)| Edit::Balancer { vip, members }),
        (0..9_u8, any::<bool>()).prop_map(|(port, out)| Edit::OptOut { port, out }),
        (0..4_u8).prop_map(|which| Edit::Mapping { which }),
        told(),
    ]
}

/// The local switch's report about a bridge.
pub(super) fn told() -> impl Strategy<Value = Edit> {
    prop_oneof![
        (0..3_u8).prop_map(|which| Edit::Mac { which }),
        (0..5_u8).prop_map(|which| Edit::Patch { which }),
    ]
}

pub(super) fn apply(world: &mut World, edit: &Edit) {
    let there = |world: &World, port: u8| {
        let name = PORTS[usize::from(port)];
        world.ports.contains_key(name).then_some(name)
    };
    match *edit {
        Edit::Vif { n, tenant, mac } => {
            let switch = if tenant { "neutron-ten" } else { "neutron-pub" };
            let mac = [
                "fa:16:3e:00:00:01 172.24.4.10",
                "fa:16:3e:00:00:02 10.1.0.5 fd00::5",
                "unknown",
                "garbage",
                "",
                "fa:16:3e:00:00:03 172.24.4.10 2001:db8::10",
            ][usize::from(mac)];
            world.vif(PORTS[usize::from(n)], switch, &[mac]);
        }
        Edit::Bind { port, chassis } => {
            if let Some(name) = there(world, port) {
                match chassis {
                    0 => world.unbind(name),
                    1 => world.bind(name, "ch-a"),
                    _ => world.bind(name, "ch-b"),
                };
            }
        }
        Edit::Down { port } => {
            if let Some(name) = there(world, port) {
                world.port(name).up = Some(false);
            }
        }
        Edit::Delete { port } => {
            world.ports.remove(PORTS[usize::from(port)]);
        }
        Edit::Nat { entry } => {
            if world.ports.contains_key("gw1") {
                let entry = [
                    "fa:16:3e:ff:00:01 172.24.4.199 is_chassis_resident(\"p0\")",
                    "fa:16:3e:aa:00:01 172.24.4.198 172.24.4.10 is_chassis_resident(\"cr-lrp-gw1\")",
                    "fa:16:3e:aa:00:01 172.24.4.230",
                    "nonsense",
                    "router",
                    "fa:16:3e:aa:00:01 10.1.0.5 is_chassis_resident(\"cr-lrp-gw1\")",
                ][usize::from(entry)];
                world.nat("gw1", &[entry]);
            }
        }
        Edit::Balancer { vip, members } => {
            let vip = ["172.24.4.50:80", "10.1.0.50", "x"][usize::from(vip)];
            let members: &[&str] =
                [&["neutron-pub"][..], &["neutron-pub", "neutron-ten"], &["neutron-r1"], &[]]
                    [usize::from(members)];
            let group = world.group("g", members);
            world.balancer("lb", &[vip]).ls_datapath_group = group;
        }
        Edit::OptOut { port, out } => {
            if let Some(name) = there(world, port) {
                world.external_id(name, "meridian:advertise", if out { "false" } else { "true" });
            }
        }
        Edit::Mapping { which } => {
            let text = ["physnet1:br-ex", "", "physnet2:br-ex", "physnet1:br-ex,bad,physnet2:br-none"]
                [usize::from(which)];
            world.settings.insert("ovn-bridge-mappings".into(), text.into());
        }
        Edit::Mac { which } => {
            let mac = [None, Some("02:00:00:00:ee:01"), Some("02:00:00:00:ee:02")][usize::from(which)];
            world.bridges.insert("br-ex".into(), mac.map(String::from));
        }
        Edit::Patch { which } => {
            let number = [None, Some(5), Some(7), Some(-1)].get(usize::from(which));
            world.patches =
                number.map(|number| ("provnet-1".into(), ("br-ex".into(), *number))).into_iter().collect();
        }
    }
}

/// Each announcement has its path: a rule and a route of its own, or those of its subnet; next hops are covered; devices are
/// there.
fn hangs_together(plane: &plane::Desired) -> Result<(), TestCaseError> {
    let kernel = &plane.kernel;
    for address in &kernel.addresses {
        prop_assert!(kernel.links.contains_key(&address.dev), "{address:?} on a device that is not there");
        if address.dev != kernel.own.announce {
            continue;
        }
        let covers = |net: &ipnet::IpNet| net.prefix_len() > 0 && net.contains(&address.net.addr());
        let table = |table: &Table| kernel.routes.keys().any(|(of, net)| of == table && covers(net));
        let carried = kernel
            .rules
            .iter()
            .any(|rule| matches!(rule.select, Select::To(net) if covers(&net)) && table(&rule.table));
        prop_assert!(carried, "{} has no way", address.net);
    }
    for ((table, net), hop) in &kernel.routes {
        prop_assert!(kernel.links.contains_key(&hop.dev), "{net} through a device that is not there");
        if let Some(via) = hop.via {
            let direct = kernel
                .routes
                .iter()
                .any(|((of, net), hop)| of == table && hop.via.is_none() && net.contains(&via));
            prop_assert!(direct, "{net} via {via}, which nothing leads to");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn decisions_hang_together(edits in edits()) {
        let mut world = World::new().tenants();
        for edit in &edits {
            apply(&mut world, edit);
            hangs_together(&world.plane())?;
            world.settle();
        }
        // The same again gives the same, and from nothing nothing but what is there.
        let once = world.state();
        world.settle();
        prop_assert_eq!(&world.state(), &once);
    }

    /// Whatever order changes came in, and however many decisions were made between them, the end is decided alike, save for
    /// what cannot be read, and for who was first where two want the same.
    #[test]
    fn the_way_does_not_matter(edits in edits()) {
        let (mut stepwise, mut at_once) = (World::new().tenants(), World::new().tenants());
        for edit in &edits {
            apply(&mut stepwise, edit);
            stepwise.settle();
            apply(&mut at_once, edit);
        }
        let problems: BTreeSet<String> = at_once.problems().into_iter().collect();
        let undecided =
            ["bad-addresses", "bad-nat-addresses", "bad-cidrs", "bad-vip", "address-conflict", "overlapping-subnet"];
        prop_assume!(!problems.iter().any(|problem| undecided.iter().any(|code| problem.ends_with(code))));
        prop_assert_eq!(stepwise.state(), at_once.state());
    }
}
