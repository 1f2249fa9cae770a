//! A live migration: the ports of both pods in every zone.

use ovn::PortType;
use ovn::nb::LogicalSwitchPort;

use super::*;
use crate::zone::migration::{Migration, VmPod};

/// The pods of a machine: `a` at node1, `c` at node2, with the same addresses.
fn machine(target: Option<(bool, bool)>, is_source_there: bool) -> Vec<ZonePod> {
    let mut states = Vec::new();
    let mut pods = Vec::new();
    let state = |uid: &str, created, is_living, is_target_ready| VmPod {
        uid: uid.to_owned(),
        created,
        is_living,
        is_target_ready,
    };
    if is_source_there {
        states.push(state("uid-of-a", 1, true, false));
        pods.push(pod("a", "node1", 5, 10));
    }
    if let Some((is_living, is_ready)) = target {
        states.push(state("uid-of-c", 2, is_living, is_ready));
        pods.push(pod("c", "node2", 5, 12));
    }
    let migration = Migration::of_pods(&states).unwrap();
    pods.retain_mut(|pod| {
        let traffic = migration.as_ref().map_or(Some(PodTraffic::Passes), |it| it.traffic_of(&pod.uid));
        pod.traffic = traffic.unwrap_or_default();
        traffic.is_some()
    });
    pods
}

/// The port of a pod in a zone.
fn port(local: &str, pods: &[ZonePod], name: &str) -> Option<LogicalSwitchPort> {
    let zone = zone(local);
    let mut whole = network(&DUAL, &zone.cluster);
    whole.pods = pods.to_vec();
    let part = compiled(&zone, &whole);
    let mut ports = part.rows().filter_map(|(_, row)| row.as_any().downcast_ref::<LogicalSwitchPort>());
    ports.find(|row| row.name == format!("test12.namespace.scoped_test12_{name}")).cloned()
}

const ZONES: [&str; 3] = ["node1", "node2", "node3"];

#[test]
fn scenario_28_addresses_move_to_the_target_when_the_machine_does() {
    for (is_ready, blocked, open) in [(false, "c", "a"), (true, "a", "c")] {
        for zone in ZONES {
            let pods = machine(Some((true, is_ready)), true);
            let row = port(zone, &pods, blocked).unwrap();
            assert_eq!((row.enabled, row.addresses.len()), (Some(false), 0), "{blocked} in {zone}");
            let row = port(zone, &pods, open).unwrap();
            let addresses: Vec<String> = row.addresses.iter().map(|it| it.to_string()).collect();
            assert_eq!(addresses, ["0a:58:cb:cb:00:05 203.203.0.5 2010:100:200::5"], "{open} in {zone}");
            assert_eq!(row.enabled, None);
            let local = if open == "a" { "node1" } else { "node2" };
            assert_eq!(row.kind == PortType::Remote, zone != local);
        }
    }
}

#[test]
fn scenario_29_after_a_failed_migration_only_the_source_has_a_port() {
    for zone in ZONES {
        let pods = machine(Some((false, false)), true);
        assert_eq!(port(zone, &pods, "c"), None);
        let (row, never) = (port(zone, &pods, "a"), port(zone, &machine(None, true), "a"));
        assert_eq!(row, never, "as if there had been no migration");
    }
}

#[test]
fn scenario_30_the_targets_port_stays_as_it_is_when_the_source_goes() {
    for zone in ZONES {
        let (with, without) = (machine(Some((true, true)), true), machine(Some((true, true)), false));
        assert_eq!(port(zone, &with, "c"), port(zone, &without, "c"));
        assert!(port(zone, &without, "c").is_some());
        assert_eq!(port(zone, &without, "a"), None);
    }
}
