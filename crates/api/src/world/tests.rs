//! Tables, links, addresses and tallies stay consistent through any sequence of changes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use jiff::Timestamp;
use ovn::MacAddr;
use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::model::{Binding, FixedIp, Placed, Placement, Port, Standard};

fn id(n: u8) -> Uuid {
    Uuid::from_u128(0x1000 + u128::from(n))
}

fn port(n: u8, network: u8, subnet: u8, host: u8, project: u8) -> Port {
    Port {
        id: id(n),
        project: format!("p{project}"),
        name: format!("port{n}"),
        network_id: id(network),
        admin_state_up: true,
        mac: MacAddr([2, 0, 0, 0, 0, n]),
        fixed_ips: vec![FixedIp {
            subnet_id: id(subnet),
            ip_address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)),
        }],
        device_id: String::new(),
        device_owner: String::new(),
        security_groups: BTreeSet::new(),
        port_security_enabled: true,
        allowed_address_pairs: Vec::new(),
        extra_dhcp_opts: Vec::new(),
        binding: Binding::default(),
        dns_name: String::new(),
        gateway_ordinal: None,
        standard: Standard::new(Timestamp::UNIX_EPOCH, ""),
    }
}

fn begin(world: World, seed: u64) -> Txn {
    Txn::new(world, Timestamp::UNIX_EPOCH, seed, Arc::default())
}

#[derive(Clone, Debug)]
enum Step {
    Put(Box<Port>),
    Remove(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let put = (0..6u8, 0..3u8, 0..3u8, 0..2u8).prop_map(|(n, network, subnet, project)| {
        Step::Put(Box::new(port(n, network, subnet, n + 1, project)))
    });
    proptest::collection::vec(prop_oneof![3 => put, 1 => (0..6u8).prop_map(Step::Remove)], 0..40)
}

proptest! {
    #[test]
    fn links_and_tallies_are_those_of_the_rows(steps in steps()) {
        let mut txn = begin(World::default(), 7);
        let mut model = BTreeMap::new();
        for step in steps {
            match step {
                Step::Put(port) => { model.insert(port.id, (*port).clone()); txn.put(*port); }
                Step::Remove(n) => { model.remove(&id(n)); txn.remove::<Port>(&id(n)); }
            }
        }
        let (world, changes) = txn.finish();
        for network in 0..3 {
            let found: BTreeSet<_> = world.linked::<Port>(Link::PortsOfNetwork(id(network))).map(|p| p.id).collect();
            let truth = model.values().filter(|p| p.network_id == id(network)).map(|p| p.id).collect();
            prop_assert_eq!(found, truth);
        }
        for project in ["p0", "p1"] {
            let truth = model.values().filter(|p| p.project == project).count() as u64;
            prop_assert_eq!(world.tally(Kind::Port, project), truth);
            let owned = world.linked::<Port>(Link::OwnedBy(Kind::Port, project.into())).count() as u64;
            prop_assert_eq!(owned, truth);
        }
        for subnet in 0..3 {
            let found: Vec<_> = world.addresses_from(id(subnet), IpAddr::V4(Ipv4Addr::UNSPECIFIED)).collect();
            let mut truth: Vec<_> = model.values().flat_map(|p| {
                p.fixed_ips.iter().filter(|f| f.subnet_id == id(subnet)).map(|f| (f.ip_address, p.id))
            }).collect();
            truth.sort();
            prop_assert_eq!(found, truth);
        }
        // Another copy that only receives the changes ends up the same.
        let mut other = World::default();
        other.advance(Revision::default(), &changes);
        prop_assert!(other.table::<Port>().changes_since(world.table::<Port>()).all(|(b, a)| b == a));
        prop_assert_eq!(other.links, world.links);
        prop_assert_eq!(other.addresses, world.addresses);
        prop_assert_eq!(other.runs, world.runs);
        prop_assert_eq!(other.tallies, world.tallies);
    }
}

#[test]
fn a_dropped_transaction_leaves_the_world_as_it_was() {
    let mut txn = begin(World::default(), 1);
    txn.put(port(1, 1, 1, 1, 0));
    let (world, _) = txn.finish();
    let mut txn = begin(world.clone(), 2);
    txn.remove::<Port>(&id(1));
    assert!(txn.get::<Port>(&id(1)).is_none());
    drop(txn);
    assert!(world.get::<Port>(&id(1)).is_some());
}

#[test]
fn an_address_that_moved_in_one_transaction_stays_taken() {
    let mut txn = begin(World::default(), 1);
    txn.put(port(1, 1, 1, 9, 0));
    txn.put(port(2, 1, 1, 9, 0));
    txn.remove::<Port>(&id(1));
    assert_eq!(txn.address_holder(id(1), IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9))), Some(id(2)));
}

#[test]
fn an_edit_that_changes_nothing_is_no_change() {
    let mut txn = begin(World::default(), 1);
    txn.put(port(1, 1, 1, 9, 0));
    let (world, _) = txn.finish();
    let mut txn = begin(world, 1);
    txn.edit::<Port>(&id(1), |p| p.name = "port1".into());
    let (_, changes) = txn.finish();
    assert!(changes.is_empty());
}

#[test]
fn rows_are_read_back_as_they_were_written() {
    let row = Port::row(Arc::new(port(1, 2, 3, 4, 0)));
    assert_eq!(row.kind().read(&row.to_json()).unwrap(), row);
    assert!(Kind::Port.read("{}").is_err());
}

#[test]
fn gateway_loads_follow_placements() {
    let placement = |n, chassis: &[&str]| Placement {
        port_id: id(n),
        physical_network: Some("phy1".into()),
        chassis: (0u16..)
            .zip(chassis)
            .map(|(i, name)| Placed { chassis: (*name).into(), priority: 9 - i, pinned: false })
            .collect(),
    };
    let loads = |world: &World| -> Vec<(String, u8, u32)> {
        world.gateway_loads().map(|(_, chassis, rank, ports)| (chassis.to_string(), rank, ports)).collect()
    };
    let mut txn = begin(World::default(), 1);
    txn.put(placement(1, &["a", "b"]));
    txn.put(placement(2, &["a", "c"]));
    assert_eq!(loads(&txn), [("a".into(), 0, 2), ("b".into(), 1, 1), ("c".into(), 1, 1)]);
    txn.put(placement(2, &["c", "a"]));
    assert_eq!(loads(&txn), [("a".into(), 0, 1), ("a".into(), 1, 1), ("b".into(), 1, 1), ("c".into(), 0, 1)]);
    txn.remove::<Placement>(&id(1));
    assert_eq!(loads(&txn), [("a".into(), 1, 1), ("c".into(), 0, 1)]);
    let on = txn.linked::<Placement>(Link::PlacementsOn("a".into())).map(|p| p.port_id).collect::<Vec<_>>();
    assert_eq!(on, [id(2)]);
}
