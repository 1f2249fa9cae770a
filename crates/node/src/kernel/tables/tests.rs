//! Tests of the choice of tables.

use super::*;
use crate::kernel::observed::{SeenRoute, SeenRule};
use crate::kernel::state::{Hop, Link, Select};

fn want(bridges: &[&str]) -> Desired {
    let links = bridges.iter().map(|bridge| (Dev::new(bridge), Link::Bridge)).collect();
    Desired { links, ..Desired::default() }
}

fn have(lines: &str) -> Observed {
    Observed { names: RtTables::parse(lines), ..Observed::default() }
}

fn through(table: u32, dst: &str, dev: &str) -> SeenRoute {
    SeenRoute::plain(table, dst.parse().unwrap(), Hop { dev: dev.into(), via: None })
}

#[test]
fn lines_are_read_as_iproute2_reads_them() {
    let text = "#\n# reserved values\n255\tlocal\n254 main # x\n0x57  br-ex\n 12 indented\nbr-x 3\n99999999999 big\n5\n";
    let names = RtTables::parse(text);
    assert_eq!(names.number("br-ex"), Some(87));
    assert_eq!(names.number("main"), Some(254));
    assert_eq!(names.iter().count(), 3);
}

#[test]
fn a_name_in_the_file_is_used_and_a_new_bridge_gets_the_lowest_free_number_from_201() {
    let mut have = have("87 br-ex\n201 other\n");
    have.rules.insert(SeenRule::plain(Select::To("10.0.0.0/8".parse().unwrap()), 202, 5));
    have.routes.insert(through(203, "10.0.0.0/8", "eth0"));
    let tables = Tables::resolve(&want(&["br-ex", "br-a", "br-b"]), &have);
    assert_eq!(tables.current, [("br-a".into(), 204), ("br-b".into(), 205), ("br-ex".into(), 87)].into());
    assert_eq!(tables.unnamed, [("br-a".into(), 204), ("br-b".into(), 205)].into());
    assert!(tables.refused.is_empty());
}

#[test]
fn after_252_numbers_go_down_from_200_and_then_there_are_none() {
    let lines =
        |range: std::ops::RangeInclusive<u32>| range.map(|n| format!("{n} t{n}\n")).collect::<String>();
    let mut have = have(&lines(201..=252));
    assert_eq!(Tables::resolve(&want(&["br-ex"]), &have).current["br-ex"], 200);
    have.names = RtTables::parse(&lines(1..=252));
    let tables = Tables::resolve(&want(&["br-ex"]), &have);
    assert!(tables.current.is_empty());
    assert!(tables.refused["br-ex"].contains("is free"));
}

#[test]
fn the_table_of_a_bridge_is_found_again_when_the_file_is_lost() {
    let mut have = have("");
    have.routes.extend([through(87, "0.0.0.0/0", "br-ex"), through(87, "172.24.4.10/32", "br-ex.100")]);
    let tables = Tables::resolve(&want(&["br-ex"]), &have);
    assert_eq!(tables.unnamed, [("br-ex".into(), 87)].into());
    // Not so a table in which somebody else's routes are.
    have.routes.insert(through(87, "10.0.0.0/8", "eth0"));
    assert_eq!(Tables::resolve(&want(&["br-ex"]), &have).current["br-ex"], 201);
}

#[test]
fn lines_that_cannot_be_meant_are_refused() {
    let tables = Tables::resolve(&want(&["br-a", "br-b", "br-c"]), &have("10 br-a\n254 br-b\n300 br-c\n"));
    assert_eq!(tables.refused.keys().collect::<Vec<_>>(), ["br-a", "br-b"]);
    assert_eq!(tables.current, [("br-c".into(), 300)].into());
    let tables = Tables::resolve(&want(&["br-a", "br-b"]), &have("7 br-a\n7 br-b\n"));
    assert_eq!(tables.refused.keys().collect::<Vec<_>>(), ["br-b"]);
}

#[test]
fn tables_of_former_bridges_are_known_by_their_base_or_by_orphaned_rules() {
    let mut have = have("201 br-old\n202 br-gone\n203 mine\n204 br-other\n");
    have.routes.extend([through(201, "0.0.0.0/0", "br-old"), through(203, "0.0.0.0/0", "eth0")]);
    let to = |n, table, priority| {
        let net = format!("172.24.4.{n}/32").parse().unwrap();
        SeenRule::plain(Select::To(net), table, priority)
    };
    have.rules.extend([to(1, 202, 32000), to(2, 203, 32000), to(3, 204, 100)]);
    let tables = Tables::resolve(&want(&[]), &have);
    assert_eq!(tables.former, [(201, "br-old".into()), (202, "br-gone".into())].into());
}

#[test]
fn the_table_that_a_bridge_had_before_it_was_renumbered_is_known_by_our_rules_and_its_base() {
    let mut have = have("205 br-ex\n77 operators\n");
    have.routes.extend([through(201, "0.0.0.0/0", "br-ex"), through(201, "172.24.4.10/32", "br-ex")]);
    // An operator's: no rule of ours leads to the one, the other has a name, and of the third the routes are somebody else's.
    have.routes.extend([through(202, "0.0.0.0/0", "br-ex"), through(77, "0.0.0.0/0", "br-ex")]);
    have.routes.extend([through(203, "0.0.0.0/0", "br-ex"), through(203, "10.0.0.0/8", "eth0")]);
    for table in [201, 77, 203] {
        have.rules.insert(SeenRule::plain(Select::To("172.24.4.10/32".parse().unwrap()), table, 32000));
    }
    have.rules.insert(SeenRule::plain(Select::To("172.24.4.10/32".parse().unwrap()), 202, 100));
    let tables = Tables::resolve(&want(&["br-ex"]), &have);
    assert_eq!(tables.current, [("br-ex".into(), 205)].into());
    assert_eq!(tables.former, [(201, "br-ex".into())].into());
}

#[test]
fn names_of_vlan_devices_fit_the_kernel() {
    assert_eq!(vlan_device("br-ex", 100), "br-ex.100");
    assert_eq!(vlan_device("br-provider", 1001), "br-provide.1001");
}
