//! A mirror that follows changes shows what one that looks for the first time shows.

use ovn::PortType;
use ovn::nb::LoadBalancerGroup;
use ovn::sb::{Chassis, LoadBalancer, PortBinding};
use ovsdb::{Ref, Table, Weak};
use proptest::prelude::*;

use super::Cloud;
use crate::bgp::desired::decide;
use crate::bgp::desired::tests::world::{id, options};
use crate::bgp::northbound::Mirror;

/// One change, in the words of the fixture.
#[derive(Clone, Debug)]
enum Edit {
    Port { n: usize, kind: usize, switch: usize },
    Runs { n: usize, up: bool, host: usize },
    Delete { n: usize },
    Hosted { chassis: usize },
    Gateway { is: bool },
    Nat { n: usize, distributed: bool, gone: bool },
    Balancer { n: usize, on: usize },
    Router { on: bool, chassis: bool },
    Flag { value: usize },
    SetUp { is: bool },
    Own { hostname: bool },
    Route { n: usize, gone: bool },
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        (0..4_usize, 0..4_usize, 0..2_usize).prop_map(|(n, kind, switch)| Edit::Port { n, kind, switch }),
        (0..4_usize, any::<bool>(), 0..3_usize).prop_map(|(n, up, host)| Edit::Runs { n, up, host }),
        (0..4_usize).prop_map(|n| Edit::Delete { n }),
        (0..3_usize).prop_map(|chassis| Edit::Hosted { chassis }),
        any::<bool>().prop_map(|is| Edit::Gateway { is }),
        (0..3_usize, any::<bool>(), any::<bool>()).prop_map(|(n, distributed, gone)| Edit::Nat {
            n,
            distributed,
            gone
        }),
        (0..2_usize, 0..5_usize).prop_map(|(n, on)| Edit::Balancer { n, on }),
        (any::<bool>(), any::<bool>()).prop_map(|(on, chassis)| Edit::Router { on, chassis }),
        (0..3_usize).prop_map(|value| Edit::Flag { value }),
        any::<bool>().prop_map(|is| Edit::SetUp { is }),
        any::<bool>().prop_map(|hostname| Edit::Own { hostname }),
        (0..3_usize, any::<bool>()).prop_map(|(n, gone)| Edit::Route { n, gone }),
    ]
}

const SWITCHES: [&str; 2] = ["neutron-pub", "neutron-ten"];
const PORTS: [&str; 4] = ["p0", "p1", "p2", "sub1"];
const FLOATING: [&str; 3] = ["172.24.4.198", "172.24.4.199", "x"];

fn apply(cloud: &mut Cloud, edit: &Edit) {
    match *edit {
        Edit::Port { n, kind, switch } => {
            let kind = [PortType::Vif, PortType::Virtual, PortType::Localnet, PortType::Router][kind].clone();
            let port =
                cloud.add(PORTS[n], SWITCHES[switch], kind, &[["fa:16:3e:00:00:01 172.24.4.10", "x"][n % 2]]);
            port.options = options([("router-port", "lrp-sub1"), ("network_name", "physnet1")]);
        }
        Edit::Runs { n, up, host } => {
            if let Some(port) = cloud.ports.get_mut(PORTS[n]) {
                port.up = Some(up);
                port.external_ids = options([("neutron:host_id", ["host-a", "host-b", ""][host])]);
            }
        }
        Edit::Delete { n } => {
            cloud.ports.remove(PORTS[n]);
            cloud.switches.values_mut().for_each(|switch| _ = switch.ports.remove(&Ref::new(id(PORTS[n]))));
        }
        Edit::Hosted { chassis } => _ = cloud.hosted("lrp-gw1", ["ch-a", "ch-b", ""][chassis]),
        Edit::Gateway { is } => {
            let group = is.then(|| Ref::new(id("group")));
            cloud.router_port("lrp-gw1").gateway_chassis = Default::default();
            cloud.router_port("lrp-gw1").ha_chassis_group = group;
        }
        Edit::Nat { n, distributed, gone } => {
            cloud.nat("neutron-r1", FLOATING[n]);
            if distributed {
                cloud.distributed("neutron-r1", FLOATING[n], "p0");
            }
            if gone {
                cloud.nats.remove(FLOATING[n]);
                cloud.routers.get_mut("neutron-r1").unwrap().nat.remove(&Ref::new(id(FLOATING[n])));
            }
        }
        Edit::Balancer { n, on } => {
            let name = ["lb0", "lb1"][n];
            cloud.balancer(name, &["172.24.4.50:80"]);
            match on {
                0 => _ = cloud.on_switch("neutron-ten", name),
                1 => _ = cloud.on_router("neutron-r1", name),
                2 => {
                    cloud.balancers.get_mut(name).unwrap().external_ids = options([("lr_ref", "neutron-r1")])
                }
                3 => {
                    let group =
                        LoadBalancerGroup { name: "all".into(), load_balancer: [Weak::new(id(name))].into() };
                    cloud.groups.insert("all".into(), group);
                    cloud.switches.get_mut("neutron-pub").unwrap().load_balancer_group =
                        [Ref::new(id("all"))].into();
                }
                _ => {
                    cloud.balancers.remove(name);
                    let gone = Weak::new(id(name));
                    cloud.switches.values_mut().for_each(|switch| _ = switch.load_balancer.remove(&gone));
                    cloud.routers.values_mut().for_each(|router| _ = router.load_balancer.remove(&gone));
                }
            }
        }
        Edit::Router { on, chassis } => {
            let router = cloud.routers.get_mut("neutron-r1").unwrap();
            router.enabled = Some(on);
            router.options = if chassis { options([("chassis", "ch-a")]) } else { Default::default() };
        }
        Edit::Flag { value } => {
            if let Some(global) = cloud.global.get_mut("NB_Global") {
                global.external_ids = options([("neutron:fip-distributed", ["True", "False", "x"][value])]);
            }
        }
        Edit::SetUp { is } if is => _ = cloud.global.insert("NB_Global".into(), Default::default()),
        Edit::SetUp { .. } => cloud.global.clear(),
        Edit::Route { n, gone } => {
            let next_hop = ["2001:db8::1", "172.24.4.1", "x"][n];
            cloud.route("neutron-r1", "::/0", next_hop);
            if gone {
                let name = format!("::/0 {next_hop}");
                cloud.routes.remove(&name);
                cloud.routers.get_mut("neutron-r1").unwrap().static_routes.remove(&Ref::new(id(&name)));
            }
        }
        Edit::Own { hostname } => cloud.hostname = if hostname { "host-a" } else { "host-b" },
    }
}

fn rows<T: Table + std::fmt::Debug>(snapshot: &ovsdb::Snapshot) -> Vec<(ovsdb::Uuid, T)> {
    snapshot.table::<T>().iter().map(|(row, value)| (row.uuid(), value.clone())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn what_follows_is_what_is_there(edits in proptest::collection::vec(edit(), 1..24)) {
        let mut cloud = Cloud::new().tenants();
        let mut mirror = Mirror::of_everything(cloud.own());
        let mut near = Mirror::new(cloud.own());
        mirror.look(&cloud.northbound(), &cloud.own());
        for edit in &edits {
            apply(&mut cloud, edit);
            let followed = mirror.look(&cloud.northbound(), &cloud.own());
            let fresh = cloud.mirrored();
            prop_assert_eq!(rows::<PortBinding>(&followed), rows::<PortBinding>(&fresh), "after {:?}", edit);
            prop_assert_eq!(rows::<LoadBalancer>(&followed), rows::<LoadBalancer>(&fresh), "after {:?}", edit);
            // Names of others that nobody has any more may stay.
            let known = rows::<Chassis>(&followed);
            prop_assert!(rows::<Chassis>(&fresh).iter().all(|row| known.contains(row)), "after {:?}", edit);
            let me = cloud.own().row();
            prop_assert_eq!(followed.get::<Chassis>(me).is_some(), fresh.get::<Chassis>(me).is_some());
            // What is left out does not matter.
            let left = near.look(&cloud.northbound(), &cloud.own());
            let first = Mirror::new(cloud.own()).look(&cloud.northbound(), &cloud.own());
            prop_assert_eq!(rows::<PortBinding>(&left), rows::<PortBinding>(&first), "after {:?}", edit);
            let decided = |sb: &ovsdb::Snapshot| decide(&cloud.seen_by(sb.clone()));
            prop_assert_eq!(decided(&left), decided(&fresh), "after {:?}", edit);
            // Nothing new is nothing changed.
            let again = mirror.look(&cloud.northbound(), &cloud.own());
            prop_assert!(followed.diff(&again).is_empty());
        }
    }
}
