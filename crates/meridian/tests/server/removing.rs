//! Scenarios 26 to 31, 38 and 44: removed gateways, one by one and with their router.

use serde_json::{Value, json};

use crate::journal::Kind;
use crate::world::{World, addresses, id};

/// A router with a gateway on N1 and one on N2.
fn two(router: Value) -> World {
    let world = World::new(router);
    world.gateways("add", json!([{ "network_id": world.n1 }, { "network_id": world.n2 }]));
    world
}

#[test]
fn scenario_26_a_network_alone_may_mean_two_gateways() {
    let world = World::new(json!({}));
    let one = json!({ "network_id": world.n1 });
    let router = world.gateways("add", json!([one, one]));
    let ports = world.gateway_ports();
    let (status, kind, text) = world.refused_gateways("remove", json!([one]));
    assert_eq!((status, kind.as_str()), (400, "UnableToMatchGateways"), "{text}");
    assert!(text.contains(&world.n1), "{text}");
    assert_eq!(world.cloud.rows("Logical_Router_Port").len(), 2);
    let second =
        json!({"network_id": world.n1, "external_fixed_ips": [{"ip_address": addresses(&router)[1]}]});
    let left = world.gateways("remove", json!([second]));
    assert_eq!(left["external_gateways"], json!([router["external_gateways"][0]]));
    assert_eq!(world.gateway_ports(), [ports[0].as_str()]);
    let rows = world.cloud.rows("Logical_Router_Port");
    assert_eq!((rows.len(), &rows[0]["name"]), (1, &json!(format!("lrp-{}", ports[0]))));
    assert_eq!(world.cloud.rows("HA_Chassis_Group").len(), 1);
}

#[test]
fn scenario_27_what_identifies_a_gateway() {
    let world = two(json!({}));
    let before = world.gateway_ports();
    let at =
        |address: &str| json!({"network_id": world.n2, "external_fixed_ips": [{ "ip_address": address }]});
    for elements in [
        json!([at("198.51.100.77")]),
        // The first element matches, the second does not: no gateway is removed.
        json!([{ "network_id": world.n1 }, at("198.51.100.77")]),
    ] {
        let (status, kind, text) = world.refused_gateways("remove", elements);
        assert_eq!((status, kind.as_str()), (400, "UnableToMatchGateways"), "{text}");
    }
    assert_eq!(world.gateway_ports(), before);
    assert_eq!(world.cloud.rows("Logical_Router_Port").len(), 2);
    // An empty list removes nothing. The command sends one along with other changes.
    for nothing in [json!([]), json!({}), Value::Null] {
        assert_eq!(world.gateways("remove", nothing)["external_gateways"].as_array().unwrap().len(), 2);
    }
    // Keys that do not identify the gateway are ignored, even if they are invalid.
    let element =
        json!({"network_id": world.n2, "enable_snat": "perhaps", "colour": "blue", "qos_policy_id": 7});
    let router = world.gateways("remove", json!([element]));
    assert_eq!(router["external_gateways"].as_array().unwrap().len(), 1);
    assert_eq!(world.gateway_ports(), [before[0].as_str()]);
}

/// Asserts that one transaction removed the gateway on N1 and made the one on N2 the first.
fn succeeded(world: &World, ports: &[String], remove: impl FnOnce() -> Value) {
    let mut journal = world.journal();
    let router = remove();
    assert_eq!(router["external_gateway_info"]["network_id"], world.n2);
    assert_eq!(router["external_gateways"], json!([router["external_gateway_info"]]));
    assert_eq!(router["enable_snat"], false, "as before");
    assert_eq!(world.gateway_ports(), [ports[1].as_str()], "the same port");
    let routes = world.routes(1);
    assert_eq!(
        (&routes[0]["nexthop"], &routes[0]["output_port"]),
        (&json!("198.51.100.1"), &json!(format!("lrp-{}", ports[1])))
    );
    let written = journal.next();
    assert_eq!(written.len(), 1, "all in one transaction: {written:?}");
    let ports = written[0].to(Kind::Delete, "Logical_Router_Port");
    assert_eq!(ports.len(), 1);
    let gone = written[0].to(Kind::Delete, "Logical_Router_Static_Route");
    let come = written[0].to(Kind::Insert, "Logical_Router_Static_Route");
    assert_eq!((gone.len(), come.len()), (1, 1));
    // OVN has options that apply only to routers with one gateway. The other columns of its port stay.
    for change in written[0].to(Kind::Modify, "Logical_Router_Port") {
        assert_eq!(change.columns.iter().collect::<Vec<_>>(), ["options"], "{change:?}");
    }
}

#[test]
fn scenario_28_the_second_gateway_takes_the_place_of_the_first() {
    let world = World::new(json!({}));
    let elements = json!([{"network_id": world.n1, "enable_snat": false}, { "network_id": world.n2 }]);
    world.gateways("add", elements);
    assert_eq!(world.routes(1)[0]["nexthop"], "192.0.2.1");
    let ports = world.gateway_ports();
    succeeded(&world, &ports, || world.gateways("remove", json!([{ "network_id": world.n1 }])));
}

#[test]
fn scenario_29_the_old_field_removes_one_gateway_at_a_time() {
    let world = World::new(json!({}));
    let elements = json!([{"network_id": world.n1, "enable_snat": false}, { "network_id": world.n2 }]);
    world.gateways("add", elements);
    let ports = world.gateway_ports();
    succeeded(&world, &ports, || world.set(json!({"external_gateway_info": {}})));
    let router = world.set(json!({"external_gateway_info": {}}));
    assert_eq!((&router["external_gateway_info"], &router["external_gateways"]), (&Value::Null, &json!([])));
    world.assert_no_gateway_is_left();
}

#[test]
fn scenario_30_the_cli_removes_a_route_and_no_gateway() {
    let world = two(json!({"name": "R"}));
    let (_, subnet) = world.internal("inside", "10.0.0.0/24");
    world.connect(&subnet);
    let route = |destination: &str| json!({"destination": destination, "nexthop": "10.0.0.9"});
    world.set(json!({"routes": [route("172.16.1.0/24"), route("172.16.2.0/24")]}));
    let before = world.shown();
    let ports = world.gateway_ports();
    world.cloud.openstack("router unset --route destination=172.16.1.0/24,gateway=10.0.0.9 R").unwrap();
    let after = world.shown();
    assert_eq!(after["routes"], json!([route("172.16.2.0/24")]));
    assert_eq!(after["external_gateways"], before["external_gateways"]);
    assert_eq!(world.gateway_ports(), ports);
    let rows = world.routes(2);
    let left: Vec<_> = rows.iter().filter(|row| row["ip_prefix"] != "0.0.0.0/0").collect();
    assert_eq!(left[0]["ip_prefix"], "172.16.2.0/24");
    assert_eq!(world.cloud.rows("HA_Chassis_Group").len(), 2);
}

#[test]
fn scenario_31_the_cli_drops_one_gateway_per_call() {
    let world = two(json!({"name": "R"}));
    let ports = world.gateway_ports();
    world.cloud.openstack("router unset --external-gateway R").unwrap();
    let router = world.shown();
    assert_eq!(router["external_gateway_info"]["network_id"], world.n2);
    assert_eq!(world.gateway_ports(), [ports[1].as_str()]);
    world.cloud.openstack("router unset --external-gateway R").unwrap();
    let router = world.shown();
    assert_eq!((&router["external_gateway_info"], &router["external_gateways"]), (&Value::Null, &json!([])));
    world.set(json!({"description": "until OVN has it"}));
    world.assert_no_gateway_is_left();
}

#[test]
fn scenario_38_a_gateway_that_a_route_needs_stays() {
    let world = two(json!({}));
    world.set(json!({"routes": [{"destination": "172.16.0.0/16", "nexthop": "198.51.100.9"}]}));
    for (method, elements) in
        [("remove", json!([{ "network_id": world.n2 }])), ("update", json!([{ "network_id": world.n1 }]))]
    {
        let (status, kind, text) = world.refused_gateways(method, elements);
        assert_eq!((status, kind.as_str()), (400, "InvalidRoutes"), "{method}: {text}");
        assert!(text.contains("the nexthop is not connected with router"), "{method}: {text}");
    }
    assert_eq!(world.cloud.rows("Logical_Router_Port").len(), 2);
    // With a second gateway on that network, the first one can be removed.
    world.gateways("add", json!([{ "network_id": world.n2 }]));
    let gone = world.shown()["external_gateways"][1].clone();
    assert_eq!(world.gateways("remove", json!([gone]))["external_gateways"].as_array().unwrap().len(), 2);
    world.set(json!({"routes": []}));
    world.gateways("remove", json!([{ "network_id": world.n2 }]));
    assert_eq!(world.cloud.rows("Logical_Router_Port").len(), 1);
}

#[test]
fn scenario_44_a_router_goes_and_leaves_nothing() {
    let world = World::new(json!({"enable_default_route_ecmp": true, "enable_default_route_bfd": true}));
    world.gateways(
        "add",
        json!([{ "network_id": world.n1 }, { "network_id": world.n1 }, { "network_id": world.n2 }]),
    );
    let (_, subnet) = world.internal("inside", "10.0.0.0/24");
    let interface = world.connect(&subnet);
    let before = (world.shown(), world.gateway_ports());
    let mut journal = world.journal();
    let (status, kind, text) = world.cloud.settle("DELETE", &world.path(), None).refusal();
    assert_eq!((status, kind.as_str()), (409, "RouterInUse"));
    assert!(
        text.contains(&format!("Router {} has ports still attached: {interface}", world.router)),
        "{text}"
    );
    assert_eq!((world.shown(), world.gateway_ports()), before, "the gateways are as they were");
    world.put(&format!("{}/remove_router_interface", world.path()), json!({ "subnet_id": subnet }));
    let written = journal.tally();
    assert_eq!(written["delete Logical_Router_Port"], 1, "the interface, and no gateway: {written:?}");
    assert_eq!(
        (world.routes(3).len(), world.cloud.rows("BFD").len(), world.cloud.rows("NAT").len()),
        (3, 3, 3)
    );
    world.delete(&world.path());
    assert_eq!(journal.next().len(), 1, "in one transaction");
    for table in ["Logical_Router", "Logical_Router_Port"] {
        assert_eq!(world.cloud.rows(table), [] as [Value; 0], "{table}");
    }
    world.assert_no_gateway_is_left();
    let left = world.cloud.get(&format!("ports?device_id={}", id(&before.0)));
    assert_eq!(left["ports"], json!([]));
}
