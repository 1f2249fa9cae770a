//! Scenarios 15 to 20: several gateways, and the two switches of their default routes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::cloud::eventually;
use crate::journal::{Journal, counts};
use crate::world::{World, addresses, each, id, members};

/// Tables that a change of the default-route switches does not affect.
const UNTOUCHED: [&str; 6] =
    ["Logical_Router_Port", "Logical_Switch_Port", "HA_Chassis_Group", "HA_Chassis", "NAT", "Logical_Switch"];

fn untouched(world: &World) -> Vec<Vec<Value>> {
    UNTOUCHED
        .iter()
        .map(|table| {
            let mut rows = world.cloud.rows(table);
            rows.sort_by_key(|row| row["_uuid"].to_string());
            // ovn-northd updates `up` at any time.
            rows.iter_mut().for_each(|row| drop(row.as_object_mut().unwrap().remove("up")));
            rows
        })
        .collect()
}

/// Changes a switch; returns the written changes without the row of the router, of which only the routes and the revision may change.
#[track_caller]
fn switch(
    world: &World,
    journal: &mut Journal,
    attributes: Value,
) -> std::collections::BTreeMap<String, usize> {
    world.set(attributes);
    let written = journal.next();
    assert_eq!(written.len(), 1, "one transaction: {written:?}");
    for change in written.iter().flat_map(|written| &written.0).filter(|it| it.table == "Logical_Router") {
        let other =
            change.columns.iter().find(|name| !["static_routes", "external_ids"].contains(&name.as_str()));
        assert_eq!(other, None, "of the router only its routes and its revision");
    }
    let mut tally = crate::journal::tally(&written);
    tally.remove("modify Logical_Router");
    tally
}

/// Three gateways on N1.
fn three(router: Value) -> World {
    let world = World::new(router);
    let one = json!({ "network_id": world.n1 });
    world.gateways("add", json!([one, one, one]));
    world
}

#[test]
fn scenario_15_the_documented_example() {
    let world = World::new(json!({"name": "other"}));
    let made = world
        .cloud
        .openstack(
            "router create --disable-snat \
             --external-gateway N1 --fixed-ip subnet=S1,ip-address=192.0.2.100 \
             --external-gateway N2 --fixed-ip subnet=S2,ip-address=198.51.100.100 \
             --enable-default-route-bfd --enable-default-route-ecmp R",
        )
        .unwrap();
    let router = world.cloud.get(&format!("routers/{}", id(&made)))["router"].clone();
    let gateway = |network: &str, subnet: &str, address: &str| {
        json!({"network_id": network, "enable_snat": false,
               "external_fixed_ips": [{"subnet_id": subnet, "ip_address": address}]})
    };
    assert_eq!(
        router["external_gateways"],
        json!([
            gateway(&world.n1, &world.s1, "192.0.2.100"),
            gateway(&world.n2, &world.s2, "198.51.100.100")
        ])
    );
    assert_eq!(router["external_gateway_info"], router["external_gateways"][0]);
    for flag in ["enable_default_route_bfd", "enable_default_route_ecmp"] {
        assert_eq!(router[flag], true, "{flag}");
    }
    let routes = world.routes(2);
    let ports = world.cloud.rows("Logical_Router_Port");
    assert_eq!(ports.len(), 2);
    assert_eq!(each(&routes, "output_port"), each(&ports, "name"), "one route through each");
    assert_eq!(each(&routes, "nexthop"), BTreeSet::from(["192.0.2.1", "198.51.100.1"]));
    let sessions = world.cloud.rows("BFD");
    assert_eq!(sessions.len(), 2);
    for route in &routes {
        let session =
            sessions.iter().find(|row| row["_uuid"] == route["bfd"]).expect("each route has a session");
        assert_eq!(session["logical_port"], route["output_port"]);
        assert_eq!(session["dst_ip"], route["nexthop"]);
        for column in ["min_tx", "min_rx", "detect_mult"] {
            assert_eq!(session[column], json!([]), "OVN's own {column}");
        }
    }
    assert_eq!(world.cloud.rows("NAT"), [] as [Value; 0], "SNAT is off");
    assert_eq!(world.cloud.rows("HA_Chassis_Group").len(), 2);
    let primaries: BTreeSet<String> = addresses(&router)
        .iter()
        .map(|address| world.chassis_of(&id(&world.port_at(address)))[0].1.clone())
        .collect();
    assert_eq!(primaries.len(), 2, "on different chassis: {primaries:?}");
    assert_eq!(world.cloud.complaints(), [] as [String; 0]);
}

#[test]
fn scenario_16_the_list_of_gateways_is_read_only() {
    let world = World::new(json!({}));
    let list = json!({"router": {"external_gateways": [{ "network_id": world.n1 }]}});
    let (status, _, text) = world.cloud.settle("POST", "routers", Some(list.clone())).refusal();
    assert_eq!((status, text.as_str()), (400, "Attribute 'external_gateways' not allowed in POST"));
    let (status, _, text) = world.cloud.settle("PUT", &world.path(), Some(list)).refusal();
    assert_eq!((status, text.as_str()), (400, "Cannot update read-only attribute external_gateways"));
    assert_eq!(world.shown()["external_gateways"], json!([]));
    assert_eq!(world.cloud.get("routers")["routers"].as_array().unwrap().len(), 1);
}

#[test]
fn scenario_17_three_gateways_on_one_network() {
    let world = World::new(json!({}));
    let one = json!({ "network_id": world.n1 });
    let mut journal = world.journal();
    let router = world.gateways("add", json!([one, one, one]));
    let written = journal.next();
    assert_eq!(written.len(), 1, "all in one transaction: {written:?}");
    let mut rows = crate::journal::tally(&written);
    rows.retain(|what, _| what.starts_with("insert "));
    let expected = [
        ("insert HA_Chassis", 9),
        ("insert HA_Chassis_Group", 3),
        ("insert Logical_Router_Port", 3),
        ("insert Logical_Router_Static_Route", 1),
        ("insert Logical_Switch_Port", 3),
        ("insert NAT", 3),
    ];
    assert_eq!(rows, counts(expected));
    assert_eq!(router["external_gateway_info"], router["external_gateways"][0]);
    assert_eq!(addresses(&router).into_iter().collect::<BTreeSet<_>>().len(), 3, "{router}");
    let gateways = world.gateway_ports();
    let ports = world.cloud.rows("Logical_Router_Port");
    let names: BTreeSet<String> = gateways.iter().map(|port| format!("lrp-{port}")).collect();
    assert_eq!(each(&ports, "name"), names.iter().map(String::as_str).collect());
    let routes = world.cloud.rows("Logical_Router_Static_Route");
    assert_eq!((routes.len(), &routes[0]["output_port"]), (1, &json!(format!("lrp-{}", gateways[0]))));
}

#[test]
fn scenario_18_ecmp_takes_three_ways_out() {
    let world = three(json!({"enable_default_route_ecmp": true}));
    let routes = world.cloud.rows("Logical_Router_Static_Route");
    let ways: BTreeSet<String> = world.gateway_ports().iter().map(|port| format!("lrp-{port}")).collect();
    assert_eq!((routes.len(), ways.len()), (3, 3));
    assert_eq!(each(&routes, "nexthop"), BTreeSet::from(["192.0.2.1"]));
    assert_eq!(each(&routes, "output_port"), ways.iter().map(String::as_str).collect());
    // ovn-northd compiles them to one group, whose members each use a port of their own.
    let group = eventually("the group has three members", || {
        let flows = world.cloud.southbound("Logical_Flow");
        let members: BTreeSet<(String, String)> = flows
            .iter()
            .filter(|flow| flow["external_ids"]["stage-name"] == "lr_in_ip_routing_ecmp")
            .filter_map(|flow| {
                let (matches, actions) = (flow["match"].as_str()?, flow["actions"].as_str()?);
                let group = matches.strip_prefix("reg8[0..15] == ")?.split(' ').next()?;
                let port = actions.split("outport = \"").nth(1)?.split('"').next()?;
                Some((group.to_owned(), port.to_owned()))
            })
            .collect();
        (members.len() == 3).then_some(members)
    });
    assert_eq!(group.iter().map(|(group, _)| group).collect::<BTreeSet<_>>().len(), 1, "{group:?}");
    assert_eq!(group.into_iter().map(|(_, port)| port).collect::<BTreeSet<_>>(), ways);
    assert_eq!(world.cloud.complaints(), [] as [String; 0]);
}

#[test]
fn scenario_19_ecmp_is_switched_and_only_routes_change() {
    let world = three(json!({"enable_default_route_ecmp": true}));
    let route = "Logical_Router_Static_Route";
    let uuids = |rows: Vec<Value>| rows.iter().map(|row| row["_uuid"].to_string()).collect::<BTreeSet<_>>();
    let first = uuids(world.cloud.rows(route));
    let before = untouched(&world);
    let mut journal = world.journal();
    let off = switch(&world, &mut journal, json!({"enable_default_route_ecmp": false}));
    assert_eq!(off, counts([("delete Logical_Router_Static_Route", 2)]));
    let left = world.cloud.rows(route);
    assert_eq!(left[0]["output_port"], format!("lrp-{}", world.gateway_ports()[0]), "the first gateway's");
    assert!(first.is_superset(&uuids(left)), "which stayed as it was");
    assert_eq!(untouched(&world), before);
    let on = switch(&world, &mut journal, json!({"enable_default_route_ecmp": true}));
    assert_eq!(on, counts([("insert Logical_Router_Static_Route", 2)]));
    assert_eq!(uuids(world.cloud.rows(route)), first);
    assert_eq!(untouched(&world), before);
    // Setting the same value again writes nothing.
    world.set(json!({"enable_default_route_ecmp": true}));
    let mut again = journal.tally();
    again.remove("modify Logical_Router");
    assert_eq!(again, counts([]));
}

#[test]
fn scenario_20_bfd_is_switched_and_only_sessions_change() {
    let world = three(json!({"enable_default_route_ecmp": true}));
    assert_eq!(world.cloud.rows("BFD"), [] as [Value; 0]);
    let before = untouched(&world);
    let mut journal = world.journal();
    let on = switch(&world, &mut journal, json!({"enable_default_route_bfd": true}));
    assert_eq!(on, counts([("insert BFD", 3), ("modify Logical_Router_Static_Route", 3)]));
    let sessions = world.cloud.rows("BFD");
    for route in world.routes(3) {
        let session = sessions.iter().find(|row| row["_uuid"] == route["bfd"]).expect("each has its own");
        assert_eq!(session["logical_port"], route["output_port"]);
        assert_eq!(session["dst_ip"], "192.0.2.1");
    }
    assert_eq!(untouched(&world), before);
    let off = switch(&world, &mut journal, json!({"enable_default_route_bfd": false}));
    assert_eq!(off, counts([("delete BFD", 3), ("modify Logical_Router_Static_Route", 3)]));
    assert_eq!(world.cloud.rows("BFD"), [] as [Value; 0]);
    for route in world.routes(3) {
        assert!(members(&route["bfd"]).is_empty(), "{route}");
    }
    assert_eq!(untouched(&world), before);
}
