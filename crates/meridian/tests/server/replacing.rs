//! Scenarios 32 to 37: the whole set of gateways is replaced, and floating IPs beside several gateways.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::world::{World, addresses, members};

fn at(network: &str, addresses: &[&str]) -> Value {
    let fixed: Vec<Value> = addresses.iter().map(|address| json!({ "ip_address": address })).collect();
    json!({"network_id": network, "external_fixed_ips": fixed})
}

#[test]
fn scenario_32_another_order_makes_another_the_first() {
    let world = World::new(json!({}));
    let (one, two) = (json!({ "network_id": world.n1 }), json!({ "network_id": world.n2 }));
    let before = world.gateways("update", json!([one, two]));
    let ports = world.gateway_ports();
    assert_eq!(world.routes(1)[0]["output_port"], format!("lrp-{}", ports[0]));
    let mut journal = world.journal();
    let router = world.gateways("update", json!([two, one]));
    assert_eq!(router["external_gateway_info"], before["external_gateways"][1]);
    assert_eq!(
        router["external_gateways"],
        json!([before["external_gateways"][1], before["external_gateways"][0]])
    );
    assert_eq!(world.gateway_ports(), [ports[1].as_str(), &ports[0]], "the same ports");
    let routes = world.routes(1);
    assert_eq!(
        (&routes[0]["nexthop"], &routes[0]["output_port"]),
        (&json!("198.51.100.1"), &json!(format!("lrp-{}", ports[1])))
    );
    let mut written = journal.tally();
    written.remove("modify Logical_Router");
    let moved = [("delete Logical_Router_Static_Route", 1), ("insert Logical_Router_Static_Route", 1)];
    assert_eq!(written, crate::journal::counts(moved), "the default route moves, nothing else");
}

#[test]
fn scenario_33_a_gateway_gets_a_second_address() {
    let world = World::new(json!({}));
    world.gateways("update", json!([at(&world.n1, &["192.0.2.100"]), at(&world.n2, &["198.51.100.100"])]));
    let ports = world.gateway_ports();
    let before = world.router_port(&ports[1]);
    let both = ["198.51.100.100", "198.51.100.101"];
    let router = world.gateways("update", json!([at(&world.n1, &["192.0.2.100"]), at(&world.n2, &both)]));
    let fixed = router["external_gateways"][1]["external_fixed_ips"].as_array().unwrap();
    assert_eq!(crate::world::each(fixed, "ip_address"), BTreeSet::from(both));
    assert_eq!(world.gateway_ports(), ports, "the same ports");
    let after = world.router_port(&ports[1]);
    assert_eq!((&after["_uuid"], &after["mac"]), (&before["_uuid"], &before["mac"]));
    assert_eq!(members(&after["networks"]), BTreeSet::from(["198.51.100.100/24", "198.51.100.101/24"]));
    // The address changes back to the new one alone.
    world.gateways("update", json!([at(&world.n1, &["192.0.2.100"]), at(&world.n2, &both[1..])]));
    let after = world.router_port(&ports[1]);
    assert_eq!((&after["_uuid"], &after["networks"]), (&before["_uuid"], &json!("198.51.100.101/24")));
}

#[test]
fn scenario_34_the_first_gateway_moves_to_another_address() {
    let world = World::new(json!({}));
    world.gateways("update", json!([at(&world.n1, &["192.0.2.100"])]));
    let ports = world.gateway_ports();
    let (port, nat) = (world.router_port(&ports[0]), world.cloud.rows("NAT"));
    let mut journal = world.journal();
    let router = world.gateways("update", json!([at(&world.n1, &["192.0.2.150"])]));
    assert_eq!(addresses(&router), ["192.0.2.150"]);
    assert_eq!(world.gateway_ports(), ports, "the same port");
    let (after, translated) = (world.router_port(&ports[0]), world.cloud.rows("NAT"));
    assert_eq!((&after["_uuid"], &after["mac"]), (&port["_uuid"], &port["mac"]));
    assert_eq!(after["networks"], "192.0.2.150/24");
    assert_eq!((translated.len(), &translated[0]["_uuid"]), (1, &nat[0]["_uuid"]));
    assert_eq!(translated[0]["external_ip"], "192.0.2.150");
    let written = journal.tally();
    assert!(written.keys().all(|what| what.starts_with("modify ")), "all in place: {written:?}");
}

#[test]
fn scenario_35_one_network_twice_is_two_gateways() {
    let world = World::new(json!({}));
    let one = json!({ "network_id": world.n1 });
    let router = world.gateways("update", json!([one, one]));
    assert_eq!(addresses(&router).into_iter().collect::<BTreeSet<_>>().len(), 2, "{router}");
    assert_eq!(router["external_gateway_info"], router["external_gateways"][0]);
    assert_eq!(world.cloud.rows("Logical_Router_Port").len(), 2);
    // The same request again changes nothing.
    let ports = world.gateway_ports();
    assert_eq!(world.gateways("update", json!([one, one]))["external_gateways"], router["external_gateways"]);
    assert_eq!(world.gateway_ports(), ports);
}

#[test]
fn scenario_36_an_empty_set_removes_all() {
    let world = World::new(json!({"enable_default_route_ecmp": true, "enable_default_route_bfd": true}));
    let both = json!([{ "network_id": world.n1 }, { "network_id": world.n2 }]);
    world.gateways("update", both.clone());
    let router = world.gateways("update", json!([]));
    assert_eq!((&router["external_gateway_info"], &router["external_gateways"]), (&Value::Null, &json!([])));
    world.assert_no_gateway_is_left();
    world.gateways("update", both);
    let ports = world.gateway_ports();
    let instance = world.instance("inside", "10.0.0.0/24");
    world.floating_ip(&world.n2, &instance);
    let (status, kind, text) = world.refused_gateways("update", json!([]));
    assert_eq!((status, kind.as_str()), (409, "RouterExternalGatewayInUseByFloatingIp"), "{text}");
    assert_eq!(world.gateway_ports(), ports, "nothing was removed");
    assert_eq!(world.cloud.rows("HA_Chassis_Group").len(), 2);
}

#[test]
fn scenario_37_a_floating_ip_moves_to_the_gateway_that_is_left() {
    let world = World::new(json!({}));
    world.gateways("add", json!([{ "network_id": world.n1 }, at(&world.n2, &["198.51.100.100"])]));
    let instance = world.instance("inside", "10.0.0.0/24");
    let fip = world.floating_ip(&world.n2, &instance);
    let nat = || {
        let rows = world.cloud.rows("NAT");
        rows.into_iter().find(|row| row["_uuid"] == fip["id"]).expect("the floating IP is translated")
    };
    let lrp = |at: usize| world.router_port(&world.gateway_ports()[at])["_uuid"].clone();
    let first = lrp(1);
    assert_eq!(nat()["gateway_port"], first, "on the floating IP's network, not the first of the router");
    let only = json!([at(&world.n2, &["198.51.100.100"])]);
    let (status, kind, text) = world.refused_gateways("remove", only.clone());
    assert_eq!((status, kind.as_str()), (409, "RouterExternalGatewayInUseByFloatingIp"), "{text}");
    world.gateways("add", json!([at(&world.n2, &["198.51.100.101"])]));
    let second = lrp(2);
    let router = world.gateways("remove", only);
    assert_eq!(router["external_gateways"].as_array().unwrap().len(), 2);
    assert_eq!(nat()["gateway_port"], second);
    assert_eq!(nat()["external_ip"], fip["floating_ip_address"]);
    // The floating IP never needed the gateway on N1.
    world.gateways("remove", json!([{ "network_id": world.n1 }]));
    assert_eq!(nat()["gateway_port"], second);
    assert_eq!(world.cloud.complaints(), [] as [String; 0]);
}
