//! Scenarios 45 to 52: the chassis of gateways, while chassis are added, removed and changed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::cloud::{Cloud, eventually};
use crate::journal::Journal;
use crate::site::{GATEWAY, Group, Site, primary};

const BOTH: &[&str] = &["phy1", "phy2"];

/// The number of groups that have each chassis at this rank. Rank 0 has the highest priority.
fn at_rank(groups: &BTreeMap<String, Group>, rank: usize) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for group in groups.values() {
        *counts.entry(group[rank].0.as_str()).or_default() += 1;
    }
    counts
}

fn names(group: &Group) -> Vec<&str> {
    group.iter().map(|(name, _)| name.as_str()).collect()
}

fn primaries(groups: &BTreeMap<String, Group>) -> BTreeMap<&str, &str> {
    groups.iter().map(|(port, group)| (port.as_str(), primary(group))).collect()
}

#[test]
fn scenario_45_thirty_gateways_are_spread_evenly_over_three_chassis() {
    let site = Site::with_three(Cloud::start());
    for n in 0..30 {
        site.router(json!({"name": format!("r{n}")}), &[&site.n1]);
    }
    let groups = site.groups();
    assert_eq!(groups.len(), 30);
    let tens: BTreeMap<&str, usize> = [("ch1", 10), ("ch2", 10), ("ch3", 10)].into();
    assert_eq!(at_rank(&groups, 0), tens);
    for rank in 1..3 {
        let counts = at_rank(&groups, rank);
        let (least, most) = (counts.values().min().unwrap(), counts.values().max().unwrap());
        assert!(counts.len() == 3 && most - least <= 1, "rank {rank}: {counts:?}");
    }
    assert!(groups.values().all(|group| group.iter().map(|(_, it)| *it).eq([3, 2, 1])), "{groups:?}");
}

#[test]
fn scenario_46_gateways_of_a_router_are_apart_as_long_as_there_are_chassis() {
    let site = Site::with_three(Cloud::start());
    let mut routers = Vec::new();
    for n in 0..10 {
        routers.push(site.router(json!({"name": format!("r{n}")}), &[&site.n1, &site.n1, &site.n1]));
    }
    let groups = site.groups();
    assert_eq!(groups.len(), 30);
    for router in &routers {
        let ports = site.gateway_ports(router);
        let hosts: BTreeSet<&str> =
            ports.iter().map(|port| primary(&groups[port["id"].as_str().unwrap()])).collect();
        assert_eq!(hosts.len(), 3, "{router}: {hosts:?}");
    }

    // Two chassis for three gateways: the gateways use both, and all of them are scheduled.
    let site = Site::new(Cloud::start(), &[("ch1", BOTH, GATEWAY), ("ch2", BOTH, GATEWAY)]);
    let routers: Vec<_> = (0..10)
        .map(|n| site.router(json!({"name": format!("r{n}")}), &[&site.n1, &site.n1, &site.n1]))
        .collect();
    let groups = site.groups();
    assert_eq!(groups.len(), 30);
    assert!(groups.values().all(|group| group.len() == 2), "{groups:?}");
    for router in &routers {
        let ports = site.gateway_ports(router);
        let hosts: BTreeSet<&str> =
            ports.iter().map(|port| primary(&groups[port["id"].as_str().unwrap()])).collect();
        assert_eq!(hosts.len(), 2, "{router}: {hosts:?}");
    }
}

#[test]
fn chance_looks_at_no_other_gateway_and_still_at_zones() {
    let zone = |name: &str| format!("{GATEWAY},availability-zones={name}");
    let (az1, az2) = (zone("az1"), zone("az2"));
    let chassis: [(&str, &[&str], &str); 4] =
        [("ch1", BOTH, &az1), ("ch2", BOTH, &az1), ("ch3", BOTH, &az1), ("ch4", BOTH, &az2)];
    let site = Site::new(Cloud::configured("[network]\novn_l3_scheduler = \"chance\"\n"), &chassis);
    let routers: Vec<_> = (0..20)
        .map(|n| site.router(json!({"name": format!("r{n}")}), &[&site.n1, &site.n1, &site.n1]))
        .collect();
    let groups = site.groups();
    assert_eq!(groups.len(), 60);
    // `leastloaded` would put the three gateways on different chassis. By chance three of four are different three times in eight, and
    // those of all twenty routers once in hundreds of millions of runs.
    let together = routers.iter().filter(|router| {
        let ports = site.gateway_ports(router);
        let hosts: BTreeSet<&str> =
            ports.iter().map(|port| primary(&groups[port["id"].as_str().unwrap()])).collect();
        hosts.len() < 3
    });
    assert!(together.count() > 0, "{groups:?}");
    // Each chassis is the first of some group, and the second one is in the other zone.
    assert_eq!(at_rank(&groups, 0).len(), 4, "{groups:?}");
    for group in groups.values() {
        let names = names(group);
        assert_eq!(names.len(), 4);
        assert!(names[0] == "ch4" || names[1] == "ch4", "{names:?}");
    }
}

#[test]
fn scenario_47_a_gateway_goes_where_its_physical_network_is() {
    let site = Site::new(Cloud::start(), &[("ch1", &["phy1"], GATEWAY), ("ch2", &["phy2"], GATEWAY)]);
    let router = site.router(json!({"name": "R"}), &[&site.n1, &site.n2]);
    let (groups, ports) = (site.groups(), site.gateway_ports(&router));
    let group = |at: usize| names(&groups[ports[at]["id"].as_str().unwrap()]);
    assert_eq!((group(0), group(1)), (vec!["ch1"], vec!["ch2"]));
    assert_eq!(groups.len(), 2);
}

#[test]
fn scenario_48_a_router_stays_in_its_availability_zones() {
    let zone = |name: &str| format!("{GATEWAY},availability-zones={name}");
    let (az1, az2) = (zone("az1"), zone("az2:az3"));
    let chassis: [(&str, &[&str], &str); 4] =
        [("ch1", BOTH, &az1), ("ch2", BOTH, &az2), ("ch3", BOTH, &az1), ("ch4", BOTH, GATEWAY)];
    let site = Site::new(Cloud::start(), &chassis);
    let hinted = |hints: &[&str]| {
        let router = site.router(json!({"name": "R", "availability_zone_hints": hints}), &[&site.n1]);
        let port = site.gateway_ports(&router)[0]["id"].as_str().unwrap().to_owned();
        let group = site.groups().remove(&port).unwrap();
        names(&group).into_iter().map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let all = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(hinted(&["az1"]), all(&["ch1", "ch3"]));
    assert_eq!(hinted(&["az3"]), all(&["ch2"]));
    assert_eq!(hinted(&["az1", "az2"]), all(&["ch1", "ch2", "ch3"]));
    assert_eq!(hinted(&[]), all(&["ch1", "ch2", "ch3", "ch4"]));
    let unknown = json!({"router": {"name": "R", "availability_zone_hints": ["az1", "nowhere"]}});
    let refused = site.cloud.ask("POST", "/v2.0/routers", Some(unknown));
    assert_eq!(refused.status, 404, "{refused:?}");
    assert_eq!(refused.body["NeutronError"]["type"], "AvailabilityZoneNotFound");
    assert!(refused.body["NeutronError"]["message"].as_str().unwrap().contains("nowhere"), "{refused:?}");
}

/// Six routers on either network; the groups on N1 have ch1 to ch3, those on N2 have ch2 to ch4.
fn two_kinds_of_groups() -> (Site, BTreeMap<String, Group>) {
    let chassis: [(&str, &[&str], &str); 4] = [
        ("ch1", &["phy1"], GATEWAY),
        ("ch2", BOTH, GATEWAY),
        ("ch3", BOTH, GATEWAY),
        ("ch4", &["phy2"], GATEWAY),
    ];
    let site = Site::new(Cloud::start(), &chassis);
    for n in 0..6 {
        site.router(json!({"name": format!("a{n}")}), &[&site.n1]);
        site.router(json!({"name": format!("b{n}")}), &[&site.n2]);
    }
    let groups = site.groups();
    assert_eq!(groups.len(), 12);
    assert_eq!(groups.values().filter(|group| names(group).contains(&"ch1")).count(), 6);
    assert!(groups.values().any(|group| primary(group) == "ch1"));
    (site, groups)
}

#[test]
fn scenario_49_a_chassis_that_goes_changes_its_own_groups_at_once_and_comes_back_last() {
    let (site, before) = two_kinds_of_groups();
    let mut journal = Journal::of(&site.cloud);
    site.cloud.sbctl("chassis-del ch1");
    let without = site.groups_once("ch1 is in no group", |groups| {
        groups.values().all(|group| !names(group).contains(&"ch1"))
    });
    let touched = journal.next();
    assert_eq!(touched.len(), 1, "all of it in one transaction: {touched:#?}");
    assert!(touched[0].0.iter().all(|change| change.table.starts_with("HA_Chassis")), "{touched:#?}");
    for (port, group) in &before {
        if names(group).contains(&"ch1") {
            assert_eq!(without[port].len(), 2, "{group:?} became {:?}", without[port]);
        } else {
            assert_eq!(&without[port], group, "a group without ch1 changed");
        }
        if primary(group) != "ch1" {
            assert_eq!(primary(&without[port]), primary(group), "a primary that survived moved");
        }
    }
    // The groups that had ch1 first now begin with the chassis to which OVN has failed over already.
    for (port, group) in before.iter().filter(|(_, group)| primary(group) == "ch1") {
        assert_eq!(primary(&without[port]), group[1].0);
    }
    site.cloud.chassis("ch1", &["phy1"], GATEWAY);
    let again = site.groups_once("ch1 is in its groups again", |groups| {
        groups.values().filter(|group| names(group).contains(&"ch1")).count() == 6
    });
    for (port, group) in &without {
        assert_eq!(primary(&again[port]), primary(group), "a primary moved");
        if again[port].len() > group.len() {
            assert_eq!(again[port].last().unwrap(), &("ch1".to_owned(), 1));
            assert_eq!(names(&again[port])[..2], names(group)[..]);
        } else {
            assert_eq!(&again[port], group);
        }
    }
}

#[test]
fn scenario_50_a_chassis_that_carries_gateways_no_more_and_one_that_is_new() {
    let (site, before) = two_kinds_of_groups();
    let mut journal = Journal::of(&site.cloud);
    site.cloud.sbctl("remove Chassis ch1 other_config ovn-cms-options");
    let without = site.groups_once("ch1 is in no group", |groups| {
        groups.values().all(|group| !names(group).contains(&"ch1"))
    });
    assert_eq!(journal.next().len(), 1, "all of it in one transaction");
    for (port, group) in &before {
        if primary(group) != "ch1" {
            assert_eq!(primary(&without[port]), primary(group));
        }
        if !names(group).contains(&"ch1") {
            assert_eq!(&without[port], group);
        }
    }
    site.cloud.chassis("ch5", BOTH, GATEWAY);
    let with = site.groups_once("ch5 is in every group", |groups| {
        groups.values().all(|group| names(group).contains(&"ch5"))
    });
    assert_eq!(primaries(&with), primaries(&without), "a primary moved to the new chassis");
    assert!(with.values().all(|group| group.last().unwrap() == &("ch5".to_owned(), 1)), "{with:?}");

    // Primaries move only on request, and only as many as exceed the even load of a chassis.
    let moved = site.cloud.ask("POST", "/v2.0/meridian/rebalance?wait=ovn", Some(json!({})));
    assert_eq!(moved.status, 200, "{moved:?}");
    let moved = moved.body["moved"].as_array().unwrap().clone();
    assert!(!moved.is_empty());
    let balanced = site.groups();
    for it in &moved {
        assert_eq!(it["chassis"], primary(&balanced[it["port_id"].as_str().unwrap()]));
    }
    let changed = primaries(&balanced).iter().filter(|(port, at)| primaries(&with)[*port] != **at).count();
    assert_eq!(changed, moved.len());
    let again = site.cloud.ask("POST", "/v2.0/meridian/rebalance", Some(json!({})));
    assert_eq!(again.body["moved"], json!([]), "{again:?}");
}

#[test]
fn scenario_51_without_chassis_a_gateway_waits_and_is_placed_when_one_comes() {
    let site = Site::new(Cloud::start(), &[("plain", BOTH, "")]);
    let router = site.router(json!({"name": "R"}), &[&site.n1]);
    let port = site.gateway_ports(&router)[0].clone();
    assert_eq!(port["status"], "DOWN");
    assert_eq!(port["binding:host_id"], "");
    assert!(site.groups().is_empty());
    let lrps = site.cloud.rows("Logical_Router_Port");
    assert_eq!(lrps.len(), 1, "the gateway itself is there");
    assert_eq!(lrps[0]["ha_chassis_group"], json!([]));

    site.cloud.chassis("ch1", BOTH, GATEWAY);
    let id = port["id"].as_str().unwrap();
    let groups = site.groups_once("the gateway is placed", |groups| groups.len() == 1);
    assert_eq!(groups[id], [("ch1".to_owned(), 1)]);
    site.bind(id, "ch1");
    eventually("the port is active", || {
        let port = site.cloud.get(&format!("ports/{id}"))["port"].clone();
        (port["status"] == "ACTIVE").then_some(())
    });
}

#[test]
fn scenario_52_each_gateway_shows_the_chassis_that_hosts_it() {
    let site = Site::with_three(Cloud::start());
    let router = json!({"name": "R", "enable_default_route_ecmp": true, "enable_default_route_bfd": true});
    let router = site.router(router, &[&site.n1, &site.n2]);
    let ids: Vec<_> =
        site.gateway_ports(&router).iter().map(|port| port["id"].as_str().unwrap().to_owned()).collect();
    site.bind(&ids[0], "ch1");
    site.bind(&ids[1], "ch2");
    eventually("the API shows the hosts", || {
        let hosts: Vec<_> =
            site.gateway_ports(&router).iter().map(|port| port["binding:host_id"].clone()).collect();
        (hosts == ["ch1.example", "ch2.example"]).then_some(())
    });
    eventually("OVN is told the hosts", || {
        let ports = site.cloud.rows("Logical_Switch_Port");
        let host = |id: &String| {
            let port = ports.iter().find(|row| row["name"] == *id)?;
            Some(port["external_ids"]["neutron:host_id"].clone())
        };
        (host(&ids[0])? == "ch1.example" && host(&ids[1])? == "ch2.example").then_some(())
    });
    assert!(site.gateway_ports(&router).iter().all(|port| port["status"] == "ACTIVE"));

    // The administrator's status of the same gateways.
    let shown = site.cloud.get(&format!("routers/{router}/gateway_status"));
    let gateways = shown["gateway_status"].as_array().unwrap();
    assert_eq!(gateways.len(), 2);
    for (gateway, (id, chassis, hop)) in
        gateways.iter().zip([(&ids[0], "ch1", "192.0.2.1"), (&ids[1], "ch2", "198.51.100.1")])
    {
        assert_eq!(gateway["port_id"], **id);
        assert_eq!(gateway["chassis"], chassis);
        assert_eq!(gateway["host"], format!("{chassis}.example"));
        let route = &gateway["routes"][0];
        assert_eq!((&route["destination"], &route["nexthop"]), (&json!("0.0.0.0/0"), &json!(hop)));
        assert_eq!(route["installed"], true);
    }
    // When another chassis hosts the gateway, the API returns the new host.
    site.cloud.sbctl(&format!("lsp-unbind cr-lrp-{}", ids[0]));
    site.bind(&ids[0], "ch3");
    eventually("the new host is shown", || {
        let port = site.cloud.get(&format!("ports/{}", ids[0]))["port"].clone();
        (port["binding:host_id"] == "ch3.example").then_some(())
    });
    // The test sets the BFD status by hand, because no controller runs the sessions that northd would report.
    site.cloud.nbctl(&format!("set BFD {} status=down", bfd_row(&site, &ids[0])));
    eventually("a next hop that does not answer is shown", || {
        let shown = site.cloud.get(&format!("routers/{router}/gateway_status"));
        (shown["gateway_status"][0]["routes"][0]["bfd"] == "down").then_some(())
    });
}

fn bfd_row(site: &Site, port: &str) -> String {
    let rows = site.cloud.rows("BFD");
    let row = rows.iter().find(|row| row["logical_port"] == format!("lrp-{port}")).unwrap();
    row["_uuid"].as_str().unwrap().to_owned()
}

#[test]
fn a_pin_goes_from_the_request_to_the_group_in_the_northbound() {
    let site = Site::with_three(Cloud::start());
    let cloud = &site.cloud;
    for row in cloud.southbound("Chassis") {
        let (name, uuid) = (row["name"].as_str().unwrap(), row["_uuid"].as_str().unwrap());
        cloud.sbctl(&format!("create Chassis_Private name={name} chassis={uuid}"));
    }
    eventually("they are agents", || (cloud.get("agents")["agents"].as_array()?.len() == 3).then_some(()));
    let router = site.router(json!({"name": "R"}), &[&site.n1]);
    let port = site.gateway_ports(&router)[0]["id"].as_str().unwrap().to_owned();
    let group = site.groups().remove(&port).unwrap();
    let last = group[2].0.clone();
    let ask = |method: &str, path: &str, body: Option<Value>| {
        let answer = cloud.settle(method, path, body);
        assert!((200..300).contains(&answer.status), "{method} {path}: {answer:?}");
        assert_eq!(answer.waited.as_deref(), Some("nb"), "{answer:?}");
        site.groups().remove(&port).unwrap()
    };
    // The last chassis is pinned at its place, then pinned first, then unpinned.
    let of = format!("agents/{last}/l3-routers");
    assert_eq!(ask("POST", &of, Some(json!({"router_id": router}))), group);
    let one = format!("{of}/{router}");
    let first = ask("PUT", &one, Some(json!({"ha_chassis_priority": 50})));
    assert_eq!(first[0], (last.clone(), 50));
    assert_eq!(names(&first)[1..], names(&group)[..2]);
    let agents = cloud.get(&format!("routers/{router}/l3-agents"))["agents"].clone();
    let pinned = agents.as_array().unwrap().iter().find(|agent| agent["id"] == last.as_str()).unwrap();
    assert_eq!((&pinned["ha_chassis_priority"], &pinned["ha_state"]), (&json!(50), &json!("active")));
    // A new chassis does not replace a pinned one.
    cloud.chassis("ch4", BOTH, GATEWAY);
    let joined = site.groups_once("ch4 is in the group", |groups| names(&groups[&port]).contains(&"ch4"));
    assert_eq!((&joined[&port][0], joined[&port].len()), (&(last.clone(), 50), 4));
    let free = ask("DELETE", &one, None);
    assert_ne!(primary(&free), last);
}
