//! The quality of the scheduler: spread, fairness, siblings apart, few moves, and deterministic results.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use ovn::MacAddr;
use proptest::prelude::*;
use uuid::Uuid;

mod by_hand;

use super::*;
use crate::fleet::Chassis;
use crate::model::{Binding, NetworkType, Segment, Standard, owner};
use crate::world::Txn;

fn standard() -> Standard {
    Standard::new(Timestamp::UNIX_EPOCH, "")
}

fn network(n: u128, physical: &str) -> Network {
    Network {
        id: Uuid::from_u128(n),
        project: "admin".into(),
        name: String::new(),
        admin_state_up: true,
        external: true,
        segment: Segment {
            id: Uuid::from_u128(n + 1),
            network_type: if physical.is_empty() { NetworkType::Geneve } else { NetworkType::Flat },
            physical_network: (!physical.is_empty()).then(|| physical.into()),
            segmentation_id: None,
        },
        mtu: 1500,
        port_security_enabled: true,
        availability_zone_hints: Vec::new(),
        dns_domain: String::new(),
        is_default: false,
        standard: standard(),
    }
}

fn router(n: u128, zones: &[&str]) -> Router {
    Router {
        id: Uuid::from_u128(n),
        project: "p".into(),
        name: String::new(),
        admin_state_up: true,
        gw_port_id: None,
        enable_snat: true,
        enable_default_route_ecmp: false,
        enable_default_route_bfd: false,
        routes: Vec::new(),
        availability_zone_hints: zones.iter().map(|zone| (*zone).into()).collect(),
        standard: standard(),
    }
}

fn gateway(id: Uuid, router: Uuid, network: Uuid) -> Port {
    Port {
        id,
        project: String::new(),
        name: String::new(),
        network_id: network,
        admin_state_up: true,
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        fixed_ips: Vec::new(),
        device_id: router.to_string(),
        device_owner: owner::ROUTER_GATEWAY.into(),
        security_groups: BTreeSet::new(),
        port_security_enabled: false,
        allowed_address_pairs: Vec::new(),
        extra_dhcp_opts: Vec::new(),
        binding: Binding::default(),
        dns_name: String::new(),
        gateway_ordinal: Some(0),
        standard: standard(),
    }
}

fn chassis(name: &str, physical: &[&str], zones: &[&str]) -> Chassis {
    Chassis {
        name: name.into(),
        hostname: format!("host-{name}"),
        gateway: true,
        physical_networks: physical.iter().map(|physical| (*physical).into()).collect(),
        zones: zones.iter().map(|zone| (*zone).into()).collect(),
        alive: true,
        ..Chassis::default()
    }
}

/// `n` chassis that carry both physical networks.
fn fleet(n: usize) -> Vec<Chassis> {
    (1..=n).map(|n| chassis(&format!("ch{n}"), &["phy1", "phy2"], &[])).collect()
}

const N1: u128 = 0x100;
const N2: u128 = 0x200;
const TUNNELLED: u128 = 0x300;

/// A world to which the tests add gateways.
struct Cloud {
    world: World,
    outside: Outside,
    next: u128,
}

impl Cloud {
    fn new(chassis: Vec<Chassis>) -> Self {
        let outside =
            Outside { settings: Settings::default(), fleet: Fleet { chassis }, ..Outside::default() };
        let mut cloud = Cloud { world: World::default(), outside, next: 0x1000 };
        cloud.change(|txn| {
            txn.put(network(N1, "phy1"));
            txn.put(network(N2, "phy2"));
            txn.put(network(TUNNELLED, ""));
        });
        cloud
    }

    fn change<T>(&mut self, change: impl FnOnce(&mut Txn) -> T) -> T {
        let mut txn = Txn::new(self.world.clone(), Timestamp::UNIX_EPOCH, 1, Arc::new(self.outside.clone()));
        let answer = change(&mut txn);
        self.world = txn.finish().0;
        answer
    }

    fn id(&mut self) -> u128 {
        self.next += 1;
        // Ids of real objects are random; small numbers would hide a dependence on their order.
        Uuid::new_v5(&Uuid::nil(), &self.next.to_be_bytes()).as_u128()
    }

    fn router(&mut self, zones: &[&str]) -> Uuid {
        let id = self.id();
        self.change(|txn| drop(txn.put(router(id, zones))));
        Uuid::from_u128(id)
    }

    fn gateway(&mut self, router: Uuid, network: u128) -> Uuid {
        let id = Uuid::from_u128(self.id());
        let port = gateway(id, router, Uuid::from_u128(network));
        let outside = self.outside.clone();
        self.change(|txn| {
            txn.put(port.clone());
            for placement in place(txn, &outside, &port, port.id.as_u64_pair().0) {
                txn.put(placement);
            }
        });
        id
    }

    fn routers(&mut self, count: usize, networks: &[u128]) -> Vec<Vec<Uuid>> {
        (0..count)
            .map(|_| {
                let router = self.router(&[]);
                networks.iter().map(|network| self.gateway(router, *network)).collect()
            })
            .collect()
    }

    fn group(&self, port: Uuid) -> Vec<String> {
        let placement = self.world.get::<Placement>(&port);
        placement.map(|p| p.chassis.iter().map(|c| c.chassis.clone()).collect()).unwrap_or_default()
    }

    fn primary(&self, port: Uuid) -> String {
        self.group(port).first().cloned().unwrap_or_default()
    }

    fn groups(&self) -> BTreeMap<Uuid, Vec<String>> {
        self.world.table::<Placement>().iter().map(|p| (p.port_id, self.group(p.port_id))).collect()
    }

    /// Replaces the fleet and reschedules. Returns the ports whose placement changed.
    fn becomes(&mut self, chassis: Vec<Chassis>) -> BTreeSet<Uuid> {
        self.outside.fleet = Fleet { chassis };
        let changed = reschedule(&self.world, &self.outside, 7);
        let ports = changed.iter().map(|placement| placement.port_id).collect();
        self.change(|txn| changed.into_iter().for_each(|placement| drop(txn.put(placement))));
        assert_eq!(reschedule(&self.world, &self.outside, 7), [], "a second look finds nothing to do");
        ports
    }

    /// The number of ports of each chassis at a rank.
    fn counts(&self, rank: usize) -> BTreeMap<String, u32> {
        let mut counts: BTreeMap<String, u32> =
            self.outside.fleet.chassis.iter().map(|chassis| (chassis.name.clone(), 0)).collect();
        for placement in self.world.table::<Placement>().iter() {
            if let Some(placed) = placement.chassis.get(rank) {
                *counts.entry(placed.chassis.clone()).or_default() += 1;
            }
        }
        counts
    }

    fn spread(&self, rank: usize) -> u32 {
        let counts = self.counts(rank);
        counts.values().max().unwrap_or(&0) - counts.values().min().unwrap_or(&0)
    }

    /// Jain's fairness index: 1 if all chassis have the same number of primaries.
    fn fairness(&self) -> f64 {
        let counts: Vec<f64> = self.counts(0).into_values().map(f64::from).collect();
        let sum: f64 = counts.iter().sum();
        sum * sum / (counts.len() as f64 * counts.iter().map(|count| count * count).sum::<f64>())
    }

    /// Pairs of gateways of one router with the same primary.
    fn together(&self, routers: &[Vec<Uuid>]) -> usize {
        let of_router = |ports: &Vec<Uuid>| {
            let primaries: Vec<_> = ports.iter().map(|port| self.primary(*port)).collect();
            (0..primaries.len())
                .map(|i| primaries[i + 1..].iter().filter(|p| **p == primaries[i]).count())
                .sum::<usize>()
        };
        routers.iter().map(of_router).sum::<usize>()
    }
}

#[test]
fn scenario_45_single_gateways_are_spread_evenly_at_every_priority() {
    let mut cloud = Cloud::new(fleet(3));
    cloud.routers(30, &[N1]);
    assert!(cloud.counts(0).values().all(|count| *count == 10), "{:?}", cloud.counts(0));
    assert!((0..3).all(|rank| cloud.spread(rank) <= 1));
}

#[test]
fn spread_stays_within_one_at_every_rank_for_any_number_of_chassis() {
    for width in 1..=9 {
        let mut cloud = Cloud::new(fleet(width));
        for ports in 1..=4 * width {
            cloud.routers(1, &[N1]);
            for rank in 0..MAX_CHASSIS.min(width) {
                assert!(cloud.spread(rank) <= 1, "{width} chassis, {ports} ports: {:?}", cloud.counts(rank));
            }
        }
    }
}

#[test]
fn primaries_are_fair_with_one_two_and_three_gateways() {
    for (width, networks) in
        [(3, vec![N1]), (10, vec![N1]), (7, vec![N1, N1]), (12, vec![N1, N1, N1]), (4, vec![N1, N2])]
    {
        let mut cloud = Cloud::new(fleet(width));
        let routers = cloud.routers(20 * width, &networks);
        assert!(cloud.fairness() >= 0.99, "{width} {networks:?}: {:?}", cloud.counts(0));
        assert_eq!(cloud.together(&routers), 0);
    }
}

#[test]
fn scenario_46_gateways_of_a_router_have_different_primaries_if_there_are_chassis_enough() {
    let mut cloud = Cloud::new(fleet(3));
    let routers = cloud.routers(10, &[N1, N1, N1]);
    assert_eq!(cloud.together(&routers), 0);
    let mut cloud = Cloud::new(fleet(2));
    let routers = cloud.routers(10, &[N1, N1, N1]);
    assert!(routers.iter().flatten().all(|port| cloud.group(*port).len() == 2), "soft: all are placed");
    assert_eq!(cloud.together(&routers), 10, "two of three share, never all three");
}

#[test]
fn a_second_gateway_keeps_out_of_the_first_ones_group_if_it_can() {
    let mut cloud = Cloud::new(fleet(10));
    for ports in cloud.routers(10, &[N1, N2]) {
        let [first, second] = [cloud.group(ports[0]), cloud.group(ports[1])];
        assert!(second.iter().all(|chassis| !first.contains(chassis)), "{first:?} {second:?}");
    }
}

#[test]
fn the_loss_of_any_one_chassis_brings_no_two_gateways_together() {
    for (width, gateways) in [(3, 2), (4, 2), (4, 3), (6, 5), (8, 3), (9, 7)] {
        let networks: Vec<u128> = (0..gateways).map(|n| if n % 2 == 0 { N1 } else { N2 }).collect();
        let mut cloud = Cloud::new(fleet(width));
        let routers = cloud.routers(20, &networks);
        let before = cloud.world.clone();
        for lost in fleet(width) {
            // OVN's own reaction while the chassis is only dead: the next in the group takes over.
            for ports in &routers {
                let heirs: Vec<_> = ports
                    .iter()
                    .map(|port| cloud.group(*port).into_iter().find(|name| *name != lost.name))
                    .collect();
                let apart: BTreeSet<_> = heirs.iter().collect();
                assert_eq!(apart.len(), heirs.len(), "{width} chassis without {}: {heirs:?}", lost.name);
            }
            // The reaction once the row of the chassis is gone.
            cloud.becomes(fleet(width).into_iter().filter(|chassis| chassis.name != lost.name).collect());
            assert_eq!(cloud.together(&routers), 0);
            cloud.world = before.clone();
        }
    }
}

#[test]
fn scenario_47_ports_go_where_their_physical_network_is() {
    let mut cloud = Cloud::new(vec![chassis("ch1", &["phy1"], &[]), chassis("ch2", &["phy2"], &[])]);
    let router = cloud.router(&[]);
    let (first, second) = (cloud.gateway(router, N1), cloud.gateway(router, N2));
    assert_eq!(cloud.group(first), ["ch1"]);
    assert_eq!(cloud.group(second), ["ch2"]);
    assert_eq!(cloud.world.get::<Placement>(&first).unwrap().chassis[0].priority, 1);
}

#[test]
fn scenario_48_zone_hints_are_obeyed() {
    let zoned = |n: usize, zone: &str| chassis(&format!("ch{n}"), &["phy1"], &[zone]);
    let mut cloud = Cloud::new(vec![zoned(1, "az1"), zoned(2, "az2"), zoned(3, "az1")]);
    let router = cloud.router(&["az1"]);
    let port = cloud.gateway(router, N1);
    assert_eq!(cloud.group(port).into_iter().collect::<BTreeSet<_>>(), ["ch1".into(), "ch3".into()].into());
    let router = cloud.router(&["az9"]);
    let port = cloud.gateway(router, N1);
    assert_eq!(cloud.group(port), [] as [&str; 0]);
    cloud.outside.settings.default_availability_zones = vec!["az2".into()];
    let router = cloud.router(&[]);
    let port = cloud.gateway(router, N1);
    assert_eq!(cloud.group(port), ["ch2"]);
}

#[test]
fn consecutive_entries_are_in_different_zones_first() {
    let zones = ["a", "a", "a", "b", "b", "c"];
    let members = (1..).zip(zones).map(|(n, zone)| chassis(&format!("ch{n}"), &["phy1"], &[zone])).collect();
    for scheduler in [Scheduler::LeastLoaded, Scheduler::Chance] {
        let mut cloud = Cloud::new(Vec::clone(&members));
        cloud.outside.settings.ovn_l3_scheduler = scheduler;
        for port in cloud.routers(12, &[N1]).into_iter().flatten() {
            let of = |name: &String| cloud.outside.fleet.named(name).unwrap().zones.first().cloned();
            let reached: Vec<_> = cloud.group(port).iter().map(of).collect();
            assert_eq!(reached[..3].iter().collect::<BTreeSet<_>>().len(), 3, "{reached:?}");
            assert_ne!(reached[3], reached[4]);
        }
    }
}

#[test]
fn scenario_49_a_lost_chassis_changes_only_its_groups_and_comes_back_last() {
    let mut cloud = Cloud::new(fleet(3));
    cloud.routers(12, &[N1, N2]);
    let before = cloud.groups();
    let lost = |chassis: &Chassis| chassis.name != "ch1";
    let changed = cloud.becomes(fleet(3).into_iter().filter(lost).collect());
    let concerned: BTreeSet<_> =
        before.iter().filter(|(_, group)| group.contains(&"ch1".into())).map(|(port, _)| *port).collect();
    assert_eq!(changed, concerned);
    let between = cloud.groups();
    for (port, group) in &before {
        assert!(!between[port].contains(&"ch1".into()));
        if group[0] != "ch1" {
            assert_eq!(between[port][0], group[0], "a primary that survived stays");
        }
    }
    cloud.becomes(fleet(3));
    for (port, group) in cloud.groups() {
        assert_eq!(group[..2], between[&port], "the others stay as they were");
        assert_eq!(group[2], "ch1");
        let priorities: Vec<_> =
            cloud.world.get::<Placement>(&port).unwrap().chassis.iter().map(|c| c.priority).collect();
        assert_eq!(priorities, [3, 2, 1]);
    }
}

#[test]
fn groups_without_the_lost_chassis_are_left_alone_when_there_are_many() {
    let mut cloud = Cloud::new(fleet(12));
    cloud.routers(40, &[N1]);
    let before = cloud.groups();
    let changed = cloud.becomes(fleet(12).into_iter().filter(|chassis| chassis.name != "ch4").collect());
    for (port, group) in cloud.groups() {
        assert_eq!(changed.contains(&port), before[&port].contains(&"ch4".into()));
        if let Some(gap) = before[&port].iter().position(|name| name == "ch4") {
            assert_eq!(
                group[..gap.max(1)],
                before[&port].iter().filter(|n| *n != "ch4").cloned().collect::<Vec<_>>()[..gap.max(1)]
            );
            assert_eq!(group.len(), MAX_CHASSIS);
        }
    }
}

#[test]
fn scenario_50_a_lost_mark_is_a_lost_chassis_and_a_new_one_takes_no_primary() {
    let mut cloud = Cloud::new(fleet(3));
    cloud.routers(9, &[N1]);
    let before = cloud.groups();
    let mut unmarked = fleet(3);
    unmarked[1].gateway = false;
    cloud.becomes(unmarked);
    assert!(cloud.groups().values().all(|group| !group.contains(&"ch2".into())));
    cloud.becomes(fleet(3));
    let primaries = |cloud: &Cloud| -> BTreeMap<Uuid, String> {
        cloud.groups().into_iter().map(|(port, group)| (port, group[0].clone())).collect()
    };
    let between = primaries(&cloud);
    assert!(before.iter().all(|(port, group)| group[0] == "ch2" || between[port] == group[0]));
    cloud.becomes(fleet(4));
    assert_eq!(primaries(&cloud), between);
    assert!(cloud.groups().values().all(|group| group[3] == "ch4"));
}

#[test]
fn scenario_51_ports_wait_for_a_chassis() {
    let mut unmarked = fleet(2);
    unmarked.iter_mut().for_each(|chassis| chassis.gateway = false);
    let mut cloud = Cloud::new(unmarked.clone());
    let port = cloud.routers(1, &[N1])[0][0];
    assert_eq!(cloud.group(port), [] as [&str; 0]);
    cloud.becomes(fleet(2));
    assert_eq!(cloud.group(port).len(), 2);
    let before = cloud.group(port);
    cloud.becomes(unmarked.clone());
    assert_eq!(cloud.group(port), before, "with no chassis at all the old entries are kept");
    let mut cloud = Cloud::new(unmarked);
    cloud.outside.settings.gateway_chassis_fallback = true;
    let port = cloud.routers(1, &[N1])[0][0];
    assert_eq!(cloud.group(port).len(), 2);
}

#[test]
fn dead_chassis_get_nothing_new_and_lose_nothing() {
    let mut cloud = Cloud::new(fleet(3));
    let old = cloud.routers(1, &[N1])[0][0];
    let before = cloud.group(old);
    let mut dying = fleet(3);
    dying[0].alive = false;
    assert_eq!(cloud.becomes(dying), BTreeSet::new());
    assert_eq!(cloud.group(old), before);
    let new = cloud.routers(1, &[N1])[0][0];
    assert!(!cloud.group(new).contains(&"ch1".into()));
}

#[test]
fn gateways_on_tunnelled_networks_need_the_mark_alone() {
    let mut cloud = Cloud::new(vec![chassis("ch1", &[], &[]), chassis("ch2", &["phy1"], &[])]);
    let port = cloud.routers(1, &[TUNNELLED])[0][0];
    assert_eq!(cloud.group(port).len(), 2);
    assert_eq!(cloud.world.get::<Placement>(&port).unwrap().physical_network, None);
}

#[test]
fn the_same_input_gives_the_same_output() {
    let run = |scheduler| {
        let mut cloud = Cloud::new(fleet(7));
        cloud.outside.settings.ovn_l3_scheduler = scheduler;
        cloud.routers(15, &[N1, N2]);
        cloud.becomes(fleet(6));
        cloud.groups()
    };
    assert_eq!(run(Scheduler::LeastLoaded), run(Scheduler::LeastLoaded));
    assert_eq!(run(Scheduler::Chance), run(Scheduler::Chance));
    assert_ne!(run(Scheduler::LeastLoaded), run(Scheduler::Chance));
}

#[test]
fn chance_is_decided_by_its_seed() {
    let mut cloud = Cloud::new(fleet(9));
    cloud.outside.settings.ovn_l3_scheduler = Scheduler::Chance;
    let router = cloud.router(&[]);
    let port = gateway(Uuid::from_u128(5), router, Uuid::from_u128(N1));
    let placed = |seed| place(&cloud.world, &cloud.outside, &port, seed);
    assert_eq!(placed(1), placed(1));
    assert_ne!(placed(1), placed(2));
    assert_eq!(placed(1)[0].chassis.len(), MAX_CHASSIS);
}

#[test]
fn priorities_go_down_and_leave_pins_alone() {
    let placed = |priority: Option<u16>| Placed {
        chassis: String::new(),
        priority: priority.unwrap_or(0),
        pinned: priority.is_some(),
    };
    for (pins, numbered) in [
        (vec![None, None, None], vec![3, 2, 1]),
        (vec![Some(100), None, None], vec![100, 2, 1]),
        (vec![None, Some(10), None], vec![11, 10, 1]),
        (vec![None, None, Some(0)], vec![2, 1, 0]),
        (vec![None, Some(1), None, None], vec![4, 3, 2, 1]),
        (vec![Some(32767), Some(32766), None], vec![32767, 32766, 1]),
    ] {
        let mut group: Vec<_> = pins.iter().map(|pin| placed(*pin)).collect();
        number(&mut group, &[]);
        assert_eq!(group.iter().map(|placed| placed.priority).collect::<Vec<_>>(), numbered);
    }
}

#[test]
fn whoever_can_keep_its_priority_does() {
    let group = |of: &[(&str, u16)]| -> Vec<Placed> {
        let placed = |&(name, priority): &(&str, u16)| Placed {
            chassis: name.to_owned(),
            priority,
            pinned: name.starts_with("pin"),
        };
        of.iter().map(placed).collect()
    };
    let five = [("a", 5), ("b", 4), ("c", 3), ("d", 2), ("e", 1)];
    for (before, after) in [
        // One chassis is lost.
        (&five[..], &[("a", 5), ("b", 4), ("d", 2), ("e", 1)][..]),
        (&five, &[("b", 4), ("c", 3), ("d", 2), ("e", 1)]),
        // The two below swap: the gap has room for one of them.
        (&five, &[("a", 5), ("b", 4), ("e", 3), ("d", 2)]),
        // Another chassis replaces it.
        (&five, &[("a", 5), ("b", 4), ("d", 2), ("new", 1)]),
        // It returns as the last.
        (&[("a", 5), ("b", 4), ("d", 2)], &[("a", 5), ("b", 4), ("d", 2), ("c", 1)]),
        (&[("a", 2), ("b", 1)], &[("a", 3), ("b", 2), ("c", 1)]),
        // No room: all are numbered anew.
        (&[("a", 5), ("b", 4), ("e", 3), ("d", 2)], &[("a", 4), ("b", 3), ("d", 2), ("e", 1)]),
        // Pinned priorities stay.
        (&[("pin", 100), ("b", 2), ("c", 1)], &[("pin", 100), ("c", 1)]),
        (&[("a", 11), ("pin", 10), ("c", 1)], &[("c", 11), ("pin", 10)]),
        (&[("x", 5), ("a", 4), ("pin", 3), ("c", 2)], &[("c", 4), ("pin", 3), ("a", 1)]),
    ] {
        let mut regrouped = group(after);
        regrouped.iter_mut().filter(|placed| !placed.pinned).for_each(|placed| placed.priority = 0);
        number(&mut regrouped, &group(before));
        assert_eq!(regrouped, group(after), "after {before:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever chassis appear and disappear, groups contain only chassis that can carry them, each once, and a primary stays if it can.
    #[test]
    fn groups_stay_sound_while_chassis_come_and_go(
        gateways in proptest::collection::vec(proptest::bool::ANY, 1..12),
        fleets in proptest::collection::vec(proptest::collection::vec((proptest::bool::ANY, proptest::bool::ANY), 6), 1..6),
    ) {
        let mut cloud = Cloud::new(fleet(4));
        let router = cloud.router(&[]);
        for first in gateways {
            cloud.gateway(router, if first { N1 } else { N2 });
        }
        for marks in fleets {
            let mut members = fleet(6);
            for (chassis, (gateway, physical)) in members.iter_mut().zip(marks) {
                chassis.gateway = gateway;
                if !physical {
                    chassis.physical_networks.remove("phy2");
                }
            }
            let before = cloud.groups();
            cloud.becomes(members);
            for (port, group) in cloud.groups() {
                let physical = cloud.world.get::<Placement>(&port).unwrap().physical_network.clone().unwrap();
                let fits = |name: &String| cloud.outside.fleet.named(name)
                    .is_some_and(|c| c.gateway && c.physical_networks.contains(&physical));
                let possible = cloud.outside.fleet.chassis.iter().filter(|c| fits(&c.name)).count();
                if possible == 0 {
                    prop_assert_eq!(&group, &before[&port]);
                    continue;
                }
                prop_assert!(group.iter().all(fits));
                let chassis = &cloud.world.get::<Placement>(&port).unwrap().chassis;
                prop_assert!(chassis.is_sorted_by(|one, next| one.priority > next.priority));
                prop_assert!(chassis.iter().all(|placed| (1..=MAX_CHASSIS as u16).contains(&placed.priority)));
                prop_assert_eq!(group.iter().collect::<BTreeSet<_>>().len(), group.len());
                prop_assert_eq!(group.len(), possible.min(MAX_CHASSIS));
                if let Some(old) = before.get(&port).and_then(|old| old.first()).filter(|old| fits(old)) {
                    prop_assert_eq!(&group[0], old);
                }
            }
        }
    }
}
