//! Scenarios 21 to 25: added gateways, and rejected ones.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::journal::counts;
use crate::world::{World, addresses, id};

fn at(network: &str, address: &str) -> Value {
    json!({"network_id": network, "external_fixed_ips": [{ "ip_address": address }]})
}

#[test]
fn scenario_21_a_second_gateway_is_an_extra_one() {
    let world = World::new(json!({}));
    let first = world.gateways("add", json!([{"network_id": world.n1, "enable_snat": false}]));
    let ports = world.gateway_ports();
    let router = world.gateways("add", json!([{"network_id": world.n1, "enable_snat": true}]));
    assert_eq!(router["external_gateway_info"], first["external_gateway_info"]);
    assert_eq!(router["external_gateways"][0], first["external_gateways"][0]);
    assert_eq!(router["external_gateways"].as_array().unwrap().len(), 2);
    assert_eq!(world.gateway_ports()[0], ports[0]);
    assert_eq!(
        (&router["enable_snat"], &router["external_gateways"][1]["enable_snat"]),
        (&json!(false), &json!(false))
    );
    assert_eq!(world.cloud.rows("NAT"), [] as [Value; 0], "what the element said of source NAT is ignored");
    assert_eq!(world.cloud.rows("Logical_Router_Port").len(), 2);
    assert_eq!(world.routes(1)[0]["output_port"], format!("lrp-{}", ports[0]));
}

#[test]
fn scenario_22_an_address_is_given_once() {
    let world = World::new(json!({}));
    world.gateways("add", json!([at(&world.n1, "192.0.2.100")]));
    let mut journal = world.journal();
    for elements in [
        json!([at(&world.n1, "192.0.2.100")]),
        json!([at(&world.n1, "192.0.2.101"), at(&world.n1, "192.0.2.101")]),
        json!([{"network_id": world.n1, "external_fixed_ips":
                [{"ip_address": "192.0.2.101"}, {"ip_address": "192.0.2.101"}]}]),
    ] {
        let (status, kind, text) = world.refused_gateways("add", elements);
        assert_eq!((status, kind.as_str()), (409, "IpAddressAlreadyAllocated"), "{text}");
        assert!(text.contains("192.0.2.10"), "{text}");
    }
    assert_eq!(addresses(&world.shown()), ["192.0.2.100"]);
    world.set(json!({"name": "renamed"}));
    assert_eq!(journal.tally(), counts([("modify Logical_Router", 1)]), "OVN saw nothing of it");
}

#[test]
fn scenario_23_one_that_overlaps_keeps_all_out() {
    let world = World::new(json!({}));
    let (n3, s3) = world.external("3", "phy3", "192.0.2.128/25");
    world.gateways("add", json!([{ "network_id": world.n1 }]));
    let elements = json!([{ "network_id": world.n2 }, { "network_id": n3 }]);
    let (status, kind, text) = world.refused_gateways("add", elements);
    let overlap =
        format!("Cidr 192.0.2.128/25 of subnet {s3} overlaps with cidr 192.0.2.0/24 of subnet {}", world.s1);
    assert!(text.contains(&overlap), "{kind}: {text}");
    assert_eq!((status, kind.as_str()), (400, "BadRequest"));
    assert_eq!(world.shown()["external_gateways"].as_array().unwrap().len(), 1, "N2 was not added");
    assert_eq!(world.cloud.rows("Logical_Router_Port").len(), 1);
    // The two overlapping networks are rejected in one request as well.
    world.gateways("remove", json!([{ "network_id": world.n1 }]));
    let elements = json!([{ "network_id": n3 }, { "network_id": world.n1 }]);
    let (status, _, text) = world.refused_gateways("add", elements);
    assert_eq!(status, 400);
    assert!(text.contains("overlaps with cidr"), "{text}");
}

#[test]
fn scenario_24_inside_and_outside_do_not_overlap() {
    let world = World::new(json!({}));
    world.gateways("add", json!([{ "network_id": world.n1 }]));
    let (_, inside) = world.internal("inside", "192.0.2.0/25");
    let interface = format!("{}/add_router_interface", world.path());
    let answer = world.cloud.settle("PUT", &interface, Some(json!({ "subnet_id": inside })));
    let (status, _, text) = answer.refusal();
    assert_eq!(status, 400);
    assert!(text.contains("192.0.2.0/25") && text.contains("overlaps with cidr 192.0.2.0/24"), "{text}");
    // The same conflict, in the other order.
    world.gateways("remove", json!([{ "network_id": world.n1 }]));
    world.connect(&inside);
    let (status, _, text) = world.refused_gateways("add", json!([{ "network_id": world.n1 }]));
    assert_eq!(status, 400);
    assert!(text.contains("192.0.2.0/24") && text.contains("overlaps with cidr 192.0.2.0/25"), "{text}");
    world.assert_no_gateway_is_left();
    world.gateways("add", json!([{ "network_id": world.n2 }]));
}

#[test]
fn scenario_25_gateways_that_make_no_sense() {
    let world = World::new(json!({}));
    let (internal, _) = world.internal("inside", "10.0.0.0/24");
    let unknown = "11111111-2222-4333-8444-555555555555";
    let in_subnet = json!({"network_id": world.n1, "external_fixed_ips":
        [{"subnet_id": world.s1, "ip_address": "198.51.100.9"}]});
    for (element, status, kind, words) in [
        (
            json!({ "network_id": internal }),
            400,
            "BadRequest",
            format!("Network {internal} is not an external network"),
        ),
        (
            json!({ "network_id": unknown }),
            404,
            "NetworkNotFound",
            format!("Network {unknown} could not be found"),
        ),
        (
            at(&world.n1, "192.0.2.1"),
            400,
            "BadRequest",
            "External IP 192.0.2.1 is the same as the gateway IP".to_owned(),
        ),
        (at(&world.n1, "203.0.113.1"), 400, "InvalidIpForNetwork", "203.0.113.1".to_owned()),
        (in_subnet, 400, "InvalidIpForSubnet", "198.51.100.9".to_owned()),
        (json!({}), 400, "HTTPBadRequest", "network_id".to_owned()),
        (json!("N1"), 400, "HTTPBadRequest", "external_gateways".to_owned()),
    ] {
        for method in ["add", "update"] {
            let refusal = world.refused_gateways(method, json!([element]));
            assert_eq!((refusal.0, refusal.1.as_str()), (status, kind), "{method} {element}: {}", refusal.2);
            assert!(refusal.2.contains(&words), "{method} {element}: {}", refusal.2);
        }
    }
    // An object in place of the list is rejected.
    let (status, _, _) = world.refused_gateways("add", json!({ "network_id": world.n1 }));
    assert_eq!(status, 400);
    assert_eq!(world.shown()["external_gateways"], json!([]));
    world.assert_no_gateway_is_left();
}

#[test]
fn checks_of_gateways_that_no_scenario_has() {
    let world = World::new(json!({}));
    let (small, _) = world.external("4", "phy4", "203.0.113.0/30");
    let one = json!({ "network_id": small });
    // One address is left beside the network's own, and a rejected request for two must not take it.
    let (status, kind, text) = world.refused_gateways("add", json!([one, one]));
    assert_eq!((status, kind.as_str()), (409, "IpAddressGenerationFailure"), "{text}");
    world.gateways("add", json!([{ "network_id": world.n1 }, { "network_id": world.n2 }]));
    world.set(json!({"routes": [{"destination": "172.16.0.0/16", "nexthop": "192.0.2.77"}]}));
    for (method, elements) in [
        ("add", json!([at(&world.n1, "192.0.2.77")])),
        ("update", json!([at(&world.n1, "192.0.2.77"), { "network_id": world.n2 }])),
    ] {
        let (status, kind, text) = world.refused_gateways(method, elements);
        assert_eq!((status, kind.as_str()), (400, "InvalidRoutes"), "{method}");
        assert!(text.contains("the nexthop is used by router"), "{method}: {text}");
    }
    // A new subnet must not overlap with those of the routers on the network.
    let late = json!({"subnet": {"network_id": world.n2, "ip_version": 4, "cidr": "192.0.2.0/26"}});
    let (status, _, text) = world.cloud.settle("POST", "subnets", Some(late)).refusal();
    assert_eq!(status, 400);
    assert!(
        text.contains("Cidr 192.0.2.0/26 of subnet") && text.contains("overlaps with cidr 192.0.2.0/24"),
        "{text}"
    );
    // One element without addresses is ambiguous between two gateways.
    world.gateways("add", json!([{ "network_id": world.n1 }]));
    let (status, kind, text) =
        world.refused_gateways("update", json!([{ "network_id": world.n1 }, { "network_id": world.n2 }]));
    assert_eq!((status, kind.as_str()), (400, "UnableToMatchGateways"), "{text}");
    // Invalid forms of the body.
    for method in ["add", "update", "remove"] {
        let path = format!("{}/{method}_external_gateways", world.path());
        let before = world.shown();
        let absent = world.put(&path, json!({"router": {}}));
        assert_eq!(absent["router"]["external_gateways"], before["external_gateways"], "{method}");
        for body in [json!({}), json!([]), json!({"router": []}), json!({"router": {"external_gateways": 7}})]
        {
            let (status, _, text) = world.cloud.settle("PUT", &path, Some(body.clone())).refusal();
            assert_eq!(status, 400, "{method} {body}: {text}");
        }
        assert_eq!(world.shown()["external_gateways"], before["external_gateways"], "{method}");
    }
}

#[test]
fn scenario_43_a_new_subnet_gives_every_gateway_an_address() {
    let world = World::new(json!({"enable_default_route_ecmp": true}));
    world.gateways(
        "add",
        json!([{ "network_id": world.n1 }, { "network_id": world.n1 }, { "network_id": world.n2 }]),
    );
    let ports = world.gateway_ports();
    assert_eq!((world.routes(3).len(), world.cloud.rows("NAT").len()), (3, 3));
    let mut journal = world.journal();
    let six = json!({"network_id": world.n1, "ip_version": 6, "cidr": "2001:db8:1::/64"});
    let subnet = id(&world.create("subnets", "subnet", six));
    let written = journal.tally();
    assert_eq!(written.get("delete Logical_Router_Port"), None, "{written:?}");
    assert_eq!(written.get("insert Logical_Router_Port"), None, "{written:?}");

    let router = world.shown();
    let fixed = |at: usize| router["external_gateways"][at]["external_fixed_ips"].as_array().unwrap().clone();
    assert_eq!((fixed(0).len(), fixed(1).len(), fixed(2).len()), (2, 2, 1), "{router}");
    let mut sixes = BTreeSet::new();
    for (at, port) in ports.iter().enumerate().take(2) {
        let address = fixed(at)[1].clone();
        assert_eq!(address["subnet_id"], subnet);
        let text = address["ip_address"].as_str().unwrap().to_owned();
        let row = world.router_port(port);
        assert!(crate::world::members(&row["networks"]).contains(format!("{text}/64").as_str()), "{row}");
        sixes.insert(text);
    }
    assert_eq!(sixes.len(), 2, "each its own");
    let routes = world.routes(5);
    let sixth: Vec<Value> = routes.into_iter().filter(|route| route["ip_prefix"] == "::/0").collect();
    assert_eq!(crate::world::each(&sixth, "nexthop"), BTreeSet::from(["2001:db8:1::"]));
    let ways: Vec<String> = ports[..2].iter().map(|port| format!("lrp-{port}")).collect();
    assert_eq!(crate::world::each(&sixth, "output_port"), ways.iter().map(String::as_str).collect());
    assert_eq!(world.cloud.rows("NAT").len(), 3, "no source NAT for IPv6");
    // Without ECMP, only the first gateway provides a default route, for both IP versions.
    world.set(json!({"enable_default_route_ecmp": false}));
    let routes = world.routes(2);
    assert_eq!(crate::world::each(&routes, "output_port"), BTreeSet::from([ways[0].as_str()]));
    assert_eq!(crate::world::each(&routes, "ip_prefix"), BTreeSet::from(["0.0.0.0/0", "::/0"]));
}
