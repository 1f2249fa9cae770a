//! Tests of who makes the device of a VLAN, and of how one gives way to the other.

use std::collections::BTreeSet;

use super::*;
use crate::plane::plan::plan;
use crate::plane::plan::tests::model::{Choice, World, desired};

const DEV: &str = "br-ex.100";

/// One address on the VLAN.
fn want(vlan_device: VlanDevice) -> Desired {
    let hosts = [vec![Some(1)], vec![None; 7]].concat();
    desired(&Choice { hosts, subnets: vec![true, false], aggregate: false, bridges: 1, vlan_device })
}

/// The texts of a plan about the device and the announcements, and the codes of its problems.
fn planned(want: &Desired, world: &World) -> (Vec<String>, Vec<String>) {
    let plan = plan(want, &BTreeSet::new(), &world.observed());
    let of_devices = |text: &String| text.contains(&format!(" {DEV}")) || text.contains("bgp-nic");
    let steps = plan.steps.iter().map(|step| step.op.to_string()).filter(of_devices).collect();
    (steps, plan.problems.iter().map(|problem| problem.code.to_string()).collect())
}

/// Runs until nothing is left to do; every plan's steps about the device.
fn rounds(want: &Desired, world: &mut World) -> Vec<Vec<String>> {
    let mut out = Vec::new();
    for _ in 0..8 {
        let (steps, _) = planned(want, world);
        let plan = plan(want, &BTreeSet::new(), &world.observed());
        if plan.steps.is_empty() {
            assert_eq!(plan.want, plan.have);
            return out;
        }
        out.push(
            steps
                .into_iter()
                .filter(|step| step.ends_with("100") || step.contains("VLAN") || step.contains("delete"))
                .collect(),
        );
        world.run(&plan, &|_| false, &mut |world, op| assert!(world.stranded().is_empty(), "{op}"));
    }
    panic!("there is no end to it: {out:?}");
}

const ADD_VLAN: &str = "add br-ex.100 as VLAN 100 of br-ex";
const ADD_PORT: &str = "add internal port br-ex.100 with VLAN 100 to br-ex in Open vSwitch";

#[test]
fn the_kernel_is_tried_first_and_the_switch_does_what_it_cannot() {
    let first = |mut world: World| rounds(&want(VlanDevice::Auto), &mut world);
    let with = first(World::bare());
    assert_eq!(with[0].iter().filter(|step| step.contains("VLAN")).collect::<Vec<_>>(), [ADD_VLAN]);
    let without = first(World::bare().without_vlans(true));
    let made: Vec<&String> = without.iter().flatten().filter(|step| step.contains("VLAN")).collect();
    assert_eq!(made, [ADD_VLAN, ADD_PORT], "{without:?}");
}

#[test]
fn what_is_there_stays() {
    let auto = want(VlanDevice::Auto);
    for before in [VlanDevice::Kernel, VlanDevice::Internal] {
        let world = World::made(&want(before));
        assert_eq!(planned(&auto, &world), (vec![], vec![]), "{before:?}");
    }
}

#[test]
fn a_kernel_that_is_told_to_and_cannot_says_so() {
    let want = want(VlanDevice::Kernel);
    let mut world = World::bare().without_vlans(true);
    let plan = plan(&want, &BTreeSet::new(), &world.observed());
    world.run(&plan, &|_| false, &mut |_, _| {});
    assert_eq!(planned(&want, &world).1, ["no-vlan-devices"]);
    assert_eq!(world.announced().count(), 0);
}

#[test]
fn one_gives_way_to_the_other_and_nothing_is_announced_meanwhile() {
    for (before, after, gone, made) in [
        (VlanDevice::Kernel, VlanDevice::Internal, "delete br-ex.100", ADD_PORT),
        (
            VlanDevice::Internal,
            VlanDevice::Kernel,
            "delete port br-ex.100 of br-ex in Open vSwitch",
            ADD_VLAN,
        ),
    ] {
        let mut world = World::made(&want(before));
        let announced: Vec<_> = world.announced().collect();
        assert_eq!(announced.len(), 2, "a gateway and what is behind it");
        let (steps, _) = planned(&want(after), &world);
        assert_eq!(
            steps,
            ["delete address 10.1.0.5/32 from bgp-nic", "delete address 172.24.4.0/32 from bgp-nic", gone]
        );
        let all = rounds(&want(after), &mut world);
        assert!(all[1].contains(&made.to_owned()), "{all:?}");
        assert_eq!(world.announced().collect::<Vec<_>>(), announced);
    }
}

#[test]
fn the_address_of_the_bridge_is_that_of_its_ports() {
    let want = want(VlanDevice::Internal);
    let arranged = ArrangedVlans::new(&want, &World::bare().observed());
    assert_eq!(arranged.ports[DEV].mac, want.flows["br-ex"].mac);
    assert_eq!(arranged.kernel.links[DEV], Link::Port { bridge: "br-ex".into() });
}
